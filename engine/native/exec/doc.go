// Package exec compiles the graph of a model into a program and runs it: a flat list of steps over one arena, on a fixed set of
// threads, with keys and values in pages.
//
// # From a file to a step
//
// [Compile] applies the passes of package graph under a precision plan, packs the weights into the panels of package kernel, and
// keeps them in a file that later loads map into memory. A [Pass] owns an arena and runs the program for batches of rows:
// tokens of any number of sequences, each at its own position.
//
// # Determinism
//
// The kernels give the same bits for any batch, number of threads and instruction set, and everything here splits work by rows and
// heads only, never inside a sum. So what a row computes depends on its own sequence and nothing else.
//
// # Concurrency
//
// A Program is immutable. A Pass, its [Pool] and the caches made from its pages belong to one goroutine.
package exec
