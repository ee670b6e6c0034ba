// Package answercache is a leaf over engine: it gives the answer of one request to equal ones, while it comes and for a time afterwards.
//
// Whoever wants an answer joins with a key. Equal keys mean equal answers; that is the promise of the caller, and nothing here looks at a request.
// The first who joins with a key leads: an engine is asked once, on behalf of all who join until the answer is complete, and each of them sees it
// from its beginning, in the pieces in which it came. Afterwards the answer is kept, if its terms say so, and who joins gets it without an engine.
//
// Each tenant has keys of his own: the same key of two tenants is two keys. What is kept is what the engine said, before anything is put back for
// anybody. It is in the memory of this process and nowhere else, at most so many bytes of each tenant and of all of them; where all together are
// too many, the tenant with the most loses what nobody asked for longest. No answer is in memory after its time, whether anybody asks or not.
//
// The engine works for all who wait: it is stopped when the last of them has left, not when the first has. If it fails, who led is told so; each of
// the others that has seen nothing yet joins once more, so that one of them leads. Who has seen a part of an answer that fails gets the
// error, for another answer may go on in another way.
package answercache
