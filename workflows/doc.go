// Package workflows runs what takes longer than a request on Temporal: the rollout of a model version and the peak/valley
// schedule of the engine's concurrency. It is a façade; its child devserver supervises the embedded Temporal.
//
// A rollout is one workflow per model, with the id "rollout/<model>" as the mutex. It moves the share of conversations that the
// candidate answers from 0 to 20, 40, 80 and 100 percent. [Verdict] alone decides: a pure function of the evidence gathered since
// the step began, so that an auditor can run it again on the stored evidence. Only Pass promotes. Missing data holds the step
// and, at a deadline, takes the rollout back.
//
// Requests never wait for this package. While Temporal is down the assignment stays as it is; [Service.Abort] still works,
// because it then moves the assignment itself and the workflow stands down when it finds that it no longer owns it.
//
// Lists and details are read from tables of our own (rollout_*), so they survive both an outage and Temporal's retention.
package workflows
