// Package qdrant implements rag/index by collections of a Qdrant server, 1.10 or later, over its REST interface.
//
// # How it is tested
//
// No package registry has the server. The tests run the suite of rag/index against Qdrant's own local mode, which the vendor's client for Python brings,
// behind a front that reads every request by that client's models of the interface; and faults against a server of the tests. It has not run against a real
// server: try it with yours before you rely on it.
//
// # One collection, one owner
//
// An index has a collection of its own, for one process: ids are numbers in the memory of that process, and mean nothing to another. The first use of an index makes
// the collection anew and empty and deletes those of earlier processes with its name; what uses the index fills it again from what it has stored elsewhere. If a second
// process takes the name, the first one's index answers ErrLost from then on.
//
// A point beside the others counts the changes, and every search and change reads it: a server that comes back with less than it has confirmed
// is found out, and searches return ErrLost instead of what is left. It is not found out if it happens between the two requests of one change. The collection has one
// shard and one copy, so that there is one order of changes.
//
// # Changes
//
// The server has no transactions. A change that fails after something was sent leaves its ids in doubt: searches that may find one of them return ErrUnavailable until
// they were changed again with success. While a change is under way searches wait for it, so that they see all of it or nothing.
//
// # Exactness
//
// No graph is built: the server compares the query with every vector that the filter allows, and with no other. Vectors are scaled to length 1, so that
// scores are cosines. They lie on the server in clear; texts do not.
package qdrant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/external"
)

// Config says where the server is. The header of its key, api-key, is set by [New].
type Config struct {
	external.ClientConfig
}

// Server is a server with indexes. It is safe for concurrent use.
type Server struct {
	client *external.Client
}

// New returns the server. It does not connect before an index is used.
func New(cfg Config) (*Server, error) {
	cfg.Header = "api-key"
	c, err := external.NewClient(cfg.ClientConfig)
	if err != nil {
		return nil, fmt.Errorf("qdrant: %w", err)
	}
	return &Server{c}, nil
}

// Close closes idle connections. Indexes that are not closed keep their collections.
func (s *Server) Close() error {
	s.client.Close()
	return nil
}

// maxDim is the longest vector that the server takes.
const maxDim = 65_536

// Index returns the index of that name for vectors of dim components, empty: whatever the server has under the name is deleted when the index is first
// used. The name may be any text, and must not be another live index's.
func (s *Server) Index(name string, dim int) (*Index, error) {
	if name == "" || dim < 1 || dim > maxDim {
		return nil, fmt.Errorf("qdrant: an index needs a name and 1 to %d components, not %d", maxDim, dim)
	}
	sum := sha256.Sum256([]byte(name))
	return &Index{server: s, dim: dim, prefix: "sluice_" + hex.EncodeToString(sum[:12]) + "_"}, nil
}

// Index is a collection. It implements [index.Index].
type Index struct {
	server *Server
	dim    int
	prefix string // of the collection's name

	mu         sync.RWMutex // for reading while searched
	collection string       // "" before it was made
	version    int64        // of the last change that was sent
	confirmed  int64        // the highest that the server has confirmed
	closed     bool
	deleted    bool

	lost   atomic.Bool
	doubts external.Doubts
}

var _ index.Index = (*Index)(nil)

const (
	batch    = 500     // entries of a request
	fewRuns  = 128     // up to how many ranges a filter has ranges, and not ids
	mostIDs  = 100_000 // of a filter, a search with more is several
	marker   = 1 << 32 // the id of the point that counts changes: no entry has it
	numbered = "n"     // the field with the id, for ranges
)

type (
	point struct {
		ID      uint64           `json:"id"`
		Vector  []float32        `json:"vector"`
		Payload map[string]int64 `json:"payload"`
	}
	points struct {
		Points []point `json:"points"`
	}
	selected struct {
		Points []uint32 `json:"points"`
	}
	operation struct {
		Upsert *points   `json:"upsert,omitempty"`
		Delete *selected `json:"delete,omitempty"`
	}
	bounds struct {
		First uint32 `json:"gte"`
		Last  uint32 `json:"lte"`
	}
	condition struct {
		HasID []uint64 `json:"has_id,omitempty"`
		Key   string   `json:"key,omitempty"`
		Range *bounds  `json:"range,omitempty"`
	}
	filter struct {
		Should []condition `json:"should,omitempty"`
		Must   []condition `json:"must,omitempty"`
	}
	params struct {
		Exact bool `json:"exact"`
	}
	search struct {
		Query       []float32 `json:"query,omitempty"`
		Filter      filter    `json:"filter"`
		Params      *params   `json:"params,omitempty"`
		Limit       int       `json:"limit"`
		WithPayload bool      `json:"with_payload"`
	}
	answer struct {
		Points []struct {
			ID      uint64                     `json:"id"`
			Score   *float32                   `json:"score"`
			Payload map[string]json.RawMessage `json:"payload"`
		} `json:"points"`
	}
)

