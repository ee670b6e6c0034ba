package rag

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/chunk"
	"github.com/sluice-project/sluice/rag/parse"
)

// Document is a file to take in.
type Document struct {
	Tenant, Collection, Name string
	MIME                     string // one of those of parse.Kinds, perhaps with a character set; empty: by the ending of the name, and the content
	// Labels: a principal needs one of these, and one of the collection's; empty: those of the collection. nil: as they are.
	Labels []string
	// Rule says who else may see it; nil: as it is. Parts may name sections by their headings.
	Rule *Rule
	// MayChangeAccess allows to change labels and rule of a document that is there. Whoever may only write documents cannot open one to others.
	MayChangeAccess bool
	// By is who brings it. Without MayChangeAccess he brings no version of a document that lists do not show him.
	By Reader
	// ValidFrom is when the version comes into effect; zero: now. Until then the last one is.
	ValidFrom time.Time
	// ValidUntil is when it ends; zero: when the next one begins, of those that are dated later.
	ValidUntil time.Time
	Body       []byte
	Known      []Known // values that are sensitive wherever they stand, such as the names of the parties; at most MaxKnown
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
	Access            AccessChange // zero if that is as it was
	// Left says what the file has and its passages have not, such as hidden sheets and pictures.
	Left []fault.Phrase
}

// ParsedDocument is a document that has been read and waits for its vectors.
type ParsedDocument struct {
	// Texts are what vectors are needed of; none of a document that is stored already, as it is.
	Texts []string

	collection *collectionIndex
	stored     *IngestResult // of what is there already
	version    newVersion
	left       []fault.Phrase
}

// Read reads a document for [Service.Store]. Errors: CodeInvalidDocument says why one cannot be read; CodeDocumentsBusy where others are being read.
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
	n, left, err := s.read(ctx, d)
	if err != nil {
		return nil, err
	}
	n.row.Collection, n.collection, n.by = ci.id, ci.labels, d.By
	n.by.Writes = true
	b, err := s.named(ctx, ci, n.name)
	if err != nil {
		return nil, err
	}
	if b != nil && !d.MayChangeAccess {
		shown, err := s.lister(ci, &n.by).shows(b)
		if err != nil {
			return nil, fault.Wrap(err, fault.CodeRetrievalFailed, ci.key.name)
		}
		if !shown {
			return nil, nameTaken()
		}
	}
	out, same, err := s.same(ctx, ci, b, n)
	if err != nil {
		return nil, err
	}
	if same {
		out.Left = left
		return &ParsedDocument{collection: ci, stored: &out, version: n}, nil
	}
	v := &indexedVersion{versionRow: n.row, chunks: n.chunks}
	texts := make([]string, len(n.chunks))
	for i := range n.chunks {
		texts[i] = v.indexText(i)
	}
	return &ParsedDocument{Texts: texts, collection: ci, version: n, left: left}, nil
}

// Store stores a document that has been read, as a new version if the collection has one of that name that differs from it. The next
// search finds the version that is in effect, and none that it replaces; if anything fails, the old one and nothing of the new. Errors: CodeNotAllowed for
// labels or a rule that only who may change access can give; CodeConflict where the document has lost a part that its rule restricts.
func (s *Service) Store(ctx context.Context, d *ParsedDocument, vectors EmbedFunc) (IngestResult, error) {
	out, err := s.storeVersion(ctx, d, vectors)
	s.metrics.ingested(err)
	return out, err
}

func (s *Service) storeVersion(ctx context.Context, d *ParsedDocument, vectors EmbedFunc) (IngestResult, error) {
	ci, n := d.collection, &d.version
	if d.stored != nil {
		return *d.stored, nil
	}
	got, err := s.embed(ctx, vectors, d.Texts, false)
	if err != nil {
		return IngestResult{}, fault.Wrap(err, fault.CodeRetrievalFailed, ci.key.name)
	}
	for i, v := range got {
		n.chunks[i].Vector = encodeVector(v)
	}
	v := &indexedVersion{versionRow: n.row, chunks: n.chunks}
	made := content{version: v}
	made.ready = made.unprepared(s.model)
	ci = s.current(ci)
	if err := ci.passages.IndexWords(ctx, made.ready); err != nil { // what cannot be indexed is not stored
		return IngestResult{}, fault.Wrap(err, fault.CodeRetrievalFailed, ci.key.name)
	}
	state, err := s.store.saveVersion(ctx, n, s.now())
	if err != nil { // perhaps it is stored all the same: then following the tables finds it
		return IngestResult{}, err
	}
	v.versionRow = n.row
	for told := false; !told; {
		ci = s.current(ci)
		err := s.tellVersion(ctx, ci, state, map[string]content{v.ID: made})
		if err != nil && s.current(ci) == ci {
			return IngestResult{}, fault.Wrap(err, fault.CodeRetrievalFailed, ci.key.name)
		}
		told = err == nil // else it was opened again meanwhile
	}
	if len(ci.settings.Load().surplus(state.versions, s.now())) > 0 {
		s.pruneDocument(context.WithoutCancel(ctx), ci, v.Document)
	}
	return IngestResult{ID: v.Document, Version: versionName(v.Version), MIME: v.MIME, Chunks: len(v.chunks), Access: n.access, Left: d.left}, nil
}

