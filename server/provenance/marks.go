package provenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/signature"
)

// label judges the label of a file. A file has one: where several say different things, none counts.
func (s *Service) label(x subject) Mark {
	switch {
	case x.content.Broken:
		return Mark{Result: CannotSay, Reason: LabelBroken, Confidence: None}
	case len(x.content.Labels) > 0:
		m := s.labelMark(x.content.Labels[0], x.Tenant)
		for _, l := range x.content.Labels[1:] {
			if l != x.content.Labels[0] {
				m = Mark{Result: CannotSay, Reason: LabelBroken, Confidence: None}
			}
		}
		return m
	case x.Name == "" && x.body == nil:
		return Mark{Result: CannotSay, Reason: LabelBareText, Confidence: None}
	default:
		return Mark{Result: Absent, Reason: LabelNone, Confidence: None}
	}
}

func (s *Service) labelMark(l label.Label, tenant string) Mark {
	m := Mark{Producer: l.ContentProducer}
	switch {
	case s.deps.Labels.Verify(l, tenant) == nil:
		m.Result, m.Reason, m.Confidence, m.Requests = Confirmed, LabelOwn, BySecretKey, []string{l.ProduceID}
	case s.deps.Labels.Claims(l): // other installations have the same name, and other tenants
		m.Result, m.Reason, m.Confidence = Foreign, LabelUnproven, Declared
	default:
		m.Result, m.Reason, m.Confidence = Foreign, LabelForeign, Declared
	}
	return m
}

// credentials judges the content credentials of a file. Whose label is in them decides whose file it is: all tenants of an installation have one certificate.
func (s *Service) credentials(x subject) Mark {
	r := x.content.Credentials
	switch {
	case r == nil && x.content.Bindable:
		return Mark{Result: Absent, Reason: CredentialsNone, Confidence: None}
	case r == nil:
		return Mark{Result: CannotSay, Reason: CredentialsNoPlace, Confidence: None}
	}
	m := Mark{Result: Refuted, Confidence: ByPublicKey, Signer: r.Signer, Code: string(r.Code)}
	switch {
	case r.State == c2pa.Trusted && r.Label != nil && s.deps.Labels.Verify(*r.Label, x.Tenant) == nil:
		m.Result, m.Reason, m.Requests = Confirmed, CredentialsOwn, []string{r.Label.ProduceID}
	case r.State == c2pa.Trusted && r.Label != nil && s.deps.Labels.Propagated(*r.Label, x.Tenant):
		m.Result, m.Reason = Confirmed, CredentialsPassed
	case r.State == c2pa.Trusted: // tenants learn that the installation signed, which the certificate says to anybody, and not for whom
		m.Result, m.Reason = Confirmed, CredentialsOther
	case r.State == c2pa.UnknownSigner:
		m.Result, m.Reason, m.Confidence = Foreign, CredentialsUnknown, Declared
	case r.State == c2pa.Unjudged:
		m.Result, m.Reason, m.Confidence = CannotSay, CredentialsUnjudged, None
	case r.Proven:
		m.Reason = CredentialsChanged
	default:
		m.Reason, m.Confidence = CredentialsBroken, Declared
	}
	return m
}

// signature judges the signature that came with the text.
func (s *Service) signature(x subject) (Mark, error) {
	given := strings.TrimSpace(x.Signature)
	if given == "" && x.body != nil {
		given = x.body.Signature
	}
	if given == "" {
		return Mark{Result: Absent, Reason: SignatureNone, Confidence: None}, nil
	}
	keys, err := s.deps.Keys(x.Tenant)
	if err != nil {
		return Mark{}, fmt.Errorf("read the keys of signed results: %w", err)
	}
	statement, err := signature.Verify(given, keys)
	key, _ := signature.KeyOf(given)
	m := Mark{Key: key, Confidence: ByPublicKey}
	switch {
	case errors.Is(err, signature.ErrUnknownKey):
		m.Result, m.Reason, m.Confidence = Foreign, SignatureKey, Declared
	case errors.Is(err, signature.ErrAltered):
		m.Result, m.Reason = Refuted, SignatureCut
	case errors.Is(err, signature.ErrRevoked):
		m.Result, m.Reason, m.Confidence = Indicated, SignatureGone, None
	case err != nil:
		m.Result, m.Reason, m.Confidence = CannotSay, SignatureBad, None
	case statement.Tenant != x.Tenant:
		m.Result, m.Reason, m.Confidence = Foreign, SignatureKey, Declared
	default:
		m.Requests, m.Model = []string{statement.Request}, strings.TrimSpace(statement.Model.Name+" "+statement.Model.Version)
		m.Result, m.Reason = x.signed(statement)
	}
	return m, nil
}

