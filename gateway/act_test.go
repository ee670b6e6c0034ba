package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestAct: an act is recorded before it is done and with how it ended; where the first record fails it is not done, and whoever may not do it does not
// begin. Looking leaves no record, but of a refusal.
func TestAct(t *testing.T) {
	ask := func() *Call {
		c := call("")
		c.Action, c.Resource = ActionDeleteFile, "file-1"
		return c
	}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fails string
		err   error // of the act
		code  fault.Code
		trail string
		done  bool
	}{
		"done":           {"", nil, "", "admitted outcome/ok", true},
		"not there":      {"", fault.New(fault.CodeNotFound, "file", "x"), fault.CodeNotFound, "admitted outcome/refused", true},
		"broken":         {"", broken, fault.CodeInternal, "admitted outcome/failed", true},
		"not authorized": {"authenticate", nil, fault.CodeInvalidKey, "", false},
		"no slot":        {"limit", nil, fault.CodeRateLimited, "outcome/refused", false},
		"no record":      {"", nil, fault.CodeAuditUnavailable, "outcome/refused", false},
	} {
		w := newWorld(t, nil)
		if c.fails != "" {
			w.fail[c.fails] = fault.New(c.code)
		}
		if name == "no record" {
			w.log.failAt = map[audit.Stage]error{audit.StageAdmitted: broken}
		}
		done := false
		err := w.Pipeline.Act(t.Context(), ask(), func(_ context.Context, who identity.Principal) error {
			done = who.ID == "k1"
			return c.err
		})
		if (err == nil) != (c.code == "") || err != nil && !fault.Is(err, c.code) || done != c.done || !w.slotFree(t) {
			t.Errorf("%s: %v, done %v", name, err, done)
		}
		if got := w.log.trail(); got != c.trail {
			t.Errorf("%s: trail %q, want %q", name, got, c.trail)
		}
		for _, e := range w.log.events {
			if e.Resource != "file-1" || e.Action != "files.delete" {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	w := newWorld(t, nil)
	if err := w.Look(t.Context(), ask(), func(context.Context, identity.Principal) error { return nil }); err != nil || w.log.trail() != "" || !w.slotFree(t) {
		t.Errorf("%v, trail %q", err, w.log.trail())
	}
}

// TestLines: a line of a batch is asked in the name of its maker, as he is now, in the class batch whatever it asks for, and its records name the batch.
func TestLines(t *testing.T) {
	w := newWorld(t, nil)
	line := func(id string) *Call {
		c := call("hello")
		c.Credential, c.As, c.Batch, c.RequestID, c.Class = "", &identity.Acting{Kind: "key", ID: id}, "batch_1", "batch_1.7", engine.ClassInteractive
		return c
	}
	if _, err := w.Chat(t.Context(), line("somebody")); !fault.Is(err, fault.CodeInvalidKey) {
		t.Errorf("%v", err)
	}
	r, err := w.Chat(t.Context(), line("k1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Collect(); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.log.events {
		if e.Request != "batch_1.7" || e.Detail["batch"] != "batch_1" || e.Detail["class"] != "batch" {
			t.Errorf("%+v", e)
		}
	}
	if len(w.log.events) != 2 || w.engine.Requests()[0].Class != engine.ClassBatch {
		t.Errorf("%d records, class %q", len(w.log.events), w.engine.Requests()[0].Class)
	}
}

// TestWhatCallsAreJudgedAs: the texts whose tokens are counted or told meet the exceptions of what they are a prompt of.
func TestWhatCallsAreJudgedAs(t *testing.T) {
	chat := []engine.Message{{Role: "user", Content: "x"}}
	for _, c := range []struct {
		call Call
		want Action
	}{
		{Call{Action: ActionTokenize, Messages: chat}, ActionChat},
		{Call{Action: ActionTokenize, Prompt: "x"}, ActionCompletion},
		{Call{Action: ActionCount, Messages: chat}, ActionChat},
		{Call{Action: ActionEmbed}, ActionEmbed},
		{Call{Action: ActionDetokenize}, ActionDetokenize},
	} {
		if got := c.call.judgedAs(); got != c.want {
			t.Errorf("%s: %s, want %s", c.call.Action, got, c.want)
		}
	}
}

// TestUntoldTokens: whether the count alone is told follows from what the engine says, and never hides that a caller left or time ran out.
func TestUntoldTokens(t *testing.T) {
	for err, want := range map[error]bool{
		fault.New(fault.CodeUpstreamFailed, "m"): true, fault.New(fault.CodeModelNotFound, "m"): true, fault.New(fault.CodeTimeout): false, context.Canceled: false, nil: false,
	} {
		if untold(err) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
}
