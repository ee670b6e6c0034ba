// Package governance is a façade: admit a request, release a response. A [Guard] holds the policy documents in force and, per
// request, decides which models may be used, masks or blocks sensitive values on their way to the model, and puts them back in
// the answer.
//
// Policies are immutable versions. Every replica keeps those in force in a snapshot and reads a change counter each second.
// A tenant's requests are refused without a policy, with one that cannot be read, and with one that could not be refreshed for longer than
// [Config.MaxStale].
//
// Where a policy lets people see values again, [Admission.StoreValues] stores them before their pseudonyms leave, and [Guard.Reveals] shows them;
// everywhere else no value outlives its request.
//
// Where a policy has content safety (package safety), requests, passages and what is shown of answers are judged by its rules, too; a policy whose rule
// library cannot be used refuses whom it is of.
//
// No error, finding or log line of this package holds a value, only its class.
package governance