// Upsert implements [index.Index].
func (x *Index) Upsert(ctx context.Context, entries []index.Entry) error {
	for _, e := range entries {
		if err := index.Check(e.Vector, x.dim); err != nil {
			return fmt.Errorf("upsert entry %d: %w", e.ID, err)
		}
	}
	entries = external.Distinct(entries)
	var all []operation
	for part := range slices.Chunk(entries, batch) {
		p := points{make([]point, len(part))}
		for i, e := range part {
			p.Points[i] = point{uint64(e.ID), external.Unit(e.Vector), map[string]int64{numbered: int64(e.ID)}}
		}
		all = append(all, operation{Upsert: &p})
	}
	return x.change(ctx, "upsert", external.IDs(entries), all)
}

// Delete implements [index.Index].
func (x *Index) Delete(ctx context.Context, ids []uint32) error {
	var all []operation
	for part := range slices.Chunk(ids, mostIDs) {
		all = append(all, operation{Delete: &selected{part}})
	}
	return x.change(ctx, "delete", ids, all)
}

// change sends operations one by one, each with the next count of changes.
func (x *Index) change(ctx context.Context, what string, ids []uint32, all []operation) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.ready(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(all) == 0 {
		return nil
	}
	// The count of this change hides what the server has forgotten before it.
	if err := x.check(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, x.noted(err))
	}
	for _, o := range all {
		x.version++
		count := operation{Upsert: &points{[]point{{marker, make([]float32, x.dim), map[string]int64{"version": x.version}}}}}
		body := map[string]any{"operations": []operation{o, count}}
		if err := x.server.client.Call(ctx, http.MethodPost, "/collections/"+x.collection+"/points/batch?wait=true&ordering=strong", body, nil); err != nil {
			x.doubts.Add(ids)
			return fmt.Errorf("%s: %w", what, x.noted(err))
		}
		x.confirmed = x.version
	}
	x.doubts.Settle(ids)
	return nil
}

// noted remembers that the contents are lost, so that later changes do not hide it.
func (x *Index) noted(err error) error {
	if errors.Is(err, index.ErrLost) {
		x.lost.Store(true)
	}
	return err
}

// Search implements [index.Index].
func (x *Index) Search(ctx context.Context, q index.Query) ([]index.Hit, error) {
	if err := index.Check(q.Vector, x.dim); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	if err := x.prepared(ctx); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case x.closed:
		return nil, fmt.Errorf("search: %w", index.ErrClosed)
	case q.Allowed == nil || q.Allowed.IsEmpty() || q.TopK <= 0:
		return nil, nil
	case x.doubts.About(q.Allowed):
		return nil, fmt.Errorf("search: a change whose outcome is not known has to be made again: %w", index.ErrUnavailable)
	}
	most := int(min(uint64(q.TopK), q.Allowed.GetCardinality()))
	var hits []index.Hit
	for f, size := range filters(q.Allowed) {
		found, err := x.find(ctx, external.Unit(q.Vector), f, min(most, size), size)
		if err != nil {
			return nil, fmt.Errorf("search: %w", x.noted(err))
		}
		for _, h := range found {
			if !q.Allowed.Contains(h.ID) {
				return nil, fmt.Errorf("search: the server answers what was not asked for: %w", index.ErrUnavailable)
			}
		}
		hits = append(hits, found...)
	}
	return external.Best(hits, most), nil
}

// find returns the nearest of what a filter allows, size ids at most. The server has equal scores in any order: where they are cut, more are asked for, until they
// are not.
func (x *Index) find(ctx context.Context, vector []float32, f filter, most, size int) ([]index.Hit, error) {
	how := &params{Exact: true}
	for limit := most; ; limit *= 2 {
		limit = min(limit+1, size)
		out, err := x.ask(ctx, search{Query: vector, Filter: f, Params: how, Limit: limit})
		if err != nil {
			return nil, err
		}
		hits := make([]index.Hit, 0, len(out.Points))
		for _, p := range out.Points {
			if p.ID >= marker || p.Score == nil {
				return nil, fmt.Errorf("the server answers what was not asked for: %w", index.ErrUnavailable)
			}
			hits = append(hits, index.Hit{ID: uint32(p.ID), Score: *p.Score + 0}) // −0 + 0 is 0
		}
		hits = external.Best(hits, len(hits))
		if len(hits) < limit || limit == size || hits[most-1].Score > hits[len(hits)-1].Score {
			return hits, nil
		}
	}
}

