package profile

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/unified"
	"github.com/sluice-project/sluice/internal/fault"
)

// linter collects what is wrong with a profile.
type linter struct {
	p    *Profile
	errs []error
}

func (l *linter) add(format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf(format, args...))
}

func (l *linter) oneOf(field, v string, allowed ...string) {
	if v != "" && !slices.Contains(allowed, v) {
		l.add("%s: %q must be one of %s", field, v, strings.Join(allowed, ", "))
	}
}

// Lint returns everything that is wrong with a profile of the set: what Parse refuses, words that are not of their list, facts without a source, and
// claims that the profile has no words for.
func (s *Set) Lint(name string) []error {
	p, err := s.Get(name)
	if err != nil {
		return []error{err}
	}
	return p.Lint()
}

// Lint returns everything that is wrong with the profile.
func (p *Profile) Lint() []error {
	l := &linter{p: p}
	l.head()
	l.sources()
	l.references("", reflect.ValueOf(p).Elem())
	l.facts()
	l.words()
	l.metrics()
	l.errors()
	l.errs = append(l.errs, p.Claimed.Check()...)
	l.claims()
	return l.errs
}

func (l *linter) head() {
	p := l.p
	if !validName(p.Name) {
		l.add("profile: %q must be of a-z, 0-9, -, . and _", p.Name)
	}
	for field, v := range map[string]string{"title": p.Title, "family": p.Family, "kind": p.Kind, "basis": string(p.Basis)} {
		if v == "" {
			l.add("%s: must be set", field)
		}
	}
	l.oneOf("kind", p.Kind, "engine", "plug-in", "platform", "stack", "cloud", "protocol")
	l.oneOf("basis", string(p.Basis), string(Documented), string(Family), string(Assumed))
	if p.Basis != Documented && p.Extends == "" {
		l.add("extends: must be set, as its basis is %q", string(p.Basis))
	}
	if (p.About.En == "") != (p.About.Zh == "") || p.Basis == Assumed && p.About.En == "" {
		l.add("about: must be set in both languages, and where the dialect is assumed")
	}
	if (p.Kind == "cloud") != p.Cloud {
		l.add("cloud: must be set for kind cloud, and only there")
	}
	for i, r := range p.Ran {
		if r.Grade < capability.E3 || r.Version == "" || r.Test == "" || !isDate(r.Date) {
			l.add("ran[%d]: needs a grade from E3 on, a version, a date and the test or report that shows it", i)
		}
	}
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

func (l *linter) sources() {
	for _, id := range slices.Sorted(maps.Keys(l.p.Sources)) {
		s := l.p.Sources[id]
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			l.add("sources.%s.url: must be an address", id)
		}
		if !isDate(s.Date) {
			l.add("sources.%s.date: must be a date, as 2026-11-26", id)
		}
		if !validName(id) {
			l.add("sources.%s: must be of a-z, 0-9, -, . and _", id)
		}
	}
	if l.p.Basis == Documented && len(l.p.Sources) == 0 {
		l.add("sources: must be there, as its basis is %q", string(Documented))
	}
}

// references looks at every member that names a source.
func (l *linter) references(where string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := strings.TrimPrefix(where+"."+name, ".")
			// Of the engine in the contract "source" is where its code is.
			if f.Name == "Source" && f.Type.Kind() == reflect.String {
				l.reference(at, v.Field(i).String())
				continue
			}
			l.references(at, v.Field(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			l.references(where+"."+k.String(), v.MapIndex(k))
		}
	case reflect.Slice:
		for i := range v.Len() {
			l.references(fmt.Sprintf("%s[%d]", where, i), v.Index(i))
		}
	default:
	}
}

func (l *linter) reference(where, ids string) {
	for id := range strings.SplitSeq(ids, ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		if _, ok := l.p.Sources[id]; !ok {
			l.add("%s: there is no source %q", where, id)
		}
	}
}