// signed says what an authentic statement is to what is asked. Of a file whose text was read, more may be in it than the signature covers.
func (x subject) signed(statement signature.Statement) (Result, Reason) {
	switch {
	case x.body != nil && statement.MatchesBody(*x.body), x.body == nil && statement.MatchesPasted(string(x.Data)):
		return Confirmed, SignatureOwn
	case x.body == nil && x.Name != "" && statement.MatchesPasted(x.content.Text):
		return Partial, SignatureRead
	case strings.TrimSpace(x.content.Text) == "":
		return CannotSay, SignatureBare
	default:
		return Refuted, SignatureText
	}
}

// watermark judges the wording.
func (s *Service) watermark(ctx context.Context, x subject) (Mark, error) {
	switch {
	case s.deps.Watermark == nil:
		return Mark{Result: CannotSay, Reason: WatermarkOff, Confidence: None}, nil
	case strings.TrimSpace(x.content.Text) == "":
		return Mark{Result: CannotSay, Reason: WatermarkNoText, Confidence: None}, nil
	}
	w, err := s.deps.Watermark(ctx, x.Tenant, x.content.Text)
	if err != nil {
		return Mark{}, fmt.Errorf("look for the watermark: %w", err)
	}
	m := Mark{Result: w.Result, Reason: w.Reason, Confidence: ByStatistics, Log10P: &w.Log10P, Passage: w.Passage, Key: w.Key, Counted: w.Tokens, Least: w.Least}
	switch {
	case w.Result == CannotSay:
		m.Log10P, m.Confidence = nil, None
	case w.Reason == WatermarkGone: // the statistics hold, and rest on a secret that others know
		m.Confidence = None
	}
	return m, nil
}

// muchCommon is the part of a text that has common wording from which on it is not told which other answers have it, and the part that an answer has of it
// below which a weak match names no request.
const muchCommon = 0.1

// registry looks for the answer.
func (s *Service) registry(ctx context.Context, x subject) (Mark, error) {
	switch {
	case s.deps.Registry == nil:
		return Mark{Result: CannotSay, Reason: RegistryOff, Confidence: None}, nil
	case strings.TrimSpace(x.content.Text) == "":
		return Mark{Result: CannotSay, Reason: RegistryNoText, Confidence: None}, nil
	}
	t, err := s.deps.Registry(ctx, x.Tenant, x.content.Text)
	if err != nil {
		return Mark{}, fmt.Errorf("look into the registry: %w", err)
	}
	m := Mark{Result: t.Result, Reason: t.Reason, Confidence: ByComparison, untold: t.More || t.Result != Confirmed && t.Common >= muchCommon}
	if t.Result == CannotSay {
		m.Confidence = None
	}
	if !t.Since.IsZero() {
		m.Since = &t.Since
	}
	if len(t.Matches) == 0 {
		return m, nil
	}
	best, last := t.Matches[0], t.Matches[len(t.Matches)-1]
	m.Share, m.Verified, m.Letters, m.more = &best.Share, best.Verified, t.Letters, t.More && last.Result == best.Result
	slight := best.Result == Indicated && best.Share < muchCommon // a phrase in a long text leads to nobody
	for _, x := range t.Matches {
		m.related = append(m.related, x.Request)
		if !slight && x.Result == best.Result && !slices.Contains(m.Requests, x.Request) { // alternatives of one answer may be equal
			m.Requests = append(m.Requests, x.Request)
		}
	}
	return m, nil
}
