package grammar

import "github.com/sluice-project/sluice/internal/fault"

// ParseRegex returns the grammar of the texts that re, in RE2 syntax, matches as a whole; see [ParseRegexp].
func ParseRegex(re string, limits Limits) (*Grammar, error) {
	b := NewBuilder(limits)
	n, err := b.Regex(re)
	if err != nil {
		return nil, err
	}
	return b.Build(n)
}

// Choice returns the grammar of exactly the given texts.
func Choice(texts []string, limits Limits) (*Grammar, error) {
	b := NewBuilder(limits)
	total := 0
	rs := make([]Regexp, len(texts))
	for i, s := range texts {
		total += len(s)
		rs[i] = Text(s)
	}
	if total > b.limits.SourceBytes {
		return nil, tooLong(total, b.limits.SourceBytes)
	}
	if len(texts) == 0 {
		return nil, wrong(fault.Say("grammar.empty_list"))
	}
	return b.Build(b.Lexeme(Alternate(rs...)))
}
