package workflows

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// TestStoredHistoriesReplay runs today's workflow code over the histories of rollouts that earlier code has run. If it fails,
// rollouts that are running during an upgrade would stop: keep the old path behind workflow.GetVersion.
func TestStoredHistoriesReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/rollout-v*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("histories are missing: %v %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			r := worker.NewWorkflowReplayer()
			r.RegisterWorkflowWithOptions(rollout, workflow.RegisterOptions{Name: rolloutName})
			if err := r.ReplayWorkflowHistoryFromJSONFile(silentLogger{}, file); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplayNoticesChanges proves the test above: code that does something else first does not replay. TMPRL1100 is the code of
// the SDK for non-determinism.
func TestReplayNoticesChanges(t *testing.T) {
	t.Parallel()
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in rolloutInput) (State, error) {
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return State{}, err
		}
		return rollout(ctx, in)
	}, workflow.RegisterOptions{Name: rolloutName})
	err := r.ReplayWorkflowHistoryFromJSONFile(silentLogger{}, "testdata/rollout-v1-completed.json")
	if err == nil || !strings.Contains(err.Error(), "TMPRL1100") {
		t.Errorf("a changed workflow replays: %v", err)
	}
}
