package native

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/native/prefix"
	"github.com/sluice-project/sluice/engine/native/sample"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/internal/fault"
)

// job makes a job of a prompt and compiles its grammar: all that needs no turn in the loop.
func (e *Engine) job(ctx context.Context, p *engine.Prompt) (*job, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	if p.Request == nil {
		return nil, engine.ErrOtherWork
	}
	g, a, err := e.generator(p.Request.Model, p.Request.Tenant)
	if err != nil {
		return nil, err
	}
	p, ids, err := g.own(ctx, p)
	if err != nil {
		return nil, err
	}
	req := p.Request
	seed := randomSeed()
	if req.Seed != nil {
		seed = *req.Seed
	}
	j := &job{
		ctx: ctx, model: g, adapter: a, id: cmp.Or(req.ID, "request-"+strconv.FormatUint(e.numbers.Add(1), 10)), tenant: req.Tenant,
		class: classOf(req.Class), priority: req.Priority, deadline: req.Deadline, prompt: ids, choices: max(1, req.Choices),
		logprobs: req.Logprobs, signal: make(chan struct{}, 1),
		stops: req.Stop,
	}
	// Choices make room for one another by waiting, so one of them has to fit.
	j.limit = req.MaxTokens
	if exec.PagesFor(len(ids)+j.limit) > g.pages {
		return nil, fault.New(fault.CodeContextLength, exec.Positions(g.pages), len(ids)+j.limit)
	}
	if j.minTokens = req.MinTokens; j.minTokens > j.limit {
		return nil, fault.New(fault.CodeInvalidValue, "min_tokens", fault.Say("native.token_count", j.limit)).WithParam("min_tokens")
	}
	if j.rules, err = sample.NewRules(req, seed, g.tokens.Size()); err != nil {
		return nil, err
	}
	if req.Echo {
		j.echo = req.Prompt
	}
	scope := prefix.Scope{Tenant: req.Tenant, Model: g.info.Digest, Precision: g.info.Precision, Shared: req.SharedPrefix}
	if req.SharedPrefix {
		scope.Tenant = ""
	}
	if a != nil {
		scope.Adapter = a.digest
	}
	j.space = prefix.Namespace(e.key, scope)
	scope.Tenant, scope.Shared = req.Tenant, false // answers are nobody else's, whatever is shared of prompts
	own := prefix.Namespace(e.key, scope)
	j.draftKey = string(own[:])
	j.drafts = e.drafts
	j.bytes = size(req)
	if err := g.constrain(ctx, j, req); err != nil {
		return nil, err
	}
	if err := j.prepareMarks(req); err != nil {
		return nil, err
	}
	return j, nil
}

// size is what a waiting request holds, roughly.
func size(req *engine.Request) int {
	n := len(req.Prompt)
	for _, m := range req.Messages {
		n += len(m.Content)
		for _, c := range m.ToolCalls {
			n += len(c.Arguments)
		}
	}
	for _, t := range req.Tools {
		n += len(t.Description) + len(t.Parameters)
	}
	if f := req.Format; f != nil {
		n += len(f.JSONSchema) + len(f.GBNF) + len(f.Regex)
		for _, c := range f.Choice {
			n += len(c)
		}
	}
	for _, s := range req.Stop {
		n += len(s)
	}
	return n
}

func classOf(c engine.Class) int {
	switch c {
	case engine.ClassInteractive:
		return sched.Interactive
	case engine.ClassBatch:
		return sched.Batch
	default:
		return sched.Standard
	}
}

func checkRequest(req *engine.Request) error {
	invalid := func(field string, cause fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, field, cause).WithParam(field)
	}
	switch {
	case req.MaxTokens < 0:
		return invalid("max_tokens", fault.Say("sample.negative"))
	case req.MinTokens < 0:
		return invalid("min_tokens", fault.Say("sample.negative"))
	case req.Choices < 0 || req.Choices > maxChoices:
		return invalid("n", fault.Say("native.choices", maxChoices))
	case req.Logprobs > maxLogprobs:
		return invalid("top_logprobs", fault.Say("native.alternatives", maxLogprobs))
	case len(req.Stop) > maxStops:
		return invalid("stop", fault.Say("native.stop_count", maxStops))
	case req.Echo && req.Messages != nil:
		return invalid("echo", fault.Say("native.echo"))
	case len(req.Tools) > 0 && req.Messages == nil:
		return invalid("tools", fault.Say("native.tools_without_messages"))
	case !slices.Contains([]engine.Class{"", engine.ClassInteractive, engine.ClassStandard, engine.ClassBatch}, req.Class):
		return invalid("service_tier", fault.Say("native.queue_class"))
	}
	return nil
}

func cancelled(err error) error { return fmt.Errorf("native engine: %w", err) }

func randomSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}
