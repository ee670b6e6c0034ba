package server

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/server/provenance"
)

// buildProvenance joins the marks of answers into one verdict.
func (p *parts) buildProvenance(context.Context) error {
	keys, err := checkpoint.NewVerifier(p.audit.VerifierKey())
	if err != nil {
		return err
	}
	p.provenance, err = provenance.New(provenance.Deps{
		Issuer: p.audit.Origin(), Labels: p.labels, Read: p.readContent, Keys: p.signing.List, Watermark: p.watermarkOf, Registry: p.traceOf, Records: p.recordsOf, Prove: p.audit.ProofFile,
		Sign: p.audit.SignText, Origin: keys.Origin(), Key: p.audit.VerifierKey(),
	})
	return err
}

// recordsOf returns the records of a request, oldest first.
func (p *parts) recordsOf(ctx context.Context, tenant, request string) ([]provenance.Record, error) {
	found, err := p.audit.Search(ctx, search.Query{Tenant: tenant, Request: request, Limit: 10})
	if err != nil {
		return nil, err
	}
	var out []provenance.Record
	for i := len(found.Events) - 1; i >= 0; i-- {
		e := found.Events[i]
		out = append(out, provenance.Record{
			ID: e.ID, Model: cmp.Or(e.Model.Routed, e.Model.Asked), Version: e.Model.Version, Time: time.UnixMicro(e.Time),
		})
	}
	return out, nil
}

// readContent reads a file of a question: its text, without the label, its labels, and its content credentials.
func (p *parts) readContent(name string, data []byte) (provenance.Content, error) {
	kind, err := labelfile.Detect(name, data)
	if err != nil {
		return provenance.Content{}, err
	}
	found, err := labelfile.Read(kind, data)
	if err != nil {
		return provenance.Content{}, err
	}
	text, _, err := labelfile.Content(kind, data)
	if err != nil {
		return provenance.Content{}, err
	}
	c := provenance.Content{Kind: string(kind), Text: text, Bindable: labelfile.HasCredentials(kind), Credentials: labelfile.CheckCredentials(kind, data, p.authority.Anchors())}
	for _, m := range found.Marks {
		if m.Whole {
			c.Labels = append(c.Labels, m.Label)
		} else {
			c.Broken = true
		}
	}
	return c, nil
}

// watermarkOf looks for the tenant's watermark in a text. That a text takes too long is no failure: nothing can be said of it.
func (p *parts) watermarkOf(ctx context.Context, tenant, text string) (provenance.Watermark, error) {
	long := provenance.Watermark{Result: provenance.CannotSay, Reason: provenance.WatermarkLong}
	if len(text) > tenantmark.MaxText {
		return long, nil
	}
	f, err := p.watermarks.Detect(ctx, tenantmark.Question{Tenant: tenant, Text: text})
	if fault.Is(err, fault.CodeInvalidValue) {
		return long, nil
	}
	if err != nil {
		return provenance.Watermark{}, err
	}
	w := provenance.Watermark{Log10P: f.Log10P, Tokens: f.Counted, Least: tenantmark.LeastTokens, Passage: (*provenance.Passage)(f.Passage)}
	switch f.Verdict {
	case watermark.Found:
		w.Result, w.Reason = provenance.Confirmed, provenance.WatermarkFound
	case watermark.Indication:
		w.Result, w.Reason = provenance.Indicated, provenance.WatermarkWeak
		if !f.Key.Revoked.IsZero() {
			w.Reason = provenance.WatermarkGone
		}
	case watermark.NotFound:
		w.Result, w.Reason = provenance.Absent, provenance.WatermarkNone
		if f.Untried+len(f.Unreadable) > 0 {
			w.Result, w.Reason = provenance.CannotSay, provenance.WatermarkKeys
		}
	default:
		w.Result, w.Reason = provenance.CannotSay, provenance.WatermarkShort
		if f.Reason != tenantmark.ReasonShort {
			w.Reason, w.Least = provenance.WatermarkNoKey, 0
		}
	}
	if f.Key != nil {
		w.Key = f.Key.ID
	}
	return w, nil
}

// traceOf looks for the answers of a tenant that a text comes from. Where answers are registered no more, those that were are found still, and that none is found says nothing. A registry
// that cannot be read says nothing either: the other marks do not need it.
func (p *parts) traceOf(ctx context.Context, tenant, text string) (provenance.Trace, error) {
	if len(text) > registry.MaxText {
		return provenance.Trace{Result: provenance.CannotSay, Reason: provenance.RegistryLong}, nil
	}
	found, err := p.registry.Trace(ctx, tenant, text)
	if fault.Is(err, fault.CodeInvalidValue) { // it is not too long
		return provenance.Trace{Result: provenance.CannotSay, Reason: provenance.RegistryShort}, nil
	}
	if err != nil && ctx.Err() == nil {
		p.log.LogAttrs(ctx, slog.LevelError, "a text was judged without the registry of answers", slog.String("tenant", tenant), slog.String("error", err.Error()))
		return provenance.Trace{Result: provenance.CannotSay, Reason: provenance.RegistryDown}, nil
	}
	if err != nil {
		return provenance.Trace{}, err
	}
	t := provenance.Trace{Result: provenance.Absent, Reason: provenance.RegistryNone, Since: found.Since, More: found.More, Common: found.Common, Letters: found.Characters}
	switch {
	case !found.Enabled:
		t.Result, t.Reason = provenance.CannotSay, provenance.RegistryOff
	case found.Since.IsZero():
		t.Result, t.Reason = provenance.CannotSay, provenance.RegistryEmpty
	}
	for _, m := range found.Matches {
		result, reason := traced(m)
		if m.Evidence != registry.Exact && !m.OnlyCommon { // the estimate is of what is not common
			m.Share *= 1 - found.Common
		}
		if len(t.Matches) == 0 {
			t.Result, t.Reason = result, reason
		}
		t.Matches = append(t.Matches, provenance.Match{Result: result, Request: m.Request, Share: m.Share, Verified: m.Verified})
	}
	return t, nil
}

// traced is what a match of the registry is to a verdict.
func traced(m registry.Match) (provenance.Result, provenance.Reason) {
	switch {
	case m.Evidence == registry.Exact:
		return provenance.Confirmed, provenance.RegistryExact
	case m.OnlyCommon:
		return provenance.Indicated, provenance.RegistryCommon
	case m.Evidence == registry.Strong, m.Evidence == registry.Moderate:
		return provenance.Partial, provenance.RegistryPart
	default:
		return provenance.Indicated, provenance.RegistryWeak
	}
}
