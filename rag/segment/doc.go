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
// record or a file that is changed, moved or of another store is an error that names the file and the offset ([ErrDamaged]); so is one that was cut
// or is missing, but for the end of the last log.
//
// The end of the last log is what a crash leaves torn: a record that is too short, or of which some block never came to the disk and is zeros. It is
// cut there, since nobody was told that this record was stored, which a warning and [Store.Cut] say. Whoever cuts more of the last log, removes it or
// puts a whole directory back to an earlier state undoes changes, deletions too, without an error. Only [Store.Revision] shows it: compare it with
// that of the tables before the store is used. Of changes that share a revision only the last may carry it.
//
// A log that is found is written again before the store is open: what can be read of it may lie in the memory of the operating system alone.
//
// What is deleted leaves the disk when its segment is merged and its log removed: [Store.Purge] does both at once. What a file
// system keeps of removed files stays encrypted.
//
// # In memory
//
// Decrypted in memory, as long as the store is open, are: vectors of 16 bits a component, from which texts can be guessed, postings of the lexical index, hashes of
// document ids, numbers, names of groups and periods of validity; of the tail, at most some times [Config.TailPassages] passages and [Config.TailBytes], their ids, details and texts too. Texts of segments are read and decrypted a page at
// a time when [Filter.Passages], [View.Each] or an [Entry] asks. This memory can be in a core dump or in swap space: switch both off where that matters.
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
