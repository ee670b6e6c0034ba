package governance

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

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

// libraries reads rule libraries when a policy first asks for them, and keeps them, and what was made of them. It is safe for concurrent use.
type libraries struct {
	files   []LibraryFile
	metrics *metrics

	mu       sync.Mutex
	read     map[string]*safety.Library
	matchers map[matcherKey]*safety.Matcher
}

// matcherKey tells matchers apart: by all that they are made of, and by the day if a rule holds from or until one.
type matcherKey struct{ digest, day string }

func newLibraries(cfg SafetyConfig, m *metrics) *libraries {
	return &libraries{files: cfg.Libraries, metrics: m, read: map[string]*safety.Library{}, matchers: map[matcherKey]*safety.Matcher{}}
}

var errNoLibrary = errors.New("there is no such library, or not in that version")

// library returns one. A file that cannot be used is read again the next time.
func (l *libraries) library(name, version string) (*safety.Library, error) {
	lib := l.read[name]
	if lib == nil {
		var err error
		if lib, err = l.open(name); err != nil {
			return nil, err
		}
		if lib.Name != name {
			return nil, errors.New("the library in the file has another name")
		}
		l.read[name] = lib
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
	l.mu.Lock()
	defer l.mu.Unlock()
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
	matchers []*safety.Matcher
}

// compiled returns the rules of a policy that hold now: those of its libraries, which policies that say the same of them share, and its own.
func (l *libraries) compiled(s *contentSafety, now time.Time) (*compiledSafety, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var shared []*safety.Library
	for _, name := range s.Libraries {
		lib, err := l.library(libraryName(name))
		if err != nil {
			return nil, fmt.Errorf("open the library %q: %w", name, err)
		}
		shared = append(shared, lib)
	}
	rules := digestOf(s.Rules)
	out, today := &compiledSafety{}, now.UTC().Format(time.DateOnly)
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
		m := l.matchers[key]
		if m == nil {
			if len(l.matchers) >= maxMatchers {
				clear(l.matchers)
			}
			m = safety.Compile(part.libraries, now, s.action)
			l.matchers[key] = m
		}
		out.matchers = append(out.matchers, m)
	}
	return out, nil
}

func digestOf(v any) string {
	b, _ := json.Marshal(v) // strings, numbers, lists and maps with string keys always marshal, keys sorted
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// maxMatchers bounds those that are kept, those of policies that have been replaced and of days that have passed among them.
const maxMatchers = 4096

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
	now := g.now()
	c := active.safety.Load()
	if c.day != "" && c.day != now.UTC().Format(time.DateOnly) {
		var err error
		if c, err = g.libraries.compiled(s, now); err != nil {
			return nil, fault.Wrap(err, fault.CodePolicyUnavailable)
		}
		active.safety.Store(c)
	}
	return &screening{policy: s, matchers: c.matchers}, nil
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
func (a *Admission) screen(text string, d Direction, path string, hit func(safety.Hit)) (string, error) {
	s := a.screening
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
		action := s.policy.effective(map[string]safety.Action{hiddenRemove: safety.Replace, hiddenRefuse: safety.Block, hiddenNote: safety.Note}[s.policy.Hidden])
		if n > 0 {
			hit(soften(safety.Hit{Rule: "hidden", Library: "built-in@1", Risk: safety.RiskHidden, Level: 3, Action: action}))
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
		return "", fault.New(fault.CodeUnsafeContent, string(blocked)).WithParam(path)
	}
	return text, nil
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

// safetyStream returns what a text on its way out is looked at for, or nil.
func (a *Admission) safetyStream(hit func(safety.Hit)) *safety.Stream {
	s := a.screening
	if s == nil {
		return nil
	}
	cfg := safety.StreamConfig{Matchers: slices.Concat(s.matchers, s.canaries), Hit: hit}
	if l := s.policy.Links; l != nil {
		cfg.Links = safety.Links{Hosts: l.Hosts, Action: s.policy.effective(safety.Action(l.Action))}
	}
	if !cfg.Active() {
		return nil
	}
	return safety.NewStream(cfg)
}
