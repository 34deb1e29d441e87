//go:build !linux

package soak

func fastDir() string { return "" }
