// Package seal gives records contiguous positions in an RFC 6962 tree and signs checkpoints over it in the C2SP tlog-checkpoint format.
//
// One replica at a time, the sealer, extends the tree ([Extend]); the lease only keeps the work with one, and the transaction guards what must
// not happen twice. [Tree] reads what was sealed: checkpoints, cosignatures of witnesses, hash tiles. [Cache] keeps the checkpoints that this
// replica has seen outside the database: it takes a new one only with a proof that it extends the one before, so a database that was cut or
// rewritten shows as [ErrRewritten].
//
// The package owns the tables audit_leaves, audit_hashes, audit_checkpoints and audit_cosignatures.
package seal
