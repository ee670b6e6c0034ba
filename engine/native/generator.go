package native

import (
	"fmt"
	"log/slog"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/chattemplate"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/fault"
)

// generator is a model that generates text. The loop alone uses pass, sampler and targets; the rest is immutable.
type generator struct {
	info     engine.Model
	tokens   tokenizer.Tokenizer
	template *chattemplate.Template // nil if the file has none
	bos, eos int32

	prog    *exec.Program
	pass    *exec.Pass
	sampler *sampler
	targets []target

	promptRows int // prompt tokens of a step that computes nothing else

	pages    int // of keys and values that may exist
	reserved int // of those, what admitted jobs may need
}

// generator makes a generator of a compiled model whose passes run on the threads of pool.
func (o *opener) generator(c *compiled, pool *exec.Pool) (*generator, error) {
	tokens, source, err := generatorTokens(c.files)
	if err != nil {
		return nil, err
	}
	// Files pad the embedding with rows that no token has.
	if vocab := c.prog.Outputs(); tokens.Size() > vocab {
		return nil, fmt.Errorf("the tokenizer has %d tokens, the embedding %d", tokens.Size(), vocab)
	}
	pages, err := o.keyValuePages(c.prog)
	if err != nil {
		return nil, err
	}
	if fit := exec.Positions(pages); fit < c.info.ContextTokens {
		o.log.Warn("the memory for keys and values holds less than the model's context; raise engines.native.kv_memory_mebibytes or use a plan with -kv8",
			slog.String("model", string(c.info.ID)), slog.Int("context_tokens", c.info.ContextTokens), slog.Int("tokens_that_fit", fit))
		c.info.ContextTokens = fit
	}
	g := &generator{pages: pages, info: c.info, tokens: tokens, prog: c.prog, pass: c.prog.NewPass(o.kernels, pool), sampler: newSampler(o.kernels, tokens.Size())}
	t := o.tuning(c)
	g.promptRows, g.pass.FewThreads = t.PromptRows, t.GenerationThreads
	g.bos, _ = tokens.BOS()
	g.eos = tokens.EOS()
	if source != "" {
		if g.template, err = chattemplate.Parse(source); err != nil {
			return nil, err
		}
		g.info.Template = g.template.Digest()
	}
	g.info.CanGenerate, g.info.HasLogprobs = true, true
	return g, nil
}

// logits returns those of the i-th wanted row of the last run, one for each token.
func (g *generator) logits(i int) []float32 { return g.pass.Result(i)[:g.tokens.Size()] }

// needed is the number of pages that a job may take: choices share the full pages of the prompt.
func needed(prompt, limit, choices int) int {
	return exec.Needed(prompt+limit) + (choices-1)*(exec.Needed(limit)+1)
}

// keyValuePages is how many pages of keys and values a model may have: what the configuration says, or its share of a quarter of the
// memory that this process may use.
func (o *opener) keyValuePages(p *exec.Program) (int, error) {
	bytes := o.cfg.KVMemoryMebibytes << 20
	if bytes == 0 {
		bytes = memory() / 4 / max(1, len(o.cfg.Models))
	}
	if bytes < p.PageBytes() {
		return 0, fmt.Errorf("keys and values may take %d bytes, but %d tokens alone take %d; raise engines.native.kv_memory_mebibytes or use a plan with -kv8",
			bytes, exec.Positions(1), p.PageBytes())
	}
	return bytes / p.PageBytes(), nil
}

// encode returns the prompt tokens of a request.
func (g *generator) encode(req *engine.Request) ([]int32, error) {
	var ids []int32
	if _, add := g.tokens.BOS(); add {
		ids = append(ids, g.bos)
	}
	if req.Messages == nil {
		ids = append(ids, g.tokens.Encode(req.Prompt, true)...)
		if len(ids) == 0 && g.bos >= 0 {
			ids = append(ids, g.bos)
		}
		if len(ids) == 0 {
			return nil, fault.New(fault.CodeMissing, "prompt")
		}
		return ids, nil
	}
	if g.template == nil {
		return nil, fault.New(fault.CodeUnsupported, "messages", fault.Say("the model has no chat template", "该模型没有对话模板"))
	}
	in := chattemplate.Input{AddGenerationPrompt: true, BOS: g.name(g.bos), EOS: g.name(g.eos)}
	for _, m := range req.Messages {
		in.Messages = append(in.Messages, chattemplate.Message{Role: m.Role, Content: m.Content, Name: m.Name})
	}
	segments, err := g.template.RenderSegments(in)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeInvalidValue, "messages", fault.Say("the model's chat template refuses this conversation", "该模型的对话模板不接受这段对话"))
	}
	parts := make([]tokenizer.Part, len(segments))
	for i, s := range segments {
		parts[i] = tokenizer.Part{Text: s.Text, Special: s.Special}
	}
	rendered := g.tokens.EncodeParts(parts)
	// Templates that write BOS themselves must not get it twice.
	if len(ids) > 0 && len(rendered) > 0 && rendered[0] == g.bos {
		ids = ids[:0]
	}
	return append(ids, rendered...), nil
}

func (g *generator) name(id int32) string {
	if id < 0 {
		return ""
	}
	return g.tokens.Name(id)
}

// logprob describes a chosen token with its n likeliest alternatives; nil if n is negative.
func (g *generator) logprob(logits []float32, id int32, n int) *engine.TokenLogprob {
	if n < 0 {
		return nil
	}
	chosen, top := g.sampler.logprobs(logits, id, n)
	lp := g.describe(id, chosen)
	for _, c := range top {
		lp.Top = append(lp.Top, g.describe(c.id, c.logprob))
	}
	return &lp
}

func (g *generator) describe(id int32, logprob float64) engine.TokenLogprob {
	b := g.tokens.Bytes(id)
	var stream tokenizer.Stream // not Decode: that would take off the space with which a word begins
	text := stream.Write(b) + stream.Close()
	if len(b) == 0 {
		text = g.tokens.Name(id) // a control token
	}
	return engine.TokenLogprob{Token: text, Bytes: b, Logprob: logprob}
}
