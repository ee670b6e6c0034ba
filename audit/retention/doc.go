// Package retention decides how long records stay, and takes them away: the classes and their times, holds, the long-term store of records that outlive
// their neighbours, the transactions that prune records and destroy the keys of a person.
//
// No configuration keeps records for less than the floors of [Config]. A hold keeps what it selects from being pruned and from being erased; who
// releases one is bound by it for another day. Every removal has a record that is sealed before anything goes, with an attestation that only who
// has the keys of the checkpoints can make ([Attest]). The order of these steps, which append to the log and wait until it is sealed, is in
// package audit: Log.Prune and Log.Erase.
//
// The package owns the tables audit_holds and audit_erasure_results.
package retention
