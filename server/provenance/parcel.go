package provenance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Evidence judges a question and writes the evidence as a parcel, whose forms package [evidence] has: what was asked about, the verdict as it is and as a document in both languages, the
// proof of each record of the requests, the signature, and the public keys. sluice-verify checks it without this installation. by is who asks, name what the
// parcel is called. Errors: those of Judge; CodeConflict while a record is not sealed, with the time to wait.
func (s *Service) Evidence(ctx context.Context, w io.Writer, q Question, by, name string) (Verdict, error) {
	v, err := s.Judge(ctx, q)
	if err != nil {
		return Verdict{}, err
	}
	p := &parcel{ParcelWriter: evidence.NewParcelWriter(w, evidence.ProvenanceKind, map[string]string{
		"tenant": v.Tenant, "by": by, "conclusion": string(v.Conclusion), "subject_sha256": v.Subject.SHA256,
	}, v.Time)}
	p.add(v.subjectName(), q.Data)
	verdict, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return Verdict{}, fmt.Errorf("write the evidence: %w", err)
	}
	p.add(evidence.ProvenanceVerdict, verdict)
	for l, suffix := range map[message.Lang]string{message.English: "en", message.Chinese: "zh"} {
		p.create("verdict-"+suffix+".pdf", func(w io.Writer) error { return report.Write(w, report.PDF, v.Document(l, name)) })
	}
	if err := s.addProofs(ctx, p, v); err != nil {
		return Verdict{}, err
	}
	if err := s.addSignature(p, q); err != nil {
		return Verdict{}, err
	}
	if p.err == nil {
		_, _, p.err = p.Close(s.deps.Origin, s.deps.Key, s.deps.Sign)
	}
	if p.err != nil {
		return Verdict{}, fmt.Errorf("write the evidence: %w", p.err)
	}
	return v, nil
}

// subjectName is what the subject is called in a parcel.
func (v Verdict) subjectName() string {
	ext := strings.ToLower(path.Ext(v.Subject.Name))
	for _, r := range strings.TrimPrefix(ext, ".") {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			ext = ""
		}
	}
	if ext == "" || ext == "." || len(ext) > 8 {
		ext = ".txt"
		if v.Subject.Name != "" {
			ext = ".bin"
		}
	}
	return evidence.ProvenanceSubject + ext
}

// parcel writes files until one fails.
type parcel struct {
	*evidence.ParcelWriter
	err error
}

func (p *parcel) add(name string, data []byte) {
	p.create(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func (p *parcel) create(name string, write func(w io.Writer) error) {
	if p.err != nil {
		return
	}
	var w io.Writer
	if w, p.err = p.Create(name); p.err == nil {
		p.err = write(w)
	}
}

// addProofs adds the proof of each record.
func (s *Service) addProofs(ctx context.Context, p *parcel, v Verdict) error {
	for _, r := range v.Requests {
		for i, id := range r.Records {
			proof, err := s.deps.Prove(ctx, id)
			if err != nil {
				var f *fault.Error
				if errors.As(err, &f) {
					return err
				}
				return fmt.Errorf("prove a record: %w", err)
			}
			raw, err := json.Marshal(proof)
			if err != nil {
				return fmt.Errorf("prove a record: %w", err)
			}
			p.add(fmt.Sprintf("%s%s-%d.json", evidence.ProvenanceProofs, safe(r.ID), i+1), raw)
		}
	}
	return nil
}

// safe is a request id, which callers may choose, as a part of a file name.
func safe(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, id)
}

// addSignature adds the signature that was asked about, and the keys that check it.
func (s *Service) addSignature(p *parcel, q Question) error {
	keys, err := s.deps.Keys(q.Tenant)
	if err != nil {
		return fmt.Errorf("read the keys of signed results: %w", err)
	}
	set, err := signature.MarshalKeys(keys)
	if err != nil {
		return fmt.Errorf("write the evidence: %w", err)
	}
	p.add(evidence.ProvenanceKeys, set)
	if given := strings.TrimSpace(q.Signature); given != "" {
		p.add(evidence.ProvenanceSignature, []byte(given))
	}
	return nil
}
