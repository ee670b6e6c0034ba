// Package sla is a façade: it holds requests against the service's objectives, and reports by hours what became of them.
//
// # What is counted
//
// Every outcome record of a request to a model (chat, completions, embeddings, rerank, score) counts once, in the hour of its time, in the transaction that
// stores it. So a record that comes late counts in its own hour, and one that comes twice counts once. An outcome that the reconciliation wrote for a request
// that was lost counts in the hour in which that request was admitted. Searches that are a part of a request do not count by themselves. Each try of a request
// that falls back to other models counts as a request of its own: the first, as failed or refused as its record says, and each model of the list that was asked
// ([Counts.Fallbacks]). So one caller may be several failures, and the availability of models together is below that which callers see.
//
// Nothing is counted of before the migration that made the table, also where records of then come late, nor of requests that nobody recorded: strangers without a key, and everything while no record can be written. An hour without a record is no
// data, never an hour in which all went well.
//
// # Whose failure it is
//
//   - Answered: an answer was given, also one that a rule emptied, one of a FAQ, a refusal for want of evidence, and one that is given again: the service did
//     what it should. Those that no engine gave take no time and have no first token.
//   - The service's failure: the outcome is "failed" (an engine, an upstream, a timeout of ours, a defect), or the service refused with a status of 500 or more
//     (a part of ours was away); a request that a stopping server cut; and a caller who left, without having got anything, after the time that his objective allows for the whole answer.
//   - The caller's: every other refusal (mistakes, rights, rules, limits, budgets, a tenant's part of a queue, a deadline that the
//     caller set himself), and whoever left otherwise.
//
// The availability is answered / (answered + failures). What is the caller's is in neither.
//
// # Latencies
//
// They are those of answered requests. An answer in one piece has no first token. Between tokens is the mean of a request: the time from its first token to its end, divided by the tokens behind the
// first, of all its choices together. Latencies are counted in bins of seven significant bits. A quantile is the least value that at least that share of the
// requests does not exceed, and is given as the upper edge of its bin: never below the true one, and at most 1/64 above it. Jitter is (P95 − P50) / P50.
//
// # Objectives and budgets
//
// A request is held to one [Objective], the most specific one of the configuration of the replica that stores its record. What it was held to is summed up
// with it, so that counts, budgets and burn rates of any tenants, models, classes and spans add up, and a changed objective changes nothing of the past.
// The budget is what may fail: 0.1 % of the requests at 99.9 %. A burn rate of 1 spends it exactly. Counts are kept by five minutes, so that a span of an hour
// takes in up to five minutes more.
package sla
