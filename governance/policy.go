package governance

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/mask"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	policySchema  = 1
	maxPolicySize = 64 << 10

	prefixesPrivate = "private"
	prefixesShared  = "shared"

	recordNothing = "none"

	pseudonymsPerSession = "session"
	pseudonymsPerRequest = "request"
)

// urgencies are the queue classes of engines, most urgent first.
func urgencies() []string { return []string{"interactive", "standard", "batch"} }

// The forms in which a policy has prompts and answers kept.
const (
	RecordMasked = "masked" // as the engine saw and wrote them, with pseudonyms
	RecordClear  = "clear"  // as the caller sent and got them
)

//go:embed default_policy.yaml
var defaultPolicy []byte //nolint:gochecknoglobals // embedded file

// Direction is where a text comes from.
type Direction string

// The directions.
const (
	DirectionRequest Direction = "request"
	DirectionPassage Direction = "passage"
	DirectionAnswer  Direction = "answer"
)

// policy is one immutable document. Its JSON form is the canonical one that the digest covers: never change it, raise the schema.
type policy struct {
	Schema      int      `json:"schema"`
	Name        string   `json:"name"`
	Models      []string `json:"models"`
	Purposes    []string `json:"purposes"`
	Pseudonyms  string   `json:"pseudonyms"`
	Label       string   `json:"label"`
	Collections []string `json:"collections"`
	// Absent, as in policies that are older than the keys: private, interactive, and none.
	Prefixes string `json:"prefixes,omitempty"`
	Urgency  string `json:"urgency,omitempty"`
	Record   string `json:"record,omitempty"`

	Default  actions            `json:"default"`
	Entities map[string]actions `json:"entities"` // also of custom classes

	Custom []custom `json:"custom,omitempty"`
	Allow  []string `json:"allow,omitempty"`
}

// custom is a class that the policy defines.
type custom struct {
	Class   string   `json:"class"`
	Tag     string   `json:"tag"`
	Pattern string   `json:"pattern,omitempty"`
	Words   []string `json:"words,omitempty"`
	Check   string   `json:"check,omitempty"`
	Context []string `json:"context,omitempty"`
}

type actions struct {
	Request mask.Action `json:"request"`
	Passage mask.Action `json:"passage"`
	Answer  mask.Action `json:"answer"`
}

func (p *policy) canonical() (text, digest string) {
	b, _ := json.Marshal(p) // strings, lists and a map with string keys always marshal, keys sorted
	sum := sha256.Sum256(b)
	return string(b), hex.EncodeToString(sum[:])
}

// readCanonical reads the stored form back; the digest must be that of the text.
func readCanonical(text, digest string) (*policy, error) {
	sum := sha256.Sum256([]byte(text))
	if hex.EncodeToString(sum[:]) != digest {
		return nil, errors.New("the stored policy does not match its digest")
	}
	var p policy
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("read stored policy: %w", err)
	}
	if p.Schema != policySchema {
		return nil, fmt.Errorf("the stored policy has schema %d, this program knows %d", p.Schema, policySchema)
	}
	return &p, nil
}

func (p *policy) action(c classify.Class, d Direction) mask.Action {
	a, ok := p.Entities[string(c)]
	if !ok {
		if t, _ := classify.TypeOf(c); t.Quiet {
			return mask.ActionAllow
		}
		a = p.Default
	}
	switch d {
	case DirectionRequest:
		return a.Request
	case DirectionPassage:
		return a.Passage
	case DirectionAnswer:
		return a.Answer
	}
	return mask.ActionBlock
}

func (p *policy) allowsModel(model string) bool { return identity.Matches(p.Models, model) }

