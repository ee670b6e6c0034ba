package evidence

import (
	_ "embed" // for the text
	"strconv"
	"strings"
	"unicode"
)

//go:embed readme.txt
var readmeText string

// readme is the text of a bundle for people.
func readme(m Manifest) string {
	tenant, from, to := "all / 全部", "open / 不限", "open / 不限"
	if m.Tenant != "" {
		tenant = oneLine(m.Tenant)
	}
	if m.From > 0 {
		from = stamp(m.From)
	}
	if m.To != 0 {
		to = stamp(m.To)
	}
	key := strings.Join(strings.Fields(m.Key), "\n    ")
	return strings.NewReplacer(
		"{{origin}}", m.Origin, "{{key}}", key, "{{tenant}}", tenant, "{{from}}", from, "{{to}}", to,
		"{{by}}", oneLine(m.By), "{{created}}", m.Created.Format("2006-01-02 15:04:05 UTC"), "{{records}}", strconv.FormatInt(m.Records, 10),
		"{{size}}", strconv.FormatInt(m.Size, 10), "{{root}}", m.Root,
	).Replace(readmeText)
}

// oneLine keeps what others typed from looking like text of ours.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.Join(strings.Fields(s), " "))
}
