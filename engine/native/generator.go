package native

import (
	"fmt"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/chattemplate"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/fault"
)

// generator is a model that generates text. The loop alone uses pass, sampler and targets; the rest is immutable.
type generator struct {
	info     engine.Model
	tokens   tokenizer.Tokenizer
	template *chattemplate.Template // nil if the file has none
	bos, eos int32

	pass    *pass
	sampler *sampler
	targets []target
}

func loadGenerator(cfg ModelConfig, context int, k kernel.Kernels, workers *pool) (*generator, error) {
	f, err := gguf.Open(cfg.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only, and everything was copied
	weights, err := loadLlama(f, context, cfg.Precision == PrecisionExact)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	g := &generator{pass: newPass(weights, k, workers), sampler: newSampler(k, weights.vocab)}
	if err := g.loadTokenizer(f, weights.vocab); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	g.info = engine.Model{
		ID: cfg.ID, Digest: f.Digest(), Precision: weights.precision, ContextTokens: weights.context,
		CanGenerate: true, HasLogprobs: true, Deterministic: true,
	}
	if g.template != nil {
		g.info.Template = g.template.Digest()
	}
	return g, nil
}

func (g *generator) loadTokenizer(f *gguf.File, vocab int) error {
	v, err := tokenizer.FromMetadata(f.Value)
	if err != nil {
		return err
	}
	if g.tokens, err = tokenizer.New(v); err != nil {
		return err
	}
	if g.tokens.Size() != vocab {
		return fmt.Errorf("the tokenizer has %d tokens, the embedding %d", g.tokens.Size(), vocab)
	}
	g.bos, g.eos = v.BOS, v.EOS
	if !f.Has("tokenizer.chat_template") {
		return nil
	}
	source, err := f.String("tokenizer.chat_template")
	if err != nil {
		return err
	}
	g.template, err = chattemplate.Parse(source)
	return err
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
