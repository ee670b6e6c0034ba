package rag

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/chunk"
	"github.com/sluice-project/sluice/rag/parse"
)

// Document is a file to take in.
type Document struct {
	Tenant, Collection, Name string
	MIME                     string   // text/plain, text/markdown or text/html; empty: by the ending of the name
	Labels                   []string // a principal needs one of these, and one of the collection's; empty: those of the collection
	Body                     []byte
	Known                    []Known // values that are sensitive wherever they stand, such as the names of the parties; at most MaxKnown
}

// Known is a value that is sensitive, as whoever brings a document says. Its class is one of the rules'.
type Known struct {
	Class string `json:"class"`
	Value string `json:"value"`
}

// MaxKnown is the most values that a document may name.
const MaxKnown = 200

// IngestResult says what became of a document.
type IngestResult struct {
	ID, Version, MIME string
	Chunks            int
}

// ParsedDocument is a document that has been read and waits for its vectors.
type ParsedDocument struct {
	// Texts are what vectors are needed of; none of a document that is stored already, as it is.
	Texts []string

	collection *collectionIndex
	document   *indexedDocument
}

// Read reads a document for [Service.Store]. CodeInvalidDocument says why one cannot be read.
func (s *Service) Read(ctx context.Context, d Document) (*ParsedDocument, error) {
	out, err := s.parse(ctx, d)
	if err != nil {
		s.metrics.ingested(err)
	}
	return out, err
}

func (s *Service) parse(ctx context.Context, d Document) (*ParsedDocument, error) {
	ci, err := s.findFresh(ctx, d.Tenant, d.Collection)
	if err != nil {
		return nil, err
	}
	b, err := s.read(d)
	if err != nil {
		return nil, err
	}
	if ci.same(b) != nil {
		if err := s.follow(ctx); err != nil { // another replica may have replaced it
			return nil, err
		}
		if old := ci.same(b); old != nil {
			return &ParsedDocument{collection: ci, document: old}, nil
		}
	}
	texts := make([]string, len(b.chunks))
	for i := range b.chunks {
		texts[i] = b.indexText(i)
	}
	return &ParsedDocument{Texts: texts, collection: ci, document: b}, nil
}

// Store stores a document that has been read, as a new version if the collection has one of that name that differs from it. The next
// search finds the new version and not the old one; if anything fails, the old one and nothing of the new.
func (s *Service) Store(ctx context.Context, d *ParsedDocument, vectors EmbedFunc) (IngestResult, error) {
	out, err := s.place(ctx, d, vectors)
	s.metrics.ingested(err)
	if err == nil {
		s.compact(d.collection)
	}
	return out, err
}

func (s *Service) place(ctx context.Context, d *ParsedDocument, vectors EmbedFunc) (IngestResult, error) {
	b := d.document
	if len(d.Texts) == 0 {
		return b.result(), nil
	}
	got, err := s.embed(ctx, vectors, d.Texts, false) // may take long: before the lock
	if err != nil {
		return IngestResult{}, fault.Wrap(err, fault.CodeRetrievalFailed, d.collection.key.name)
	}
	for i, v := range got {
		b.chunks[i].Vector = encodeVector(v)
	}

	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	b.Collection = d.collection.id
	if err := s.store.saveDocument(ctx, &b.documentRow, b.chunks, s.now()); err != nil {
		return IngestResult{}, err
	}
	if err := d.collection.put(context.WithoutCancel(ctx), b); err != nil { // stored, but not searchable: following the tables tries again
		return IngestResult{}, fault.Wrap(err, fault.CodeRetrievalFailed, d.collection.key.name)
	}
	return b.result(), nil
}

// compact merges the segments of a collection that have become many. It may take seconds in a large one, and nothing waits for it but its
// caller: the document is found already.
func (s *Service) compact(ci *collectionIndex) {
	ci.mu.RLock()
	words := ci.keywords
	ci.mu.RUnlock()
	if err := words.Compact(); err != nil {
		s.log.Error("rag: merging segments failed; searches go on with the old ones", slog.String("collection", ci.id), slog.Any("error", err))
	}
}

func (b *indexedDocument) result() IngestResult {
	return IngestResult{ID: b.ID, Version: versionName(b.Version), MIME: b.MIME, Chunks: len(b.chunks)}
}

// same returns the stored document that equals b in file, labels, text, passages and model, nil if there is none.
func (ci *collectionIndex) same(b *indexedDocument) *indexedDocument {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	for _, old := range ci.docs {
		if old.Name == b.Name && old.Digest == b.Digest && old.MIME == b.MIME && old.Title == b.Title && old.Labels == b.Labels &&
			old.Embedder == b.Embedder && old.documentRow.Known == b.documentRow.Known && old.Content == b.Content && slices.EqualFunc(old.chunks, b.chunks, sameRange) {
			return old
		}
	}
	return nil
}

func sameRange(a, b chunkRow) bool {
	return a.Chunk == b.Chunk && a.Section == b.Section && a.Start == b.Start && a.End == b.End
}

// maxChunks bounds what one document costs: every passage is embedded, and all are written in one transaction.
const maxChunks = 20_000

// read extracts and splits the text.
func (s *Service) read(d Document) (*indexedDocument, error) {
	if strings.TrimSpace(d.Name) == "" || !validName(d.Name, 200, func(r rune) bool { return unicode.IsPrint(r) && r != '#' && r != '@' }) {
		return nil, fault.New(fault.CodeInvalidValue, "name", fault.Say("rag.document_name")).WithParam("name")
	}
	labels, err := cleanLabels(d.Labels)
	if err != nil {
		return nil, err
	}
	known, err := encodeKnown(d.Known)
	if err != nil {
		return nil, err
	}
	if len(d.Body) > s.cfg.MaxBytes {
		return nil, fault.New(fault.CodeInvalidDocument, d.Name, fault.Say("rag.too_large", s.cfg.MaxBytes))
	}
	kind, err := parse.Kind(d.MIME, d.Name)
	if err != nil {
		return nil, unreadable(d.Name, err)
	}
	text, err := parse.Parse(kind, d.Body)
	if err != nil {
		return nil, unreadable(d.Name, err)
	}
	sum := sha256.Sum256(d.Body)
	b := &indexedDocument{
		documentRow: documentRow{
			Name: d.Name, MIME: kind, Title: text.Title, Labels: encodeLabels(labels), Digest: hex.EncodeToString(sum[:]),
			Embedder: s.model.ID, Content: text.Text, Known: known,
		},
		labels: labels, known: d.Known,
	}
	var headings []chunk.Heading
	for _, h := range text.Headings {
		headings = append(headings, chunk.Heading(h))
	}
	for i, c := range chunk.Split(text.Text, headings, s.cfg.chunks()) {
		b.chunks = append(b.chunks, chunkRow{Chunk: i, Section: c.Section, Start: c.Start, End: c.End})
	}
	if len(b.chunks) > maxChunks {
		return nil, fault.New(fault.CodeInvalidDocument, d.Name, fault.Say("rag.too_many_passages", len(b.chunks), maxChunks))
	}
	if len(b.chunks) == 0 {
		return nil, fault.New(fault.CodeInvalidDocument, d.Name, fault.Say("rag.no_text"))
	}
	return b, nil
}

func unreadable(name string, err error) error {
	var e *parse.Error
	if errors.As(err, &e) {
		return fault.New(fault.CodeInvalidDocument, name, e.Reason)
	}
	return err
}
