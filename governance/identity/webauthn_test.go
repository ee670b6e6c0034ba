package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/identity/webauthntest"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const (
	site   = "sluice.example"
	origin = "https://sluice.example"
)

// withKeys lets security keys in on replicas.
func withKeys(t *testing.T, replicas ...*Identity) {
	t.Helper()
	for _, i := range replicas {
		party, err := newRelyingParty(WebAuthn{Address: origin}, "sluice")
		if err != nil {
			t.Fatal(err)
		}
		i.party = party
	}
}

// enrolKey enrols a security key for a sign-in: begun on one replica and confirmed on another one.
func enrolKey(t *testing.T, begun, confirmed *Identity, s Session, k *webauthntest.Key) (Session, []string) {
	t.Helper()
	options, err := begun.StartKey(t.Context(), s.Principal)
	if err != nil {
		t.Fatal(err)
	}
	codes, out, err := confirmed.ConfirmKey(t.Context(), s.Principal, "desk", k.Make(t, options))
	if err != nil {
		t.Fatal(err, errors.Unwrap(err))
	}
	out.Refresh = s.Refresh
	return out, codes
}

// wanted is what a sign-in with the password alone is told.
func wanted(t *testing.T, i *Identity, name string) FactorsWanted {
	t.Helper()
	_, err := i.Login(t.Context(), name, password, "", "10.0.0.1")
	wantCode(t, err, fault.CodeSecondFactor)
	var w FactorsWanted
	if !errors.As(err, &w) {
		t.Fatalf("%v says nothing of what is wanted", err)
	}
	return w
}

func TestSecurityKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, clockA := withTenant(t, db)
		b, clockB := replica(t, db)
		withKeys(t, a, b)
		newUser(t, a, "root", nil, RoleSecurityAdmin)
		newUser(t, a, "eve", nil, RoleSecurityAdmin)
		poll(t, b)
		k := webauthntest.New(site, origin)
		s, codes := enrolKey(t, a, b, signIn(t, a, "root", password), k)
		poll(t, a)
		if len(codes) != recoveryCodes || s.Principal.Factor != factorWebAuthn || !a.HasSecondFactor(s.Principal.ID) {
			t.Fatalf("%d codes, %+v", len(codes), s.Principal)
		}
		w := wanted(t, a, "root")
		if !slices.Equal(w.Kinds, []string{"webauthn"}) {
			t.Errorf("wants %v", w.Kinds)
		}
		if options := string(w.Key); !strings.Contains(options, `"userVerification":"required"`) || !strings.Contains(options, `"rpId":"sluice.example"`) {
			t.Error(options)
		}
		enter := func(i *Identity, name string, assertion []byte) error {
			_, err := i.LoginWithKey(t.Context(), name, password, assertion, "10.0.0.1")
			return err
		}
		first := k.Sign(t, w.Key)
		if err := enter(b, "root", first); err != nil {
			t.Fatal(err)
		}
		for _, i := range []*Identity{a, b} {
			wantCode(t, enter(i, "root", first), fault.CodeWrongAssertion) // again
		}
		// What misbehaves, each with a challenge of its own, and none of them counts for the next.
		for what, sign := range map[string]func(ask []byte) []byte{
			"another origin": func(ask []byte) []byte {
				k.Site.Origin = "https://sluice.example.evil.test"
				defer func() { k.Site.Origin = origin }()
				return k.Sign(t, ask)
			},
			"http": func(ask []byte) []byte {
				k.Site.Origin = "http://sluice.example"
				defer func() { k.Site.Origin = origin }()
				return k.Sign(t, ask)
			},
			"another rp id": func(ask []byte) []byte {
				k.Site.ID = "example"
				defer func() { k.Site.ID = site }()
				return k.Sign(t, ask)
			},
			"no user verified": func(ask []byte) []byte {
				k.Authenticator.Options.UserNotVerified = true
				defer func() { k.Authenticator.Options.UserNotVerified = false }()
				return k.Sign(t, ask)
			},
			"no user present": func(ask []byte) []byte {
				k.Authenticator.Options.UserNotPresent = true
				defer func() { k.Authenticator.Options.UserNotPresent = false }()
				return k.Sign(t, ask)
			},
			"another key under this id": func(ask []byte) []byte {
				other := webauthntest.New(site, origin)
				other.Credential.ID, other.Credential.Counter = k.Credential.ID, k.Credential.Counter+1
				return other.Sign(t, ask)
			},
			"a key that nobody has": func(ask []byte) []byte { return webauthntest.New(site, origin).Sign(t, ask) },
			"another user handle": func(ask []byte) []byte {
				k.Authenticator.Options.UserHandle = []byte("somebody")
				defer func() { k.Authenticator.Options.UserHandle = nil }()
				return k.Sign(t, ask)
			},
			"no JSON": func([]byte) []byte { return []byte("{") },
		} {
			for _, i := range []*Identity{a, b} {
				i.throttle = newThrottle()
			}
			if err := enter(b, "root", sign(wanted(t, a, "root").Key)); !fault.Is(err, fault.CodeWrongAssertion) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := enter(b, "root", k.Sign(t, wanted(t, a, "root").Key)); err != nil {
			t.Error(err)
		}
		purposes(t, a, b, s, k)
		clockA.advance(time.Minute)
		clockB.advance(time.Minute)
		strangers(t, a, k)
		copies(t, a, b, s, k, codes)
	})
}

