// Package segment keeps the passages of one collection on a local disk, encrypted, so that a replica searches them soon after it starts and holds
// no texts in memory. The tables of rag are the truth: whatever is lost or damaged here is made again from them.
//
// # What it promises
//
// A [Change] is all or nothing, also where the process is killed or the machine stops: when [Store.Apply] returns without an error it is on
// the disk, and every [View] taken from then on has it. A view never changes. [Store.Revision] says up to which revision of the tables the
// store is complete.
//
// An error while a change is written to the log, or the manifest is replaced, spoils the store: what is on the disk is not known, so it
// refuses every further change ([ErrSpoiled]) until it was closed and opened again. Views go on. A failed fsync is never tried again. An
// error while a segment is written leaves everything as it was.
//
// # On the disk
//
// A change goes to the write-ahead log, a file wal-N, and into the tail in memory. A tail that is large enough becomes an immutable segment: seg-X.index
// has what searching needs, seg-X.texts what passages say. Segments are merged in the background, without what was deleted. The file
// manifest names the segments that count, what became of their documents since, and the first log to read; it is replaced as a whole.
//
// Everything but the lengths of things is encrypted and authenticated, bound to its store, its file and its place there: a page, a
// record or a file that is changed, cut, moved or of another store is an error that names the file and the offset ([ErrDamaged]). A log
// that ends in the middle of a record is cut there, since nobody was told that this record was stored; only the last log may, and only at its very
// end. That a whole directory was put back to an earlier state is seen by its revision, and not otherwise.
//
// What is deleted leaves the disk when its segment is merged and its log removed: [Store.Purge] does both at once. What a file
// system keeps of removed files stays encrypted.
//
// # In memory
//
// Decrypted in memory, as long as the store is open, are: codes of the vectors, postings of the lexical index, hashes of document ids, numbers, rules of
// groups and periods of validity; of the tail, at most some [Config.TailPassages] passages, their texts too. Texts of segments are read and decrypted a page at
// a time when [Filter.Passages] asks. This memory can be in a core dump or in swap space: switch both off where that matters.
package segment

import "errors"

// The errors of a store, in the chain of what it returns.
var (
	ErrDamaged = errors.New("stored passages are damaged")                                   // or encrypted under another key
	ErrForeign = errors.New("stored passages are of another model or release")               // make them again
	ErrInUse   = errors.New("stored passages are used by another process")                   //
	ErrSpoiled = errors.New("stored passages cannot be changed until they are opened again") // after a failed write
	ErrClosed  = errors.New("stored passages are closed")
	ErrChange  = errors.New("bad change") // nothing of it was stored
)
