module github.com/holdfast-go/holdfast/examples

go 1.26.0

require github.com/holdfast-go/holdfast v0.0.0

replace github.com/holdfast-go/holdfast => ../
