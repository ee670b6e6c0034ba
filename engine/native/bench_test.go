package native

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native/sample"
	"github.com/sluice-project/sluice/governance/watermark"
)

// BenchmarkGenerate reports tokens per second of all clients together.
func BenchmarkGenerate(b *testing.B) {
	for _, clients := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			e := openEngine(b, Config{Concurrency: clients, ContextTokens: 2048})
			req := &engine.Request{Model: smol, Prompt: "Once upon a time", MaxTokens: 128, Choices: clients, Temperature: 1, Seed: seed(1), Logprobs: -1}
			var tokens int
			var seconds float64
			for b.Loop() {
				c := collect(b.Context(), e, req)
				if c.err != nil {
					b.Fatal(c.err)
				}
				tokens += c.usage.CompletionTokens
				seconds += c.usage.Decode.Seconds()
			}
			b.ReportMetric(float64(tokens)/seconds, "tok/s")
		})
	}
}

// BenchmarkPrefill reports prompt tokens per second.
func BenchmarkPrefill(b *testing.B) {
	for _, words := range []int{128, 512} {
		b.Run(fmt.Sprintf("tokens=%d", words), func(b *testing.B) {
			e := openEngine(b, Config{ContextTokens: 2048})
			req := &engine.Request{Model: smol, Prompt: strings.Repeat(" river", words), MaxTokens: 1, Logprobs: -1}
			var tokens int
			var seconds float64
			for b.Loop() {
				c := collect(b.Context(), e, req)
				if c.err != nil {
					b.Fatal(c.err)
				}
				tokens += c.usage.PromptTokens
				seconds += c.usage.Prefill.Seconds()
			}
			b.ReportMetric(float64(tokens)/seconds, "tok/s")
		})
	}
}

// BenchmarkWatermark reports tokens per second with a watermark and without, of all clients together, and what the mark costs. The two take turns, and
// medians count, so that what else the machine does weighs little.
func BenchmarkWatermark(b *testing.B) {
	for _, c := range []struct {
		clients int
		topP    float64
	}{{1, 1}, {1, 0.95}, {8, 1}, {8, 0.95}} {
		b.Run(fmt.Sprintf("clients=%d/top-p=%v", c.clients, c.topP), func(b *testing.B) {
			e := openEngine(b, Config{Concurrency: c.clients, ContextTokens: 2048, NoSpeculation: true})
			var rates [2][]float64
			for i := 0; b.Loop(); i++ {
				req := &engine.Request{
					Model: smol, Prompt: "Once upon a time", MaxTokens: 32, MinTokens: 32, Choices: c.clients, Temperature: 1, TopP: c.topP, Seed: seed(uint64(i / 2)), Logprobs: -1,
				}
				if i%2 == 1 {
					req.Watermark = markWith(markKey(b, "a", watermark.Params{}))
				}
				got := collect(b.Context(), e, req)
				if got.err != nil {
					b.Fatal(got.err)
				}
				rates[i%2] = append(rates[i%2], float64(got.usage.CompletionTokens)/got.usage.Decode.Seconds())
			}
			if len(rates[1]) > 0 {
				slices.Sort(rates[0])
				slices.Sort(rates[1])
				plain, marked := rates[0][len(rates[0])/2], rates[1][len(rates[1])/2]
				b.ReportMetric(plain, "plain-tok/s")
				b.ReportMetric(marked, "marked-tok/s")
				b.ReportMetric(100*(plain/marked-1), "cost-%")
			}
		})
	}
}

// BenchmarkMarkedPick is what a token costs the sampler, with a vocabulary of usual size, without a mark and with one.
func BenchmarkMarkedPick(b *testing.B) {
	const vocab = 49152
	r := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(2 * r.NormFloat64())
	}
	for range 50 {
		logits[r.IntN(vocab)] += float32(6 + 6*r.Float64())
	}
	for _, req := range []engine.Request{{Temperature: 1}, {Temperature: 0.8, TopP: 0.95}} {
		rules, err := sample.NewRules(&req, 1, vocab)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range []watermark.Params{{}, {Scheme: watermark.Gumbel}, {Scheme: watermark.KGW}} {
			b.Run(fmt.Sprintf("top-p=%v/%s", req.TopP, cmp.Or(string(p.Scheme), "plain")), func(b *testing.B) {
				s, at := sample.New(kernel.Detect(slog.New(slog.DiscardHandler)), vocab), &sample.Position{Completion: []int32{1, 2, 3, 4}}
				for b.Loop() {
					if at.Step++; p.Scheme != "" && at.Step%1024 == 1 {
						at.Mark = &sample.Mark{Marker: markKey(b, "a", p).Begin(1, 0).Mark}
					}
					at.Completion[3] = int32(at.Step % 1024)
					if _, err := s.Pick(logits, rules, at); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
