package rag

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
// is written. Errors: CodeInvalidValue says what is wrong with the entry; CodeNotFound for an id that is no entry that the reader sees.
func (s *Service) FAQDocument(ctx context.Context, tenant, collection, id string, e faq.Entry, reader *Reader) (*Document, error) {
	e, err := cleanFAQ(e)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	out := &Document{Tenant: tenant, Collection: collection, MIME: FAQType, Body: body}
	if id != "" {
		d, err := s.Document(ctx, tenant, collection, id, reader)
		if err == nil && d.MIME != FAQType {
			err = fault.New(fault.CodeNotFound, fault.Say("thing.faq_entry"), id).WithParam("id")
		}
		out.Name = d.Name
		return out, err
	}
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	// The name stands in clear in the tables and tells nothing. An entry that had the question once, and has another now, keeps its name.
	out.Name = "faq-" + hex.EncodeToString(s.keys.MAC("rag/faq/name/v1", ci.id, faq.Key(e.Question))[:8])
	there, err := s.store.named(ctx, ci.id, out.Name)
	if err != nil || there == "" {
		return out, err
	}
	if question, err := s.question(ctx, there); err != nil || faq.Key(question) != faq.Key(e.Question) {
		out.Name += "-" + hex.EncodeToString(seal.Random(4))
		return out, err
	}
	return out, nil
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

// maxFAQMatched is how many entries of what a search has found are held against its question, the best ones.
const maxFAQMatched = 10

// matchFAQ holds the entries among passages, which come best first, against the wordings of a question, and returns the one that it most likely asks; nil for none.
func matchFAQ(model *faq.Model, forms []string, passages []Passage) (hit *Passage) {
	var m faq.Matcher
	n := 0
	for i := range passages {
		p := &passages[i]
		if p.entry == nil || n == maxFAQMatched {
			continue
		}
		if n == 0 {
			m = model.Matcher(forms)
		}
		n++
		p.FAQ = &FAQMatch{Match: m.Match(*p.entry), Answer: p.entry.Answer}
		if !p.FAQ.Vetoed && (hit == nil || p.FAQ.Score > hit.FAQ.Score) {
			hit = p
		}
	}
	return hit
}

// catchUpTime is how long a question waits until its collection is what the tables say.
const catchUpTime = 2 * time.Second

// catchUp makes a collection what the tables say now, so that an entry that any replica has changed holds. Error: it is not, or nobody knows.
func (s *Service) catchUp(ctx context.Context, ci *collectionIndex) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	row, found, err := s.store.collection(ctx, ci.id)
	if err == nil && !found {
		err = noCollection(ci.key.name)
	}
	if err != nil {
		return err
	}
	for range 3 { // what is pending may change while it is read
		if ci.followed.Load() >= row.Revision && ci.passages.View().Revision() >= row.Revision {
			return s.readGlossary(ctx, ci, row)
		}
		if row, err = s.followOne(ctx, ci); err != nil {
			return err
		}
		if err = s.followHeavy(ctx, ci, row.Revision); err != nil && !errors.Is(err, errChanged) {
			return err
		}
	}
	return errBehind
}
