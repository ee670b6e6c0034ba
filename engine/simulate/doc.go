// Package simulate is an engine that speaks a profile and computes nothing: deterministic text, times of a roofline model, faults on request.
//
// It is built from profiles, so a new profile has a simulator by its file alone. What it shows is what the profile says: an engine that passes against
// it was tested against documents, which is grade E2 and no more.
//
// The promises:
//
//   - Deterministic: the same requests in the same order, with the same [Config], get the same bytes, and with a [Virtual] clock the same times.
//   - Times come from the model and the machine of [Model] and [Machine]: a step takes the longer of computing and of moving weights, keys and values. Requests
//     share steps, wait for room, and are refused with what the profile says of overload.
//   - Texts are words of a small list. Tokens are counted, with four more for the marks that the template of a chat adds; usage, log-probabilities, the form of answers,
//     tool calls, seeds and stop strings are honoured as far as the profile knows a name for them. Fields that it does not know are ignored, as engines do.
//   - A [Fault] breaks one thing, for one request in n or for all. A [Mutation] breaks one thing of the dialect, to show that the conformance case finds it.
//
// It is safe for concurrent use.
package simulate
