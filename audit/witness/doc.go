// Package witness is a small process that remembers. It reads the checkpoints of an audit log, demands a proof that each extends the
// one before, cosigns what is proven and hands the cosignature back. Whoever runs the log can rewrite everything the log has; he cannot
// rewrite what a witness on another team's machine has seen.
//
// A witness trusts the public key of the log, its own directory, and nothing else: every hash it uses was recomputed up to the signed
// root. It reads no database and no configuration of the server.
//
// # Files
//
//	<dir>/lock        held by the one process that may write here
//	<dir>/key         the seed of the witness's own key, in hex, made at the first start
//	<dir>/checkpoint  the newest checkpoint it cosigned, written before the cosignature leaves the machine
//	<dir>/alarms/     what the log stated that contradicts the checkpoint, one JSON file each, with both notes
//
// An alarm stays until a person has looked at it and moved its file away. Until then every pass fails with [ErrAlarm]; checkpoints that
// are proven to extend the remembered one are still followed and cosigned, since that much remains true.
package witness
