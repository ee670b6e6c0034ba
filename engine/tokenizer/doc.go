// Package tokenizer is a leaf that turns text into token ids and back. Models that generate have a [Tokenizer]: byte-level BPE ([BPE])
// or SentencePiece's merges by score ([SentencePiece]). Encoders have an [Encoder]: [WordPiece] or [Unigram]. A vocabulary comes from
// the metadata of a GGUF file ([FromMetadata], then [New] or [NewEncoder]) or from a directory as the Hugging Face libraries write it
// ([Load]). [Stream] turns the bytes of generated tokens into whole characters.
//
// Files are refused unless every step they ask for is followed exactly. Text that a caller sends never becomes a control token: that
// takes a [Part] marked as special, or parseSpecial.
//
// Tokenizers are immutable after construction and safe for concurrent use. Cost grows with n·log n of the text for every input,
// hostile ones included: words are found by hand-written scanners that look at each byte a bounded number of times, merges are taken
// from a heap, and pieces are found in a trie.
package tokenizer
