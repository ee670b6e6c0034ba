package price

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// MaxBytes bounds the size of a document.
	MaxBytes = 1 << 20
	// maxKeys bounds the keys of a mapping; the known ones are fewer.
	maxKeys = 32
)

// Error says where a document is wrong and why.
type Error struct {
	Path   string
	Reason fault.Phrase
}

// Error implements error.
func (e *Error) Error() string { return e.Path + ": " + e.Reason.String() }

type document struct {
	Schema        int     `yaml:"schema"`
	Currency      string  `yaml:"currency"`
	EffectiveFrom string  `yaml:"effective_from"`
	BatchPercent  *unit   `yaml:"batch_percent"`
	Models        []model `yaml:"models"`
}

type model struct {
	Model      string `yaml:"model"`
	Prompt     *unit  `yaml:"prompt"`
	Cached     *unit  `yaml:"cached_prompt"`
	Completion *unit  `yaml:"completion"`
	Embedding  *unit  `yaml:"embedding"`

	BatchPercent *unit `yaml:"batch_percent"`
}

// unit is a price of one token, or a percentage. Only a plain whole number is one: the YAML library would cut the fraction off a float.
type unit int64

// notWhole is a price that is not a whole number.
type notWhole struct {
	line  int
	value string
}

// Error implements error.
func (e *notWhole) Error() string { return e.reason().String() }

func (e *notWhole) reason() fault.Phrase {
	return fault.Say("price.not_whole", e.line, e.value)
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (u *unit) UnmarshalYAML(n *yaml.Node) error {
	if n.ShortTag() != "!!int" {
		return &notWhole{n.Line, n.Value}
	}
	return n.Decode((*int64)(u))
}

// Parse reads a price book strictly: unknown keys, missing prices, fractions, repeated models and second documents are errors,
// each an [*Error] that names its place.
func Parse(doc []byte) (*Book, error) {
	var d document
	if err := Decode(doc, &d); err != nil {
		return nil, err
	}
	return d.book()
}

// Decode reads a YAML document of somebody else's strictly into a struct: unknown keys and second documents are errors, each an [*Error], and no document
// of at most MaxBytes keeps it busy for long.
func Decode(doc []byte, into any) error {
	if len(doc) > MaxBytes {
		return &Error{"document", fault.Say("price.too_large", MaxBytes)}
	}
	if !utf8.Valid(doc) {
		return &Error{"document", fault.Say("price.not_utf8")}
	}
	var root yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(doc)).Decode(&root); err != nil {
		return &Error{"document", reason(err)}
	}
	if line := crowded(&root); line > 0 {
		return &Error{"document", fault.Say("price.crowded", line, maxKeys)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		return &Error{"document", reason(err)}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return &Error{"document", fault.Say("price.several_documents")}
	}
	return nil
}

// crowded returns the line of a mapping with more than maxKeys keys, 0 if there is none. The YAML library compares each key of a mapping with
// every other one, which takes hours for a document of the largest size.
func crowded(n *yaml.Node) int {
	if n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys {
		return n.Line
	}
	for _, c := range n.Content {
		if line := crowded(c); line > 0 {
			return line
		}
	}
	return 0
}

// reason makes one line of the first message of the YAML library, which speaks English only.
func reason(err error) fault.Phrase {
	if errors.Is(err, io.EOF) {
		return fault.Say("price.empty")
	}
	var price *notWhole
	if errors.As(err, &price) {
		return price.reason()
	}
	if several := (*yaml.TypeError)(nil); errors.As(err, &several) && len(several.Errors) > 1 {
		err = &yaml.TypeError{Errors: several.Errors[:1]} // there may be one for each line
	}
	return fault.Say("price.format", strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
}

func (d document) book() (*Book, error) {
	if d.Schema != 1 {
		return nil, &Error{"schema", fault.Say("price.schema")}
	}
	if !isCurrency(d.Currency) {
		return nil, &Error{"currency", fault.Say("price.currency")}
	}
	from, err := time.Parse(time.RFC3339, d.EffectiveFrom)
	if err != nil {
		return nil, &Error{"effective_from", fault.Say("price.effective_zone")}
	}
	if from.Year() < 1970 {
		return nil, &Error{"effective_from", fault.Say("price.effective_early")}
	}
	if len(d.Models) == 0 {
		return nil, &Error{"models", fault.Say("price.no_models")}
	}
	b := &Book{Currency: d.Currency, EffectiveFrom: from.UTC()}
	if b.batch, err = percent(d.BatchPercent, whole, "batch_percent"); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, m := range d.Models {
		e, err := m.entry(fmt.Sprintf("models[%d]", i), b.batch)
		if err != nil {
			return nil, err
		}
		if seen[e.pattern] {
			return nil, &Error{fmt.Sprintf("models[%d].model", i), fault.Say("price.listed_twice")}
		}
		seen[e.pattern] = true
		b.models = append(b.models, e)
	}
	return b, nil
}

func isCurrency(s string) bool {
	if len(s) != 3 {
		return false
	}
	for _, c := range s {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}

// percent returns a percentage, other where it is absent.
func percent(p *unit, other int64, path string) (int64, error) {
	if p == nil {
		return other, nil
	}
	if *p < 0 || *p > whole {
		return 0, &Error{path, fault.Say("price.percent")}
	}
	return int64(*p), nil
}

// entry decodes a model of a book whose prices for batches are batch percent where it says nothing else.
func (m model) entry(path string, batch int64) (entry, error) {
	if m.Model == "" || len(m.Model) > 200 {
		return entry{}, &Error{path + ".model", fault.Say("price.model_pattern")}
	}
	generate := 0
	for _, p := range []struct {
		name string
		unit *unit
	}{{"prompt", m.Prompt}, {"cached_prompt", m.Cached}, {"completion", m.Completion}, {"embedding", m.Embedding}} {
		if p.unit == nil {
			continue
		}
		if *p.unit < 0 || *p.unit > MaxUnit {
			return entry{}, &Error{path + "." + p.name, fault.Say("price.unit", MaxUnit)}
		}
		if p.name != "embedding" {
			generate++
		}
	}
	if generate != 0 && generate != 3 {
		return entry{}, &Error{path, fault.Say("price.incomplete")}
	}
	if generate == 0 && m.Embedding == nil {
		return entry{}, &Error{path, fault.Say("price.missing")}
	}
	batch, err := percent(m.BatchPercent, batch, path+".batch_percent")
	return entry{m.Model, (*int64)(m.Prompt), (*int64)(m.Cached), (*int64)(m.Completion), (*int64)(m.Embedding), batch}, err
}
