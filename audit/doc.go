// Package audit is a façade: it keeps the durable, verifiable record of every request and every administrative action.
//
// [Log.Append] writes an [Event] to a local write-ahead log and returns when it is on the disk; one fsync serves every caller
// that waits. [Log.Run] ships the records into the database exactly once, together with whatever the [Sink] writes in the same
// transaction, and one replica at a time, the sealer, gives them contiguous positions in an RFC 6962 tree and signs a checkpoint
// over it in the C2SP tlog-checkpoint format. Package verify walks everything again from the payload bytes and names what was altered,
// removed, reordered or cut off. It needs the public key only.
//
// # What an error from Append means
//
// A nil error means the record is durable. An error means that it was not acknowledged: the record is usually absent, but a
// device that fails after writing, or hangs beyond the deadline and then recovers, may leave it behind. Readers therefore see an
// "admitted" record without an outcome, never an answer without a record. After a failed write or fsync the segment is given up:
// its bytes after the last good fsync are void, and the next Append starts a fresh segment whose header says where it takes over.
//
// # Kept texts
//
// [Log.AppendWith] keeps a prompt or an answer beside its record, encrypted under a data key of the person it is of; package content has the
// ciphers. The record commits to the ciphertext, and both become durable in one commit and reach the database in one transaction. [Log.Erase]
// destroys the keys of a person: the texts are gone, and every proof of every record holds.
//
// # Files
//
//	<dir>/lock                        held by the one process that may write here
//	<dir>/writer                      the writer id of the current run
//	<dir>/wal/<writer>-<n>.log        segments, removed once shipped, sealed, signed and in the checkpoint cache
//	<dir>/wal/<writer>-<n>.log.cut    a whole frame with a wrong checksum that recovery cut off, kept for inspection
//	<dir>/checkpoints/latest          the newest checkpoint this replica has seen
//	<dir>/checkpoints/checkpoints.log every checkpoint this replica has seen, one JSON string per line
//
// Every run of the process takes a fresh writer id, so a sequence number is never used twice, whatever happened to the tail of
// the segments before. Segments of earlier runs, or of a lost replica whose files were copied here, are shipped as they are.
package audit
