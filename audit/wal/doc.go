// Package wal is the local write-ahead log: records become durable in it before anything else happens, and leave it when they are in the
// database and sealed.
//
// [Log.Append] returns when a record is on the disk; one fsync serves every caller that waits. After a failed write or fsync the segment is
// given up: its bytes after the last good fsync are void, and the next append starts a fresh segment whose header says where it takes over.
// [Open] recovers what earlier runs left: a torn tail is cut, and anything else that cannot be read stops the start, since going on would
// lose acknowledged records. A disk that hangs beyond the deadline counts as one that fails.
//
// Every run takes a fresh writer id, so a sequence number is never used twice. Segments of earlier runs, or of a lost replica whose files were
// copied here, are read as they are. [Segments] reads a directory that another process may be writing to, for verification.
package wal
