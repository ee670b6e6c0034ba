package rag

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/rag/faq"
	"github.com/sluice-project/sluice/rag/segment"
)

// FAQType is the media type of a document that is an entry of a FAQ: JSON of a [faq.Entry]. It has one passage, with its questions and its answer. So an entry is
// stored, dated, restricted, replicated and deleted as any document is.
const FAQType = "application/vnd.sluice.faq+json"

// What an entry of a FAQ has at most.
const (
	MaxFAQQuestion = 500  // characters of a question
	MaxFAQSimilar  = 50   // similar questions, and as many negative ones
	MaxFAQAnswer   = 4000 // characters
	maxFAQBytes    = 32 << 10
)

// FAQEntry is an entry of the FAQ of a collection: a document with what it says.
type FAQEntry struct {
	DocumentInfo
	faq.Entry

	Damaged bool // it cannot be read; delete it, and add it again
}

// FAQMatch is what a passage that is an entry of a FAQ answers, and how the question matches it. Of a passage that was not searched for there is no match.
type FAQMatch struct {
	faq.Match

	Answer string
}

// FAQ returns the documents of a collection that are entries of its FAQ, by question, which is their title; [Service.FAQEntry] reads one. A reader gets those that a
// search would find for him now, whoever brought them, since what they say is shown; nil is who sees all. Errors: those of [Service.Documents]; CodeRetrievalFailed.
func (s *Service) FAQ(ctx context.Context, tenant, collection string, reader *Reader) ([]DocumentInfo, error) {
	out, err := s.Documents(ctx, tenant, collection, reader)
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(d DocumentInfo) bool { return d.MIME != FAQType })
	slices.SortFunc(out, func(a, b DocumentInfo) int { return strings.Compare(FAQOrder(a), FAQOrder(b)) })
	if reader == nil || len(out) == 0 {
		return out, nil
	}
	ci, err := s.visible(tenant, collection, reader.Labels)
	if fault.Is(err, fault.CodeCollectionNotFound) { // he may write to it, and find nothing in it
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	may, err := ci.allowed(reader.viewer(), 0)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeRetrievalFailed, collection)
	}
	return slices.DeleteFunc(out, func(d DocumentInfo) bool {
		return !slices.ContainsFunc(may.passages.View().Find(d.ID), func(e segment.Entry) bool { return versionName(e.Version) == d.Version && may.passages.HasAny(e) })
	}), nil
}

// FAQOrder is what entries are ordered by.
func FAQOrder(d DocumentInfo) string { return d.Title + "\x00" + d.ID }

// FAQEntry reads an entry that was listed. One that was replaced or deleted since, or cannot be read, is damaged. Error: of the database.
func (s *Service) FAQEntry(ctx context.Context, d DocumentInfo) (FAQEntry, error) {
	out := FAQEntry{DocumentInfo: d, Damaged: true}
	number, err := versionNumber(d.Version)
	if err != nil {
		return out, err
	}
	v, err := s.store.content(ctx, versionID(d.ID, number))
	if errors.Is(err, errChanged) || errors.Is(err, errDamaged) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if e, err := decodeFAQ(v.FAQ); err == nil && e != nil {
		out.Entry, out.Damaged = *e, false
	}
	return out, nil
}

// FAQDocument returns the document that an entry is to be stored as. With the id of an entry it replaces that one, else the one with the same question, however that
// is written. Errors: CodeInvalidValue says what is wrong with the entry; CodeNotFound for an id that is no entry that the reader sees; CodeConflict where it would get
// the question of another one; CodeRetrievalFailed.
func (s *Service) FAQDocument(ctx context.Context, tenant, collection, id string, e faq.Entry, reader *Reader) (*Document, error) {
	e, err := cleanFAQ(e)
	if err != nil {
		return nil, err
	}
	body, err := encodeFAQ(e)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	out := &Document{Tenant: tenant, Collection: collection, MIME: FAQType, Body: []byte(body)}
	if id != "" {
		d, err := s.Document(ctx, tenant, collection, id, reader)
		if err == nil && d.MIME != FAQType {
			err = fault.New(fault.CodeNotFound, fault.Say("thing.faq_entry"), id).WithParam("id")
		}
		if out.Name = d.Name; err != nil {
			return out, err
		}
	}
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	key := faq.Key(e.Question)
	if id != "" {
		if was, err := s.question(ctx, id); err != nil || faq.Key(was) == key {
			return out, err
		}
	}
	name := s.faqName(ci, key)
	other, taken, err := s.asking(ctx, ci, key, name)
	switch {
	case err != nil:
		return nil, err
	case id != "" && other.ID != "" && other.ID != id:
		return nil, fault.New(fault.CodeConflict, fault.Say("rag.faq_taken")).WithParam("question")
	case id != "":
	case other.ID != "":
		out.Name = other.Name
	case taken:
		out.Name = name + "-" + hex.EncodeToString(seal.Random(4))
	default:
		out.Name = name
	}
	return out, nil
}

