// Package enginebench measures the native engine with one model: prompt and generation speed, load time, memory, and the limits of the
// machine in the same minutes.
//
// The measuring happens in a process of its own, a worker, so that load time and memory are those of a fresh process and so that one
// caller can alternate between several: tiers of kernels, thread counts, another engine. A worker is any program that calls [Serve] with
// its standard input and output; [Start] starts one and [Run] does a whole measurement.
//
// A prompt is random tokens computed in the engine's own pieces into an empty sequence, with the scores of the last one. Generation is one
// random token at a time behind a sequence of the given depth, scores computed and nothing sampled. Other engines' benchmarks do the same.
package enginebench
