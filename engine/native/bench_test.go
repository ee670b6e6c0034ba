package native

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
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
