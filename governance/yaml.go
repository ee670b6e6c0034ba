package governance

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/internal/fault"
)

// field is a key an object may have.
type field struct {
	name     string
	required bool
	read     func(n *yaml.Node, path string) error
}

func object(n *yaml.Node, path string, fields []field) error {
	if err := rejectAliases(n, path); err != nil {
		return err
	}
	if n.Kind != yaml.MappingNode {
		return errorAt(n, path, fault.Say("governance.mapping"))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		k := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if k < 0 || key.Kind != yaml.ScalarNode {
			return errorAt(key, path, fault.Say("governance.unknown_key", names(fields)))
		}
		if seen[key.Value] {
			return errorAt(key, join(path, key.Value), fault.Say("governance.given_twice"))
		}
		seen[key.Value] = true
		if err := fields[k].read(n.Content[i+1], join(path, key.Value)); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if f.required && !seen[f.name] {
			return errorAt(n, join(path, f.name), fault.Say("governance.missing"))
		}
	}
	return nil
}

// rejectAliases refuses anchors and aliases: a document must say what it says.
func rejectAliases(n *yaml.Node, path string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return errorAt(n, path, fault.Say("governance.alias"))
	}
	return nil
}

func text(to *string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" || utf8.RuneCountInString(n.Value) > 128 ||
			strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errorAt(n, path, fault.Say("governance.short_text"))
		}
		*to = n.Value
		return nil
	}
}

// pattern reads an expression, which may be longer than a name.
func pattern(to *string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || n.Value == "" || len(n.Value) > 1000 {
			return errorAt(n, path, fault.Say("governance.expression"))
		}
		*to = n.Value
		return nil
	}
}

// words reads a list that may be longer than others, of anything that is written as one scalar.
func words(to *[]string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.SequenceNode {
			return errorAt(n, path, fault.Say("value.list"))
		}
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Anchor != "" || item.Value == "" {
				return errorAt(item, path+"["+strconv.Itoa(i)+"]", fault.Say("governance.text"))
			}
			*to = append(*to, item.Value)
		}
		return nil
	}
}

func choice(to *string, values ...string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || !slices.Contains(values, n.Value) {
			return errorAt(n, path, fault.Say("value.one_of", strings.Join(values, ", ")))
		}
		*to = n.Value
		return nil
	}
}

func list(to *[]string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.SequenceNode || len(n.Content) > 1000 {
			return errorAt(n, path, fault.Say("governance.list_length"))
		}
		out := []string{}
		for i, item := range n.Content {
			var s string
			if err := text(&s)(item, path+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
			out = append(out, s)
		}
		*to = out
		return nil
	}
}

func names(fields []field) string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func errorAt(n *yaml.Node, path string, reason fault.Phrase) error {
	return invalid(path, fault.Say("governance.at_place", reason, n.Line, n.Column))
}

// withLine adds the line of the document to a reason; 0 is an unknown line.
func withLine(reason fault.Phrase, line int) fault.Phrase {
	if line == 0 {
		return reason
	}
	return fault.Say("governance.on_line", reason, line)
}

func invalid(path string, reason fault.Phrase) error {
	if path == "" {
		path = "document"
	}
	return fault.New(fault.CodeInvalidPolicy, path, reason).WithParam(path)
}

// yamlLine keeps the line of a syntax error and drops its text, which quotes the document; 0 if it names no line.
func yamlLine(err error) int {
	if err == nil {
		return 0
	}
	_, rest, _ := strings.Cut(err.Error(), "line ")
	number, _, _ := strings.Cut(rest, ":")
	line, _ := strconv.Atoi(number)
	return line
}

// choices reads a list of known names, at least one.
func choices(to *[]string, values ...string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		var names []string
		if err := list(&names)(n, path); err != nil {
			return err
		}
		if len(names) == 0 {
			return errorAt(n, path, fault.Say("governance.one_entry"))
		}
		for i, name := range names {
			if !slices.Contains(values, name) {
				return errorAt(n.Content[i], path+"["+strconv.Itoa(i)+"]", fault.Say("value.one_of", strings.Join(values, ", ")))
			}
		}
		*to = names
		return nil
	}
}

// number reads a whole number within bounds, which is written without a plus.
func number(to *int, least, most int) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || v < least || v > most || n.Value[0] == '+' {
			return errorAt(n, path, fault.Say("value.whole_between", least, most))
		}
		*to = v
		return nil
	}
}

// span reads a length of time within bounds, such as 24h or 30m.
func span(to *time.Duration, least, most time.Duration) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		d, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || d < least || d > most || d%time.Second != 0 {
			return errorAt(n, path, fault.Say("governance.duration", least, most))
		}
		*to = d
		return nil
	}
}
