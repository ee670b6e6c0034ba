package audit

import (
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestTextsOutliveRotations: what was shipped before a rotation, what waited in the write-ahead log of another replica through two of them, and what
// came after is read, when the keys of before are destroyed. Who was erased stays so, also when the log brings the key again, and the log verifies.
func TestTextsOutliveRotations(t *testing.T) {
	t.Parallel() // it waits for a lease to end, twice
	carol := Subject(testKeys(), "demo", "carol")
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		t.Parallel()
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		slow := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		ids := map[int]string{1: say(t, l, 1, alice).ID, 2: say(t, l, 2, bob).ID}
		flush(t, l)
		ids[3], ids[4] = say(t, slow, 3, alice).ID, say(t, slow, 4, bob).ID // not shipped
		finish := wrapkeytest.Begin(t, db, testKeys(), store.Wrapped(testKeys()))
		if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: bob, By: Actor{Kind: "user", ID: "officer"}}); err != nil {
			t.Fatal(err)
		}
		finish()
		wrapkeytest.Begin(t, db, testKeys(), store.Wrapped(testKeys()))()
		ids[5] = say(t, l, 5, alice).ID
		flush(t, l)
		flush(t, slow)
		for _, log := range []*Log{l, slow, openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})} {
			for n, id := range ids {
				want := said(n)
				if n == 2 || n == 4 {
					want = []string{"", ""}
				}
				if got := texts(t, log, id); !slices.Equal(got, want) {
					t.Errorf("record %d: %q", n, got)
				}
			}
		}
		say(t, l, 6, carol)
		flush(t, l)
		if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: carol, By: Actor{Kind: "user", ID: "officer"}}); err != nil {
			t.Fatal(err)
		}
		if got := texts(t, l, ids[1]); !slices.Equal(got, said(1)) {
			t.Errorf("after the erasure of somebody else: %q", got)
		}
		var epochs []int64
		if err := db.Model(&store.KeyRow{}).Order("id").Pluck("epoch", &epochs).Error; err != nil || len(epochs) == 0 || slices.Max(epochs) != 2 || slices.Min(epochs) != 2 {
			t.Errorf("keys are of epochs %v, %v", epochs, err)
		}
		if left := wrappedKeys(t, db, bob); len(left) != 0 {
			t.Errorf("%d keys of the erased person are back", len(left))
		}
		mustVerify(t, l, db)
	})
}
