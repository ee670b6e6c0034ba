// Package peer asks a running engine about itself, by its profile: whether it lives and is ready, its version, its models, its metrics; and tells it to drain.
// It asks for no text: only the gateway asks engines for work.
//
// Every method honours its context, reads a bounded answer, and keeps nothing of a sentence that an engine wrote. An answer that a profile does not
// speak of is [ErrNotTold], which is something else than a failure.
package peer
