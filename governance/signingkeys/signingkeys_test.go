package signingkeys

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func ring() *keyring.Ring { return keyring.FromBytes(bytes.Repeat([]byte{7}, 32)) }

func store(t *testing.T, db *gorm.DB, a signature.Algorithm) *Store {
	t.Helper()
	s, err := New(Config{DB: db, Keys: ring(), Suite: seal.GM, Algorithm: a, Exists: exists, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Load(t.Context()))
	return s
}

func exists(_ context.Context, tenant string) error {
	if tenant == "nobody" {
		return fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), tenant)
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func signs(t *testing.T, s *Store, tenant string) *signature.Signer {
	t.Helper()
	signer, err := s.Signer(t.Context(), tenant)
	must(t, err)
	return signer
}

func signed(t *testing.T, by *signature.Signer) string {
	t.Helper()
	text, err := by.Sign(signature.Statement{Schema: signature.Schema, Digest: by.Algorithm.Digest(), Answers: []signature.Digests{{Finish: "stop"}}}, signature.JWS)
	must(t, err)
	return text
}

func seeds(t *testing.T, db *gorm.DB) (n int64) {
	t.Helper()
	must(t, db.Model(&seedRow{}).Count(&n).Error)
	return n
}

// TestRotation: each tenant has a key of its own; a new one takes over on every replica, and what older ones have signed stays proved.
func TestRotation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, replica := store(t, db, signature.EdDSA), store(t, db, signature.SM2SM3)
		first, other := signs(t, s, "acme"), signs(t, s, "globex")
		if first.ID == other.ID || signs(t, s, "acme") != first {
			t.Fatal("keys are shared, or made twice")
		}
		must(t, replica.public.Refresh(t.Context()))
		if got := signs(t, replica, "acme"); got.ID != first.ID {
			t.Error("replicas sign with different keys")
		}
		before := signed(t, first)
		made, err := replica.Rotate(t.Context(), "acme")
		must(t, err)
		must(t, s.public.Refresh(t.Context()))
		now := signs(t, s, "acme")
		if now.ID != made.ID || now.ID == first.ID || now.Algorithm != signature.SM2SM3 || signs(t, s, "globex") != other {
			t.Errorf("after the rotation %s signs", now.ID)
		}
		if n := seeds(t, db); n != 2 {
			t.Errorf("%d private halves are left", n)
		}
		keys, err := s.Public()
		must(t, err)
		for _, text := range []string{before, signed(t, now), signed(t, other)} {
			if _, err := signature.Verify(text, keys); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Rotate(t.Context(), "nobody"); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("a key for a tenant that there is not: %v", err)
		}
		s.Forget()
		if again := signs(t, s, "acme"); again == now || again.ID != now.ID {
			t.Error("a private half stays in memory, or is lost")
		}
		list, err := s.List("acme")
		if err != nil || len(list) != 2 || list[0].ID != now.ID || !list[0].Retired.IsZero() || list[1].Retired.IsZero() || list[1].Created.IsZero() {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := store(t, db, signature.EdDSA)
		first := signs(t, s, "acme")
		text := signed(t, first)
		if _, err := s.Revoke(t.Context(), "globex", first.ID); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("another tenant's key: %v", err)
		}
		got, err := s.Revoke(t.Context(), "acme", first.ID)
		if err != nil || got.Revoked.IsZero() || got.Retired.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := s.Revoke(t.Context(), "acme", first.ID); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("revoked again: %v", err)
		}
		keys, err := s.Public()
		must(t, err)
		if _, err := signature.Verify(text, keys); err != signature.ErrRevoked { //nolint:errorlint // exactly this
			t.Errorf("what it signed: %v", err)
		}
		if now := signs(t, s, "acme"); now.ID == first.ID {
			t.Error("it signs on")
		}
		second := signs(t, s, "acme")
		_, err = s.Rotate(t.Context(), "acme")
		must(t, err)
		replica := store(t, db, signature.EdDSA)
		_, err = s.Revoke(t.Context(), "acme", second.ID) // one that does not sign any more
		must(t, err)
		must(t, replica.public.Refresh(t.Context()))
		keys, err = replica.Public()
		must(t, err)
		if _, err := signature.Verify(signed(t, second), keys); err != signature.ErrRevoked { //nolint:errorlint // exactly this
			t.Errorf("on another replica: %v", err)
		}
	})
}

// TestFirstKeyIsOne: many requests on two replicas that need a tenant's first key get the same one.
func TestFirstKeyIsOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		replicas := []*Store{store(t, db, signature.EdDSA), store(t, db, signature.EdDSA)}
		ids := make([]string, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				signer, err := replicas[i%2].Signer(context.Background(), "acme")
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = signer.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Errorf("%v", ids)
			}
		}
		if n := seeds(t, db); n != 1 {
			t.Errorf("%d private halves", n)
		}
	})
}

// TestWhenTheDatabaseFails: whatever write fails, or seems to, there is one key that signs, and its public half is known.
func TestWhenTheDatabaseFails(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var faults dbtest.Faults
		tenants := 0
		for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for _, act := range []func(*Store) error{
				func(s *Store) error { // the first one of a tenant
					tenants++
					_, err := s.Signer(t.Context(), fmt.Sprint("tenant-", tenants))
					return err
				},
				func(s *Store) error {
					_, err := s.Rotate(t.Context(), "acme")
					return err
				},
				func(s *Store) error {
					all, err := s.List("acme")
					if err != nil || len(all) == 0 {
						return err
					}
					if _, err = s.Revoke(t.Context(), "acme", all[0].ID); fault.Is(err, fault.CodeConflict) { // its answer was lost
						err = nil
					}
					return err
				},
			} {
				faults.Each(t, how, func() error {
					s := store(t, db, signature.EdDSA)
					s.cfg.DB = faults.Over(db)
					return act(s)
				})
				s := store(t, db, signature.EdDSA)
				text := signed(t, signs(t, s, "acme"))
				keys, err := s.Public()
				must(t, err)
				if _, err := signature.Verify(text, keys); err != nil {
					t.Error(err)
				}
				var n int64
				must(t, db.Model(&seedRow{}).Where("tenant = 'acme'").Count(&n).Error)
				if n != 1 {
					t.Errorf("%d private halves", n)
				}
			}
		}
	})
}

// TestForeignMasterKey: a private half does not open under another master key, and nothing else is signed with then.
func TestForeignMasterKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		signs(t, store(t, db, signature.EdDSA), "acme")
		foreign, err := New(Config{DB: db, Keys: keyring.FromBytes(make([]byte, 32)), Suite: seal.Intl, Algorithm: signature.EdDSA, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		must(t, foreign.Load(t.Context()))
		if signer, err := foreign.Signer(t.Context(), "acme"); err == nil {
			t.Errorf("%s signs", signer.ID)
		}
	})
}

// TestWrapped: private halves take part in a rotation of the wrapping keys.
func TestWrapped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		before := signs(t, store(t, db, signature.EdDSA), "acme")
		wrapkeytest.Rotate(t, db, ring(), Wrapped(ring()))
		if now := signs(t, store(t, db, signature.EdDSA), "acme"); now.ID != before.ID {
			t.Errorf("%s signs, not %s", now.ID, before.ID)
		}
	})
}
