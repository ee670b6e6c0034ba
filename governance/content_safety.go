package governance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sluice-project/sluice/governance/safety"
	"github.com/sluice-project/sluice/internal/fault"
)

// SafetyConfig names the rule libraries of content safety beside the one that comes with the program, which is called [safety.Starter].
type SafetyConfig struct {
	Libraries []LibraryFile `koanf:"libraries"`
}

// LibraryFile is a rule library in a file.
type LibraryFile struct {
	Name   string `koanf:"name"`   // as in the file
	File   string `koanf:"file"`   // its path
	SHA256 string `koanf:"sha256"` // of the file, hex: another one is not used
}

// Validate reports what is wrong with the configuration.
func (c SafetyConfig) Validate() error {
	seen := map[string]bool{safety.Starter: true}
	for i, l := range c.Libraries {
		switch {
		case l.Name == "" || l.File == "":
			return fmt.Errorf("libraries[%d]: name and file must be set", i)
		case seen[l.Name]:
			return fmt.Errorf("libraries[%d].name: given twice, or that of the library that comes with the program", i)
		case len(l.SHA256) != 64 || strings.Trim(strings.ToLower(l.SHA256), "0123456789abcdef") != "":
			return fmt.Errorf("libraries[%d].sha256: must be the SHA-256 of the file in 64 hexadecimal digits", i)
		}
		seen[l.Name] = true
	}
	return nil
}

// libraries reads rule libraries when a policy first asks for them, and keeps them, and what was made of them. It is safe for concurrent use: what is
// read or made is so once, and whoever needs something else does not wait for it.
type libraries struct {
	files   []LibraryFile
	metrics *metrics
	making  singleflight.Group
	drafts  sync.Mutex // one draft is made at a time

	mu       sync.Mutex // only maps are looked at under it
	read     map[string]*safety.Library
	matchers map[matcherKey]*safety.Matcher
}

// matcherKey tells matchers apart: by all that they are made of, and by the day if a rule holds from or until one.
type matcherKey struct{ digest, day string }

func newLibraries(cfg SafetyConfig, m *metrics) *libraries {
	return &libraries{files: cfg.Libraries, metrics: m, read: map[string]*safety.Library{}, matchers: map[matcherKey]*safety.Matcher{}}
}

var (
	errNoLibrary = errors.New("there is no such library, or not in that version")
	// errUnusableLibrary is why a policy cannot be used that may be usable later, without a change of it.
	errUnusableLibrary = errors.New("open the library")
)

// library returns one. A file that cannot be used is read again the next time.
func (l *libraries) library(name, version string) (*safety.Library, error) {
	l.mu.Lock()
	lib := l.read[name]
	l.mu.Unlock()
	if lib == nil {
		v, err, _ := l.making.Do("library/"+name, func() (any, error) { return l.open(name) })
		if err != nil {
			return nil, err
		}
		lib = v.(*safety.Library) //nolint:forcetypeassert // what open returns
		if lib.Name != name {
			return nil, errors.New("the library in the file has another name")
		}
		l.mu.Lock()
		l.read[name] = lib
		l.mu.Unlock()
		if issued, err := time.Parse(time.DateOnly, lib.Issued); err == nil {
			l.metrics.libraryIssued.WithLabelValues(name).Set(float64(issued.Unix()))
		}
	}
	if version != "" && lib.Version != version {
		return nil, errNoLibrary
	}
	return lib, nil
}

func (l *libraries) open(name string) (*safety.Library, error) {
	if name == safety.Starter {
		return safety.ParseStarter()
	}
	for _, f := range l.files {
		if f.Name == name {
			return safety.Load(f.File, f.SHA256)
		}
	}
	return nil, errNoLibrary
}

// check reports which of a policy's libraries cannot be used. Error: CodeInvalidPolicy.
func (l *libraries) check(p *policy) error {
	if p.Safety == nil {
		return nil
	}
	for i, s := range p.Safety.Libraries {
		if _, err := l.library(libraryName(s)); err != nil {
			return invalid(fmt.Sprintf("safety.libraries[%d]", i), fault.Say("governance.safety_library"))
		}
	}
	return nil
}

// compiledSafety are the rules of a policy. day is the one that they are of; "" where they hold on every day alike.
type compiledSafety struct {
	day      string
	keys     []matcherKey // of the matchers
	matchers []*safety.Matcher
}