// purposes: a challenge is good for one purpose, one account and one sign-in, and for five minutes.
func purposes(t *testing.T, a, b *Identity, s Session, k *webauthntest.Key) {
	t.Helper()
	again := webauthntest.New(site, origin)
	ask := func() []byte {
		t.Helper()
		out, err := a.AskKey(t.Context(), s.Principal)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	_, err := b.LoginWithKey(t.Context(), "root", password, k.Sign(t, ask()), "10.0.0.1")
	wantCode(t, err, fault.CodeWrongAssertion)
	_, err = b.ShowKey(t.Context(), s.Principal, k.Sign(t, wanted(t, a, "root").Key), "10.0.0.1")
	wantCode(t, err, fault.CodeWrongAssertion)
	options, err := a.StartKey(t.Context(), s.Principal)
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal(options, &made); err != nil {
		t.Fatal(err)
	}
	_, err = b.ShowKey(t.Context(), s.Principal, k.Sign(t, fmt.Appendf(nil, `{"challenge": %q, "rpId": %q}`, made.Challenge, site)), "10.0.0.1")
	wantCode(t, err, fault.CodeWrongAssertion) // what enrols does not show
	_, _, err = b.ConfirmKey(t.Context(), s.Principal, "desk", again.Make(t, fmt.Appendf(nil, `{"challenge": %q, "rp": {"id": %q}}`, challengeOf(t, ask()), site)))
	wantCode(t, err, fault.CodeWrongAssertion) // what shows does not enrol
	elsewhere := s.Principal
	elsewhere.Session = "another"
	_, err = b.ShowKey(t.Context(), elsewhere, k.Sign(t, ask()), "10.0.0.1")
	wantCode(t, err, fault.CodeWrongAssertion)
	for _, i := range []*Identity{a, b} {
		i.throttle = newThrottle()
	}
	shown, err := b.ShowKey(t.Context(), s.Principal, k.Sign(t, ask()), "10.0.0.1")
	if err != nil || shown.Principal.Factor != factorWebAuthn {
		t.Error(err)
	}
	late := ask()
	was := b.now
	b.now = func() time.Time { return was().Add(challengeTime) }
	_, err = b.ShowKey(t.Context(), s.Principal, k.Sign(t, late), "10.0.0.1")
	wantCode(t, err, fault.CodeWrongAssertion)
	b.now = was
}

func challengeOf(t *testing.T, options []byte) string {
	t.Helper()
	var o struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal(options, &o); err != nil {
		t.Fatal(err)
	}
	return o.Challenge
}

// strangers: nobody signs in with a key of somebody else, nor enrols one.
func strangers(t *testing.T, a *Identity, k *webauthntest.Key) {
	t.Helper()
	own := webauthntest.New(site, origin)
	eve := signIn(t, a, "eve", password)
	options, err := a.StartKey(t.Context(), eve.Principal)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = a.ConfirmKey(t.Context(), eve.Principal, "desk", k.Make(t, options))
	wantCode(t, err, fault.CodeExists)
	enrolKey(t, a, a, eve, own)
	_, err = a.LoginWithKey(t.Context(), "root", password, own.Sign(t, wanted(t, a, "eve").Key), "10.0.0.1")
	wantCode(t, err, fault.CodeWrongAssertion) // her challenge
	_, err = a.LoginWithKey(t.Context(), "root", password, own.Sign(t, wanted(t, a, "root").Key), "10.0.0.1")
	wantCode(t, err, fault.CodeWrongAssertion) // her key
	_, err = a.LoginWithKey(t.Context(), "eve", "another wrong password", own.Sign(t, wanted(t, a, "eve").Key), "10.0.0.1")
	wantCode(t, err, fault.CodeInvalidLogin)
}

// copies: a key whose count goes backwards is refused, from then on, everywhere, until its owner removes it.
func copies(t *testing.T, a, b *Identity, s Session, k *webauthntest.Key, codes []string) {
	t.Helper()
	a.throttle, b.throttle = newThrottle(), newThrottle()
	enter := func(i *Identity, assertion []byte) error {
		_, err := i.LoginWithKey(t.Context(), "root", password, assertion, "10.0.0.1")
		return err
	}
	copied := *k
	if err := enter(a, k.Sign(t, wanted(t, a, "root").Key)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, enter(b, copied.Sign(t, wanted(t, a, "root").Key)), fault.CodeClonedKey)
	wantCode(t, enter(a, k.Sign(t, wanted(t, a, "root").Key)), fault.CodeClonedKey)
	suspects, err := b.Suspects(t.Context())
	if err != nil || len(suspects) != 1 || suspects[0].User != s.Principal.ID || suspects[0].Tenant != "acme" || suspects[0].Since.IsZero() {
		t.Errorf("%+v, %v", suspects, err)
	}
	entered, err := a.Login(t.Context(), "root", password, codes[0], "10.0.0.1")
	if err != nil {
		t.Fatal("a recovery code must do:", err)
	}
	list, err := a.Factors(t.Context(), entered.Principal)
	if err != nil || len(list) != 1 || list[0].Name != "desk" || list[0].Suspect.IsZero() || list[0].SignCount == 0 || list[0].LastUsed.IsZero() {
		t.Fatalf("%+v, %v", list, err)
	}
	wantCode(t, a.RemoveOneFactor(t.Context(), signInWith(t, a, "eve"), list[0].ID), fault.CodeNotFound)
	if err := a.RemoveOneFactor(t.Context(), entered.Principal, list[0].ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, a.RemoveOneFactor(t.Context(), entered.Principal, list[0].ID), fault.CodeNotFound)
	if _, err := a.Login(t.Context(), "root", password, "", "10.0.0.1"); err != nil {
		t.Error("the last factor is gone:", err)
	}
	if left, err := b.Suspects(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%+v, %v", left, err)
	}
}

// signInWith returns who somebody is, without signing in.
func signInWith(t *testing.T, i *Identity, name string) Principal {
	t.Helper()
	p := i.Claimed(name)
	if p.ID == "" {
		t.Fatal(name)
	}
	return p
}

// TestKeysBesideCodes: an account has both kinds and several keys; recovery codes stand in for all of them and go with the last.
func TestKeysBesideCodes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := withTenant(t, db)
		withKeys(t, i)
		s, made, codes := withFactor(t, i, c, "root", RoleSecurityAdmin)
		k, backup := webauthntest.New(site, origin), webauthntest.New(site, origin)
		backup.Authenticator.Options.BackupEligible, backup.Authenticator.Options.BackupState = true, true
		s, more := enrolKey(t, i, i, s, k)
		if len(more) != 0 {
			t.Error("the codes of before were replaced")
		}
		s, _ = enrolKey(t, i, i, s, backup)
		w := wanted(t, i, "root")
		if !slices.Equal(w.Kinds, []string{"totp", "webauthn"}) {
			t.Errorf("wants %v", w.Kinds)
		}
		if _, err := i.LoginWithKey(t.Context(), "root", password, backup.Sign(t, w.Key), ""); err != nil {
			t.Error(err)
		}
		c.advance(time.Minute)
		if _, err := i.Login(t.Context(), "root", password, codeAt(t, made.Secret, c.now()), ""); err != nil {
			t.Error(err)
		}
		if _, err := i.Login(t.Context(), "root", password, codes[3], ""); err != nil {
			t.Error(err)
		}
		list, err := i.Factors(t.Context(), s.Principal)
		if err != nil || len(list) != 3 || list[0].Kind != factorTOTP || list[1].BackedUp || !list[2].BackedUp {
			t.Fatalf("%+v, %v", list, err)
		}
		for n, f := range list {
			if _, err := i.Login(t.Context(), "root", password, codes[4+n], ""); err != nil {
				t.Error(n, err)
			}
			if err := i.RemoveOneFactor(t.Context(), s.Principal, f.ID); err != nil {
				t.Fatal(err)
			}
		}
		var left int64
		if err := db.Model(&recoveryRow{}).Count(&left).Error; err != nil || left != 0 || i.HasSecondFactor(s.Principal.ID) {
			t.Errorf("%d codes are left, %v", left, err)
		}
	})
}

