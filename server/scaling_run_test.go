package server

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/scaling/local"
)

// TestScalingThatCannotRunIsTold: where no worker can ever be started the server ends with the reason; decisions alone would look like capacity.
func TestScalingThatCannotRunIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workers")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		controller, err := scaling.New(scaling.Policy{Min: 1, Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		s := &scaledPool{}
		s.workers, err = local.New("chat", local.Config{Dir: dir, Command: []string{"e", local.AddressArgument}}, local.Deps{Log: log})
		if err != nil {
			t.Fatal(err)
		}
		s.loop = scaling.NewLoop(scaling.LoopConfig{Pool: "chat"}, scaling.LoopDeps{
			Controller: controller, Actuator: s.workers, Base: func() int { return 0 }, Signals: func(time.Time) scaling.Signals { return scaling.Signals{} },
			Record: func(context.Context, scaling.Decision) error { return nil }, Log: log,
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Run(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("without a directory for its workers it ran on: %v", err)
		}
	})
}
