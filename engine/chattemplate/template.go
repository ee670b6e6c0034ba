package chattemplate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// Limits of a template and of one rendering.
const (
	maxSource  = 128 << 10
	maxNesting = 200 // brackets and blocks open at once
	maxOutput  = 16 << 20
	maxDepth   = 40 // macros calling macros
	maxTime    = 10 * time.Second
	baseWork   = 4 << 20
	workFactor = 200 // work per byte of the chat
)

// Message is one turn of a chat. Roles are plain words, such as "user".
type Message struct {
	Role       string
	Content    string
	Name       string
	ToolCalls  []ToolCall // of an assistant's turn
	ToolCallID string     // of a tool's turn: the call it answers
}

// ToolCall is a call in an earlier turn.
type ToolCall struct {
	ID, Name  string
	Arguments string // a JSON object; "" is an empty one
}

// Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage // JSON schema of the arguments object; nil: none
}

// Input is what a template sees.
type Input struct {
	Messages            []Message
	Tools               []Tool
	AddGenerationPrompt bool
	Thinking            *bool     // enable_thinking; nil: as the template has it
	BOS, EOS            string    // texts of the model's tokens
	Now                 time.Time // what templates that write the date take it from, in UTC; zero: the clock
}

// Segment is a part of a prompt. Special says that the template wrote it: text such as "<|im_end|>" in it is a control token. In the
// other segments, which come from messages, it is just text. Neighbouring segments belong to one text: the border is no word border.
type Segment struct {
	Text    string
	Special bool
}

// Template is a parsed chat template. It is immutable and safe for concurrent use.
type Template struct {
	compiled *exec.Template
	weight   int
	source   string
	digest   string
	now      func() time.Time
	shortIDs bool // it refuses IDs of calls that have not nine characters
	style    func() callStyle
}

// Parse compiles a template. It refuses templates that use what the sandbox does not offer.
func Parse(source string) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("chattemplate: the template has %d bytes, the limit is %d", len(source), maxSource)
	}
	if depth := nesting(source); depth > maxNesting {
		return nil, fmt.Errorf("chattemplate: the template nests deeper than %d levels", maxNesting)
	}
	// The parser of gonja panics on some malformed input.
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, errors.New("chattemplate: the template cannot be parsed")
		}
	}()
	cfg := config.New()
	cfg.TrimBlocks, cfg.LeftStripBlocks = true, true // as Hugging Face and llama.cpp render
	rw := &rewriter{}
	compiled, err := exec.NewTemplate(templateName, cfg, loader{inlineConditions(source)}, environment(rw))
	if err != nil {
		return nil, fmt.Errorf("chattemplate: the template cannot be parsed: %s", shorten(err))
	}
	weight := rw.nodes(compiled.Root().Nodes)
	if rw.err != nil {
		return nil, fmt.Errorf("chattemplate: %w", rw.err)
	}
	sum := sha256.Sum256([]byte(source))
	t = &Template{
		compiled: compiled,
		weight:   weight,
		source:   source,
		digest:   "sha256:" + hex.EncodeToString(sum[:]),
		now:      time.Now,
		shortIDs: nineCharacters.MatchString(source),
	}
	t.style = sync.OnceValue(t.probeStyle)
	return t, nil
}

// Digest returns the identity of the template: "sha256:" and the hexadecimal SHA-256 of its source.
func (t *Template) Digest() string { return t.digest }

// roleName keeps control tokens out of roles: those cannot be marked, since templates compare them.
var roleName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// prepare checks a chat and makes of it what the template can render.
func (t *Template) prepare(in Input) (Input, error) {
	if err := in.check(); err != nil {
		return in, err
	}
	if in.Now.IsZero() {
		in.Now = t.now()
	}
	return t.generic(in)
}

func (in Input) check() error {
	for i, m := range in.Messages {
		if !roleName.MatchString(m.Role) {
			return fmt.Errorf("chattemplate: the role of message %d is not a plain word", i)
		}
	}
	return nil
}

func (in Input) size() int {
	n := 0
	for _, m := range in.Messages {
		n += len(m.Role) + len(m.Content) + len(m.Name) + len(m.ToolCallID) + 32
		for _, c := range m.ToolCalls {
			n += len(c.ID) + len(c.Name) + len(c.Arguments) + 32
		}
	}
	for _, tool := range in.Tools {
		n += len(tool.Name) + len(tool.Description) + len(tool.Parameters) + 32
	}
	return n
}

