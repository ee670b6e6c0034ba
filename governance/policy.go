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
	policySchema  = 2
	maxPolicySize = 64 << 10

	prefixesPrivate = "private"
	prefixesShared  = "shared"

	upstreamNonStreaming = "whole"
	upstreamStreaming    = "streamed"

	outcomeFirst = "outcome-first"
	answerFirst  = "answer-first"

	visibleByApplication = "application"
	visibleByAgreement   = "agreement"

	signOnRequest = "on-request"
	signAlways    = "always"

	recordNothing = "none"

	pseudonymsPerSession = "session"
	pseudonymsPerRequest = "request"

	classDefault = "default" // stands for all classes that are not named
)

// urgencies are the queue classes of engines, most urgent first.
func urgencies() []string { return []string{"interactive", "standard", "batch"} }

// The forms in which a policy has prompts and answers kept.
const (
	RecordMasked = "masked" // as the engine saw and wrote them, with pseudonyms
	RecordClear  = "clear"  // as the caller sent and got them
)

//go:embed default_policy.yaml
var defaultPolicy []byte

// Direction is where a text comes from.
type Direction string

// The directions.
const (
	DirectionRequest Direction = "request"
	DirectionPassage Direction = "passage"
	DirectionAnswer  Direction = "answer"
)

func directions() []Direction {
	return []Direction{DirectionRequest, DirectionPassage, DirectionAnswer}
}

