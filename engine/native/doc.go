// Package native implements engine.Engine in this process: it loads the architectures of package arch from GGUF files and Hugging
// Face directories, compiles them to plans (package exec), and computes on the processor.
//
// # How a request runs
//
// Prepare checks the request and renders and tokenises the prompt (prepare.go). Generate compiles the grammar of its format (request.go,
// format.go). Both work on the caller's goroutine. Then Generate queues a job, or refuses it: when a bound of the queue is reached, or when
// the first token would come after the deadline (loop.go, submit).
//
// One goroutine, the loop, owns everything that is being computed; it runs while there is something to do. What it schedules is a sequence:
// one choice of a job, with its tokens and the number of them whose keys and values are computed (job.go). In turns it
//
//  1. drops what nobody waits for any more, and admits sequences in fair order while the controller of their model, the slots and the
//     memory allow it; a more urgent one may send a less urgent one back to the queue (loop.go);
//  2. makes one step of each model: the controller says how many sequences, prompt tokens and guessed tokens go in so that tokens come
//     within the target of the most urgent class that waits; the rows go through the weights together (step.go);
//  3. picks tokens (advance.go): sampling, masked by the grammar and drawn by the watermark (mark.go); tokens that the grammar leaves no choice about are taken at once; guesses
//     count as far as they are what would have been picked; text is cut at stop strings (text.go), calls are taken out of it (calls.go),
//     and events go to the callers;
//  4. lets embedding models and cross-encoders compute for a share of the time between two tokens (encode.go, encoder*.go).
//
// A job's events wait in its own buffer, so a slow reader never stops the loop. A caller that goes away is seen before the next step.
//
// Who decides: package sched (what goes into a step, whose turn it is, what is admitted), package prefix (which keys and values stay),
// package sample (which token), package draft (what is guessed), package grammar (what may come next).
//
// # Preemption and the prefix cache
//
// A sequence that has to leave gives its full pages to the prefix tree and its other pages back, and waits. When its turn comes it takes
// from the tree what is still there and computes the rest again, like any prompt whose beginning was computed before: there is no state
// to save.
//
// # Determinism
//
// The kernels give the same bits for any batch, thread count and instruction set (see package kernel), attention goes through the
// positions one after the other, what a row computes depends on the tokens up to it alone, and random numbers are a function of seed,
// choice and position. So a request with a seed has one answer, whatever else the engine is doing: however it was batched, cut into
// chunks, preempted, guessed ahead or found in the cache.
//
// # Isolation
//
// Keys and values live in pages. Sequences share a page only within a namespace, a keyed digest of tenant, model, adapter and precision
// plan that is derived here, and write to none that they share. A page is cleared when its last holder gives it back. Guesses come from
// the sequence itself and from earlier texts of the same namespace. Adapters may be closed to other tenants.
//
// The engine as a whole stays within the processors, the NUMA node and the memory that its configuration names (affinity.go, budget.go).
//
// # What can be seen
//
// Metrics (metrics.go, state_metrics.go), the state of each scheduler (Engine.Scheduler) and what the latest steps computed and for whom
// (Engine.StepPage), whose shares add up to the tokens of the step. None of it holds text; tenants are no labels.
package native
