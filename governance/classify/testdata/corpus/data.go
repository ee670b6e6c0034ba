// Package corpusdata embeds the frames, hard negatives and marked lines of the masking corpus, so that a binary can measure itself.
package corpusdata

import "embed"

// Files holds frames/<set>/<family>.txt, negatives/<set>.txt and lines/<set>.txt, where they exist.
//
//go:embed frames negatives lines
var Files embed.FS
