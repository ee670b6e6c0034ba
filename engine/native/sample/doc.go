// Package sample picks the next token from one row of logits: the whole chain that engine.Request describes, in its order. Bias and penalties change logits, the grammar and the least length forbid tokens, temperature, top-k, top-p and min-p
// narrow the choice, a hook may weigh what is left, and one token is drawn.
//
// The random number of a draw is a hash of seed, choice and step, and every sum has a fixed order: the same logits give the same
// token whatever else the engine is doing. For requests without anything newer than temperature and top-p the results are those of
// the replay profile in which they were introduced.
package sample
