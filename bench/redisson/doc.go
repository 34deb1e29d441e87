// Package redisson builds a program in Java that measures Redisson, the lock library whose records
// holdfast shares.
//
// The sources are part of the bench's binary. [Build] writes them into a cache folder and runs
// Maven there, first without and then with its repositories, so that a second run needs neither
// Maven nor a network. The name of the folder has a hash of the sources. A failed build leaves
// nothing that looks like a finished one.
//
// package measure starts the program, in the place of a client of its own: one JVM for one
// measurement. The program takes its workload as arguments, warms up, and writes "{}". The bench
// then reads the server's counters and writes a line. The program runs what is measured, and writes
// "{}" and a line of JSON with the figures. In between the bench reads the counters again. So all
// times are those of the JVM's own clock, and neither the start of the JVM nor the lines are in
// them. The program ends when its input does.
package redisson
