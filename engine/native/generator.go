package native

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/chattemplate"
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/engine/lora"
	"github.com/sluice-project/sluice/engine/native/draft"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/native/prefix"
	"github.com/sluice-project/sluice/engine/native/sample"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/engine/toolcall"
)

// generator is a model that generates text. What stands behind pass is the loop's; the rest is immutable or safe for concurrent use.
type generator struct {
	info             engine.Model
	tokens           tokenizer.Tokenizer
	template         *chattemplate.Template // nil if the file has none
	bos, eos         int32
	ends             []int32          // tokens that end a text
	markers          map[int32][]byte // control tokens that calls are written with
	dialect          toolcall.Dialect
	formats          *formatCache
	texts            *draft.Index
	prog             *exec.Program
	supportsAdapters lora.Base
	pages            int // of keys and values that may exist

	promptRows int // prompt tokens of a step that are computed best

	pass       *exec.Pass
	sampler    *sample.Sampler
	control    *sched.Controller // guarded by the loop's lock
	tree       *prefix.Tree      // the same
	spareSlots int               // pages that are free or only kept for later, while sequences are let in; below 0: to be counted
	load       load              // guarded by the loop's lock
	observed   SchedulerState    // the same; what of it only the loop may look at, as of the last step

	// Of the step.
	inputs  []stepInput
	planned sched.Load
	shares  []sched.Share
	gaps    []gap

	finished     time.Time     // when the last step ended
	betweenSteps time.Duration // between two steps, lately
	completion   float64       // tokens of a completion, on average
	acceptance   float64       // share of the guesses that were right, lately
}

// gap is the time between two tokens of a sequence.
type gap struct {
	class   int
	took    time.Duration
	yielded bool // the sequence was left out for another tenant
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
	pages, err := o.keyValuePages(c)
	if err != nil {
		return nil, err
	}
	if fit := exec.Positions(pages); fit < c.info.ContextTokens {
		o.log.Warn("the memory for keys and values holds less than the model's context; raise engines.native.kv_memory_mebibytes or use a plan with -kv8",
			slog.String("model", string(c.info.ID)), slog.Int("context_tokens", c.info.ContextTokens), slog.Int("tokens_that_fit", fit))
		c.info.ContextTokens = fit
	}
	g := &generator{pages: pages, info: c.info, tokens: tokens, prog: c.prog, supportsAdapters: c.files.Config.AdapterBase(), dialect: toolcall.Detect(source), texts: draft.NewIndex(draft.Config{})}
	g.ends, g.markers = special(tokens, g.dialect)
	g.formats = newFormats(func(calls bool) *grammar.Vocabulary {
		return grammar.NewVocabulary(func(id int32) []byte { return g.text(id, calls) }, tokens.Size(), g.ends)
	})
	g.serve(o, o.tuning(c), pool)
	if err := g.tree.SpillErr(); err != nil {
		o.log.Warn("keys and values that leave the memory are not kept on disk; look at engines.native.prefix_cache.spill_dir and the space there",
			slog.String("model", string(c.info.ID)), slog.Any("error", err))
	}
	g.bos, _ = tokens.BOS()
	g.eos = tokens.EOS()
	if source != "" {
		if g.template, err = chattemplate.Parse(source); err != nil {
			return nil, err
		}
		g.info.Template = g.template.Digest()
	}
	g.info.CanGenerate, g.info.HasLogprobs, g.info.HasFormats, g.info.HasHooks, g.info.HasMarks, g.info.HasSampling, g.info.HasClasses = true, true, true, true, true, true, true
	g.info.HasTokens, g.info.HasDetokenize = true, true
	g.info.HasTools, g.info.PromptOnly = g.dialect != toolcall.None, g.template == nil
	return g, nil
}

// serve makes what the loop works with: a pass on the threads of pool, its pages and who decides about them.
func (g *generator) serve(o *opener, t Tuning, pool *exec.Pool) {
	g.pass, g.sampler = g.prog.NewPass(o.kernels, pool), sample.New(o.kernels, g.tokens.Size())
	g.pass.FewThreads = t.GenerationThreads
	g.pass.Pages().SetLimit(g.pages)
	g.control = sched.NewController(sched.ControllerConfig{Targets: o.cfg.Latency.targets(), MaxSequences: o.cfg.Concurrency, PromptRows: t.PromptRows})
	g.promptRows = t.PromptRows
	p := o.cfg.PrefixCache
	g.tree = prefix.New(prefix.Config{
		Quota: max(1, int(float64(g.pages)*p.TenantShare)), SpillDir: p.SpillDir, SpillBytes: p.SpillMebibytes << 20,
	}, g.pass.Pages())
}

func (g *generator) close() error { return errors.Join(g.tree.Close(), g.prog.Close()) }

// special returns the tokens that end a text, and those control tokens that calls are written with.
func special(tokens tokenizer.Tokenizer, d toolcall.Dialect) (ends []int32, markers map[int32][]byte) {
	markers = map[int32][]byte{}
	names := d.Markers()
	for id := range int32(tokens.Size()) {
		if tokens.IsEOG(id) {
			ends = append(ends, id)
		} else if len(tokens.Bytes(id)) == 0 && slices.Contains(names, tokens.Name(id)) {
			markers[id] = []byte(tokens.Name(id))
		}
	}
	return ends, markers
}

// displayText is the text of a token in an answer.
func (g *generator) displayText(id int32, j *job) []byte { return g.text(id, j.calls != nil) }

// text is the bytes of a token. The markers of calls have some only where there may be calls.
func (g *generator) text(id int32, calls bool) []byte {
	if calls {
		if name, ok := g.markers[id]; ok {
			return name
		}
	}
	return g.tokens.Bytes(id)
}

// accepted notes how many guesses of a step were right.
func (g *generator) accepted(guessed, right int) {
	g.acceptance += (float64(right)/float64(guessed) - g.acceptance) / 16
}

// name is what a job asked for: the model, or its adapter.
func (g *generator) name(j *job) engine.ModelID {
	if j.adapter != nil {
		return j.adapter.id
	}
	return g.info.ID
}

// logits returns those of the i-th wanted row of the last run, one for each token.
func (g *generator) logits(i int) []float32 { return g.pass.Result(i)[:g.tokens.Size()] }

func (g *generator) tokenName(id int32) string {
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
	chosen, top := g.sampler.Logprobs(logits, id, n)
	lp := g.describe(id, chosen)
	for _, c := range top {
		lp.Top = append(lp.Top, g.describe(c.Token, c.Logprob))
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
