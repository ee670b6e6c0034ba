// Package native implements engine.Engine in this process: it loads the architectures of package arch from GGUF files and Hugging
// Face directories, compiles them to plans (package exec), and computes on the processor.
//
// # How a request runs
//
// Generate renders and tokenises the prompt, then queues a job. One goroutine, the loop, owns everything that is being computed:
// it admits jobs while slots are free, and makes one step after the other. A step takes the next token of every running sequence
// and a chunk of the prompts, and passes all of them through the weights together; then it samples (sampler.go), cuts
// text at stop strings (text.go) and hands events to the requests. A job's events wait in its own buffer, so a slow reader never
// stops the loop. The caller going away is seen between two steps.
//
// # Determinism
//
// The kernels give the same bits for any batch, thread count and instruction set (see package kernel), attention goes through the
// positions one after the other, and random numbers are a function of seed, choice and position. So a request with a seed has one
// answer, whatever else the engine is doing.
//
// # Isolation
//
// Keys and values live in pages that belong to one request; choices of it share the pages of their prompt. A page is cleared when
// it is given back.
package native
