package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"

	"github.com/emmansun/gmsm/sm3"
)

// Schema is what statements of this release say of themselves.
const Schema = "sluice.result/1"

// Statement is what a signature says. Its JSON form is what is signed: never change it, raise the schema.
type Statement struct {
	Schema  string          `json:"schema"`
	Issuer  string          `json:"issuer"` // the installation, as its audit log is called
	Tenant  string          `json:"tenant"`
	Request string          `json:"request"`
	Receipt string          `json:"receipt,omitempty"` // id of the audit record of the admission; none where the policy of records takes best effort, and it failed
	Time    int64           `json:"time_us"`           // when the answer was complete, in microseconds since 1970 UTC
	Model   Model           `json:"model"`
	Policy  string          `json:"policy"`
	Label   json.RawMessage `json:"label,omitempty"` // the element AIGC of GB 45438, as the answer had it
	Digest  string          `json:"digest"`          // DigestSHA256 or DigestSM3
	Answers []Digests       `json:"answers"`
}

// Model is what answered. It has a name only where no model has said what is signed, but the gateway in its place.
type Model struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Digest    string `json:"digest,omitempty"` // of its files, where the engine says it
	Precision string `json:"precision,omitempty"`
}

// Digests are of one alternative of an answer, in base64url; "" stands for an empty text, and for no calls.
type Digests struct {
	Finish    string `json:"finish"` // why it ended, as engine.Finish says it
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	Refusal   string `json:"refusal,omitempty"`
	Calls     string `json:"calls,omitempty"`
}

// The digests.
const (
	DigestSHA256 = "sha-256"
	DigestSM3    = "sm3"
)

// Call is a tool call.
type Call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Answer is one alternative of an answer, as it is checked.
type Answer struct {
	Text, Reasoning, Refusal string
	Calls                    []Call
}

// newHash returns the hash of a name in a statement.
func newHash(name string) (func() hash.Hash, error) {
	switch name {
	case DigestSHA256:
		return sha256.New, nil
	case DigestSM3:
		return sm3.New, nil
	default:
		return nil, fmt.Errorf("the digest %.20q is unknown to this release", name)
	}
}

// Digester takes in the alternatives of an answer in pieces. Its methods must not be called at once. Make one with [NewDigester].
type Digester struct {
	new  func() hash.Hash
	name string
	of   []parts
}

// parts are the digests of one alternative in progress; nil until there is something.
type parts struct {
	text, reasoning, refusal hash.Hash
	calls                    []*call
}

// call is a call in progress.
type call struct {
	name      string
	arguments []byte
}

// NewDigester returns a digester of answers with so many alternatives for an algorithm.
func NewDigester(a Algorithm, alternatives int) *Digester {
	name := a.Digest()
	of, _ := newHash(name) // the names of algorithms are known
	return &Digester{new: of, name: name, of: make([]parts, alternatives)}
}

// Text adds a piece to the text of an alternative.
func (d *Digester) Text(alternative int, piece string) { d.add(&d.of[alternative].text, piece) }

// Reasoning adds a piece to its reasoning.
func (d *Digester) Reasoning(alternative int, piece string) {
	d.add(&d.of[alternative].reasoning, piece)
}

// Refusal adds a piece to its refusal.
func (d *Digester) Refusal(alternative int, piece string) { d.add(&d.of[alternative].refusal, piece) }

func (d *Digester) add(h *hash.Hash, piece string) {
	if piece == "" {
		return
	}
	if *h == nil {
		*h = d.new()
	}
	_, _ = (*h).Write([]byte(piece))
}

// Call adds to the call with this index, which is one that there is or the next: a name begins it, and arguments come in pieces.
func (d *Digester) Call(alternative, index int, name, arguments string) {
	p := &d.of[alternative]
	if index == len(p.calls) {
		p.calls = append(p.calls, &call{name: name})
	}
	p.calls[index].arguments = append(p.calls[index].arguments, arguments...)
}

// Digests returns those of an alternative that ended for this reason.
func (d *Digester) Digests(alternative int, finish string) Digests {
	p := d.of[alternative]
	return Digests{Finish: finish, Text: sum(p.text), Reasoning: sum(p.reasoning), Refusal: sum(p.refusal), Calls: d.sumCalls(p.calls)}
}

func sum(h hash.Hash) string {
	if h == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// sumCalls digests calls as a JSON array of their names and arguments, in this order, without space and without escapes that JSON does not need. Arguments that are
// JSON lose the spaces between their tokens before: dialects that have them as an object, not as a text, do not keep those.
func (d *Digester) sumCalls(calls []*call) string {
	if len(calls) == 0 {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	compact := make([]Call, len(calls))
	for i, c := range calls {
		var args bytes.Buffer
		if compact[i] = (Call{c.name, string(c.arguments)}); json.Compact(&args, c.arguments) == nil {
			compact[i].Arguments = args.String()
		}
	}
	_ = e.Encode(compact) // strings always marshal
	h := d.new()
	_, _ = h.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return sum(h)
}

// digestsOf returns the digests of a whole alternative, but for why it ended.
func digestsOf(a Algorithm, answer Answer) Digests {
	d := NewDigester(a, 1)
	d.Text(0, answer.Text)
	d.Reasoning(0, answer.Reasoning)
	d.Refusal(0, answer.Refusal)
	for i, c := range answer.Calls {
		d.Call(0, i, c.Name, c.Arguments)
	}
	return d.Digests(0, "")
}
