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
	MaxWord    = 64       // letters of a word, without what stands between them
	MaxGap     = 4        // separators between two letters of a word
	maxForms   = 4096     // spellings of one word with alternatives
	maxLibrary = 32 << 20 // bytes of a file

	// MaxLetters bounds the letters of all spellings of a library, each of which takes some 100 bytes of memory, and MaxPolicyLetters those of rules
	// that stand in a policy.
	MaxLetters       = 1_000_000
	MaxPolicyLetters = 50_000
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
}

// Load reads the file of a library, which must have the digest. The error names the step and what is wrong, and quotes no words.
func Load(path, digest string) (*Library, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open library: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxLibrary+1))
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
	if len(b) > maxLibrary {
		return nil, fmt.Errorf("the library is larger than %d bytes", maxLibrary)
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
	seen, letters := map[string]bool{}, 0
	for i := range l.Rules {
		r := &l.Rules[i]
		if letters += r.Size(); letters > MaxLetters { // before they are spelt out
			return nil, fmt.Errorf("rules[%d].words: the spellings of the library have more than %d letters", i, MaxLetters)
		}
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("rules[%d].%w", i, err)
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("rules[%d].id: given twice", i)
		}
		seen[r.ID] = true
	}
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
		if err := n.check(w, r.Spread); err != nil {
			return fmt.Errorf("words[%d]: %w", i, err)
		}
	}
	for i, w := range r.Except {
		if err := n.check(w, r.Spread); err != nil {
			return fmt.Errorf("except[%d]: %w", i, err)
		}
	}
	return nil
}

// Size returns how many characters all spellings of the rule have together, without spelling them out: a bound of the memory that they take.
func (r *Rule) Size() int {
	total := 0
	for _, words := range [][]string{r.Words, r.Except} {
		for _, w := range words {
			total += size(w)
		}
	}
	return total
}

// size counts the characters of the spellings of a word; more than MaxLetters where there are too many.
func size(word string) int {
	forms, sum := 1, 0 // spellings of what was read, and the characters of all of them
	for word != "" {
		plain, rest, open := strings.Cut(word, "{")
		sum += forms * utf8.RuneCountInString(plain)
		if word = ""; open {
			inner, after, _ := strings.Cut(rest, "}")
			choices := strings.Count(inner, "|") + 1
			sum = sum*choices + forms*(utf8.RuneCountInString(inner)-choices+1)
			forms, word = forms*choices, after
		}
		if forms > maxForms || sum > MaxLetters {
			return MaxLetters + 1
		}
	}
	return sum
}

func (n *normaliser) check(word string, spread int) error {
	if size(word) > MaxLetters {
		return fmt.Errorf("has more than %d spellings, or they are too long", maxForms)
	}
	forms, err := alternatives(word)
	if err != nil {
		return err
	}
	for _, f := range forms {
		w, whole := n.word(f, spread)
		if len(w.letters) < 2 || len(w.letters) > MaxWord {
			return fmt.Errorf("must have from 2 to %d letters in each spelling", MaxWord)
		}
		if !whole {
			return fmt.Errorf("could never match: punctuation that ends a part of a sentence, or too many separators, stand between its letters (%d between words, 2 in Chinese)", MaxGap)
		}
	}
	return nil
}

// holds reports whether the rule holds on a day.
func (r *Rule) holds(day string) bool {
	return (r.From == "" || r.From <= day) && (r.Until == "" || day <= r.Until)
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
