package gateway

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// authenticate finds who calls, and whether the route is open to them. It takes headers only.
func (r *run) authenticate(ctx context.Context) error {
	who, err := r.identify(ctx)
	if err != nil {
		r.caller = caller{Principal: who, known: who.ID != ""}
		return err
	}
	tenant := cmp.Or(r.call.Tenant, who.Tenant)
	allowed := r.p.deps.Access.Allow(who, r.call.Permission, tenant)
	changesAccess := r.call.Document != nil && r.p.deps.Access.Allow(who, access.RAGAccess, tenant) == nil // at home, before who is the tenant's
	if allowed == nil {
		if tenant != who.Tenant {
			who.Organisation, who.Above = r.p.deps.Identity.Above(tenant)
			who.Project = "" // which is one at home
		}
		who.Tenant = tenant // a refusal is recorded at home
	}
	// What somebody asks with a key of his own he asks himself, unless he names another.
	r.caller = caller{Principal: who, known: true, onBehalfOf: audit.Subject(r.p.deps.Keys, who.Tenant, cmp.Or(r.received.OnBehalfOf, who.Owner)), changesAccess: changesAccess}
	return allowed
}

func (r *run) identify(ctx context.Context) (identity.Principal, error) {
	if r.call.As != nil {
		return r.p.deps.Identity.Act(ctx, *r.call.As, r.call.Source)
	}
	return r.p.deps.Identity.Authenticate(ctx, r.call.Plane, r.received.Credential, r.call.Source)
}

// authorize authenticates, again where the edge has done so before the body came: a key may have been revoked since. What the body names
// is open to the caller, too.
func (r *run) authorize(ctx context.Context) error {
	if err := r.authenticate(ctx); err != nil {
		return err
	}
	if r.call.RAG != nil && r.call.Permission != access.RAGSearch {
		if err := r.p.deps.Access.Allow(r.caller.Principal, access.RAGSearch, r.caller.Tenant); err != nil {
			return err
		}
	}
	if m := r.call.Model; m != "" && !r.caller.MayUse(string(m)) {
		return fault.New(fault.CodeModelNotAllowed, string(m)).WithParam("model")
	}
	return nil
}

// limit takes a slot. Tokens are taken by an estimate that needs no engine, adjusted when the prompt is prepared, and corrected at the end; those of a document are not limited, since one can have
// more than many minutes may: it would shut out all others for that time. Its requests and its work at one time are limited, and its cost is.
func (r *run) limit(ctx context.Context) error {
	tokens := r.estimate()
	if r.call.Document != nil || r.call.Action.runsNothing() {
		tokens = 0
	}
	var err error
	r.slot.ticket, r.slot.rate, err = r.p.deps.Limits.Acquire(ctx, limit.Request{
		Tenant: r.caller.Tenant, Bounds: r.bounds(), Tokens: tokens,
	})
	return err
}

// bounds are the limits that the caller is under: its own, and those of the levels that it stands on.
func (r *run) bounds() []limit.Bound {
	out := make([]limit.Bound, 0, 4)
	out = append(out, limit.Bound{Scope: limit.Key, ID: r.caller.ID, Limits: limit.Limits(r.caller.Limits)})
	for _, l := range r.caller.Above {
		out = append(out, limit.Bound{Scope: limit.Scope(l.Kind), ID: l.ID, Limits: limit.Limits(l.Limits)})
	}
	return out
}

// estimate is a quarter of the text's bytes, and the completion asked for.
func (r *run) estimate() int {
	n := r.received.size()/bytesPerToken + 1
	if r.need == route.Generate {
		n += max(1, r.call.Choices) * r.completion(route.Defaults{})
	}
	return n
}

// completion is the limit of one choice: what the caller says, else the version, else the installation.
func (r *run) completion(d route.Defaults) int {
	switch {
	case r.call.MaxTokens != nil:
		return *r.call.MaxTokens
	case d.MaxTokens != nil:
		return *d.MaxTokens
	default:
		return r.p.cfg.DefaultTokens
	}
}

