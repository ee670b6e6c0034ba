// Package index is a contract: what a vector index promises. index/sq8 and index/flat implement it in memory, index/pgvector and index/qdrant
// on a server; index/indextest holds every implementation to it.
package index

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"
)

// The errors of an index, in the chain of what it returns.
var (
	ErrClosed = errors.New("index closed")
	ErrVector = errors.New("bad vector") // wrong dimension, or a component that is not finite
	// ErrUnavailable is of indexes on a server: it is gone, too slow, or refuses. A search that returns it says nothing about what is stored.
	ErrUnavailable = errors.New("index server unavailable")
	// ErrLost is of indexes on a server: what was stored is no longer all there, or somebody else has changed it. It stays, until the index is made
	// anew and filled again.
	ErrLost = errors.New("index contents lost")
)

// Entry is a vector and its id.
type Entry struct {
	ID     uint32
	Vector []float32
}

// Query asks for the nearest vectors.
type Query struct {
	Vector []float32
	// Allowed are the ids that may be found. Others are neither scored nor returned, so that the answer does not depend on them.
	// nil allows none.
	Allowed *roaring.Bitmap
	// TopK is the highest number of hits.
	TopK int
}

// Hit is a vector found. The score is the cosine of the angle between it and the query, 0 if one of them has no direction.
type Hit struct {
	ID    uint32
	Score float32
}

// Index finds near vectors. It is safe for concurrent use.
//
// A change is visible to every search that begins after it returned, and none of it if it returned an error. An index keeps no
// reference to its arguments.
type Index interface {
	// Upsert stores the entries, each in place of what its id was before. With a vector that does not fit it stores none and
	// returns ErrVector. Of several entries with one id the last counts.
	Upsert(ctx context.Context, entries []Entry) error
	// Delete forgets the ids. Unknown ids are no error.
	Delete(ctx context.Context, ids []uint32) error
	// Search returns the TopK nearest of the allowed entries: highest score first, equal scores by id.
	Search(ctx context.Context, q Query) ([]Hit, error)
	// Close releases everything. Later calls return ErrClosed, except Close, which does nothing.
	Close() error
}

// Check returns ErrVector unless v has dim components, all finite.
func Check(v []float32, dim int) error {
	if len(v) != dim {
		return fmt.Errorf("%w: %d components instead of %d", ErrVector, len(v), dim)
	}
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: component %d is not finite", ErrVector, i)
		}
	}
	return nil
}
