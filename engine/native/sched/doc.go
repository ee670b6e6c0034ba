// Package sched decides what an engine computes next, and for whom. It is a leaf of plain arithmetic: it starts no goroutine, reads no
// clock (times are arguments) and knows nothing of models, so that a simulated machine can test it.
//
//   - Controller decides what goes into one step, so that tokens come within the target of the most urgent class that waits for one.
//   - Fair decides whose turn it is: tenants share the tokens computed by their weights, whatever the number of their requests.
//   - Controller.Estimate and Decide say whether a request can have its first token in time, and if not, when to come back.
//   - Limits and QueueOccupancy limit what waits.
//   - StepLog keeps what the latest steps computed, and for which requests.
//
// Nothing here is safe for use by several goroutines at a time, except StepLog.
package sched
