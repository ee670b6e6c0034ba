// Package egress is a façade: it turns what an engine sends into what the caller may see, and knows neither requests nor transports.
//
// An [Answer] lets one answer out: the rules for answers, values put back for pseudonyms, the label, and the count of what left, in this order
// and in one place. It has two forms. [Answer.Pass] takes a stream event by event. [Answer.Whole] takes an answer that is there already, at
// less cost, and lets out either all of it or nothing. For the same answer both give the same texts, the same calls and the same [Tally],
// wherever the engine cut it.
//
// What it promises:
//
//   - Every text passes a [Release] of its own, from its first piece to its end: the answer, what the model thinks and why it refuses, and each
//     string of JSON in the arguments of a call or in an answer that is to be JSON, which therefore stays JSON.
//   - Nothing leaves before StoreValues has stored what stands behind the pseudonyms in it.
//   - An answer that ends inside a pseudonym, at a limit, at a stop string or because the caller left, never shows a part of it.
//   - Log-probabilities spell text, so an entry leaves only with the text that it spells, and none once that text was changed.
//   - The last end of a choice waits for the engine's usage, so that there is one last event.
//   - No text is held that need not be: the digest of the first text is computed as it leaves, the other texts wait for their place behind it.
//     Only where the answer is to be kept is all of it held until [Answer.Tally].
//
// An event with text allocates nothing here while no value is masked, nothing waits for what follows and nothing is kept.
//
// Errors carry a code of package fault: what a rule or StoreValues says as it is, what breaks the engine's contract as
// CodeEngineUnavailable, and a panic of the rules as CodeInternal. After an error nothing more may be passed. No error quotes a text.
//
// An Answer belongs to one goroutine.
package egress
