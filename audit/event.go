package audit

import (
	"encoding/hex"
	"hash"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/keyring"
)

type (
	// Event is one audit record; package record says what it and its parts mean.
	Event = record.Event
	// Actor is who acted, and for whom.
	Actor = record.Actor
	// Model is what answered.
	Model = record.Model
	// Finding counts what the policy found.
	Finding = record.Finding
	// Usage is what the request consumed.
	Usage = record.Usage
	// Latency says where the time went.
	Latency = record.Latency
	// Steps says how long each step took.
	Steps = record.Steps
	// Content is what was kept of a prompt or an answer.
	Content = record.Content
	// Stage is the moment of a request that a record describes.
	Stage = record.Stage
)

// Keys of details; package record says of which.
const (
	LabelAgreement = record.LabelAgreement
	VisibleLabel   = record.VisibleLabel
)

// The stages, which package record defines.
const (
	StageAdmitted = record.StageAdmitted
	StageOutcome  = record.StageOutcome
	StageAction   = record.StageAction
)

type (
	// Sink writes what belongs to events in the transaction that stores them; package store says what its errors mean.
	Sink = store.Sink
	// Lease is for work that one replica or command at a time does; package store says how it is taken.
	Lease = store.Lease
)

// Receipt says where a record was written. ID is the handle for [Log.Get] and [Log.Prove].
type Receipt struct {
	ID     string
	Writer string // "" for a record that could not be written and need not be, see [ModeBestEffort]
	Seq    uint64
}

// Kept reports whether there is a record.
func (r Receipt) Kept() bool { return r.Writer != "" }

// Digest returns the keyed digest of a prompt: equal texts of one tenant have equal digests, and nobody without the master key can test a
// guess. Answers have had it until [AnswerDigest] came: a digest that does not begin with "v2:" is one of these.
func Digest(keys *keyring.Ring, tenant, text string) string {
	return hex.EncodeToString(keys.MAC("audit/content/v1", tenant, text))
}

// DigestSpelt is Digest of a text that spell says in pieces, twice.
func DigestSpelt(keys *keyring.Ring, tenant string, spell func(piece func(string))) string {
	return hex.EncodeToString(keys.MACStream("audit/content/v1", spell, tenant))
}

// AnswerDigest is the keyed digest of an answer, which comes in pieces: it is not held for its digest. It says what [Digest] does, and begins
// with "v2:". It belongs to one goroutine.
type AnswerDigest struct {
	mac   hash.Hash
	piece []byte // the last one, so that no piece needs room of its own
}

// NewAnswerDigest returns the digest of an answer that has not begun.
func NewAnswerDigest(keys *keyring.Ring, tenant string) *AnswerDigest {
	return &AnswerDigest{mac: keys.Begin("audit/answer/v2", tenant)}
}

// WriteString implements io.StringWriter. It never fails.
func (d *AnswerDigest) WriteString(s string) (int, error) {
	d.piece = append(d.piece[:0], s...)
	return d.mac.Write(d.piece)
}

// String returns the digest of what was written until now.
func (d *AnswerDigest) String() string { return "v2:" + hex.EncodeToString(d.mac.Sum(nil)) }

// Subject returns the keyed digest that stands for a person in records and in the keys of kept content: one person of one tenant always has
// the same, in another tenant another, and nobody without the master key can test a name. The digest of nobody ("") is "".
func Subject(keys *keyring.Ring, tenant, who string) string {
	if who == "" {
		return ""
	}
	return hex.EncodeToString(keys.MAC("audit/subject/v1", tenant, who))
}
