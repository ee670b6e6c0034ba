package jsonschema

import (
	"slices"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// quoted returns the expression of a string, with its quotes. Names of properties are always spelled plainly.
func (c *compiler) quoted(t *textShape, name bool) (grammar.Regexp, error) {
	char := c.spelling.any
	if name || len(t.patterns)+len(t.formats)+len(t.exclude) > 0 {
		char = c.spelling.plain
	}
	if t.max >= 0 && t.max < t.min {
		return grammar.Alternate(), nil
	}
	parts := make([]grammar.Regexp, 0, 2)
	for _, p := range t.patterns {
		re, err := c.pattern(p.at, p.text)
		if err != nil {
			return re, err
		}
		parts = append(parts, opposite(re, p.not))
	}
	for _, f := range t.formats {
		form := formats[f.name]
		if c.loose && !form.exact {
			continue
		}
		re, err := c.pattern(f.at, form.anchored())
		if err != nil {
			return re, err
		}
		parts = append(parts, opposite(re, f.not))
	}
	if len(t.exclude) > 0 {
		parts = append(parts, opposite(oneOfTexts(t.exclude), true))
	}
	bounded := t.min > 0 || t.max >= 0
	negated := !slices.ContainsFunc(t.patterns, func(p pattern) bool { return !p.not }) &&
		!slices.ContainsFunc(t.formats, func(f format) bool { return !f.not })
	if bounded || negated { // a complement alone would also hold what is no string
		parts = append(parts, grammar.Times(char, t.min, t.max))
	}
	body := grammar.Intersect(parts...)
	return grammar.Concat(grammar.Text(`"`), body, grammar.Text(`"`)), body.Err()
}

func opposite(re grammar.Regexp, not bool) grammar.Regexp {
	if not {
		return grammar.Not(re)
	}
	return re
}

// oneOfTexts matches any of the texts.
func oneOfTexts(list []string) grammar.Regexp {
	out := make([]grammar.Regexp, len(list))
	for i, s := range list {
		out[i] = grammar.Text(plainText(s))
	}
	return grammar.Alternate(out...)
}

// pattern returns the expression of the texts in which the pattern occurs, plainly spelled.
func (c *compiler) pattern(at, text string) (grammar.Regexp, error) {
	if re, ok := c.patterns[text]; ok {
		return re, nil
	}
	var none grammar.Regexp
	tree, err := parsePattern(at, text)
	if err != nil {
		return none, err
	}
	list, err := branches(at, tree)
	if err != nil {
		return none, err
	}
	filler := grammar.Times(c.spelling.plain, 0, -1)
	var out []grammar.Regexp
	for _, b := range list {
		parts := []grammar.Regexp{filler, spelled(b.body), filler}
		if b.end {
			parts = parts[:2]
		}
		if b.begin {
			parts = parts[1:]
		}
		out = append(out, grammar.Concat(parts...))
	}
	re := grammar.Alternate(out...)
	if err := re.Err(); err != nil {
		return re, grammarError(at, err)
	}
	c.patterns[text] = re
	return re, nil
}

// grammarError gives a refusal of the grammar the place in the schema that caused it.
func grammarError(at string, err error) error {
	reason, ok := grammar.Reason(err)
	if !ok {
		reason = fault.Say("jsonschema.not_compiled", err)
	}
	return refuse(at, reason)
}
