// Package capability says what an engine can do, as a contract with grades of evidence, and whether a request's needs are met by it.
//
// A [Contract] has the 45 fields of [Fields]. Each value carries who guarantees it, how well that is known, and under what [Condition] it
// holds. What an engine does for a request are its features: each a [Cell] with a status, a grade, an owner, a condition, and what happens
// where the condition does not hold.
//
// The promises, which the tests of this package hold against an oracle:
//
//   - [Contract.Meets] is true only if every need is met. What is not known is not met: a condition over a fact that the state lacks does
//     not hold, and a feature without a cell is missing. A limit that is not known does not bind; one that is, and whose condition cannot be
//     decided, does.
//   - A feature that is on a roadmap never meets a need, whatever else its cell says. Nor does one whose grade is E0: it was only named.
//   - A cell is never believed above its grade ([Cell.Proven]).
//   - A contract is a value without state. Whoever asks again with another [State] gets the answer for that state, so that a condition that
//     flips counts from the next request on.
//   - What is observed narrows a contract and never widens it beyond what the observation proves ([Contract.Observe]).
//
// Nothing here panics on foreign input, and nothing takes longer than the length of what it is given. Values are safe for concurrent use as long
// as nobody changes them.
package capability
