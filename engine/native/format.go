package native

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/engine/grammar/jsonschema"
	"github.com/sluice-project/sluice/engine/toolcall"
	"github.com/sluice-project/sluice/internal/fault"
)

// formatCache compiles the grammars of requests for one vocabulary, outside the loop, and keeps the latest. It is safe for concurrent use.
type formatCache struct {
	words [2]func() *grammar.Vocabulary // made when first needed; the second one knows the markers of calls, too

	compiling singleflight.Group
	gate      chan struct{} // who compiles: others wait, so that many bad grammars cannot take the machine

	mu      sync.Mutex
	busy    map[string]int           // compilations of each tenant
	entries map[string]*list.Element // of latest
	latest  list.List                // of *format, used last in front
}

// format is a grammar that was compiled, or why it was not.
type format struct {
	key     string
	tenant  string
	grammar *grammar.Grammar
	err     error
}

const (
	maxCachedFormats      = 64
	maxCachedPerTenant    = 16
	maxCompiling          = 2
	maxCompilingPerTenant = 8 // waiting ones included
)

// formatLimits bounds what a grammar may cost the loop, which computes everybody's tokens, and the memory it may take with the others.
func formatLimits() grammar.Limits { return grammar.Limits{MaskSteps: 250_000, CacheBytes: 8 << 20} }

func newFormats(words func(calls bool) *grammar.Vocabulary) *formatCache {
	f := &formatCache{gate: make(chan struct{}, maxCompiling), entries: map[string]*list.Element{}, busy: map[string]int{}}
	for i := range f.words {
		f.words[i] = sync.OnceValue(func() *grammar.Vocabulary { return words(i > 0) })
	}
	return f
}

// vocabulary is the tokens as their text is shown, in answers that may call or in others.
func (f *formatCache) vocabulary(calls bool) *grammar.Vocabulary {
	if calls {
		return f.words[1]()
	}
	return f.words[0]()
}

// get returns the grammar of a key, made by build when it is not there. The key names the tenant too: whether a grammar is there already
// tells nobody what others asked.
func (f *formatCache) get(ctx context.Context, tenant, key string, calls bool, build func() (*grammar.Grammar, error)) (*grammar.Grammar, error) {
	if g, err, ok := f.lookup(key); ok {
		return g, err
	}
	if !f.acquire(tenant) {
		return nil, errManyFormats
	}
	defer f.release(tenant)
	select {
	case <-ctx.Done(): // what nobody waits for any more is not made
		return nil, cancelled(ctx.Err())
	case f.gate <- struct{}{}:
	}
	made := make(chan *format, 1)
	go func() {
		defer func() { <-f.gate }()
		m, _, _ := f.compiling.Do(key, func() (any, error) { return f.compile(tenant, key, calls, build), nil })
		made <- m.(*format)
	}()
	select {
	case <-ctx.Done():
		return nil, cancelled(ctx.Err())
	case m := <-made:
		return m.grammar, m.err
	}
}

// errManyFormats says that a tenant has as many formats compiled at a time as one may.
var errManyFormats = errors.New("too many formats of the tenant are being compiled")

// acquire counts a compilation of a tenant; it is false when there are enough.
func (f *formatCache) acquire(tenant string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[tenant] >= maxCompilingPerTenant {
		return false
	}
	f.busy[tenant]++
	return true
}

func (f *formatCache) release(tenant string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[tenant]--; f.busy[tenant] <= 0 {
		delete(f.busy, tenant)
	}
}

// compile makes a grammar and keeps it, unless another one did so meanwhile.
func (f *formatCache) compile(tenant, key string, calls bool, build func() (*grammar.Grammar, error)) *format {
	if g, err, ok := f.lookup(key); ok {
		return &format{key, tenant, g, err}
	}
	g, err := build()
	if err == nil {
		err = g.Fit(f.vocabulary(calls))
	}
	made := &format{key, tenant, g, err}
	f.put(made)
	return made
}

func (f *formatCache) lookup(key string) (g *grammar.Grammar, err error, ok bool) { //nolint:revive // the error is data here
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.entries[key]
	if !ok {
		return nil, nil, false
	}
	f.latest.MoveToFront(at)
	found := at.Value.(*format)
	return found.grammar, found.err, true
}

