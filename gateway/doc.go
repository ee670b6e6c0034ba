// Package gateway is a façade: the governed request, free of any transport.
//
// [Pipeline.Chat] is the only way to a model's text; the OpenAI surface and the playground use it. It is one straight line of named steps, in
// this order, and every refusal happens at the earliest step that can refuse. On the right are the kinds of refusals; a call that has taken its
// total time is refused at any step:
//
//	 1  authenticate   credential → principal; the route's permission; from headers, before   Unauthenticated, Denied, Unavailable
//	                   a byte of the body is read, and again when it is there
//	 2  decode         the edge turns a dialect into a Call; from here there are no HTTP       Invalid, TooLarge, RateLimited, Denied,
//	                   types; what it names is open to the caller                              Unavailable
//	 3  limit          requests, tokens by estimate, concurrency                               RateLimited, Unavailable
//	 4  admit          policy: model, purpose, collection                                      Denied, NotFound, Unavailable
//	 5  cache          of answers that are functions of their requests, where the policy has equal calls share one; it is
//	                   looked at in 11, since its key has what the steps between have made
//	 6  route          version and engine; the rollout's arm by conversation; what the         Invalid, Denied, NotFound,
//	                   model can do, and where its data may go                                 Unavailable
//	 7  retrieve       passages this principal may see; the question is masked for it; of a    Invalid, NotFound, Blocked, Quota,
//	                   document that is taken in, what it says                                 Unavailable
//	 8  mask           every text field once, and the passages, with what their documents      Blocked, Invalid
//	                   say is sensitive; inside JSON value by value; what cannot be masked
//	                   there is refused; what was found may lead the call elsewhere            Denied
//	 9  reserve        the prompt, prepared; the limits settled on its tokens; its             Invalid, RateLimited, Quota, Unavailable
//	                   worst-case cost with the completion
//	10  audit          what people may see again, then the record "admitted", both durable     Unavailable, Quota
//	                   first
//	11  generate       one stream of events                                                    Invalid, NotFound, Unavailable, Timeout
//	12  egress         answer rules → restore → label → count, on the stream, or on an answer   Blocked, Unavailable
//	                   in one piece; package egress says what it promises
//	13  outcome        settle usage, cost and energy; the second audit record, on a context detached from the client
//	14  render         the edge: JSON or server-sent events
//
// Each step makes an immutable value that later steps read: the caller (1), the slot (3), the admission (4), the route (6), the sources (7),
// the masked texts (8), the prompt (9), the receipt (10), the answer (11, 12) and the outcome (13). After any failure the run releases what it
// holds (slot, token estimate, reservation) and writes exactly one outcome record, from the values that exist. A caller that cannot be
// authenticated is counted but not audited: strangers must not be able to fill the log. Nor is a body that the edge
// does not take, or cannot decode, though its caller is known: no run has begun.
//
// Equal calls of one tenant share what an engine says, if the policy has it so (package answercache): while it comes, and for a time afterwards. Each of them
// has taken all steps until 10 by himself, and takes 12 and 13 by himself.
//
// Records and Server-Timing say how long they took, under these names: authenticate (1, 2), limit (3), policy (4, 8), route (6), retrieve (7), reserve (9)
// and record (10).
//
// A search has no prompt, so its passages are its answer: it retrieves them after step 10, masks them with what their documents say is
// sensitive, and lets them out as an answer leaves. What step 8 masks of it is the question.
//
// A moderation is given no engine and shows no text: in the place of masking, step 8 says what masking would come to.
//
// Nothing bypasses the path: vectors and scores take the same steps as text, and nobody else asks an engine. [Pipeline.Ingest] is a call for
// the vectors of a document. A question that is searched with is a child call of its chat or search: routed, reserved, settled, billed and
// recorded as an embedding of the same tenant and key, with "parent" in its records. It takes no slot and waits for no record, since its parent
// may not be admitted yet; what it has cost is kept if the parent is refused afterwards. See childCall.
//
// An instance that fails before it has begun to answer is no end of a call: another one is asked, as the policy of its model says, within step 11. Where
// none is left, another model may be: that is a call of its own, which takes all steps again. See generate and chatOrFallBack.
//
// The arrival of a call starts its timeouts. The total timeout runs through all steps; the first-token timeout and the idle timeout run while
// an engine streams. Each cancels the engine, costs the caller nothing but the vectors of a question that is there already, and has its own code.
//
// The pipeline sends the last event of an answer only after the outcome record is durable, so a caller who saw the end of an answer
// can ask for its proof. If that record cannot be written, the answer still goes out: its admitted record exists, the verifier
// lists it as unfinished, and its usage is not billed. A counter and a log line tell the operator.
//
// A policy may let a blocking answer leave before its outcome record, which then commits with the next group. A crash in between leaves the
// admitted record alone; that record says what is billed, which is the prompt.
package gateway
