package provenance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
)

// MaxText bounds the text of a question, in bytes; MaxFile bounds a file.
const (
	MaxText = 1 << 20
	MaxFile = 8 << 20
)

// Question is what is asked about.
type Question struct {
	Tenant string
	// Name is what the file is called, "" for a text; its kind follows from its content.
	Name string
	Data []byte
	// Signature is one that came beside the text, "" if there is none. A body of an answer has its own.
	Signature string
}

// Content is what was read of a file.
type Content struct {
	Kind   string // such as docx
	Text   string // that people read, without visible labels; "" if this release cannot read it
	Labels []label.Label
	// Broken says that a label is there and cannot be read.
	Broken bool
	// Bindable says that files of the kind may have content credentials (C2PA), and Credentials is what a check of them found; nil where there are none.
	Bindable    bool
	Credentials *c2pa.Report
}

// Watermark is what the detector found in a text.
type Watermark struct {
	Result Result // Confirmed, Indicated, Absent or CannotSay
	Reason Reason
	Log10P float64 // see [Mark]; 0 for CannotSay
	Tokens int     // counted
	Least  int     // tokens that are needed
	Key    string  // id of the key of Confirmed and Indicated
	// Passage is where it is strongest; nil where that is not told.
	Passage *Passage
}

// Trace is what the registry found of a text.
type Trace struct {
	Result  Result // that of the best match; without one Absent or CannotSay
	Reason  Reason
	Since   time.Time // when the first answer of the tenant was registered; zero for none
	Matches []Match   // best first
	More    bool      // there are others
	Common  float64   // part of the text whose wording so many answers have that they are not named
	Letters int       // letters and numerals of the text, which are what is compared
}

// Match is one answer that a text may come from.
type Match struct {
	Result   Result // Confirmed: it is this very text; Partial: it has passages of them; Indicated: so little that it may be chance
	Request  string
	Share    float64 // estimate of which part of the text stands in this answer; of what is not common unless it is Confirmed, or all is common
	Verified int     // letters and numerals of the text that do, letter for letter
}

// Deps are the parts that marks are checked by. Watermark and Registry may be nil: then these marks cannot be judged.
type Deps struct {
	Issuer string
	// Labels tells own labels of a tenant from others.
	Labels interface {
		Verify(x label.Label, tenant string) error
		Propagated(x label.Label, tenant string) bool
		// Claims reports whether a label says of itself that it was made here: it names this producer and has a code like ours.
		Claims(x label.Label) bool
	}
	// Read reads a file; its errors are faults.
	Read func(name string, data []byte) (Content, error)
	// Keys returns the public keys of a tenant's signed results.
	Keys      func(tenant string) ([]signature.Key, error)
	Watermark func(ctx context.Context, tenant, text string) (Watermark, error)
	Registry  func(ctx context.Context, tenant, text string) (Trace, error)
	// Records returns the records of a request in a tenant, oldest first.
	Records func(ctx context.Context, tenant, request string) ([]Record, error)
	// Prove returns the proof of a record.
	Prove func(ctx context.Context, id string) (evidence.ProofFile, error)
	// Sign signs a parcel in the name of the log, whose keys are Key.
	Sign   func(text string) (string, error)
	Origin string
	Key    string
	Now    func() time.Time
}

// Record is one of the audit log.
type Record struct {
	ID, Model, Version string
	Time               time.Time
}

// Service gives verdicts. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns a service.
func New(deps Deps) (*Service, error) {
	if deps.Labels == nil || deps.Read == nil || deps.Keys == nil || deps.Records == nil || deps.Prove == nil || deps.Sign == nil {
		return nil, errors.New("provenance: a part is missing")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Service{deps}, nil
}

// subject is a question, read.
type subject struct {
	Question
	content Content
	body    *signature.Body // of an answer, if it is one with a signature
}

// Judge looks at all marks. Errors: CodeInvalidValue for a question without a text, or that is too large; those of the parts.
func (s *Service) Judge(ctx context.Context, q Question) (Verdict, error) {
	x, err := s.read(q)
	if err != nil {
		return Verdict{}, err
	}
	sum := sha256.Sum256(q.Data)
	v := Verdict{
		Schema: Schema, Issuer: s.deps.Issuer, Tenant: q.Tenant, Time: s.deps.Now().UTC().Truncate(time.Microsecond),
		Subject: Subject{Name: q.Name, Kind: x.content.Kind, Bytes: len(q.Data), SHA256: hex.EncodeToString(sum[:]), Characters: utf8.RuneCountInString(x.content.Text)},
	}
	signed, err := s.signature(x)
	if err != nil {
		return Verdict{}, err
	}
	watermark, err := s.watermark(ctx, x)
	if err != nil {
		return Verdict{}, err
	}
	traced, err := s.registry(ctx, x)
	if err != nil {
		return Verdict{}, err
	}
	v.Marks = Marks{Label: s.label(x), Credentials: s.credentials(x), Signature: signed, Watermark: watermark, Registry: traced}
	v.conclude()
	if err := s.addRecords(ctx, &v); err != nil {
		return Verdict{}, err
	}
	return v, nil
}

// read takes a question apart.
func (s *Service) read(q Question) (subject, error) {
	most, param := MaxText, "text"
	if q.Name != "" {
		most, param = MaxFile, "file"
	}
	if len(q.Data) > most {
		return subject{}, fault.New(fault.CodeInvalidValue, param, fault.Say("provenance.too_large", most>>20)).WithParam(param)
	}
	x := subject{Question: q}
	if body, ok := signature.ParseBody(q.Data); ok {
		x.body = &body
	}
	if q.Name == "" && x.body == nil {
		x.content = Content{Kind: "text", Text: string(q.Data)}
	} else {
		var err error
		if x.content, err = s.deps.Read(q.Name, q.Data); err != nil {
			return subject{}, err
		}
	}
	if x.body != nil {
		x.content.Text = strings.Join(x.body.Texts(), "\n")
	}
	if q.Name == "" && (!utf8.ValidString(x.content.Text) || strings.TrimSpace(x.content.Text) == "") {
		return subject{}, fault.New(fault.CodeInvalidValue, param, fault.Say("provenance.no_text")).WithParam(param)
	}
	return x, nil
}

// addRecords names the records of the requests that a verdict leads to.
func (s *Service) addRecords(ctx context.Context, v *Verdict) error {
	for i := range v.Requests {
		r := &v.Requests[i]
		records, err := s.deps.Records(ctx, v.Tenant, r.ID)
		if err != nil {
			return fmt.Errorf("look for the records of a request: %w", err)
		}
		for _, one := range records {
			r.Records = append(r.Records, one.ID)
			if one.Model != "" { // the outcome says who answered in the end
				r.Model, r.Version = one.Model, one.Version
			}
			if r.Time.IsZero() || one.Time.Before(r.Time) {
				r.Time = one.Time.UTC()
			}
		}
	}
	return nil
}