// compiled returns the rules of a policy that hold now: those of its libraries, which policies that say the same of them share, and its own. What is
// made of a draft is not kept. Error: errUnusableLibrary.
func (l *libraries) compiled(s *contentSafety, now time.Time, draft bool) (*compiledSafety, error) {
	var shared []*safety.Library
	for _, name := range s.Libraries {
		lib, err := l.library(libraryName(name))
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w", errUnusableLibrary, name, err)
		}
		shared = append(shared, lib)
	}
	rules := digestOf(s.Rules)
	out, today := &compiledSafety{}, dayOf(now)
	for _, part := range []struct {
		libraries []*safety.Library
		rules     string
	}{{shared, ""}, {[]*safety.Library{{Name: "policy", Version: rules[:12], Rules: s.Rules}}, rules}} {
		day := ""
		if slices.ContainsFunc(part.libraries, func(lib *safety.Library) bool {
			return slices.ContainsFunc(lib.Rules, func(r safety.Rule) bool { return r.From != "" || r.Until != "" })
		}) {
			day, out.day = today, today
		}
		key := matcherKey{digestOf(struct {
			Mode, Rules string
			Libraries   []string
			Actions     map[string]string
		}{s.Mode, part.rules, s.Libraries, s.Actions}), day}
		out.keys = append(out.keys, key)
		out.matchers = append(out.matchers, l.matcher(key, draft, func() *safety.Matcher { return safety.Compile(part.libraries, now, s.action) }))
	}
	return out, nil
}

// matcher returns the one of a key, which is made where there is none.
func (l *libraries) matcher(key matcherKey, draft bool, compile func() *safety.Matcher) *safety.Matcher {
	l.mu.Lock()
	m := l.matchers[key]
	l.mu.Unlock()
	switch {
	case m != nil:
		return m
	case draft:
		l.drafts.Lock()
		defer l.drafts.Unlock()
		return compile()
	}
	v, _, _ := l.making.Do(key.digest+"/"+key.day, func() (any, error) {
		m := compile()
		l.mu.Lock()
		l.matchers[key] = m
		l.mu.Unlock()
		return m, nil
	})
	return v.(*safety.Matcher) //nolint:forcetypeassert // as above
}

// keep forgets the matchers that none of the policies has.
func (l *libraries) keep(used map[matcherKey]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.matchers, func(k matcherKey, _ *safety.Matcher) bool { return !used[k] })
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// ahead is how long before midnight the rules of the next day are made, so that no request waits for them.
const ahead = time.Hour

// tendSafety makes the rules of the day, and in the last hour those of the next, for the policies that have dated rules; forgets those that no policy has
// any more; and reads the policies again where one lacks a library, since a file may be back.
func (g *Guard) tendSafety(ctx context.Context) {
	all, loaded := g.policies.Last()
	if !loaded {
		return
	}
	for _, p := range all {
		if errors.Is(p.broken, errUnusableLibrary) {
			if err := g.policies.Load(ctx); err != nil {
				return // the loop that reads them says so
			}
			break
		}
	}
	all, _ = g.policies.Last()
	used, now := map[matcherKey]bool{}, g.now()
	for _, p := range all {
		if p.broken != nil || p.policy.Safety == nil {
			continue
		}
		c, err := g.safetyOf(p, now)
		if err != nil { // it was read before
			return
		}
		parts := []*compiledSafety{c}
		if next := now.Add(ahead); c.day != "" && dayOf(next) != c.day {
			if c, err = g.libraries.compiled(p.policy.Safety, next, false); err != nil {
				return
			}
			parts = append(parts, c)
		}
		for _, c := range parts {
			for _, k := range c.keys {
				used[k] = true
			}
		}
	}
	g.libraries.keep(used)
}