// facts asks each part that says something for a source.
func (l *linter) facts() {
	p := l.p
	for _, part := range []struct {
		name, source string
		said         bool
	}{
		{"ports", p.Ports.Source, p.Ports != (Ports{})},
		{"endpoints", p.Endpoints.Source, p.Endpoints != (Endpoints{})},
		{"health.live", p.Health.Live.Source, p.Health.Live.Path != ""},
		{"health.ready", p.Health.Ready.Source, p.Health.Ready.Path != ""},
		{"version", p.Version.Source, p.Version.Path != ""},
		{"models", p.Models.Source, p.Models.Path != ""},
		{"stream", p.Stream.Source, p.Stream.Framing != ""},
		{"errors", p.Errors.Source, p.Errors.Shape != ""},
		{"cancel", p.Cancel.Source, p.Cancel.Disconnect != nil || p.Cancel.Path != ""},
		{"drain", p.Drain.Source, p.Drain.Path != "" || p.Drain.Signal != ""},
		{"metrics", p.Metrics.Source, p.Metrics.Path != ""},
		{"tokenizer", p.Tokenizer.Source, p.Tokenizer.From != ""},
		{"adapters", p.Adapters.Source, p.Adapters != (Adapters{})},
	} {
		if part.said && part.source == "" {
			l.add("%s.source: what it says has no source", part.name)
		}
	}
	if (p.NotRun.En == "") != (p.NotRun.Zh == "") {
		l.add("not_run: must be set in both languages")
	}
	for i, q := range p.Quirks {
		if q.Says.En == "" || q.Says.Zh == "" {
			l.add("quirks[%d].says: must be set in both languages", i)
		}
	}
}

func (l *linter) words() {
	p := l.p
	for name, v := range map[string]string{"chat": p.Endpoints.Chat, "completions": p.Endpoints.Completions, "embeddings": p.Endpoints.Embeddings, "rerank": p.Endpoints.Rerank} {
		if v != "" && !strings.HasPrefix(v, p.Endpoints.Base+"/") {
			l.add("endpoints.%s: %q must begin with the base %q", name, v, p.Endpoints.Base)
		}
	}
	l.oneOf("endpoints.form", p.Endpoints.Form, "tgi", "v2", "vllm", "sglang", "ollama", "lightllm")
	if (p.Endpoints.Form == "") != (p.Endpoints.Generate == "") {
		l.add("endpoints: generate and form belong together")
	}
	for name, port := range map[string]Port{
		"health.live": p.Health.Live.Port, "health.ready": p.Health.Ready.Port, "version": p.Version.Port, "drain": p.Drain.Port, "metrics": p.Metrics.Port,
	} {
		l.oneOf(name+".port", string(port), string(PortMain), string(PortManagement), string(PortMetrics))
	}
	l.oneOf("stream.framing", p.Stream.Framing, "sse", "ndjson")
	l.oneOf("stream.usage", p.Stream.Usage, "asked", "always", "last", "none")
	l.oneOf("stream.reasoning", p.Stream.Reasoning, "reasoning_content", "reasoning")
	for reason, ours := range p.Stream.Finish {
		l.oneOf("stream.finish."+reason, ours, "stop", "length", "tool_calls", "content_filter", "error")
	}
	l.oneOf("request.named_tool", p.Request.NamedTool, "native", "alone")
	for name, a := range map[string]Parameter{
		"json_object": p.Request.JSONObject, "json_schema": p.Request.JSONSchema, "regex": p.Request.Regex, "grammar": p.Request.Grammar, "choice": p.Request.Choice,
	} {
		l.oneOf("request."+name+".as", a.As, "response_format", "text", "list", "typed", "grammar", "regex", "regex_schema")
	}
	l.oneOf("rerank_scores", p.RerankScores, "logit")
	l.oneOf("tokenizer.from", p.Tokenizer.From, "endpoint", "huggingface", "gguf")
	l.oneOf("tokenizer.form", p.Tokenizer.Form, TokensOfVLLM, TokensOfLlama)
}

func (l *linter) metrics() {
	m := l.p.Metrics
	if m.Path == "" && len(m.Map) > 0 {
		l.add("metrics.path: must be set")
	}
	l.oneOf("metrics.format", string(m.Format), string(unified.Prometheus), string(unified.JSON))
	if m.Path != "" && m.Format == "" {
		l.add("metrics.format: must be set")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Map)) {
		if err := m.Map[name].Check(name); err != nil {
			l.add("metrics.map.%s: %w", name, err)
		}
	}
}

