package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// Who leaves while others compile leaves nothing behind that would be compiled for nobody.
func TestFormatsOfThoseWhoLeft(t *testing.T) {
	f := newFormats(nil)
	for range maxCompiling {
		f.gate <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	build := func() (*grammar.Grammar, error) { t.Error("it was compiled"); return nil, errors.New("no") }
	for i := range 100 {
		if _, err := f.get(ctx, "t", fmt.Sprint(i), false, build); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	for range maxCompiling {
		<-f.gate
	}
	refused := errors.New("refused")
	for range 2 { // once
		_, err := f.get(t.Context(), "t", "a", false, func() (*grammar.Grammar, error) {
			err := refused
			refused = nil
			return nil, err
		})
		if err == nil {
			t.Error("it was compiled again")
		}
	}
}

// A grammar that grows too costly is the request's fault, wherever that shows, and the engine stays available.
func TestCostlyGrammarsAreTheRequestsFault(t *testing.T) {
	e := openTiny(t, noEnd(), Config{})
	costly := "root ::= s \"z\"\ns ::= s s | [a-z] | s s s | [a-c] s [a-d] | s [a-d] s | [a-z]{1,200}"
	for _, temperature := range []float64{0, 1} {
		c := collect(t.Context(), e, &engine.Request{
			Model: tinyID, Prompt: "x", MaxTokens: 150, Logprobs: -1, Temperature: temperature, Seed: seed(1), Format: &engine.Format{GBNF: costly},
		})
		if !fault.Is(c.err, fault.CodeInvalidValue) {
			t.Errorf("temperature %v: %q, %v", temperature, c.texts, c.err)
		}
	}
	j := &job{model: e.generators[tinyID], grammar: &grammar.Grammar{}}
	broken := fmt.Errorf("grammar: %w", &grammar.Error{Limit: "MaskSteps"}) // what Pick says of a mask
	if err := refusal(broken, &sequence{job: j}); !fault.Is(err, fault.CodeInvalidValue) {
		t.Error(err)
	}
	if err := refusal(errors.New("hook: no key"), &sequence{job: j}); !fault.Is(err, fault.CodeInternal) {
		t.Error(err)
	}
}

// A tenant with many formats neither keeps others' from being compiled nor drives them out.
func TestFormatsAreBoundedByTenant(t *testing.T) {
	f := newFormats(nil)
	refused := errors.New("refused")
	built := 0
	build := func() (*grammar.Grammar, error) { built++; return nil, refused }
	ask := func(tenant, key string) error {
		_, err := f.get(t.Context(), tenant, key, false, build)
		return err
	}
	if err := ask("quiet", "quiet 0"); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	for i := range 3 * maxCachedFormats {
		_ = ask("loud", fmt.Sprint("loud ", i))
	}
	built = 0
	if _ = ask("quiet", "quiet 0"); built != 0 {
		t.Error("another tenant's formats drove this one out")
	}
	for i := range maxCachedFormats {
		_ = ask(fmt.Sprint("tenant ", i), fmt.Sprint("tenant ", i))
	}
	if n := f.latest.Len(); n > maxCachedFormats || n != len(f.entries) {
		t.Errorf("%d formats are kept, %d entries", n, len(f.entries))
	}
	for range maxCompiling {
		f.gate <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range maxCompilingPerTenant {
		group.Go(func() { _, _ = f.get(ctx, "loud", fmt.Sprint("new ", i), false, build) })
	}
	for { // until they wait
		f.mu.Lock()
		n := f.busy["loud"]
		f.mu.Unlock()
		if n == maxCompilingPerTenant {
			break
		}
		runtime.Gosched()
	}
	if err := ask("loud", "one more"); !errors.Is(err, errManyFormats) {
		t.Errorf("one more: %v", err)
	}
	cancel()
	group.Wait()
	if len(f.busy) != 0 {
		t.Errorf("%v are left", f.busy)
	}
}