// TestKeysThatCountNothing: synced passkeys always count zero, and are no copies for it.
func TestKeysThatCountNothing(t *testing.T) {
	i, _ := withTenant(t, dbtest.SQLite(t))
	withKeys(t, i)
	newUser(t, i, "root", nil, RoleSecurityAdmin)
	k := webauthntest.New(site, origin)
	enrolKey(t, i, i, signIn(t, i, "root", password), k)
	for range 3 {
		k.Credential.Counter = ^uint32(0) // and around
		if _, err := i.LoginWithKey(t.Context(), "root", password, k.Sign(t, wanted(t, i, "root").Key), ""); err != nil {
			t.Fatal(err)
		}
	}
	k.Credential.Counter = 6
	if _, err := i.LoginWithKey(t.Context(), "root", password, k.Sign(t, wanted(t, i, "root").Key), ""); err != nil {
		t.Fatal(err)
	}
	k.Credential.Counter = ^uint32(0)
	_, err := i.LoginWithKey(t.Context(), "root", password, k.Sign(t, wanted(t, i, "root").Key), "")
	wantCode(t, err, fault.CodeClonedKey)
}

// TestWaitingChallengesAreFew: whoever has a password cannot fill the database with challenges.
func TestWaitingChallengesAreFew(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := withTenant(t, db)
		withKeys(t, i)
		newUser(t, i, "root", nil, RoleSecurityAdmin)
		k := webauthntest.New(site, origin)
		enrolKey(t, i, i, signIn(t, i, "root", password), k)
		first := wanted(t, i, "root")
		for range maxChallenges {
			c.advance(time.Second)
			wanted(t, i, "root")
		}
		count := func() (n int64) {
			if err := db.Model(&challengeRow{}).Count(&n).Error; err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := count(); n != maxChallenges {
			t.Errorf("%d challenges wait", n)
		}
		_, err := i.LoginWithKey(t.Context(), "root", password, k.Sign(t, first.Key), "")
		wantCode(t, err, fault.CodeWrongAssertion)
		c.advance(2 * challengeTime)
		wanted(t, i, "root")
		if n := count(); n != 1 {
			t.Errorf("%d challenges wait later", n)
		}
	})
}

