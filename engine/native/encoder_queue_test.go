package native

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/internal/fault"
)

func newQueue() *encoderQueue {
	q := &encoderQueue{}
	q.init("m", func() {})
	return q
}

// callOf returns a call with texts of these lengths.
func callOf(ctx context.Context, tenant string, class engine.Class, lengths ...int) *encoderCall {
	c := newEncoderCall(ctx, tenant, class, len(lengths))
	for i, n := range lengths {
		c.add(encoderText{index: i, ids: make([]int32, n), second: n})
	}
	return c
}

func submitted(t *testing.T, q *encoderQueue, tenant string, class engine.Class, lengths ...int) *encoderCall {
	t.Helper()
	c := callOf(t.Context(), tenant, class, lengths...)
	if err := q.submit(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// batchOf takes a batch, books it as computed, and says whose texts of which length it had.
func batchOf(q *encoderQueue, rows int) (texts []string, tokens int) {
	b := q.take(nil, rows)
	for _, t := range b {
		texts = append(texts, fmt.Sprint(t.call.tenant, len(t.ids)))
		tokens += len(t.ids)
	}
	q.finish(b, true)
	return texts, tokens
}

// Texts are put together so that batches are full: long ones first, short ones in what is left.
func TestBatchesAreFull(t *testing.T) {
	q := newQueue()
	c := submitted(t, q, "a", "", 10, 100, 20, 60, 30, 40, 90, 80, 70, 300)
	var sizes []int
	for {
		b, n := batchOf(q, 100)
		if len(b) == 0 {
			break
		}
		sizes = append(sizes, n)
	}
	if !slices.Equal(sizes, []int{300, 100, 100, 100, 100, 100}) {
		t.Error(sizes)
	}
	select {
	case <-c.done:
	default:
		t.Error("the call does not end")
	}
	if q.pending() < sched.Classes || q.tokens != 0 {
		t.Error("something is left")
	}
}

// A tenant with much to do does not keep another one waiting, nor a long call of a tenant its short ones.
func TestCallsTakeTurns(t *testing.T) {
	q := newQueue()
	many := slices.Repeat([]int{50}, 200)
	submitted(t, q, "a", "", many...)
	for range 20 { // the counters of tenants differ by more than counts as even
		batchOf(q, 200)
	}
	submitted(t, q, "b", "", 50)
	if b, _ := batchOf(q, 200); !slices.Contains(b, "b50") {
		t.Errorf("another tenant waits behind %v", b)
	}
	submitted(t, q, "a", "", 7)
	if b, _ := batchOf(q, 200); !slices.Contains(b, "a7") {
		t.Errorf("the tenant's own short call waits behind %v", b)
	}
}

// Tenants share the tokens, however many calls and texts each has and however long these are.
func TestTenantsShareTokens(t *testing.T) {
	q := newQueue()
	for range 10 {
		submitted(t, q, "many", "", slices.Repeat([]int{10}, 1000)...)
	}
	submitted(t, q, "few", "", slices.Repeat([]int{200}, 100)...)
	tokens := map[string]int{}
	for range 100 {
		b := q.take(nil, 200)
		for _, x := range b {
			tokens[x.call.tenant] += len(x.ids)
		}
		q.finish(b, true)
	}
	if d := tokens["many"] - tokens["few"]; d < -4096 || d > 4096 {
		t.Errorf("%v of 20000 tokens", tokens)
	}
}

func TestUrgentTextsGoFirst(t *testing.T) {
	q := newQueue()
	submitted(t, q, "batch", engine.ClassBatch, 10, 10)
	if class := q.pending(); class != sched.Batch {
		t.Error(class)
	}
	submitted(t, q, "standard", "", 10)
	submitted(t, q, "interactive", engine.ClassInteractive, 10)
	if class := q.pending(); class != sched.Interactive {
		t.Error(class)
	}
	var order []string
	for range 4 {
		b, _ := batchOf(q, 10)
		order = append(order, b...)
	}
	if !slices.Equal(order, []string{"interactive10", "standard10", "batch10", "batch10"}) {
		t.Error(order)
	}
}

// What may wait is bounded; a refusal says when to come again.
func TestEncoderQueueIsBounded(t *testing.T) {
	q := newQueue()
	submitted(t, q, "a", "", maxEncoderTokens+1) // alone, anything goes
	err := q.submit(callOf(t.Context(), "a", "", 1))
	if after := fault.Public(err).RetryAfter(); !fault.Is(err, fault.CodeEngineOverloaded) || after <= 0 {
		t.Error(err, after)
	}
	submitted(t, q, "b", "", 1) // what one has beyond its part is nothing to the others
	for len(q.calls) > 0 {
		batchOf(q, 1)
	}
	over := callOf(t.Context(), "b", "", 1)
	calls := make([]*encoderCall, maxEncoderCalls)
	for i := range calls {
		calls[i] = submitted(t, q, fmt.Sprint("a", i%2), "", 1)
	}
	if err := q.submit(over); !fault.Is(err, fault.CodeEngineOverloaded) {
		t.Error(err)
	}
	for _, c := range calls {
		q.drop(c)
	}
	if err := q.submit(over); err != nil || q.tokens != 1 || len(q.calls) != 1 {
		t.Error(err, q.tokens, len(q.calls))
	}
	// One tenant leaves a quarter of the calls and of the tokens to the others.
	for range tenantCalls {
		submitted(t, q, "many", "", 1)
	}
	if err := q.submit(callOf(t.Context(), "many", "", 1)); !fault.Is(err, fault.CodeEngineOverloaded) {
		t.Error(err)
	}
	submitted(t, q, "long", "", tenantTokens)
	if err := q.submit(callOf(t.Context(), "long", "", 1)); !fault.Is(err, fault.CodeEngineOverloaded) {
		t.Error(err)
	}
	submitted(t, q, "b", "", 10)
}