// faqName returns the name of an entry that is new with a question of this key. It stands in clear in the tables and tells nothing. An entry keeps its name, whatever
// question it gets later.
func (s *Service) faqName(ci *collectionIndex, key string) string {
	return faqNameHead + hex.EncodeToString(s.keys.MAC("rag/faq/name/v1", ci.id, key)[:faqNameBytes])
}

const (
	faqNameHead  = "faq-"
	faqNameBytes = 8
)

// asking returns the document of the entry whose question, as it was last, has a key; one without an ID for none. taken: the name that a new one would have is another's.
func (s *Service) asking(ctx context.Context, ci *collectionIndex, key, name string) (d documentRow, taken bool, err error) {
	there, err := s.store.named(ctx, ci.id, name)
	if err != nil {
		return d, false, err
	}
	if taken = there != ""; taken {
		if question, err := s.question(ctx, there); err != nil || faq.Key(question) == key {
			return documentRow{ID: there, Name: name}, true, err
		}
	}
	rows, err := s.store.renamable(ctx, ci.id)
	if err != nil {
		return d, taken, err
	}
	view := ci.passages.View()
	for _, row := range rows {
		told, err := readDetails(view.Find(row.Document))
		if err != nil {
			return d, taken, fault.Wrap(err, fault.CodeRetrievalFailed, ci.key.name)
		}
		last, known := told[row.Version]
		question := last.Title
		if !known { // another replica has brought it
			if question, err = s.question(ctx, row.Document); err != nil {
				return d, taken, err
			}
		}
		if faq.Key(question) == key {
			return documentRow{ID: row.Document, Name: row.Name}, taken, nil
		}
	}
	return d, taken, nil
}

// question returns the question of an entry as it was last; "" if it cannot be read.
func (s *Service) question(ctx context.Context, id string) (string, error) {
	d, found, err := s.store.state(ctx, id)
	if err != nil || !found || len(d.versions) == 0 {
		return "", err
	}
	v, err := s.store.content(ctx, d.versions[len(d.versions)-1].ID)
	if errors.Is(err, errDamaged) || errors.Is(err, errChanged) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	e, err := decodeFAQ(v.FAQ)
	if err != nil || e == nil {
		return "", nil //nolint:nilerr // it cannot be read
	}
	return e.Question, nil
}

// cleanFAQ checks an entry, and drops questions that are written like another of it.
func cleanFAQ(e faq.Entry) (faq.Entry, error) {
	bad := func(field string, p fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, field, p).WithParam(field)
	}
	known := map[string]string{}
	clean := func(field, question string) (string, error) {
		question = visible(strings.TrimSpace(question))
		if faq.Key(question) == "" || utf8.RuneCountInString(question) > MaxFAQQuestion || strings.ContainsFunc(question, unicode.IsControl) {
			return "", bad(field, fault.Say("rag.faq_question", MaxFAQQuestion))
		}
		return question, nil
	}
	list := func(field string, in []string) (out []string, err error) {
		if len(in) > MaxFAQSimilar {
			return nil, bad(field, fault.Say("rag.faq_questions", MaxFAQSimilar))
		}
		for _, q := range in {
			if q, err = clean(field, q); err != nil {
				return nil, err
			}
			key := faq.Key(q)
			was, again := known[key]
			if again && (was == "negative") != (field == "negative") {
				return nil, bad(field, fault.Say("rag.faq_both"))
			}
			if !again {
				known[key] = field
				out = append(out, q)
			}
		}
		return out, nil
	}
	var err error
	if e.Question, err = clean("question", e.Question); err != nil {
		return e, err
	}
	known[faq.Key(e.Question)] = "question"
	if e.Similar, err = list("similar", e.Similar); err != nil {
		return e, err
	}
	if e.Negative, err = list("negative", e.Negative); err != nil {
		return e, err
	}
	e.Answer = visible(strings.TrimSpace(strings.ReplaceAll(e.Answer, "\r\n", "\n")))
	if e.Answer == "" || utf8.RuneCountInString(e.Answer) > MaxFAQAnswer ||
		strings.ContainsFunc(e.Answer, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return e, bad("answer", fault.Say("rag.faq_answer", MaxFAQAnswer))
	}
	if raw, err := json.Marshal(e); err != nil || len(raw) > maxFAQBytes {
		return e, bad("similar", fault.Say("rag.faq_size", maxFAQBytes>>10))
	}
	return e, nil
}