// ask searches, and returns ErrLost unless the server has every change that it has confirmed. The caller holds mu.
func (x *Index) ask(ctx context.Context, s search) (answer, error) {
	var out struct {
		Result []answer `json:"result"`
	}
	body := map[string]any{"searches": []search{s, counted()}}
	if err := x.server.client.Call(ctx, http.MethodPost, "/collections/"+x.collection+"/points/query/batch", body, &out); err != nil {
		return answer{}, err
	}
	if len(out.Result) != 2 {
		return answer{}, fmt.Errorf("the server answers %d of 2 searches: %w", len(out.Result), index.ErrUnavailable)
	}
	var version int64
	if points := out.Result[1].Points; x.confirmed > 0 &&
		(len(points) != 1 || json.Unmarshal(points[0].Payload["version"], &version) != nil || version < x.confirmed) {
		return answer{}, fmt.Errorf("the server has not all that it confirmed: %w", index.ErrLost)
	}
	return out.Result[0], nil
}

// check returns ErrLost unless the server has every change that it has confirmed. The caller holds mu.
func (x *Index) check(ctx context.Context) error {
	_, err := x.ask(ctx, counted())
	return err
}

// counted searches for the point that counts changes.
func counted() search {
	return search{Filter: filter{Must: []condition{{HasID: []uint64{marker}}}}, Limit: 1, WithPayload: true}
}

// filters yields filters that together allow what the set has, each with how many ids that are at most.
func filters(set *roaring.Bitmap) func(yield func(filter, int) bool) {
	return func(yield func(filter, int) bool) {
		if runs, more := external.Runs(set, fewRuns); !more {
			var f filter
			for _, r := range runs {
				f.Should = append(f.Should, condition{Key: numbered, Range: &bounds{r.First, r.Last}})
			}
			yield(f, int(set.GetCardinality()))
			return
		}
		ids := make([]uint64, 0, min(mostIDs, set.GetCardinality()))
		for it := set.Iterator(); it.HasNext(); {
			ids = append(ids, uint64(it.Next()))
			if len(ids) == mostIDs || !it.HasNext() {
				if !yield(filter{Must: []condition{{HasID: ids}}}, len(ids)) {
					return
				}
				ids = ids[:0]
			}
		}
	}
}

// prepared makes the collection if this is the first use.
func (x *Index) prepared(ctx context.Context) error {
	x.mu.RLock()
	made := x.collection != "" && !x.closed && !x.lost.Load() && ctx.Err() == nil
	x.mu.RUnlock()
	if made {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ready(ctx)
}

// ready returns whether the index can be used, and makes its collection if this is the first use. The caller holds mu.
func (x *Index) ready(ctx context.Context) error {
	switch {
	case x.closed:
		return index.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case x.lost.Load():
		return fmt.Errorf("the collection is gone: %w", index.ErrLost)
	case x.collection != "":
		return nil
	}
	if err := x.sweep(ctx); err != nil {
		return fmt.Errorf("delete what was there: %w", err)
	}
	name := x.prefix + strings.ToLower(rand.Text()[:16])
	graph := map[string]int{"m": 0} // none
	c := x.server.client
	if err := c.Call(ctx, http.MethodPut, "/collections/"+name, map[string]any{
		"vectors": map[string]any{"size": x.dim, "distance": "Dot"}, "shard_number": 1, "replication_factor": 1, "hnsw_config": graph,
	}, nil); err != nil {
		return fmt.Errorf("make the collection: %w", err)
	}
	if err := c.Call(ctx, http.MethodPut, "/collections/"+name+"/index?wait=true", map[string]any{"field_name": numbered, "field_schema": "integer"}, nil); err != nil {
		return fmt.Errorf("make the index of ids: %w", err)
	}
	x.collection = name
	return nil
}

// sweep deletes the collections of the index's name.
func (x *Index) sweep(ctx context.Context) error {
	var out struct {
		Result struct {
			Collections []struct {
				Name string `json:"name"`
			} `json:"collections"`
		} `json:"result"`
	}
	if err := x.server.client.Call(ctx, http.MethodGet, "/collections", nil, &out); err != nil {
		return err
	}
	for _, c := range out.Result.Collections {
		if strings.HasPrefix(c.Name, x.prefix) {
			if err := x.remove(ctx, c.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *Index) remove(ctx context.Context, name string) error {
	err := x.server.client.Call(ctx, http.MethodDelete, "/collections/"+name, nil, nil)
	if errors.Is(err, index.ErrLost) { // it is gone already
		return nil
	}
	return err
}

// Close implements [index.Index]: it deletes the collection. After an error it may be called again, to try again.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.deleted {
		return nil
	}
	var err error
	if ctx := context.Background(); x.collection != "" {
		err = x.remove(ctx, x.collection) // another process may have the name by now
	} else {
		err = x.sweep(ctx)
	}
	if err != nil {
		return fmt.Errorf("delete the collection: %w", err)
	}
	x.deleted = true
	return nil
}
