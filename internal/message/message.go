package message

import (
	_ "embed" // the catalogues
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message/catalog"
)

// ID names one text of the catalogues, such as "billing.spent_daily". Ids are stable: they are no prose and do not follow it.
type ID string

// Lang selects a catalogue.
type Lang uint8

// The languages that every text exists in.
const (
	English Lang = iota
	Chinese
)

// Phrase is a text that is not rendered yet, so that whoever shows it chooses the language. Making one costs nothing but its
// arguments.
type Phrase struct {
	id     ID
	args   []any
	quoted []string // by Lang; of Quote
}

// Say returns the text id; args fill its verbs. An argument that is a Phrase speaks the language of the text around it. An
// argument that is a string is for what has no language, such as a name.
func Say(id ID, args ...any) Phrase { return Phrase{id: id, args: args} }

// Quote returns a phrase whose texts come from elsewhere, such as a stored reason. It takes them as they are.
func Quote(english, chinese string) Phrase { return Phrase{quoted: []string{english, chinese}} }

// Parts returns what the phrase was made of, for whoever has to send it to another process: an id with its arguments, or two texts by Lang. Say
// and Quote put it together again.
func (p Phrase) Parts() (id ID, args []any, quoted []string) { return p.id, p.args, p.quoted }

// Both returns the text id with args in English and in Chinese, parted by between, for readers who have not named a language. Where
// a line break is between, the languages take turns paragraph by paragraph.
func Both(id ID, between string, args ...any) string {
	text := Say(id, args...)
	en, zh := text.In(English), text.In(Chinese)
	if between == "\n" {
		return inTurns(en, zh)
	}
	return en + between + zh
}

func inTurns(en, zh string) string {
	paragraphs, other := strings.Split(en, "\n\n"), strings.Split(zh, "\n\n")
	for i := range min(len(paragraphs), len(other)) {
		paragraphs[i] += "\n" + other[i]
	}
	return strings.Join(paragraphs, "\n\n")
}

// String returns the English form, for logs.
func (p Phrase) String() string { return p.In(English) }

// In returns the phrase in a language.
func (p Phrase) In(l Lang) string {
	if p.quoted != nil {
		return p.quoted[l]
	}
	text := form{args: p.args}
	if p.id == "" || catalogues().Context(tags[l], &text).Execute(string(p.id)) != nil {
		return string(p.id)
	}
	if len(p.args) == 0 {
		return text.format.String()
	}
	args := make([]any, len(p.args))
	for i, a := range p.args {
		if inner, ok := a.(Phrase); ok {
			a = inner.In(l)
		}
		args[i] = a
	}
	return fmt.Sprintf(text.format.String(), args...)
}

// form collects what the catalogue gives for a text: the format with its plural forms chosen. fmt fills the verbs, because the
// printer of x/text would group digits.
type form struct {
	format strings.Builder
	args   []any
}

// Render implements the renderer of catalog.
func (f *form) Render(part string) { f.format.WriteString(part) }

// Arg implements the renderer of catalog; it counts from one.
func (f *form) Arg(i int) any {
	if i < 1 || i > len(f.args) {
		return nil
	}
	return f.args[i-1]
}

//go:embed en.txt
var english string

//go:embed zh.txt
var chinese string

var tags = [...]language.Tag{English: language.English, Chinese: language.Chinese} //nolint:gochecknoglobals // a constant table

// catalogues holds both files.
var catalogues = sync.OnceValue(func() catalog.Catalog { //nolint:gochecknoglobals // a constant table, made when first needed
	b := catalog.NewBuilder()
	for l, file := range []string{English: english, Chinese: chinese} {
		for id, text := range entries(file) {
			_ = b.Set(tags[l], id, compile(text)...) // a test sees every error
		}
	}
	return b
})

// entries reads a catalogue: an entry is a line "id: text"; further lines of its text begin with a tab. Empty lines between the
// lines of a text belong to it, and lines that begin with # are for translators.
func entries(file string) map[string]string {
	all := map[string]string{}
	id := ""
	for line := range strings.Lines(file) {
		line = strings.TrimSuffix(line, "\n")
		switch more, continued := strings.CutPrefix(line, "\t"); {
		case continued:
			all[id] += "\n" + more
		case line == "":
			all[id] += "\n"
		case !strings.HasPrefix(line, "#"):
			var text string
			id, text, _ = strings.Cut(line, ": ")
			all[id] = text
		}
	}
	for id, text := range all {
		all[id] = strings.Trim(text, "\n")
	}
	return all
}

// compile returns what the catalogue keeps of a text. Each ${1:key|keys} of it becomes a choice between two forms.
func compile(text string) []catalog.Message {
	var messages []catalog.Message
	for _, m := range plurals.FindAllStringSubmatch(text, -1) {
		arg, _ := strconv.Atoi(m[2])
		messages = append(messages, catalog.Var(m[1], plural.Selectf(arg, "%d", "one", m[3], "other", m[4])))
	}
	return append(messages, catalog.String(text))
}

var plurals = regexp.MustCompile(`\$\{((\d+):([^|}]*)\|([^}]*))\}`)