// parsePolicy reads a document strictly. Errors are CodeInvalidPolicy with the path of the first thing that is wrong; they never
// quote values.
func parsePolicy(source []byte) (*policy, error) {
	if len(source) > maxPolicySize || !utf8.Valid(source) {
		return nil, invalid("", fault.Say("must be UTF-8 text of at most %d bytes", "须为不超过 %d 字节的 UTF-8 文本", maxPolicySize))
	}
	d := yaml.NewDecoder(bytes.NewReader(source))
	var root yaml.Node
	if err := d.Decode(&root); err != nil || len(root.Content) != 1 {
		return nil, invalid("", onLine(fault.Say("is no YAML document", "不是 YAML 文档"), yamlLine(err)))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, invalid("", fault.Say("must be a single YAML document", "只能含一个 YAML 文档"))
	}
	p := &policy{Pseudonyms: pseudonymsPerSession, Label: identity.LabelMetadata, Purposes: []string{}, Entities: map[string]actions{}}
	err := object(root.Content[0], "", []field{
		{"schema", true, func(n *yaml.Node, path string) error { return p.readSchema(n, path) }},
		{"name", true, text(&p.Name)},
		{"models", true, list(&p.Models)},
		{"purposes", false, list(&p.Purposes)},
		{"pseudonyms", false, choice(&p.Pseudonyms, pseudonymsPerSession, pseudonymsPerRequest)},
		{"label", false, choice(&p.Label, identity.LabelMetadata, identity.LabelText)},
		{"collections", true, list(&p.Collections)},
		{"prefixes", false, choice(&p.Prefixes, prefixesPrivate, prefixesShared)},
		{"urgency", false, choice(&p.Urgency, urgencies()...)},
		{"record", false, choice(&p.Record, recordNothing, RecordMasked, RecordClear)},
		{"entities", true, p.readEntities},
		{"custom", false, func(*yaml.Node, string) error { return nil }}, // below: its classes inherit from the default
		{"allow", false, words(&p.Allow)},
	})
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(root.Content[0].Content); i += 2 {
		if root.Content[0].Content[i].Value == "custom" {
			if err := p.readCustom(root.Content[0].Content[i+1], "custom"); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *policy) readSchema(n *yaml.Node, path string) error {
	if n.Kind != yaml.ScalarNode || n.Value != strconv.Itoa(policySchema) {
		return at(n, path, fault.Say("must be %d", "须为 %d", policySchema))
	}
	p.Schema = policySchema
	return nil
}

// readEntities reads the default first: classes inherit the directions they do not name.
func (p *policy) readEntities(n *yaml.Node, path string) error {
	fields := []field{{"default", true, func(n *yaml.Node, path string) error { return p.Default.read(n, path, true) }}}
	for _, c := range classify.Classes() {
		fields = append(fields, field{string(c), false, func(*yaml.Node, string) error { return nil }})
	}
	if err := object(n, path, fields); err != nil {
		return err
	}
	for i := 1; i < len(fields); i++ {
		name := fields[i].name
		fields[i].read = func(n *yaml.Node, path string) error {
			a := p.Default
			err := a.read(n, path, false)
			p.Entities[name] = a
			return err
		}
	}
	return object(n, path, fields)
}

// readCustom reads the classes that the policy defines, each with its actions.
func (p *policy) readCustom(n *yaml.Node, path string) error {
	if err := simple(n, path); err != nil {
		return err
	}
	if n.Kind != yaml.SequenceNode {
		return at(n, path, fault.Say("must be a list", "须为列表"))
	}
	for i, item := range n.Content {
		c, a, path := custom{}, p.Default, path+"["+strconv.Itoa(i)+"]"
		err := object(item, path, []field{
			{"class", true, text(&c.Class)},
			{"tag", true, text(&c.Tag)},
			{"pattern", false, pattern(&c.Pattern)},
			{"words", false, words(&c.Words)},
			{"check", false, choice(&c.Check, classify.Checks()...)},
			{"context", false, list(&c.Context)},
			{"actions", false, func(n *yaml.Node, path string) error { return a.read(n, path, false) }},
		})
		if err != nil {
			return err
		}
		p.Custom = append(p.Custom, c)
		if _, err := p.detectors(classify.New()); err != nil {
			var ce *classify.CustomError
			if errors.As(err, &ce) {
				return at(item, path+"."+ce.Field, ce.Reason)
			}
			return err
		}
		p.Entities[c.Class] = a
	}
	return nil
}

// detectors returns base with the policy's own classes, without the values that the policy leaves alone.
func (p *policy) detectors(base *classify.Set) (*classify.Set, error) {
	var own []classify.Custom
	for _, c := range p.Custom {
		own = append(own, classify.Custom{Class: classify.Class(c.Class), Tag: c.Tag, Pattern: c.Pattern, Words: c.Words, Check: c.Check, Context: c.Context})
	}
	set, err := base.Define(own)
	if err != nil {
		return nil, err
	}
	return set.Allow(p.Allow), nil
}

func (a *actions) read(n *yaml.Node, path string, all bool) error {
	values := []string{string(mask.ActionMask), string(mask.ActionBlock), string(mask.ActionPass)}
	return object(n, path, []field{
		{string(DirectionRequest), all, choice((*string)(&a.Request), values...)},
		{string(DirectionPassage), all, choice((*string)(&a.Passage), values...)},
		{string(DirectionAnswer), all, choice((*string)(&a.Answer), values...)},
	})
}

// field is a key an object may have.
type field struct {
	name     string
	required bool
	read     func(n *yaml.Node, path string) error
}

func object(n *yaml.Node, path string, fields []field) error {
	if err := simple(n, path); err != nil {
		return err
	}
	if n.Kind != yaml.MappingNode {
		return at(n, path, fault.Say("must be a mapping", "须为映射（键值对）"))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		k := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if k < 0 || key.Kind != yaml.ScalarNode {
			return at(key, path, fault.Say("has an unknown key; known are %s", "含有未知的键；可用的键为 %s", names(fields)))
		}
		if seen[key.Value] {
			return at(key, join(path, key.Value), fault.Say("is given twice", "重复出现"))
		}
		seen[key.Value] = true
		if err := fields[k].read(n.Content[i+1], join(path, key.Value)); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if f.required && !seen[f.name] {
			return at(n, join(path, f.name), fault.Say("is missing", "缺失"))
		}
	}
	return nil
}

// simple refuses anchors and aliases: a document must say what it says.
func simple(n *yaml.Node, path string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return at(n, path, fault.Say("must not use anchors or aliases", "不能使用锚点或别名"))
	}
	return nil
}

func text(to *string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := simple(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" || utf8.RuneCountInString(n.Value) > 128 ||
			strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return at(n, path, fault.Say("must be text of 1 to 128 printable characters", "须为 1 至 128 个可打印字符的文本"))
		}
		*to = n.Value
		return nil
	}
}