// admit asks the policy. What identifies the conversation and the prompt is taken before the texts are masked.
func (r *run) admit(ctx context.Context) error {
	r.admission.conversation, r.admission.subject, r.admission.generation = r.conversation(), r.subjectDigest(), r.p.answers.Generation()
	r.admission.promptDigest = audit.DigestSpelt(r.p.deps.Keys, r.caller.Tenant, r.received.spell)
	d, err := r.p.deps.Guard.Admit(ctx, governance.AdmitRequest{
		Request: r.call.RequestID, Tenant: r.caller.Tenant, Project: r.caller.Project, Session: r.admission.conversation, Name: r.received.Session, Subject: r.admission.subject, Action: string(r.call.judgedAs()),
		Model: string(r.call.Model), Purpose: r.call.Purpose, Known: r.received.Known, Ingest: r.call.Document != nil, DataGrade: r.call.DataGrade,
	})
	if d != nil {
		r.admission.decision, r.admission.policy = d, d.Policy()
		if r.call.Document == nil && r.call.Action != ActionModerate { // the records of these have nothing of their texts
			r.admission.recordForm = d.Record()
		}
		r.admission.class = engine.Class(d.Urgency(string(cmp.Or(r.call.Class, engine.ClassStandard))))
	}
	if err == nil && r.call.RAG != nil && !d.AllowsCollection(r.call.RAG.Collection) {
		err = r.noCollection()
	}
	if err == nil {
		r.admission.visible, err = r.visibleLabel()
	}
	return err
}

// noCollection says that the collection of the call does not exist for this caller, by the name of its field.
func (r *run) noCollection() error {
	field := "rag.collection"
	if r.call.Action != ActionChat {
		field = "collection"
	}
	return fault.New(fault.CodeCollectionNotFound, r.call.RAG.Collection).WithParam(field)
}

// conversation names what rollouts keep on one side and pseudonyms are stable in: the caller's own session, else the system
// message and the first user message, which every turn of a chat repeats, else the prompt. Embeddings of one key stay together,
// since vectors of two versions do not compare. It is a keyed digest, bound to the caller.
func (r *run) conversation() string {
	kind, text := "session", []string{r.received.Session}
	if r.received.Session == "" {
		kind, text = "opening", nil
		for _, m := range r.received.Messages {
			if m.Role == "system" || m.Role == "user" {
				text = append(text, m.Role, m.Content)
			}
			if m.Role == "user" {
				break
			}
		}
		if r.call.Action == ActionCompletion || r.call.Action == ActionTokenize && len(r.received.Messages) == 0 {
			text = []string{r.received.Prompt}
		}
	}
	parts := append([]string{r.caller.Tenant, r.caller.ID, kind}, text...)
	return hex.EncodeToString(r.p.deps.Keys.MAC("gateway/conversation/v1", parts...)[:16])
}

// examine says what masking would come to, of each text by itself. Nobody is given any of them, masked or not.
func (r *run) examine(context.Context) error {
	d, out := r.admission.decision, examined{classes: r.admission.decision.Examined()}
	for _, text := range r.received.Input {
		out.texts = append(out.texts, examinedText(d.Examine(unescaped(text))))
	}
	r.examined, r.received = out, nil
	return nil
}

// examinedText is what was found in a text.
func examinedText(found []governance.Finding) ExaminedText {
	return ExaminedText{Findings: findingsOf(found), Flagged: slices.ContainsFunc(found, governance.Finding.Hides)}
}

// moderated says what was found.
func (r *run) moderated(ctx context.Context) (*ModerateReply, error) {
	r.finish(ctx, ending{outcome: outcomeOK})
	return &ModerateReply{Head: r.head(), Summary: r.summary(), Texts: r.examined.texts, Classes: r.examined.classes}, nil
}

// mask masks every text once: those of the call, on a copy of it, and the passages, with what their documents say is sensitive. All that comes
// after it sees masked texts only.
func (r *run) mask(_ context.Context) error {
	d, given := r.admission.decision, r.received.cloneTexts(r.decoded.text)
	texts, err := given.texts()
	if err != nil {
		return err
	}
	asSent := ""
	if r.admission.recordForm == governance.RecordClear {
		asSent = given.prompt()
	}
	if err := d.Mask(r.sources.known, texts.fields); err != nil {
		return err
	}
	if err := texts.apply(); err != nil {
		return err
	}
	passages, err := r.maskPassages()
	if err != nil {
		return err
	}
	r.masked, r.received = masked{call: given, clear: asSent, prefix: r.prefixOf(given), maskedPassages: passages}, nil
	return r.settlePlace()
}