// named returns a document by its name as the tables have it; nil if there is none, or its labels cannot be read.
func (s *Service) named(ctx context.Context, ci *collectionIndex, name string) (*indexedDocument, error) {
	for range 3 { // while others change it
		id, err := s.store.named(ctx, ci.id, name)
		if err != nil || id == "" {
			return nil, err
		}
		b, err := s.readDocument(ctx, ci, id, false)
		if !errors.Is(err, errChanged) {
			return b, err
		}
	}
	return nil, dbError("read document", errChanged)
}

// same returns the stored document if its last version equals a new one in file, text, passages, dates and model, and nothing else is asked for with it. b is
// the document of that name, nil for none.
func (s *Service) same(ctx context.Context, ci *collectionIndex, b *indexedDocument, n newVersion) (out IngestResult, same bool, err error) {
	if b == nil || len(b.rows) == 0 || n.labels != "" && n.labels != b.Labels { // what cannot be read is stored again, which mends it
		return out, false, nil
	}
	now, last := ci.time(), b.last()
	if n.from == 0 && !(datedVersion{from: last.ValidFrom, until: last.ValidUntil}).in(now) { // what is published now is in effect now
		return out, false, nil
	}
	if until0(last.ValidUntil) <= now || n.from != 0 && n.from != last.ValidFrom || n.until != 0 && n.until != last.ValidUntil {
		return out, false, nil
	}
	old, err := s.store.content(ctx, last.ID)
	if errors.Is(err, errDamaged) || errors.Is(err, errChanged) {
		return out, false, nil
	}
	if err != nil {
		return out, false, err
	}
	if n.rule != nil {
		if same, err = s.sameRule(ctx, b, old, *n.rule); err != nil || !same {
			return out, false, err
		}
	}
	out = IngestResult{ID: b.ID, Version: versionName(last.Version), MIME: old.MIME, Chunks: old.Chunks}
	return out, old.Digest == n.row.Digest && old.MIME == n.row.MIME && old.Title == n.row.Title && old.Embedder == n.row.Embedder && old.Known == n.row.Known && old.FAQ == n.row.FAQ &&
		old.Content == n.row.Content && slices.EqualFunc(old.chunks, n.chunks, sameRange), nil
}

// sameRule reports whether a document has a rule already, held to its last version.
func (s *Service) sameRule(ctx context.Context, b *indexedDocument, last *indexedVersion, rule Rule) (bool, error) {
	versions := []*indexedVersion{last}
	if len(rule.Parts) > 0 {
		var err error
		if versions, err = s.store.readable(s.store.db.WithContext(ctx), b.rows); err != nil {
			return false, err
		}
	}
	resolved, err := s.store.rules.resolve(b.ID, rule, b.rule, versions)
	if err == nil {
		resolved, err = s.store.rules.carry(b.ID, resolved, b.rule, last)
	}
	if err != nil {
		return false, nil //nolint:nilerr // storing it says why
	}
	stored, err := s.store.rules.encode(b.ID, b.Labels, resolved)
	return err == nil && stored == b.documentRow.Rule, nil
}

func sameRange(a, b chunkRow) bool {
	return a.Chunk == b.Chunk && a.Section == b.Section && a.Place == b.Place && a.Start == b.Start && a.End == b.End
}

// maxChunks bounds what one document costs: every passage is embedded, and all are written in one transaction.
const maxChunks = 20_000