// TestFactorsBreakOff breaks each statement of what writes factors, before or after it was carried out: what the caller was refused is not in force, and
// trying again succeeds.
func TestFactorsBreakOff(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var faults dbtest.Faults
		i, _ := withTenant(t, db)
		withKeys(t, i)
		newUser(t, i, "root", nil, RoleSecurityAdmin)
		s := signIn(t, i, "root", password)
		healthy := i.store
		broken := store{db: faults.Over(db)}
		k := webauthntest.New(site, origin)
		breakEach(t, &faults, "start", func() error {
			i.store = broken
			defer func() { i.store = healthy }()
			_, err := i.StartKey(t.Context(), s.Principal)
			return err
		}, func(bool) {})
		breakEach(t, &faults, "confirm", func() error {
			i.store = healthy
			options, err := i.StartKey(t.Context(), s.Principal)
			if err != nil {
				return err
			}
			answer := k.Make(t, options)
			i.store = broken
			defer func() { i.store = healthy }()
			_, next, err := i.ConfirmKey(t.Context(), s.Principal, "desk", answer)
			if fault.Is(err, fault.CodeExists) { // the commit that failed had been carried out
				next, err = s, nil
			}
			if err == nil {
				next.Refresh = s.Refresh
				s = next
			}
			return err
		}, func(done bool) {
			poll(t, i)
			list, err := i.Factors(t.Context(), s.Principal)
			if err != nil || len(list) > 1 || done && len(list) != 1 || i.HasSecondFactor(s.Principal.ID) != (len(list) == 1) {
				t.Errorf("done %v: %+v, %v", done, list, err)
			}
			var codes int64
			if err := db.Model(&recoveryRow{}).Count(&codes).Error; err != nil || codes != int64(recoveryCodes*len(list)) {
				t.Errorf("%d factors, %d codes", len(list), codes)
			}
		})
		breakEach(t, &faults, "sign in", func() error {
			i.throttle = newThrottle()
			ask := wanted(t, i, "root").Key
			answer := k.Sign(t, ask)
			i.store = broken
			defer func() { i.store = healthy }()
			_, err := i.LoginWithKey(t.Context(), "root", password, answer, "")
			return err
		}, func(bool) {})
		breakEach(t, &faults, "suspect", func() error {
			i.throttle = newThrottle()
			back := *k
			back.Credential.Counter = 0
			answer := back.Sign(t, wanted(t, i, "root").Key)
			i.store = broken
			defer func() { i.store = healthy }()
			_, err := i.LoginWithKey(t.Context(), "root", password, answer, "")
			if err == nil {
				t.Fatal("a copy was let in")
			}
			if fault.Is(err, fault.CodeClonedKey) {
				return nil
			}
			return err
		}, func(done bool) {
			if list, err := i.Suspects(t.Context()); err != nil || done && len(list) != 1 {
				t.Errorf("done %v: %+v, %v", done, list, err)
			}
		})
		list, err := i.Factors(t.Context(), s.Principal)
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		breakEach(t, &faults, "remove", func() error {
			i.store = broken
			defer func() { i.store = healthy }()
			err := i.RemoveOneFactor(t.Context(), s.Principal, list[0].ID)
			if fault.Is(err, fault.CodeNotFound) { // as above
				err = nil
			}
			return err
		}, func(done bool) {
			left, err := i.Factors(t.Context(), s.Principal)
			if err != nil || done && len(left) != 0 {
				t.Errorf("done %v: %+v, %v", done, left, err)
			}
		})
	})
}

