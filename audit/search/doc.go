// Package search finds audit records by what they say, newest first, and counts them.
//
// Most of what a record says, many others say too: who, what, which model, which outcome, what was found. These values together are its
// attribute set, of which there are few beside the records. What few records say, such as a document, is a term. [Add] keeps lists of the
// records by attribute set, address and term, in the transaction that stores the records; [Reader.Search] picks lists first and then reads
// the newest records of each, so it reads few records whatever is asked for. [Check] computes the lists again from the records and names
// what the tables hide.
//
// What the arms of a rollout did is summed up as records come: [Reader.ArmSums] counts what came since the last call, and reads the slowest answers.
//
// The package owns the tables audit_facets (attribute sets), audit_sources, audit_terms and audit_postings, and audit_arm_windows,
// audit_arm_units and audit_arm_news (of rollouts).
package search
