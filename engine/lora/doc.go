// Package lora is a leaf that reads low-rank adapters: what is added to single products of a model so that it answers differently,
// y = W·x + scale·B·(A·x), without touching the model itself.
//
// [Open] takes a GGUF file as llama.cpp converts adapters to, or a directory as the library peft writes it (adapter_config.json and
// adapter_model.safetensors), and gives the factors under the names that the graph of the model uses, in the order of rows that the
// model has: GGUF files of the llama architecture keep the rows of queries and keys in an order of their own, so that an adapter from
// one world fits a model from the other only after its rows changed places. That happens here.
//
// Files come from outside. Everything is checked before Open returns: names, shapes, ranks, sizes, and that every number is finite.
// What an adapter asks for beyond products with factors (DoRA, biases, whole modules, embeddings, other base weights) is refused by
// name, since leaving it out would answer as nobody trained it. Whether the factors fit the model's matrices is for those to say who
// have the matrices.
//
// Factors are read row by row from the mapped file, which must not shrink while it is open.
package lora
