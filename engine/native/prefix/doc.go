// Package prefix keeps the keys and values of prompts for those that begin in the same way: a radix tree over token ids whose nodes
// hold full pages, shared by reference with the sequences that use them.
//
// # Isolation
//
// Every entry belongs to a namespace, a keyed digest that the server derives from the tenant, the adapter, the model and the precision
// plan. There is no way from one namespace into another; tenants share one only where policy names it. A page is cleared when its
// last holder gives it back, before anybody else gets the memory.
//
// # Memory
//
// The pages of the tree and those of each namespace are bounded. What was used least recently goes first, the ends of prompts before
// their beginnings, and nothing that a sequence holds. A namespace that has reached its quota makes room among its own. The order
// depends on the calls alone, not on time.
//
// # The tier on disk
//
// Where a directory is given, evicted pages go to a bounded file, and come back when a prompt wants them. What lies there is derived
// from prompts, so it is encrypted and authenticated (AES-256-GCM) under a key that exists only in this process and never leaves its
// memory, and the file, readable by its owner only, has no name: it is unlinked as soon as it is open, and after a crash its space is
// free and its content unreadable. Nothing has to be wiped at the end. A page that does not pass the check, because a bit changed or
// an older content of its place came back, counts as absent.
//
// Disk space is reserved at the start where the file system can; pages are written by system calls and read through a map of the file. If
// the directory cannot be made or written, or the space not be had, there is no such tier; a failed write (disk full, quota, input or
// output error) or a fault while reading ends it. The tree works on without, and [Tree.SpillErr] says why.
//
// Writing and reading are done by the caller's goroutine, about half a millisecond for a page of a small model. So each call moves a few
// pages only ([Config.SpillMoves]) each way: of more evicted pages those at the ends of prompts are dropped, of more wanted pages the
// rest comes with the next calls.
//
// # Concurrency
//
// The methods of a Tree are called by one goroutine at a time, which no pass over its pages runs beside; [Tree.MatchLength] looks at no page and
// needs no more than that no other method runs. [Namespace] may be called from anywhere.
package prefix