// visible leaves out characters without a shape, which could carry what nobody sees, or turn the reading direction around. What is no text becomes none.
func visible(s string) string {
	if !utf8.ValidString(s) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
}

// encodeFAQ writes an entry as it is stored with its text.
func encodeFAQ(e faq.Entry) (string, error) {
	raw, err := json.Marshal(e)
	return string(raw), err
}

// decodeFAQ reads what encodeFAQ writes; nil for a document that is no entry. The error quotes nothing.
func decodeFAQ(stored string) (*faq.Entry, error) {
	if stored == "" {
		return nil, nil //nolint:nilnil // see above
	}
	var e faq.Entry
	if json.Unmarshal([]byte(stored), &e) != nil {
		return nil, errors.New("the stored entry of the FAQ is not ours")
	}
	return &e, nil
}

// readFAQ makes a version of a document that is an entry: one passage with its questions, which a search finds, and its answer. Negative questions are no part of it.
func readFAQ(d Document, n *newVersion, model string) error {
	e, err := strictjson.Decode[faq.Entry](d.Body)
	if err != nil { // the error might quote it
		return fault.New(fault.CodeInvalidDocument, d.Name, fault.Say("rag.faq_json"))
	}
	if e, err = cleanFAQ(e); err != nil {
		return err
	}
	stored, err := encodeFAQ(e)
	if err != nil {
		return fmt.Errorf("encode entry: %w", err)
	}
	sum := sha256.Sum256(d.Body)
	text := strings.Join(e.Asked(), "\n") + "\n\n" + e.Answer
	n.row.MIME, n.row.Title, n.row.Digest, n.row.Embedder = FAQType, e.Question, hex.EncodeToString(sum[:]), model
	n.row.Content, n.row.FAQ = text, stored
	n.chunks = []chunkRow{{End: len(text)}}
	return nil
}

// What of the entries that a search has found is held against its question, the best ones first: so many different ones, and so many bytes of what they say.
const (
	maxFAQMatched = 10
	maxFAQRead    = 2 * maxFAQBytes
)

