// Package lexical is a leaf: BM25 over Chinese and English text, in compact immutable segments.
//
// Chinese is indexed by characters and pairs of characters, which ranks as well as word segmentation and needs no dictionary.
// Traditional characters count as their simplified forms. Scores use k1 = 0.9 and b = 0.4.
//
// A [Segment] is one slice of bytes: made by a [Builder] or by [Merge], read by [Open], searched with others by [Rank].
package lexical
