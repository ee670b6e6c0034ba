package fault_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

type name string

// TestPortable: an error that crosses to another process says the same in both languages, and takes nothing of its cause along.
func TestPortable(t *testing.T) {
	cause := errors.New("canary: the private cause")
	for what, e := range map[string]*fault.Error{
		"numbers":        fault.New(fault.CodeContextLength, 8192, 9000).WithParam("messages"),
		"a named string": fault.Wrap(cause, fault.CodeEngineUnavailable, name("m")).WithRetryAfter(1500 * time.Millisecond),
		"phrases":        fault.New(fault.CodeInvalidValue, "n", fault.Say("native.choices", 16)).WithParam("n"),
		"phrase in one":  fault.New(fault.CodeInvalidValue, "id", fault.Say("native.adapter_unusable", fault.Say("native.echo"))),
		"a quoted text":  fault.New(fault.CodeInvalidValue, "id", fault.Quote("in English", "中文")),
		"no arguments":   fault.Wrap(cause, fault.CodeInternal),
	} {
		raw, err := json.Marshal(e.Portable())
		if err != nil || strings.Contains(string(raw), "canary") {
			t.Fatalf("%s: %s, %v", what, raw, err)
		}
		var p fault.Portable
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		here := errors.New("of this side")
		got := p.Error(here)
		if got.Code() != e.Code() || got.Param() != e.Param() || got.RetryAfter() != e.RetryAfter() || !errors.Is(got, here) {
			t.Errorf("%s: %+v became %+v", what, e, got)
		}
		for _, l := range []fault.Lang{fault.English, fault.Chinese} {
			if got.Message(l) != e.Message(l) {
				t.Errorf("%s: %q became %q", what, e.Message(l), got.Message(l))
			}
		}
	}
	odd := fault.Portable{Code: "of_a_later_release", Param: "x"}.Error(nil)
	if odd.Code() != fault.CodeInternal || odd.Param() != "" {
		t.Errorf("an unknown code became %q", odd.Code())
	}
	wait := fault.New(fault.CodeInvalidValue, time.Second, 1.5, uint64(1)<<63).Portable()
	if *wait.Args[0].Text != "1s" || *wait.Args[1].Float != 1.5 || *wait.Args[2].Text != "9223372036854775808" {
		t.Errorf("%+v", wait.Args)
	}
}
