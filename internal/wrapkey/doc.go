// Package wrapkey holds the keys that data keys and documents are wrapped under, and replaces them while the installation runs.
//
// # Epochs
//
// Wrapping keys are numbered; a number is an epoch. Epoch 0 is derived from the master key and stored nowhere: what was wrapped before there were
// epochs opens unchanged, and it cannot be destroyed. Every later epoch has 32 random bytes, which the table wrapping_keys holds, encrypted under a
// key derived from the master key. Each use of an epoch has keys of its own, derived from those bytes under the labels of [New].
//
// Every row with something wrapped names its epoch in a column. A [Keys] learns of an epoch when it first meets its number.
//
// # Writing
//
// [Keys.Active] wraps under the active epoch inside the transaction that stores the result. It shares the row of the rotation until that transaction
// ends, and [Rotator.Begin] locks it. So once a rotation has begun, no replica of this release stores anything under an older epoch, however late
// it learns of the new one. Replicas of a release before epochs write epoch 0, which stays readable, and the next rotation takes it.
//
// What must be readable without the database, the data keys in the write-ahead log, is wrapped under epoch 0 by [Keys.SealDerived], and under the
// active epoch when it comes into its table. So no destroyed epoch makes a write-ahead log unreadable, however late that is shipped.
//
// # Rotation
//
// [Rotator.Begin] makes the next epoch. [Rotator.Run] then moves every row of every [Kind] to it, on the one replica that leads. A step is a short
// transaction that re-wraps some rows and notes how far it has come; whoever leads next goes on there. A step changes rows that are there and
// adds none: a row that an erasure took meanwhile stays gone.
//
// A row that does not open is counted as unreadable and left as it is. When only such rows are left, the rotation waits for the grace, in which
// other replicas finish with what they have read before, and ends. It destroys each older epoch that no row names any more; one that an
// unreadable row names is kept, and the next rotation tries again. Epochs that envelopes name and that are destroyed or unknown are errors:
// [ErrDestroyed] and [ErrUnknown].
package wrapkey