func (f *formatCache) put(made *format) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries[made.key] = f.latest.PushFront(made)
	own, oldest := 0, f.latest.Back()
	for at := f.latest.Front(); at != nil; at = at.Next() {
		if at.Value.(*format).tenant == made.tenant {
			if own++; own > maxCachedPerTenant {
				oldest = at
			}
		}
	}
	if own > maxCachedPerTenant || f.latest.Len() > maxCachedFormats {
		delete(f.entries, f.latest.Remove(oldest).(*format).key)
	}
}

// constrain gives a job the grammar of its format or of the calls it has to make, and the parser of calls.
func (g *generator) constrain(ctx context.Context, j *job, req *engine.Request) error {
	calls := len(req.Tools) > 0 && req.ToolChoice.Mode != engine.ToolNone
	if calls {
		if g.dialect == toolcall.None {
			return fault.New(fault.CodeUnsupported, "tools", fault.Say("native.template_without_tools")).WithParam("tools")
		}
		j.calls = g.parsing(j, req)
	}
	must := mustCall(req)
	if must && len(offered(req)) == 0 {
		return fault.New(fault.CodeInvalidValue, "tool_choice", fault.Say("model.unknown_function")).WithParam("tool_choice")
	}
	if must && req.Format != nil {
		return fault.New(fault.CodeInvalidValue, "response_format", fault.Say("native.format_and_tool_choice")).WithParam("response_format")
	}
	may := calls && mayCall(req)
	if !must && !may && req.Format == nil {
		return nil
	}
	key, err := json.Marshal(struct {
		Tenant   string
		Format   *engine.Format
		Tools    []engine.Tool
		Choice   engine.ToolChoice
		Parallel bool
	}{req.Tenant, req.Format, req.Tools, req.ToolChoice, req.ParallelTools})
	if err != nil {
		field := "tools"
		if _, broken := json.Marshal(req.Format); broken != nil {
			field = "response_format"
		}
		return fault.Wrap(err, fault.CodeInvalidValue, field, fault.Say("native.tool_schema")).WithParam(field)
	}
	sum := sha256.Sum256(key)
	if must || may {
		made, err := g.formats.get(ctx, req.Tenant, "calls"+string(sum[:]), true, func() (*grammar.Grammar, error) { return g.compileCalls(req) })
		if err != nil {
			return g.refuseFormat(ctx, err, "tools")
		}
		if must {
			j.grammar = made
		} else {
			j.triggered = made
		}
	}
	if req.Format != nil {
		if j.grammar, err = g.formats.get(ctx, req.Tenant, string(sum[:]), calls, func() (*grammar.Grammar, error) { return compileFormat(req.Format) }); err != nil {
			return g.refuseFormat(ctx, err, "response_format")
		}
	}
	return nil
}

func (g *generator) refuseFormat(ctx context.Context, err error, field string) error {
	if ctx.Err() != nil {
		return err
	}
	if errors.Is(err, errManyFormats) {
		return fault.Wrap(err, fault.CodeEngineOverloaded, string(g.info.ID)).WithRetryAfter(time.Second)
	}
	return fault.Wrap(err, fault.CodeInvalidValue, field, reason(err)).WithParam(field)
}

// reason is what is wrong with a format, for the one who wrote it.
func reason(err error) fault.Phrase {
	var schema *jsonschema.Error
	if errors.As(err, &schema) {
		return schema.Phrase()
	}
	if p, ok := grammar.Reason(err); ok {
		return p
	}
	return fault.Say("native.format_not_compiled")
}

func compileFormat(f *engine.Format) (*grammar.Grammar, error) {
	limits := formatLimits()
	switch {
	case f.JSONSchema != nil:
		// Members that the schema does not name are valid, but nobody waits for them, and small models do not find their end.
		return jsonschema.Parse(f.JSONSchema, jsonschema.Options{Closed: true}, limits)
	case f.JSONObject:
		return jsonschema.Parse(json.RawMessage(`{"type":"object"}`), jsonschema.Options{}, limits)
	case f.GBNF != "":
		return grammar.ParseGBNF(f.GBNF, limits)
	case f.Regex != "":
		return grammar.ParseRegex(f.Regex, limits)
	case len(f.Choice) > 0:
		return grammar.Choice(f.Choice, limits)
	}
	return nil, errors.New("the format says nothing: give a schema, a grammar, an expression or a list of choices")
}