// breakEach does something with its first operation on the database broken, then with its second, until one time nothing breaks: that time, and only
// that, it has to succeed. Errors other than the injected one are none of ours.
func breakEach(t *testing.T, faults *dbtest.Faults, what string, do func() error, look func(done bool)) {
	t.Helper()
	for _, outcome := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
		for n := 0; ; n++ {
			seen, broken := 0, false
			faults.Set(func(string) dbtest.Outcome {
				seen++
				if seen == n+1 {
					broken = true
					return outcome
				}
				return dbtest.Healthy
			})
			err := do()
			faults.Set(nil)
			look(err == nil)
			if !broken {
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if n == 0 {
					t.Fatalf("%s: nothing was broken", what)
				}
				break
			}
			if err != nil && !fault.Is(err, fault.CodeDatabaseUnavailable) {
				t.Errorf("%s, operation %d: %v", what, n, err)
			}
		}
	}
}

// TestRotationMovesFactors: the secrets of both kinds move to the active wrapping key, and open afterwards on a replica that knew the one before.
func TestRotationMovesFactors(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := withTenant(t, db)
		withKeys(t, i)
		s, made, _ := withFactor(t, i, c, "root", RoleSecurityAdmin)
		k := webauthntest.New(site, origin)
		s, _ = enrolKey(t, i, i, s, k)
		enter := func() {
			t.Helper()
			c.advance(time.Minute)
			if _, err := i.Login(t.Context(), "root", password, codeAt(t, made.Secret, c.now()), ""); err != nil {
				t.Error(err)
			}
			if _, err := i.LoginWithKey(t.Context(), "root", password, k.Sign(t, wanted(t, i, "root").Key), ""); err != nil {
				t.Error(err)
			}
		}
		epochs := func(want ...int64) {
			t.Helper()
			var got []int64
			if err := db.Raw("SELECT epoch FROM identity_factors ORDER BY id").Scan(&got).Error; err != nil || !slices.Equal(got, want) {
				t.Errorf("epochs %v, want %v, %v", got, want, err)
			}
		}
		epochs(0, 0)
		finish := wrapkeytest.Begin(t, db, ring(), Wrapped(ring()))
		more := webauthntest.New(site, origin)
		s, _ = enrolKey(t, i, i, s, more)
		epochs(0, 0, 1)
		enter()
		if st := finish(); st.Kinds[0].Done != 2 || st.Kinds[0].Left != 0 {
			t.Errorf("%+v", st)
		}
		epochs(1, 1, 1)
		enter()
		if st := wrapkeytest.Begin(t, db, ring(), Wrapped(ring()))(); st.Epochs[1].State != "destroyed" {
			t.Errorf("%+v", st)
		}
		epochs(2, 2, 2)
		enter()
		_ = s
	})
}