// pattern reads an expression, which may be longer than a name.
func pattern(to *string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := simple(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || n.Value == "" || len(n.Value) > 1000 {
			return at(n, path, fault.Say("must be an expression of 1 to 1000 bytes", "须为 1 至 1000 字节的表达式"))
		}
		*to = n.Value
		return nil
	}
}

// words reads a list that may be longer than others, of anything that is written as one scalar.
func words(to *[]string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := simple(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.SequenceNode {
			return at(n, path, fault.Say("must be a list", "须为列表"))
		}
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Anchor != "" || item.Value == "" {
				return at(item, path+"["+strconv.Itoa(i)+"]", fault.Say("must be text", "须为文本"))
			}
			*to = append(*to, item.Value)
		}
		return nil
	}
}

func choice(to *string, values ...string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := simple(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || !slices.Contains(values, n.Value) {
			return at(n, path, fault.Say("must be one of %s", "须为以下之一：%s", strings.Join(values, ", ")))
		}
		*to = n.Value
		return nil
	}
}

func list(to *[]string) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := simple(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.SequenceNode || len(n.Content) > 1000 {
			return at(n, path, fault.Say("must be a list of at most 1000 entries", "须为不超过 1000 项的列表"))
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

func at(n *yaml.Node, path string, reason fault.Phrase) error {
	return invalid(path, onLine(reason, n.Line))
}

// onLine adds the line of the document to a reason; 0 is an unknown line.
func onLine(reason fault.Phrase, line int) fault.Phrase {
	if line == 0 {
		return reason
	}
	return fault.Say("%s (line %d)", "%s（第 %d 行）", reason, line)
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
