package server

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/search"
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
		Issuer: p.audit.Origin(), Labels: p.labels, Read: readContent, Keys: p.signing.List, Records: p.recordsOf, Prove: p.audit.ProofFile,
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
			ID: e.ID, Stage: string(e.Stage), Outcome: e.Outcome, Model: e.Model.Asked, Version: e.Model.Version, Policy: e.Policy, Time: time.UnixMicro(e.Time),
		})
	}
	return out, nil
}

// readContent reads a file of a question.
func readContent(_ string, data []byte) (provenance.Content, error) {
	if !utf8.Valid(data) {
		return provenance.Content{}, fault.New(fault.CodeInvalidValue, "content", fault.Say("provenance.no_text")).WithParam("content")
	}
	return provenance.Content{Kind: "text", Text: string(data)}, nil
}