// read extracts and splits the text.
func (s *Service) read(ctx context.Context, d Document) (n newVersion, left []fault.Phrase, err error) {
	if strings.TrimSpace(d.Name) == "" || !validName(d.Name, 200, func(r rune) bool { return unicode.IsPrint(r) && r != '#' && r != '@' }) {
		return n, nil, fault.New(fault.CodeInvalidValue, "name", fault.Say("rag.document_name")).WithParam("name")
	}
	n.name, n.mayChangeAccess = d.Name, d.MayChangeAccess
	if d.Labels != nil {
		labels, err := cleanLabels(d.Labels)
		if err != nil {
			return n, nil, err
		}
		n.labels = encodeLabels(labels)
	}
	if d.Rule != nil {
		rule, err := cleanRule(*d.Rule)
		if err != nil {
			return n, nil, err
		}
		n.rule = &rule
	}
	if n.from, n.until, err = period(d.ValidFrom, d.ValidUntil); err != nil {
		return n, nil, err
	}
	known, err := encodeKnown(d.Known)
	if err != nil {
		return n, nil, err
	}
	if len(d.Body) > s.cfg.MaxBytes {
		return n, nil, fault.New(fault.CodeInvalidDocument, d.Name, fault.Say("rag.too_large", s.cfg.MaxBytes))
	}
	n.row.Known = known
	if kind, _, err := mime.ParseMediaType(d.MIME); err == nil && kind == FAQType {
		return n, nil, readFAQ(d, &n, s.model.ID)
	}
	text, err := s.reader.Read(ctx, parse.File{Owner: d.Tenant, Name: d.Name, MIME: d.MIME, Body: d.Body})
	if err != nil {
		return n, nil, unreadable(d.Name, err)
	}
	sum := sha256.Sum256(d.Body)
	n.row = versionRow{MIME: text.Kind, Title: text.Title, Digest: hex.EncodeToString(sum[:]), Embedder: s.model.ID, Content: text.Text, Known: known}
	left = text.Left
	n.chunks = passages(text, s.cfg.chunks())
	if len(n.chunks) > maxChunks {
		return n, nil, fault.New(fault.CodeInvalidDocument, d.Name, fault.Say("rag.too_many_passages", len(n.chunks), maxChunks))
	}
	if len(n.chunks) == 0 {
		return n, nil, fault.New(fault.CodeInvalidDocument, d.Name, fault.Say("rag.no_text"))
	}
	return n, left, nil
}

// passages splits a text. Sections are what headings name, and nothing else: passages end where they do, so that a rule can restrict one. Pages are
// places, which passages run across and the next version numbers otherwise; they are shown, and no rule can name them.
func passages(text parse.Document, cfg chunk.Config) []chunkRow {
	var headings []chunk.Heading
	var whole []chunk.Range
	for _, b := range text.Blocks {
		switch b.Kind {
		case parse.Heading:
			headings = append(headings, chunk.Heading{Start: b.Start, End: b.End, Level: b.Level})
		case parse.Table:
			whole = append(whole, chunk.Range{Start: b.Start, End: b.End})
		case parse.Paragraph, parse.Item, parse.Code:
		}
	}
	var out []chunkRow
	at := 0
	for i, c := range chunk.Split(text.Text, headings, whole, cfg) {
		for at < len(text.Blocks)-1 && text.Blocks[at].End <= c.Start {
			at++
		}
		row := chunkRow{Chunk: i, Section: c.Section, Start: c.Start, End: c.End}
		if text.Kind == parse.PDF {
			last := at
			for last < len(text.Blocks)-1 && text.Blocks[last+1].Start < c.End {
				last++
			}
			row.Place = pages(text.Blocks[at].Page, text.Blocks[last].Page)
		}
		out = append(out, row)
	}
	return out
}

// pages names the pages that a passage is on, "" if they are not known.
func pages(first, last int) string {
	switch {
	case first == 0:
		return ""
	case last <= first:
		return "p. " + strconv.Itoa(first)
	}
	return "p. " + strconv.Itoa(first) + "–" + strconv.Itoa(last)
}

// period reads when something is in effect; zero times are 0. Error: CodeInvalidValue for an end that does not lie behind the beginning.
func period(from, until time.Time) (f, u int64, err error) {
	if !from.IsZero() {
		f = from.UnixMicro()
	}
	if !until.IsZero() {
		u = until.UnixMicro()
	}
	for field, at := range map[string]int64{"valid_from": f, "valid_until": u} {
		if at < 0 || at > lastTime {
			return 0, 0, fault.New(fault.CodeInvalidValue, field, fault.Say("rag.validity_range")).WithParam(field)
		}
	}
	if u != 0 && f != 0 && u <= f {
		return 0, 0, fault.New(fault.CodeInvalidValue, "valid_until", fault.Say("rag.validity_order")).WithParam("valid_until")
	}
	return f, u, nil
}

// lastTime is the end of the year 9999.
const lastTime = 253402300799999999

// busyAgain is when a document that found no place is brought again: others are done by then, or half of the way.
const busyAgain = 15 * time.Second

// unreadable is why a document cannot be read: for what is wrong with it, or because others are being read.
func unreadable(name string, err error) error {
	var e *parse.Error
	switch {
	case errors.As(err, &e):
		return fault.New(fault.CodeInvalidDocument, name, e.Reason)
	case errors.Is(err, parse.ErrBusy):
		return fault.Wrap(err, fault.CodeDocumentsBusy).WithRetryAfter(busyAgain)
	}
	return err
}
