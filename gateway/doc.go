// Package gateway is a façade: the governed request, free of any transport.
//
// [Pipeline.Chat] is the only way to a model's text; the OpenAI surface, the playground, batches and rollouts' shadow traffic all
// use it. It is one straight line of named steps, in this order, and every refusal happens at the earliest step that can refuse:
//
//	 1  authenticate   credential → principal; the route's permission; from headers, before   Unauthenticated, Denied
//	                   a byte of the body is read
//	 2  decode         the edge turns a dialect into a Call; from here there are no HTTP types; Invalid, Denied
//	                   what it names is open to the caller
//	 3  limit          requests, tokens by estimate, concurrency                               RateLimited
//	 4  admit          policy: model, purpose, classes; masks every text field in place,       Denied, Blocked, Invalid
//	                   inside JSON value by value; what cannot be masked there is refused
//	 5  cache          none yet: answers of sampled models differ by design, and a wrong hit crosses a border that the other
//	                   steps guard, so the exact cache waits for its own tests
//	 6  route          version and engine; the rollout's arm by conversation; what the         Invalid, NotFound, Unavailable
//	                   model can do
//	 7  reserve        the worst-case cost of prompt, passages and completion                  Quota
//	 8  retrieve       passages this principal may see, masked with the request's own vault    Unavailable
//	 9  admitted       what people may see again, then the audit record, both durable first    Unavailable, Quota
//	10  generate       one stream of events                                                    Unavailable, Timeout
//	11  egress         answer rules → restore → label → count, on the stream, or on an answer   Blocked
//	                   in one piece; package egress says what it promises
//	12  outcome        settle usage, cost and energy; the second audit record, on a context detached from the client
//	13  render         the edge: JSON or server-sent events
//
// Whatever fails, the run gives back what it holds (slot, token estimate, reservation) and writes exactly one outcome record. A
// caller that cannot be authenticated is counted and not audited: strangers must not be able to fill the log.
//
// The last event of an answer is passed on only after the outcome record is durable, so a caller who saw the end of an answer
// can ask for its proof. If that one record cannot be written, the answer still goes out: its admitted record exists, the
// verifier lists it as unfinished, and its usage is not booked: a counter and a log line tell the operator.
package gateway