// TestKeysAtRest: what the database has of a security key opens in its row alone, and says nothing in clear.
func TestKeysAtRest(t *testing.T) {
	for _, suite := range []seal.Suite{seal.Intl, seal.GM} {
		db := dbtest.SQLite(t)
		i, _ := withTenant(t, db)
		withKeys(t, i)
		secrets, err := newFactorSecrets(ring(), suite)
		if err != nil {
			t.Fatal(err)
		}
		i.factors = secrets
		newUser(t, i, "root", nil, RoleSecurityAdmin)
		k := webauthntest.New(site, origin)
		enrolKey(t, i, i, signIn(t, i, "root", password), k)
		row, found, err := one[factorRow](db, factorColumns())
		if err != nil || !found || row.Suite != string(suite) {
			t.Fatalf("%+v, %v", row, err)
		}
		if stored := append([]byte(fmt.Sprintf("%+v", row)), row.Sealed...); bytes.Contains(stored, k.Credential.ID) || bytes.Contains(row.Sealed, k.Credential.Key.AttestationData()[:20]) {
			t.Error("the key is readable in the database")
		}
		if _, err := i.factors.open(db, row); err != nil {
			t.Error(err)
		}
		row.UserID = "u2"
		if _, err := i.factors.open(db, row); err == nil {
			t.Error("it opens in the row of another account")
		}
	}
}

func TestWhereSecurityKeysWork(t *testing.T) {
	noAddress, noName := fault.Say("identity.keys_no_address"), fault.Say("identity.keys_no_name", "10.0.0.7")
	for _, c := range []struct {
		cfg WebAuthn
		id  string        // the relying party's
		off *fault.Phrase // why there is none; with neither it is refused
	}{
		{WebAuthn{Address: "https://ai.bank.example/console"}, "ai.bank.example", nil},
		{WebAuthn{Address: "https://ai.bank.example:8443"}, "ai.bank.example", nil},
		{WebAuthn{Address: "http://localhost:8080"}, "localhost", nil},
		{WebAuthn{Address: "http://ai.bank.example"}, "", &noAddress},
		{WebAuthn{}, "", &noAddress},
		{WebAuthn{Address: "https://10.0.0.7"}, "", &noName},
		{WebAuthn{RPID: "bank.example", Address: "https://ai.bank.example"}, "bank.example", nil},
		{WebAuthn{Origins: []string{"https://a.bank.example", "https://b.bank.example"}, RPID: "bank.example"}, "bank.example", nil},
		{WebAuthn{Origins: []string{"https://a.bank.example"}}, "a.bank.example", nil},
		{WebAuthn{RPID: "bank.example"}, "", nil},
		{WebAuthn{RPID: "bank.example", Address: "https://bank.example.evil.test"}, "", nil},
		{WebAuthn{RPID: "ank.example", Address: "https://bank.example"}, "", nil},
		{WebAuthn{Origins: []string{"http://ai.bank.example"}}, "", nil},
		{WebAuthn{Origins: []string{"https://ai.bank.example/console"}}, "", nil},
		{WebAuthn{Origins: []string{"https://a.bank.example", "https://b.bank.example"}}, "", nil},
		{WebAuthn{Origins: []string{"https://10.0.0.7"}}, "", nil},
	} {
		id, _, why, err := c.cfg.origins()
		if refused := c.id == "" && c.off == nil; id != c.id || refused != (err != nil) || refused != ((Config{WebAuthn: c.cfg}).Validate() != nil) {
			t.Errorf("%+v: %q, %v", c.cfg, id, err)
		}
		if c.off != nil && why.In(fault.English) != c.off.In(fault.English) {
			t.Errorf("%+v: %s, want %s", c.cfg, why.In(fault.English), c.off.In(fault.English))
		}
	}
	i, _ := withTenant(t, dbtest.SQLite(t))
	newUser(t, i, "root", nil, RoleSecurityAdmin)
	s := signIn(t, i, "root", password)
	_, err := i.StartKey(t.Context(), s.Principal)
	wantCode(t, err, fault.CodeConflict)
	if _, off := i.SecurityKeys(s.Principal); off == nil || !strings.Contains(off.In(fault.English), "public_url") {
		t.Errorf("%v", off)
	}
	// Who has one shows a recovery code where keys are off.
	withKeys(t, i)
	_, codes := enrolKey(t, i, i, s, webauthntest.New(site, origin))
	i.party = relyingParty{}
	if w := wanted(t, i, "root"); len(w.Kinds) != 0 || w.Key != nil {
		t.Errorf("%+v", w)
	}
	if _, err := i.Login(t.Context(), "root", password, codes[0], ""); err != nil {
		t.Error(err)
	}
}