// policy is one immutable document. Its JSON form is the canonical one that the digest covers: never change it, raise the schema.
type policy struct {
	Schema      int      `json:"schema"`
	Name        string   `json:"name"`
	Models      []string `json:"models"`
	Purposes    []string `json:"purposes"`
	Pseudonyms  string   `json:"pseudonyms"`
	Label       string   `json:"label"`
	Collections []string `json:"collections"`
	// Absent, as in policies that are older than the keys: private, whole, outcome-first, interactive, and none.
	Prefixes   string `json:"prefixes,omitempty"`
	Upstream   string `json:"upstream,omitempty"`
	Durability string `json:"durability,omitempty"`
	Urgency    string `json:"urgency,omitempty"`
	Record     string `json:"record,omitempty"`
	Signature  string `json:"signature,omitempty"`
	// Absent, as in policies that are older than the key: application.
	VisibleLabel string `json:"visible_label,omitempty"`

	Watermark *watermarking  `json:"watermark,omitempty"`
	Answering []answering    `json:"answering,omitempty"`
	Cache     *caching       `json:"cache,omitempty"`
	Data      *dataRules     `json:"data,omitempty"`
	Safety    *contentSafety `json:"safety,omitempty"`

	Default  actions            `json:"default"`
	Entities map[string]actions `json:"entities"` // also of custom classes

	Custom []custom `json:"custom,omitempty"`
	Allow  []string `json:"allow,omitempty"`

	Channels map[string]map[string]override `json:"channels,omitempty"` // exceptions: of a channel, of a class
	Grades   map[string]int                 `json:"grades,omitempty"`   // of classes, and of "default"
	Reveal   *revealPolicy                  `json:"reveal,omitempty"`
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

// of returns the action of a direction.
func (a actions) of(d Direction) mask.Action {
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
	if p.Schema == 1 {
		p.migrateSchema1()
	} else if p.Schema != policySchema {
		return nil, fmt.Errorf("the stored policy has schema %d, this program knows up to %d", p.Schema, policySchema)
	}
	return &p, nil
}

// migrateSchema1 translates the actions of schema 1.
func (p *policy) migrateSchema1() {
	now := func(a, masked mask.Action) mask.Action {
		switch a {
		case "mask":
			return masked
		case "pass":
			return mask.ActionObserve
		default:
			return a
		}
	}
	all := func(a actions) actions {
		return actions{now(a.Request, mask.ActionToken), now(a.Passage, mask.ActionToken), now(a.Answer, mask.ActionRedact)}
	}
	p.Default = all(p.Default)
	for c, a := range p.Entities {
		p.Entities[c] = all(a)
	}
}

// action returns what happens to values of a class: what the channel says of the class, else what the policy says of it; optional classes
// that are named nowhere are not looked for.
func (p *policy) action(channel string, c classify.Class, d Direction) mask.Action {
	if o, ok := p.Channels[channel][string(c)]; ok {
		if a := actions(o).of(d); a != "" {
			return a
		}
	}
	a, ok := p.Entities[string(c)]
	if !ok {
		if t, _ := classify.TypeOf(c); t.Optional {
			return mask.ActionAllow
		}
		a = p.Default
	}
	return a.of(d)
}

// classNames returns the names of all classes of the policy, its own too.
func (p *policy) classNames() []string {
	var out []string
	for _, c := range classify.Classes() {
		out = append(out, string(c))
	}
	for _, c := range p.Custom {
		out = append(out, c.Class)
	}
	return out
}

func (p *policy) demandsAgreement() bool { return p.VisibleLabel == visibleByAgreement }

func (p *policy) allowsModel(model string) bool { return identity.Matches(p.Models, model) }

// parsePolicy reads a document strictly. Errors are CodeInvalidPolicy with the path of the first thing that is wrong; they never
// quote values.
func parsePolicy(source []byte) (*policy, error) {
	if len(source) > maxPolicySize || !utf8.Valid(source) {
		return nil, invalid("", fault.Say("value.utf8_text", maxPolicySize))
	}
	d := yaml.NewDecoder(bytes.NewReader(source))
	var root yaml.Node
	if err := d.Decode(&root); err != nil || len(root.Content) != 1 {
		return nil, invalid("", withLine(fault.Say("governance.not_yaml"), yamlLine(err)))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, invalid("", fault.Say("governance.several_documents"))
	}
	p := &policy{Pseudonyms: pseudonymsPerSession, Label: identity.LabelMetadata, Purposes: []string{}, Entities: map[string]actions{}}
	err := object(root.Content[0], "", []field{
		{"schema", true, p.readSchema},
		{"name", true, text(&p.Name)},
		{"models", true, list(&p.Models)},
		{"purposes", false, p.readPurposes},
		{"pseudonyms", false, choice(&p.Pseudonyms, pseudonymsPerSession, pseudonymsPerRequest)},
		{"label", false, choice(&p.Label, identity.LabelMetadata, identity.LabelText)},
		{"visible_label", false, choice(&p.VisibleLabel, visibleByApplication, visibleByAgreement)},
		{"collections", true, list(&p.Collections)},
		{"prefixes", false, choice(&p.Prefixes, prefixesPrivate, prefixesShared)},
		{"upstream", false, choice(&p.Upstream, upstreamNonStreaming, upstreamStreaming)},
		{"durability", false, choice(&p.Durability, outcomeFirst, answerFirst)},
		{"urgency", false, choice(&p.Urgency, urgencies()...)},
		{"record", false, choice(&p.Record, recordNothing, RecordMasked, RecordClear)},
		{"signature", false, choice(&p.Signature, signOnRequest, signAlways)},
		{"watermark", false, p.readWatermark},
		{"answering", false, p.readAnswering},
		{"cache", false, p.readCache},
		{"data", false, p.readData},
		{"safety", false, p.readSafety},
		{"entities", true, p.readEntities},
		{"custom", false, skipField},
		{"allow", false, words(&p.Allow)},
		{"channels", false, skipField},
		{"grades", false, skipField},
		{"reveal", false, skipField},
	})
	if err != nil {
		return nil, err
	}
	// What names classes is read when all are known, and custom classes when the default is.
	for _, f := range []field{{"custom", false, p.readCustom}, {"channels", false, p.readChannels}, {"grades", false, p.readGrades}, {"reveal", false, p.readReveal}} {
		if n := fieldNode(root.Content[0], f.name); n != nil {
			if err := f.read(n, f.name); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// skipField reads nothing: it stands for what is read when other members are.
func skipField(*yaml.Node, string) error { return nil }

// fieldNode returns a member of a mapping.
func fieldNode(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func (p *policy) readSchema(n *yaml.Node, path string) error {
	if n.Kind == yaml.ScalarNode && n.Value == "1" {
		return errorAt(n, path, fault.Say("governance.schema_version"))
	}
	if n.Kind != yaml.ScalarNode || n.Value != strconv.Itoa(policySchema) {
		return errorAt(n, path, fault.Say("governance.version", policySchema))
	}
	p.Schema = policySchema
	return nil
}

// readPurposes reads what callers state in a header, which takes no other text: a purpose that nobody can send would lock everybody out.
func (p *policy) readPurposes(n *yaml.Node, path string) error {
	if err := list(&p.Purposes)(n, path); err != nil {
		return err
	}
	for i, s := range p.Purposes {
		if !ValidPurpose(s) {
			return errorAt(n.Content[i], path+"["+strconv.Itoa(i)+"]", fault.Say("governance.purpose"))
		}
	}
	return nil
}

// ValidPurpose reports whether a purpose can be stated in the header X-Sluice-Purpose.
func ValidPurpose(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}

// readEntities reads the default first: classes inherit the directions they do not name.
func (p *policy) readEntities(n *yaml.Node, path string) error {
	fields := []field{{classDefault, true, func(n *yaml.Node, path string) error { return p.Default.read(n, path, true) }}}
	for _, c := range classify.Classes() {
		fields = append(fields, field{string(c), false, skipField})
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
	if err := rejectAliases(n, path); err != nil {
		return err
	}
	if n.Kind != yaml.SequenceNode {
		return errorAt(n, path, fault.Say("value.list"))
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
		if c.Class == classDefault {
			return errorAt(item, path+".class", fault.Say("governance.name_default"))
		}
		p.Custom = append(p.Custom, c)
		if _, err := p.detectors(classify.New()); err != nil {
			var ce *classify.CustomError
			if errors.As(err, &ce) {
				return errorAt(item, path+"."+ce.Field, ce.Reason)
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
	values := actionNames()
	return object(n, path, []field{
		{string(DirectionRequest), all, choice((*string)(&a.Request), values...)},
		{string(DirectionPassage), all, choice((*string)(&a.Passage), values...)},
		{string(DirectionAnswer), all, choice((*string)(&a.Answer), values...)},
	})
}

func actionNames() []string {
	var out []string
	for _, a := range mask.Actions() {
		out = append(out, string(a))
	}
	return out
}
