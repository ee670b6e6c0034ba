package jsonschema

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// formatForm is the form in which a format is written.
type formatForm struct {
	pattern string // RE2 syntax, of the whole string
	exact   bool   // the form is all that the format allows; otherwise it is the common part
}

func (f formatForm) anchored() string { return "^(?:" + f.pattern + ")$" }

const (
	octet    = `(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	ipv4     = octet + `(?:\.` + octet + `){3}`
	hex16    = `[0-9A-Fa-f]{1,4}`
	leap     = `(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`
	fullDate = `(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|` +
		leap + `-02-29)`
	fullTime = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])`
	label    = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,38}[A-Za-z0-9])?`
	hostname = label + `(?:\.` + label + `){0,5}` // at most 245 of the 253 characters, without counting them all
	atom     = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
	pchar    = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})`
)

// formats are those that are enforced.
//
//nolint:gochecknoglobals // a constant table
var formats = map[string]formatForm{
	"date":         {pattern: fullDate, exact: true},
	"time":         {pattern: fullTime},
	"date-time":    {pattern: fullDate + "T" + fullTime},
	"duration":     {pattern: duration()},
	"email":        {pattern: `[A-Za-z0-9_+-]` + atom + `{0,30}(?:\.` + atom + `{1,30})?@` + label + `(?:\.` + label + `){0,3}`},
	"hostname":     {pattern: hostname},
	"ipv4":         {pattern: ipv4, exact: true},
	"ipv6":         {pattern: ipv6(), exact: true},
	"uuid":         {pattern: `[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}`, exact: true},
	"json-pointer": {pattern: `(?:/(?:[^/~]|~[01])*)*`, exact: true},
	"uri": {pattern: `(?:https?|ftp|wss?)://` + hostname + `(?::[1-9][0-9]{0,3})?(?:/` + pchar + `*)*(?:\?(?:` + pchar + `|[/?])*)?(?:#(?:` + pchar + `|[/?])*)?` +
		`|(?:mailto|urn|tel):` + pchar + `+`},
}

// duration is RFC 3339's: weeks, or days and longer, or times, each in order and without gaps.
func duration() string {
	const n = `[0-9]{1,9}`
	time := `T(?:` + n + `H(?:` + n + `M(?:` + n + `S)?)?|` + n + `M(?:` + n + `S)?|` + n + `S)`
	date := `(?:` + n + `Y(?:` + n + `M(?:` + n + `D)?)?|` + n + `M(?:` + n + `D)?|` + n + `D)`
	return `P(?:` + n + `W|` + date + `(?:` + time + `)?|` + time + `)`
}

// ipv6 lists the places of the one "::", which stands for one group at least; the last two groups may be spelled as an IPv4 address.
func ipv6() string {
	tail := `(?:` + hex16 + `:` + hex16 + `|` + ipv4 + `)`
	choices := []string{`(?:` + hex16 + `:){6}` + tail}
	groups := func(n int) string { // at most n groups before "::"
		if n == 0 {
			return ""
		}
		return `(?:(?:` + hex16 + `:){0,` + string(rune('0'+n-1)) + `}` + hex16 + `)?`
	}
	for after := 5; after >= 0; after-- { // full groups between "::" and the tail
		choices = append(choices, groups(5-after)+`::`+strings.Repeat(hex16+`:`, after)+tail)
	}
	choices = append(choices, groups(6)+`::`+hex16, groups(7)+`::`)
	return strings.Join(choices, "|")
}

// format reads the keyword. Formats of OpenAPI that say how a number is stored are bounds, or nothing in JSON.
func (p *parser) format(n *node, v *value) error {
	switch v.text {
	case "float", "double", "password":
		return nil
	case "int32", "int64":
		lo, hi := "-2147483648", "2147483647"
		if v.text == "int64" {
			lo, hi = "-9223372036854775808", "9223372036854775807"
		}
		n.numbers.low = tighter(n.numbers.low, bound{value: parseNumber(lo)}, true)
		n.numbers.high = tighter(n.numbers.high, bound{value: parseNumber(hi)}, false)
		return nil
	}
	if _, ok := formats[v.text]; !ok {
		names := []string{"int32", "int64"}
		for name := range formats {
			names = append(names, name)
		}
		slices.Sort(names)
		return refuse(v.at(), fault.Say("jsonschema.format", strings.Join(names, ", ")))
	}
	n.texts.formats = append(n.texts.formats, format{at: v.at(), name: v.text})
	return nil
}