// faults are the codes that an error of an engine may become.
func faults() []string {
	return []string{
		string(fault.CodeContextLength), "response_format", string(fault.CodeModelNotFound), string(fault.CodeEngineOverloaded), string(fault.CodeEngineUnavailable),
		string(fault.CodeUpstreamTimeout), string(fault.CodeUpstreamFailed), string(fault.CodeUnsupported),
	}
}

func (l *linter) errors() {
	e := l.p.Errors
	l.oneOf("errors.shape", e.Shape, "openai", "flat", "detail", "error", "error_text")
	for i, r := range e.Rules {
		where := fmt.Sprintf("errors.rules[%d]", i)
		if r.Fault == "" {
			l.add("%s.fault: must be set", where)
		}
		l.oneOf(where+".fault", r.Fault, faults()...)
		if len(r.Status) == 0 && r.Least == 0 && r.Code == "" && r.Type == "" && r.Says == "" && len(r.Words) == 0 {
			l.add("%s: it would match everything", where)
		}
		for _, s := range r.Status {
			if s != 0 && (s < 400 || s > 599) {
				l.add("%s.status: %d is no status of an error", where, s)
			}
		}
	}
	for name, s := range map[string]int{"overload": e.Overload, "wrong_model": e.WrongModel, "wrong_value": e.WrongValue} {
		if s != 0 && (s < 400 || s > 599) {
			l.add("errors.%s: %d is no status of an error", name, s)
		}
	}
}

// Parameter returns how a feature's field is spelt; false is a feature that needs no field of its own.
func (r *Request) Parameter(f capability.Feature) (Parameter, bool) {
	switch f {
	case capability.TopK:
		return r.TopK, true
	case capability.MinP:
		return r.MinP, true
	case capability.MinTokens:
		return r.MinTokens, true
	case capability.RepetitionPenalty:
		return r.RepetitionPenalty, true
	case capability.FrequencyPenalty:
		return r.FrequencyPenalty, true
	case capability.PresencePenalty:
		return r.PresencePenalty, true
	case capability.LogitBias:
		return r.LogitBias, true
	case capability.Seed:
		return r.Seed, true
	case capability.Echo:
		return r.Echo, true
	case capability.Logprobs, capability.TopLogprobs:
		return r.Logprobs, true
	case capability.FormatObject:
		return r.JSONObject, true
	case capability.FormatSchema:
		return r.JSONSchema, true
	case capability.FormatRegex:
		return r.Regex, true
	case capability.FormatGrammar:
		return r.Grammar, true
	case capability.FormatChoice:
		return r.Choice, true
	case capability.Adapters:
		return r.Adapter, true
	default:
		return Parameter{}, false
	}
}

// Claims reports whether the contract claims a feature, at whatever grade.
func (p *Profile) Claims(f capability.Feature) bool {
	c, ok := p.Claimed.Features[f]
	return ok && c.Status != capability.Roadmap
}

// claims holds the contract against the words that there are for it.
func (l *linter) claims() {
	p := l.p
	for _, f := range capability.Features() {
		a, needs := p.Request.Parameter(f)
		if needs && p.Claims(f) && a.Name == "" {
			l.add("contract.features.%s: it is claimed, and no field of request spells it", f)
		}
	}
	for f, path := range map[capability.Feature]string{
		capability.Chat: p.Endpoints.Chat, capability.Completions: p.Endpoints.Completions, capability.Embeddings: p.Endpoints.Embeddings, capability.Rerank: p.Endpoints.Rerank,
	} {
		if p.Claims(f) && path == "" && p.Endpoints.Generate == "" {
			l.add("contract.features.%s: it is claimed, and there is no endpoint for it", f)
		}
	}
	if p.Claims(capability.Tokens) && (p.Endpoints.Tokenize == "" || p.Tokenizer.Form == "") {
		l.add("contract.features.%s: it is claimed, and there is no endpoint for it, or no form", capability.Tokens)
	}
	if p.Claims(capability.Detokenize) {
		l.add("contract.features.%s: only engines in processes of ours have it", capability.Detokenize)
	}
	if p.Claims(capability.Drain) && p.Drain.Path == "" && p.Drain.Signal == "" {
		l.errs = append(l.errs, errors.New("contract.features.drain: it is claimed, and nothing says how"))
	}
}
