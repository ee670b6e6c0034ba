package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// buildOf begins and builds a merge of all live segments, as [Service.merge] does up to its last transaction.
func buildOf(t *testing.T, s *Service) (inputs []segmentRow, out segmentRow) {
	t.Helper()
	must(t, s.db.Where("state = ?", live).Order("first").Find(&inputs).Error)
	out = segmentRow{ID: segmentID(s.now()), Tenant: "acme", State: building, Level: 1, First: inputs[0].First, Last: inputs[len(inputs)-1].Last}
	must(t, s.begin(t.Context(), &out))
	var err error
	out.Prints, err = s.build(&lead{ctx: t.Context(), take: s.cfg.Leads}, inputs, out, nil)
	must(t, err)
	out.Entries = int64(len(inputs))
	return inputs, out
}

// TestPurgeSparesTheLiving: two replicas that both believe they lead. What the second took for unfinished has become live by the time it is to be removed.
func TestPurgeSparesTheLiving(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, other := open(t, db), open(t, db)
		r := rand.New(rand.NewPCG(61, 61))
		texts := make([]string, fanIn)
		for i := range texts {
			texts[i] = words(r, 30)
			keep(t, s, mark(t, s, "acme", i, texts[i]))
		}
		inputs, out := buildOf(t, s)
		var seen []segmentRow // by the other one
		must(t, other.db.Where("state <> ?", live).Find(&seen).Error)
		if len(seen) != 1 || seen[0].ID != out.ID {
			t.Fatalf("%+v", seen)
		}
		must(t, s.replace(t.Context(), inputs, out))
		must(t, other.purge(&lead{ctx: t.Context(), take: other.cfg.Leads}, seen[0]))
		must(t, other.Merge(t.Context()))
		for i, text := range texts {
			if got := requests(traced(t, s, "acme", text[20:100])); len(got) != 1 || got[0] != fmt.Sprintf("request-%d", i) {
				t.Errorf("%d: %v", i, got)
			}
		}
	})
}

// TestNoBlocksWithoutTheirSegment: whoever builds a segment that another one has removed, with or without its tenant, adds no more blocks.
func TestNoBlocksWithoutTheirSegment(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(62, 62))
		keep(t, s, mark(t, s, "acme", 0, words(r, 30)))
		inputs, out := buildOf(t, s)
		must(t, s.purge(&lead{ctx: t.Context(), take: s.cfg.Leads}, out))
		if _, err := s.build(&lead{ctx: t.Context(), take: s.cfg.Leads}, inputs, out, nil); !errors.Is(err, errLostLead) {
			t.Errorf("went on: %v", err)
		}
		if n := count(t, db, "registry_blocks"); n != 1 {
			t.Errorf("%d blocks", n)
		}
		must(t, db.Exec("DELETE FROM registry_tenants").Error)
		if err := s.begin(context.Background(), &segmentRow{ID: 9, Tenant: "acme", State: building}); !errors.Is(err, errLostLead) {
			t.Errorf("began for a tenant that has left: %v", err)
		}
	})
}

// TestOrphans: blocks without a segment are found and removed, and no others.
func TestOrphans(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		text := words(rand.New(rand.NewPCG(63, 63)), 30)
		keep(t, s, mark(t, s, "acme", 0, text))
		for _, segment := range []int64{3, 1 << 62} {
			for bucket := range int64(3) {
				must(t, db.Create(&blockRow{segment, bucket, "acme", []byte{2, 0}}).Error)
			}
		}
		must(t, s.Sweep(t.Context()))
		if n := count(t, db, "registry_blocks"); n != 1 {
			t.Errorf("%d blocks", n)
		}
		if got := traced(t, s, "acme", text); len(got.Matches) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestASpoiledBlockHoldsUpNobody: the segments of one tenant stay as they are, what is said is that a block does not read, and others are merged.
func TestASpoiledBlockHoldsUpNobody(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(64, 64))
		for i := range fanIn {
			keep(t, s, mark(t, s, "acme", i, words(r, 30)))
			keep(t, s, mark(t, s, "globex", i, words(r, 30)))
		}
		must(t, db.Exec("UPDATE registry_blocks SET data = ? WHERE tenant = 'acme'", []byte{0xff}).Error)
		if _, err := s.Trace(t.Context(), "acme", words(r, 30)); !fault.Is(err, fault.CodeInternal) || !errors.Is(err, errBlock) {
			t.Errorf("traced: %v", err)
		}
		for range 2 {
			if err := s.Merge(t.Context()); !errors.Is(err, errBlock) {
				t.Errorf("merged: %v", err)
			}
			if acme, globex := count(t, db, "registry_segments WHERE tenant = 'acme' AND state = 'live'"), count(t, db, "registry_segments WHERE tenant = 'globex'"); acme != fanIn || globex != 1 {
				t.Errorf("%d and %d segments", acme, globex)
			}
		}
	})
}
