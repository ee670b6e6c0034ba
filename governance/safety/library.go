package safety

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Starter is the name of the library that comes with the program.
const Starter = "starter"

//go:embed starter.yaml
var starter []byte

// Action is what happens to a text where a rule matches.
type Action string

// The actions, the strictest first.
const (
	Block   Action = "block"   // the request or the answer is refused
	Replace Action = "replace" // [Replacement] stands where the words stood
	Review  Action = "review"  // the text goes on, and somebody should see to it
	Note    Action = "note"    // it is counted and recorded
)

// Replacement stands for what was replaced.
const Replacement = "***"

// Actions returns them, the strictest first.
func Actions() []Action { return []Action{Block, Replace, Review, Note} }

// Scope says on which texts a rule looks.
type Scope string

// The scopes.
const (
	Input  Scope = "input"
	Output Scope = "output"
	Both   Scope = "both"
)

// The bounds of a library and its words.
const (
	MaxLibrary = 32 << 20 // bytes of its file
	MaxWord    = 64       // letters of a word, without what stands between them
	MaxGap     = 4        // separators between two letters of a word
	maxForms   = 4096     // spellings of one word with alternatives
)

// Rule says what words mean. Words are in any case, width and script form. {a|b|} in a word stands for one of several spellings, the empty one too.
type Rule struct {
	ID     string   `yaml:"id" json:"id"`
	Risk   Risk     `yaml:"risk" json:"risk"`
	Level  int      `yaml:"level" json:"level"` // how grave, from 1 to 5
	Action Action   `yaml:"action" json:"action"`
	Scope  Scope    `yaml:"scope" json:"scope"`
	Words  []string `yaml:"words" json:"words"`
	// Except are texts with such words that mean something else: a word inside one of them is no match.
	Except []string `yaml:"except" json:"except,omitempty"`
	// Spread is how many separators may stand between two letters of a word of a script with spaces. Between those of others, such as Chinese, two
	// may, or Spread if it is more.
	Spread int `yaml:"spread" json:"spread,omitempty"`
	// From and Until bound when the rule holds, as days in UTC, Until the last; "" is no bound.
	From  string `yaml:"from" json:"from,omitempty"`
	Until string `yaml:"until" json:"until,omitempty"`
}

// Library is a versioned list of rules.
type Library struct {
	Schema     int    `yaml:"schema"`
	Name       string `yaml:"name"`
	Version    string `yaml:"version"`
	Issued     string `yaml:"issued"`     // the day it was made
	Provenance string `yaml:"provenance"` // who made it, of what
	Rules      []Rule `yaml:"rules"`

	Digest string `yaml:"-"` // SHA-256 of the file, hex
}

// Load reads the file of a library, which must have the digest. The error names the step and what is wrong, and quotes no words.
func Load(path, digest string) (*Library, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open library: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, MaxLibrary+1))
	if err != nil {
		return nil, fmt.Errorf("read library: %w", err)
	}
	sum := sha256.Sum256(b)
	if hex.EncodeToString(sum[:]) != strings.ToLower(digest) {
		return nil, errors.New("the library does not have the digest that the configuration pins")
	}
	return Parse(b)
}

// ParseStarter returns the library that comes with the program.
func ParseStarter() (*Library, error) { return Parse(starter) }

// Parse reads a library strictly.
func Parse(b []byte) (*Library, error) {
	if len(b) > MaxLibrary {
		return nil, fmt.Errorf("the library is larger than %d bytes", MaxLibrary)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	l := &Library{}
	if err := d.Decode(l); err != nil {
		return nil, errors.New("the library is no YAML of the known fields") // its own text quotes words
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the library has more than one document")
	}
	if l.Schema != 1 {
		return nil, fmt.Errorf("the library has schema %d, this program knows 1", l.Schema)
	}
	if !name(l.Name) || !name(l.Version) {
		return nil, errors.New("name and version: letters, digits, dots, hyphens and underscores, at most 64")
	}
	if _, err := time.Parse(time.DateOnly, l.Issued); err != nil {
		return nil, errors.New("issued: must be a day such as 2026-01-31")
	}
	if l.Provenance == "" {
		return nil, errors.New("provenance: must say where the words come from")
	}
	seen := map[string]bool{}
	for i := range l.Rules {
		r := &l.Rules[i]
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("rules[%d].%w", i, err)
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("rules[%d].id: given twice", i)
		}
		seen[r.ID] = true
	}
	sum := sha256.Sum256(b)
	l.Digest = hex.EncodeToString(sum[:])
	return l, nil
}

