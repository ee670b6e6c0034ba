package workflows

import (
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/sluice-project/sluice/internal/fault"
)

// TestRefusedApprovalSaysWhy: what the workflow refuses crosses Temporal in English and reaches a caller in their language.
func TestRefusedApprovalSaysWhy(t *testing.T) {
	r := &run{in: rolloutInput{ID: "r1"}}
	r.State.Phase = PhaseCompleted
	for _, c := range []struct {
		command     command
		english, zh string
	}{
		{command{Rollout: "r2"}, "another rollout of this model is running", "该模型的另一次灰度发布正在进行"},
		{command{Rollout: "r1"}, "the rollout is in the phase " + PhaseCompleted, "灰度发布处于 " + PhaseCompleted + " 阶段"},
	} {
		over := temporal.GetDefaultFailureConverter()
		got := fault.Public(temporalError(over.FailureToError(over.ErrorToFailure(r.mayApprove(nil, c.command)))))
		if m := got.Message(fault.English); m != "The change conflicts with the current state: "+c.english+"." {
			t.Error(m)
		}
		if m := got.Message(fault.Chinese); m != "更改与当前状态冲突："+c.zh+"。" {
			t.Error(m)
		}
	}
}
