package capability

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// String returns the text of the condition, "" for the one that always holds.
func (c Condition) String() string { return c.text }

// IsZero reports whether the condition always holds.
func (c Condition) IsZero() bool { return c.root == nil }

// MarshalText implements encoding.TextMarshaler.
func (c Condition) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Condition) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCondition(string(b))
	return err
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *Condition) UnmarshalYAML(n *yaml.Node) error {
	var s string
	if err := n.Decode(&s); err != nil {
		return err
	}
	return c.UnmarshalText([]byte(s))
}

// MarshalYAML implements yaml.Marshaler.
func (c Condition) MarshalYAML() (any, error) { return c.text, nil }

// Eval returns what the condition says of a state.
func (c Condition) Eval(s State) Truth {
	if c.root == nil {
		return Yes
	}
	return c.root.eval(s)
}

// Names returns the facts that the condition speaks of, each once, in order.
func (c Condition) Names() []string {
	var out []string
	var walk func(n *node)
	walk = func(n *node) {
		if n == nil {
			return
		}
		if n.name != "" {
			out = append(out, n.name)
		}
		walk(n.left)
		walk(n.right)
	}
	walk(c.root)
	slices.Sort(out)
	return slices.Compact(out)
}

// numbers returns what a fact is compared with.
func (c Condition) numbers(name string) []float64 {
	var out []float64
	var walk func(n *node)
	walk = func(n *node) {
		if n == nil {
			return
		}
		if n.name == name {
			out = append(out, n.numbers...)
		}
		walk(n.left)
		walk(n.right)
	}
	walk(c.root)
	return out
}

func (n *node) eval(s State) Truth {
	switch n.op {
	case opTrue:
		return Yes
	case opFalse:
		return No
	case opNot:
		return Yes - n.left.eval(s)
	case opAnd:
		return min(n.left.eval(s), n.right.eval(s))
	case opOr:
		return max(n.left.eval(s), n.right.eval(s))
	default:
		return n.compare(s)
	}
}

func truth(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

// compare evaluates a comparison.
func (n *node) compare(s State) Truth {
	v, ok := s[n.name]
	if !ok {
		return Unknown
	}
	switch n.kind {
	case kindNumber:
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(x) {
			return Unknown
		}
		return truth(slices.ContainsFunc(n.numbers, func(y float64) bool { return n.ordered(cmp.Compare(x, y)) }))
	case kindVersion:
		if v == "" {
			return Unknown
		}
		return truth(slices.ContainsFunc(n.texts, func(w string) bool { return n.ordered(CompareVersions(v, w)) }))
	default:
		in := slices.Contains(n.texts, v)
		return truth(in != (n.op == opNe))
	}
}

// ordered reports whether the operator holds of an order.
func (n *node) ordered(c int) bool {
	switch n.op {
	case opEq, opIn:
		return c == 0
	case opNe:
		return c != 0
	case opLt:
		return c < 0
	case opLe:
		return c <= 0
	case opGt:
		return c > 0
	default:
		return c >= 0
	}
}

// CompareVersions compares versions part by part: numbers by value, words by letter; a word that stands where the other version ends or has a number
// is a pre-release and comes before it, "post" and what follows "+" come after it. A leading v is ignored. 0.11.0rc1 < 0.11.0 = v0.11 < 0.11.0.post1 < 0.11.1.
func CompareVersions(a, b string) int {
	x, y := versionParts(a), versionParts(b)
	for i := range max(len(x), len(y)) {
		if c := comparePart(part(x, i), part(y, i)); c != 0 {
			return c
		}
	}
	return 0
}

// versionPart is a number, or a word. rank orders parts of different kinds: a pre-release, then the end or zero, then a number, then a word after.
type versionPart struct {
	rank int
	n    string // digits without leading zeros
	word string
}

func part(p []versionPart, i int) versionPart {
	if i < len(p) {
		return p[i]
	}
	return versionPart{rank: 1}
}

func comparePart(a, b versionPart) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(len(a.n), len(b.n)), cmp.Compare(a.n, b.n), cmp.Compare(a.word, b.word))
}

func versionParts(s string) []versionPart {
	s = strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(s, "v"), "V"))
	var out []versionPart
	after := false
	for s != "" {
		switch c := s[0]; {
		case digit(c):
			n := run(s, digit)
			p := versionPart{rank: 2, n: strings.TrimLeft(s[:n], "0")}
			if p.n == "" {
				p.rank = 1
			}
			out, s = append(out, p), s[n:]
		case letter(c) && c != '_':
			n := run(s, func(b byte) bool { return letter(b) && b != '_' })
			p := versionPart{word: s[:n]}
			if after || p.word == "post" {
				p.rank = 3
			}
			out, s = append(out, p), s[n:]
		default:
			after = after || c == '+'
			s = s[1:]
		}
	}
	return out
}