func digestOf(v any) string {
	b, _ := json.Marshal(v) // strings, numbers, lists and maps with string keys always marshal, keys sorted
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// screening is content safety for one request.
type screening struct {
	policy   *contentSafety
	matchers []*safety.Matcher
	canaries []*safety.Matcher // of the request, once it was read
}

// screening returns content safety as the policy wants it now, or nil. Error: CodePolicyUnavailable.
func (g *Guard) screening(active activePolicy) (*screening, error) {
	s := active.policy.Safety
	if s == nil {
		return nil, nil //nolint:nilnil // off
	}
	c, err := g.safetyOf(active, g.now())
	if err != nil {
		return nil, fault.Wrap(err, fault.CodePolicyUnavailable)
	}
	return &screening{policy: s, matchers: c.matchers}, nil
}

// safetyOf returns the rules of a policy that has any, as they hold now.
func (g *Guard) safetyOf(active activePolicy, now time.Time) (*compiledSafety, error) {
	c := active.safety.Load()
	if c.day == "" || c.day == dayOf(now) {
		return c, nil
	}
	c, err := g.libraries.compiled(active.policy.Safety, now, false)
	if err != nil {
		return nil, err
	}
	active.safety.Store(c)
	return c, nil
}

// prefix of the classes of findings that are risks.
const safetyClass = "safety."

// countHit counts a match of a rule.
func (a *Admission) countHit(d Direction, h safety.Hit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[hitFinding(d, h)]++
	a.guard.metrics.hits.WithLabelValues(string(d), string(h.Risk), string(h.Action)).Inc()
}

func hitFinding(d Direction, h safety.Hit) Finding {
	return Finding{Direction: string(d), Class: safetyClass + string(h.Risk), Detector: h.Library + "#" + h.Rule, Action: string(h.Action)}
}

// screen judges a text on its way to a model and returns it without what rules take out. hit is told of each match. In a passage, which the caller has
// not written, what would block is replaced. Error: CodeUnsafeContent with the risk.
func (s *screening) screen(text string, d Direction, path string, hit func(safety.Hit)) (string, error) {
	if s == nil || text == "" {
		return text, nil
	}
	soften := func(h safety.Hit) safety.Hit {
		if d == DirectionPassage && h.Action == safety.Block {
			h.Action = safety.Replace
		}
		return h
	}
	var blocked safety.Risk
	if s.policy.Hidden != "" {
		stripped, n := safety.StripHidden(text)
		action := s.policy.hiddenAction()
		if n > 0 {
			hit(soften(safety.HiddenHit(action)))
			if action == safety.Block {
				blocked = safety.RiskHidden
			}
			if action != safety.Note {
				text = stripped
			}
		}
	}
	text, risk := safety.Screen(s.matchers, text, func(h safety.Hit) { hit(soften(h)) })
	if blocked = cmp.Or(blocked, risk); blocked != "" && d != DirectionPassage {
		return "", fault.New(fault.CodeUnsafeContent, riskPhrase(blocked)).WithParam(path)
	}
	return text, nil
}

// riskPhrase names a risk to whoever reads of it, by its id and in words.
func riskPhrase(r safety.Risk) fault.Phrase {
	name := fault.Phrase{}
	switch r {
	case safety.RiskInjection:
		name = fault.Say("governance.risk_injection")
	case safety.RiskHidden:
		name = fault.Say("governance.risk_hidden")
	case safety.RiskLink:
		name = fault.Say("governance.risk_link")
	case safety.RiskCanary:
		name = fault.Say("governance.risk_canary")
	default:
		for _, t := range safety.Risks() {
			if t.ID == r {
				name = fault.Quote(t.English, t.Chinese)
			}
		}
	}
	return fault.Say("governance.risk", string(r), name)
}

// noteCanaries remembers the canaries of the operator's texts. Call it before the answer is released.
func (a *Admission) noteCanaries(fields []Field) {
	s := a.screening
	if s == nil || s.policy.Canaries == "" {
		return
	}
	var all strings.Builder
	for _, f := range fields {
		if f.Operator && f.Text != nil {
			all.WriteString(*f.Text)
			all.WriteString("\n")
		}
	}
	if m := safety.Canaries(all.String(), s.policy.effective(safety.Action(s.policy.Canaries))); m != nil {
		s.canaries = append(s.canaries, m)
	}
}

// safetyStream returns what a text on its way out is looked at for, or nil. soften: what would block is replaced.
func (a *Admission) safetyStream(d Direction, soften bool) *safety.Stream {
	return a.screening.stream(soften, func(h safety.Hit) { a.countHit(d, h) })
}

func (s *screening) stream(soften bool, hit func(safety.Hit)) *safety.Stream {
	if s == nil {
		return nil
	}
	cfg := safety.StreamConfig{Matchers: slices.Concat(s.matchers, s.canaries), Soften: soften, Hit: hit}
	if l := s.policy.Links; l != nil {
		cfg.Links = safety.Links{Hosts: l.Hosts, Action: s.policy.effective(safety.Action(l.Action))}
	}
	if !cfg.Active() {
		return nil
	}
	return safety.NewStream(cfg)
}
