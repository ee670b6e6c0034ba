package route

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestStaleRoutesAreNotTrusted takes the database away: requests are routed for MaxStale, refused, and routed again when it is back.
func TestStaleRoutesAreNotTrusted(t *testing.T) {
	var faults dbtest.Faults
	engines := map[string]engine.Engine{"native": enginetest.NewScripted(nil)}
	r, err := New(Config{}, faults.Over(dbtest.SQLite(t)), pool.Each(engines), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.now = func() time.Time { return now }
	if err := errors.Join(r.Load(t.Context()), r.Register(t.Context(), Version{Model: "chat", Version: "v1", Engine: "native", EngineModel: "scripted"})); err != nil {
		t.Fatal(err)
	}
	look := func() error { return errors.Join(r.routes.Refresh(t.Context()), r.models.Refresh(t.Context())) } // one turn of Run
	pick := func() error {
		_, err := r.Pick(Ask{Model: "chat"})
		return err
	}
	faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
	now = now.Add(snapshot.DefaultMaxAge)
	if look() == nil {
		t.Fatal("a look at a database that is away must fail")
	}
	if err := pick(); err != nil {
		t.Error("a short outage must not stop traffic:", err)
	}
	now = now.Add(time.Second)
	if err := pick(); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Error("too old, and yet", err)
	}
	if all := r.Models(); len(all) != 1 || !fault.Is(all[0].Err, fault.CodeEngineUnavailable) {
		t.Errorf("too old, and yet shown as %+v", all)
	}
	faults.Set(nil)
	if err := errors.Join(look(), pick()); err != nil {
		t.Error("the database is back:", err)
	}
}