func name(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}

// Validate reports what is wrong with a rule, by the name of its field.
func (r *Rule) Validate() error {
	switch {
	case !name(r.ID):
		return errors.New("id: letters, digits, dots, hyphens and underscores, at most 64")
	case !r.Risk.Known():
		return errors.New("risk: not known")
	case r.Level < 1 || r.Level > 5:
		return errors.New("level: must be from 1 to 5")
	case !slices.Contains(Actions(), r.Action):
		return errors.New("action: must be block, replace, review or note")
	case r.Scope != Input && r.Scope != Output && r.Scope != Both:
		return errors.New("scope: must be input, output or both")
	case r.Spread < 0 || r.Spread > MaxGap:
		return fmt.Errorf("spread: must be from 0 to %d", MaxGap)
	case len(r.Words) == 0:
		return errors.New("words: must have one")
	}
	for _, day := range []string{r.From, r.Until} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return errors.New("from and until: must be days such as 2026-01-31")
		}
	}
	n := newNormaliser()
	for i, w := range r.Words {
		if err := n.check(w); err != nil {
			return fmt.Errorf("words[%d]: %w", i, err)
		}
	}
	for i, w := range r.Except {
		if err := n.check(w); err != nil {
			return fmt.Errorf("except[%d]: %w", i, err)
		}
	}
	return nil
}

func (n *normaliser) check(word string) error {
	forms, err := alternatives(word)
	if err != nil {
		return err
	}
	for _, f := range forms {
		if got := n.length(f); got < 2 || got > MaxWord {
			return fmt.Errorf("must have from 2 to %d letters in each spelling", MaxWord)
		}
	}
	return nil
}

// length returns how many letters a spelling has.
func (n *normaliser) length(s string) int {
	count := 0
	for _, r := range s {
		if r < utf8.RuneSelf {
			if alnum(r) {
				count++
			}
		} else if c, letters := n.of(r); c == letter {
			count += len(letters)
		}
	}
	return count
}

// holds reports whether the rule holds on a day.
func (r *Rule) holds(day string) bool {
	return (r.From == "" || r.From <= day) && (r.Until == "" || day <= r.Until)
}

// Keywords returns how many distinct words the rules have of each risk, as they are normalised. A word with alternatives counts once: spellings are no
// further words.
func (l *Library) Keywords() map[Risk]int {
	n, seen, out := newNormaliser(), map[string]bool{}, map[Risk]int{}
	for _, r := range l.Rules {
		for _, w := range r.Words {
			forms, err := alternatives(w)
			if err != nil || len(forms) == 0 {
				continue
			}
			key := string(n.word(forms[0], 0).letters)
			if !seen[key] {
				out[r.Risk]++
			}
			seen[key] = true
		}
	}
	return out
}

// alternatives returns the spellings of a word, in order.
func alternatives(word string) ([]string, error) {
	out := []string{""}
	for word != "" {
		plain, rest, open := strings.Cut(word, "{")
		if strings.Contains(plain, "}") {
			return nil, errors.New("a brace closes that was not opened")
		}
		choices := []string{""}
		if word = ""; open {
			inner, after, closed := strings.Cut(rest, "}")
			if !closed || strings.Contains(inner, "{") {
				return nil, errors.New("a brace is not closed, or stands in another")
			}
			choices, word = strings.Split(inner, "|"), after
		}
		if len(out)*len(choices) > maxForms {
			return nil, fmt.Errorf("has more than %d spellings", maxForms)
		}
		next := make([]string, 0, len(out)*len(choices))
		for _, head := range out {
			for _, c := range choices {
				next = append(next, head+plain+c)
			}
		}
		out = next
	}
	return out, nil
}