// matchFAQ holds the entries among passages, which come best first, against the wordings of a question, and returns the one that it most likely asks; nil for none. Entries
// with the same text, of which one stays among what is found, veto for each other. Error: ctx has ended.
func (s *Service) matchFAQ(ctx context.Context, forms []string, passages []Passage) (hit *Passage, err error) {
	var m faq.Matcher
	read := 0
	texts := map[string][]*FAQMatch{}
	for i := range passages {
		p := &passages[i]
		if p.faq == "" {
			continue
		}
		text := spaced(p.Text)
		if read += len(p.faq); len(texts) == maxFAQMatched && texts[text] == nil || read > maxFAQRead && len(texts) > 0 {
			for _, m := range texts[text] { // nobody knows whether this one vetoes
				m.Vetoed = true
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entry, err := s.asked.read(p.DocumentID+p.Version, p.faq)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", segment.ErrDamaged, err)
		}
		if len(texts) == 0 {
			m = s.weights.faq.Matcher(forms)
		}
		p.FAQ = &FAQMatch{Match: m.Match(entry.questions), Answer: entry.answer}
		texts[text] = append(texts[text], p.FAQ)
	}
	for _, same := range texts {
		vetoed := slices.ContainsFunc(same, func(m *FAQMatch) bool { return m.Vetoed })
		for _, m := range same {
			m.Vetoed = vetoed
		}
	}
	for i := range passages {
		if m := passages[i].FAQ; m != nil && !m.Vetoed && (hit == nil || m.Score > hit.FAQ.Score) {
			hit = &passages[i]
		}
	}
	return hit, nil
}

// readEntries keeps what entries ask, which takes longer to read than to compare. The zero value is ready, and safe for concurrent use.
type readEntries struct {
	mu    sync.Mutex
	kept  map[string]readEntry // by what they are read from
	bytes int                  // that those were read from
}

type readEntry struct {
	stored, answer string
	questions      *faq.Questions
}

// maxReadEntries is how many bytes of entries are kept read. That takes at most some forty times the memory.
const maxReadEntries = 1 << 20

// read reads an entry as it is stored.
func (r *readEntries) read(id, stored string) (readEntry, error) {
	r.mu.Lock()
	was, ok := r.kept[id]
	r.mu.Unlock()
	if ok && was.stored == stored {
		return was, nil
	}
	e, err := decodeFAQ(stored)
	if err != nil || e == nil {
		return readEntry{}, err
	}
	out := readEntry{stored, e.Answer, faq.Read(*e)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil || r.bytes+len(stored) > maxReadEntries {
		r.kept, r.bytes = map[string]readEntry{}, 0
	}
	r.bytes += len(stored) // also of one that is replaced: it is forgotten the sooner
	r.kept[id] = out
	return out, nil
}

// catchUpTime is how long a question waits until the entries of its collection are what the tables say. What follows them goes on for those that ask next.
const (
	catchUpTime = 2 * time.Second
	catchUpMost = 5 * catchUpTime
)

// catchUp makes the entries of a collection what the tables say since this was called, and who may see them, so that what any replica has changed holds. Of all who wait one
// goroutine follows. Nobody waits for longer than two seconds, half of the time that he has, or where that has waited for so long already. Error: they are not, or nobody knows.
func (s *Service) catchUp(ctx context.Context, ci *collectionIndex) error {
	wait := catchUpTime
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	return ci.caughtUp.wait(ctx, wait, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), catchUpMost)
		defer cancel()
		err := s.followFAQ(ctx, ci)
		if was := ci.behindFAQ.Swap(err != nil); err != nil && !was {
			s.log.Warn("rag: a collection cannot follow its tables; no entry of its FAQ is told until it can", slog.String("collection", ci.id), slog.Any("error", err))
		}
		return err
	})
}

// turns has one goroutine do a thing again and again, for all who wait for a turn that began after they came. The zero value is ready.
type turns struct {
	mu    sync.Mutex
	next  *turn     // that the goroutine takes next; nil for none
	runs  bool      // it is there
	since time.Time // when it began with its turn
}

type turn struct {
	done chan struct{}
	err  error // once that is closed
}

// wait returns what a turn comes to that begins from now on, or errBehind behind the time, or at once where the turn before it has been at it for longer than catchUpTime.
func (t *turns) wait(ctx context.Context, most time.Duration, do func() error) error {
	t.mu.Lock()
	if t.runs && time.Since(t.since) > catchUpTime {
		t.mu.Unlock()
		return errBehind
	}
	if t.next == nil {
		t.next = &turn{done: make(chan struct{})}
	}
	mine := t.next
	if !t.runs {
		t.runs, t.since = true, time.Now()
		go t.run(do)
	}
	t.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-mine.done:
		return mine.err
	case <-late.C:
		return errBehind
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *turns) run(do func() error) {
	for {
		t.mu.Lock()
		mine := t.next
		t.next, t.since = nil, time.Now()
		t.runs = mine != nil
		t.mu.Unlock()
		if mine == nil {
			return
		}
		mine.err = do()
		close(mine.done)
	}
}

// followFAQ follows who may see what of a collection, its glossary, and its entries. Other documents that come in are left to [Service.followTurn].
func (s *Service) followFAQ(ctx context.Context, ci *collectionIndex) error {
	row, found, err := s.store.collection(ctx, ci.id)
	if err == nil && !found {
		err = noCollection(ci.key.name)
	}
	if err == nil && ci.followed.Load() < row.Revision {
		row, err = s.followOne(ctx, ci)
	}
	if err == nil {
		err = s.readGlossary(ctx, ci, row)
	}
	if err != nil {
		return err
	}
	lacks := ci.lacksFAQ()
	for part := range slices.Chunk(lacks, fillDocuments) {
		if err := s.fetch(ctx, ci, part, true); err != nil {
			return err
		}
	}
	if len(lacks) > 0 && len(ci.lacksFAQ()) > 0 { // one was changed meanwhile
		return errBehind
	}
	return ci.failed()
}

// lacksFAQ returns the documents with a version that is an entry of which the store lacks something.
func (ci *collectionIndex) lacksFAQ() (ids []string) {
	ci.change.Lock()
	defer ci.change.Unlock()
	for id := range ci.entries {
		if ci.pending[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
