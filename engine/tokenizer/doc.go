// Package tokenizer is a leaf that turns text into token ids and back: byte-level BPE with the vocabulary of a GGUF file ([BPE]),
// WordPiece for BERT encoders ([WordPiece]), and [Stream], which turns the bytes of generated tokens into whole characters.
//
// Tokenizers are immutable after construction and safe for concurrent use. Cost grows with n·log n of the text for every input,
// hostile ones included: words are found by hand-written scanners that look at each byte a bounded number of times, and merges are
// taken from a heap.
package tokenizer
