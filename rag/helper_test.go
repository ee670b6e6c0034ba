package rag

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/rag/reduce"
	"github.com/sluice-project/sluice/rag/segment"
)

var errInjected = errors.New("injected fault")

// hashed embeds a text as the counts of its character pairs, hashed into a few components. It knows nothing of meaning, but texts
// that share wording are near, the same in every run.
type hashed struct {
	dim   int
	model string

	mu    sync.Mutex
	fails int // calls until the one that fails; 0: never
	wrong bool
	limit int // characters of the longest text; 0: any
}

func newHashed() *hashed { return &hashed{dim: 128, model: "hashed-128"} }

func (h *hashed) Model() Model { return Model{ID: h.model, Dim: h.dim} }

// failAt makes the n-th call from now fail.
func (h *hashed) failAt(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = n
}

func (h *hashed) Embed(_ context.Context, texts []string, _ bool) ([][]float32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails > 0 {
		if h.fails--; h.fails == 0 {
			return nil, errInjected
		}
	}
	out := make([][]float32, len(texts))
	for i, s := range texts {
		if n := len([]rune(s)); h.limit > 0 && n > h.limit {
			return nil, fault.New(fault.CodeContextLength, h.limit, n)
		}
		v := make([]float32, h.dim)
		runes := []rune(s)
		for j := range len(runes) - 1 {
			f := fnv.New32a()
			_, _ = f.Write([]byte(string(runes[j : j+2])))
			v[f.Sum32()%uint32(h.dim)]++
		}
		out[i] = v
	}
	if h.wrong {
		out = out[:len(out)-1]
	}
	return out, nil
}

// encoder embeds with the real model.
type encoder struct {
	*native.Engine

	model Model
}

func e5(t *testing.T) encoder {
	t.Helper()
	e, err := native.New(native.Config{Models: []native.ModelConfig{
		{ID: testmodel.E5ID, Path: testmodel.Path(t, testmodel.E5)},
	}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	models, err := e.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shorter, err := reduce.For(models[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return encoder{e, Model{ID: models[0].Digest, Dim: models[0].EmbedDim, Reduce: shorter}}
}

func (e encoder) Model() Model { return e.model }

func (e encoder) Embed(ctx context.Context, texts []string, question bool) ([][]float32, error) {
	role := engine.RolePassage
	if question {
		role = engine.RoleQuery
	}
	out, err := enginetest.Embed(ctx, e.Engine, &engine.EmbedRequest{Model: testmodel.E5ID, Input: texts, Role: role})
	if err != nil {
		return nil, err
	}
	return out.Vectors, nil
}

// embedder is where a test has its vectors from.
type embedder interface {
	Model() Model
	Embed(ctx context.Context, texts []string, question bool) ([][]float32, error)
}

// library is a service whose callers all have their vectors from one place.
type library struct {
	*Service

	from embedder
}

func service(t *testing.T, db *gorm.DB, e embedder) *library {
	t.Helper()
	return serviceIn(t, t.TempDir(), db, e)
}

// serviceIn is a service whose passages lie in a directory.
func serviceIn(t *testing.T, dir string, db *gorm.DB, e embedder) *library {
	t.Helper()
	s := newService(t, Config{Dir: dir}, db, e)
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// newService is a service that is not loaded.
func newService(t *testing.T, cfg Config, db *gorm.DB, e embedder) *library {
	t.Helper()
	s, err := New(cfg, db, keyring.FromBytes(bytes.Repeat([]byte{7}, 32)), e.Model(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &library{s, e}
}

func (l *library) Search(ctx context.Context, q Query) ([]Passage, error) {
	q.Embed = l.from.Embed
	return l.Service.Search(ctx, q)
}

// Ingest reads and stores a document.
func (l *library) Ingest(ctx context.Context, d Document) (IngestResult, error) {
	d.MayChangeAccess = true
	draft, err := l.Read(ctx, d)
	if err != nil {
		return IngestResult{}, err
	}
	return l.Store(ctx, draft, l.from.Embed)
}

func create(t *testing.T, s *library, tenant, name string, labels ...string) {
	t.Helper()
	if err := s.CreateCollection(t.Context(), Collection{Tenant: tenant, Name: name, Title: "T " + name, Labels: labels}); err != nil {
		t.Fatal(err)
	}
}

func ingest(t *testing.T, s *library, collection, name, body string, labels ...string) IngestResult {
	t.Helper()
	in, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: collection, Name: name, Labels: labels, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func find(t *testing.T, s *library, collection, text string, labels ...string) []Passage {
	t.Helper()
	out, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: collection, Text: text, Labels: labels, TopK: 50})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func follow(t *testing.T, s *library) {
	t.Helper()
	if err := s.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("got %v, want code %s", err, code)
	}
}

// wantTexts checks which texts a search finds, best first.
func wantTexts(t *testing.T, got []Passage, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("found %d passages %+v, want %q", len(got), got, want)
		return
	}
	for i, w := range want {
		if got[i].Text != w {
			t.Errorf("passage %d is %q, want %q", i, got[i].Text, w)
		}
	}
}

// holding is a store that waits where it prepares what comes in.
type holding struct {
	passageStore

	held, let chan struct{}
	once      sync.Once
}

func (h *holding) IndexWords(ctx context.Context, d *segment.Document) error {
	h.once.Do(func() {
		close(h.held)
		<-h.let
	})
	return h.passageStore.IndexWords(ctx, d)
}

// failing is a store that fails on demand.
type failing struct {
	passageStore

	mu             sync.Mutex
	prepare, apply bool
}

func (f *failing) on(flag *bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *flag {
		return errInjected
	}
	return nil
}

func (f *failing) set(flag *bool, v bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*flag = v
}

func (f *failing) IndexWords(ctx context.Context, d *segment.Document) error {
	if err := f.on(&f.prepare); err != nil {
		return err
	}
	return f.passageStore.IndexWords(ctx, d)
}

func (f *failing) Apply(ctx context.Context, c segment.Change) error {
	if err := f.on(&f.apply); err != nil {
		return err
	}
	return f.passageStore.Apply(ctx, c)
}

// failStore puts a store that fails on demand in the place of that of a collection.
func failStore(t *testing.T, s *library, collection string) *failing {
	t.Helper()
	ci, err := s.collection("acme", collection)
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{passageStore: ci.passages}
	ci.passages = f
	return f
}

// alone skips what one goroutine does in the race detector's short form, in which a database takes seconds to make.
func alone(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
}
