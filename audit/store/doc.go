// Package store holds what the database has of an audit log: the records with the columns copied out of them, what is kept beside them, how
// far each writer has come, and what was pruned.
//
// [Store.Ship] moves records of the write-ahead log into the database exactly once, together with what they keep, what they are searched by and
// whatever the [Sink] writes, in one transaction. An error leaves nothing behind and the records come again; a record that is there already is
// compared and left alone. [Arrive] is the only place that copies a payload into columns, so a verification can do it again and compare.
//
// The package owns the tables audit_events, audit_writers, audit_unbooked, audit_contents, audit_subject_keys, audit_erased_keys,
// audit_erasures, audit_prunings, audit_pruned, audit_vault and audit_lease. Its row types are exported for the rooms that write them: seal,
// retention and verify.
package store