// render runs the template. mine gets every text of the callers; mark is what it puts before their characters, if anything.
func (t *Template) render(in Input, mine func(string) string, mark string) (string, error) {
	return t.renderStyle(in, t.styleOf(in), mine, mark)
}

func (t *Template) renderStyle(in Input, style callStyle, mine func(string) string, mark string) (text string, err error) {
	b := newBudget(in)
	b.now, b.until, b.date, b.mark = t.now, t.now().Add(maxTime), in.Now, mark
	vars, err := t.variables(in, values{mine, style, t.callID})
	if err != nil {
		return "", err
	}
	vars[budgetName] = b
	out := &output{}
	// Division by zero and the like panic inside gonja. The value may hold text of the chat, so it is dropped.
	defer func() {
		if r := recover(); r != nil {
			text, err = "", errFailed
		}
	}()
	if err := b.spend(t.weight); err != nil {
		return "", t.public(err)
	}
	err = t.compiled.Execute(out, exec.NewContext(vars))
	if b.failed != nil { // known even where gonja went on or lost the type
		return "", t.public(b.failed)
	}
	if err != nil {
		return "", t.public(err)
	}
	return out.text.String(), nil
}

func (t *Template) variables(in Input, v values) (map[string]any, error) {
	messages, err := v.messages(in.Messages)
	if err != nil {
		return nil, err
	}
	tools, err := v.tools(in.Tools)
	if err != nil {
		return nil, err
	}
	vars := map[string]any{
		"messages":              messages,
		"tools":                 tools,
		"documents":             nil, // defined as None, as Hugging Face has it
		"add_generation_prompt": in.AddGenerationPrompt,
		"bos_token":             in.BOS,
		"eos_token":             in.EOS,
	}
	if in.Thinking != nil {
		vars["enable_thinking"] = *in.Thinking
	}
	return vars, nil
}

// errFailed stands for every error of gonja, whose texts quote the values they are about.
var errFailed = errors.New("chattemplate: the chat template failed on this chat; it may expect other roles or another order of messages")

// public turns an error of the run time into one without text of the chat.
func (t *Template) public(err error) error {
	var l *limitError
	if errors.As(err, &l) {
		return fmt.Errorf("chattemplate: %w", l)
	}
	// What a template says in raise_exception helps the caller, as long as it is a sentence of the template itself.
	var r *raisedError
	if errors.As(err, &r) && strings.Contains(t.source, r.message) {
		return fmt.Errorf("chattemplate: the chat template refused the chat: %w", r)
	}
	return errFailed
}

// shorten cuts gonja's error, which repeats the whole source of a template, down to its reason.
func shorten(err error) string {
	s := err.Error()
	if i := strings.LastIndex(s, "': "); i >= 0 {
		s = s[i+3:]
	}
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

// nesting bounds how deep gonja's recursive parser can go.
func nesting(source string) int {
	depth, most := 0, 0
	for i := range len(source) {
		switch source[i] {
		case '(', '[', '{':
			depth++
			most = max(most, depth)
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
	}
	blocks := 0
	for _, tag := range blockTag.FindAllString(source, -1) {
		if strings.Contains(tag, "end") {
			blocks = max(0, blocks-1)
		} else {
			blocks++
		}
		most = max(most, blocks)
	}
	return most
}

var blockTag = regexp.MustCompile(`\{%[-+]?\s*(?:end)?(?:if|for|macro|set|generation)\b`)

// output collects a prompt up to its limit.
type output struct{ text strings.Builder }

func (o *output) Write(b []byte) (int, error) {
	if o.text.Len()+len(b) > maxOutput {
		return 0, &limitError{"prompt", fmt.Sprintf("more than %d bytes", maxOutput)}
	}
	return o.text.Write(b)
}

const templateName = "chat"

// loader gives gonja the one source there is.
type loader struct{ source string }

func (l loader) Read(path string) (io.Reader, error) {
	if path != templateName {
		return nil, errors.New("a chat template cannot load other files")
	}
	return strings.NewReader(l.source), nil
}

func (l loader) Resolve(path string) (string, error) { return path, nil }

func (l loader) Inherit(string) (loaders.Loader, error) { return l, nil }
