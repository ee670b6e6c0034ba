package identity

import (
	"encoding/base32"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/pquerna/otp/hotp"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/identity/webauthntest"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// codeAt is what an authenticator app shows at a time.
func codeAt(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	code, err := hotp.GenerateCode(secret, uint64(at.Unix()/30))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// withFactor makes an account with a second factor, signed in with it.
func withFactor(t *testing.T, i *Identity, c *clock, name string, roles ...string) (Session, TOTP, []string) {
	t.Helper()
	if _, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: name, Password: password, Roles: roles}); err != nil {
		t.Fatal(err)
	}
	s, err := i.Login(t.Context(), name, password, "", "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	made, err := i.StartTOTP(t.Context(), s.Principal)
	if err != nil {
		t.Fatal(err)
	}
	codes, confirmed, err := i.ConfirmTOTP(t.Context(), s.Principal, codeAt(t, made.Secret, c.now()), "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	confirmed.Refresh = s.Refresh
	return confirmed, made, codes
}

// TestTOTPVectors holds the codes to RFC 6238 appendix B, of whose 8 digits ours are the last 6.
func TestTOTPVectors(t *testing.T) {
	i, c := replica(t, dbtest.SQLite(t))
	row := factorRow{ID: "f1", UserID: "u1", Kind: factorTOTP}
	if err := i.factors.sealing([]byte(base32.StdEncoding.EncodeToString([]byte("12345678901234567890"))))(i.store.db, &row); err != nil {
		t.Fatal(err)
	}
	for at, code := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		c.t = time.Unix(at, 0) // further away than a duration is long
		if step, ok, err := i.matchTOTP(t.Context(), row, code[2:]); err != nil || !ok || step != at/30 {
			t.Errorf("at %d: step %d, %v, %v", at, step, ok, err)
		}
	}
	other := row
	other.UserID = "u2"
	if _, _, err := i.matchTOTP(t.Context(), other, "353130"); err == nil {
		t.Error("a secret opens in the row of another account")
	}
}

func TestSecondFactorAtSignIn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, clockA := withTenant(t, db)
		b, clockB := replica(t, db)
		advance := func(d time.Duration) { clockA.advance(d); clockB.advance(d) }
		session, made, _ := withFactor(t, a, clockA, "root", RoleSecurityAdmin)
		poll(t, b)
		login := func(i *Identity, code string) error {
			_, err := i.Login(t.Context(), "root", password, code, "10.0.0.1")
			return err
		}
		if !strings.HasPrefix(made.URI, "otpauth://totp/sluice:root?") || !strings.Contains(made.URI, "secret="+made.Secret) {
			t.Errorf("URI %s", made.URI)
		}
		wantCode(t, login(b, ""), fault.CodeSecondFactor)
		wantCode(t, login(b, "000000"), fault.CodeWrongCode)
		_, err := b.Login(t.Context(), "root", "another wrong password", codeAt(t, made.Secret, clockB.now().Add(30*time.Second)), "10.0.0.1")
		wantCode(t, err, fault.CodeInvalidLogin)

		first := codeAt(t, made.Secret, clockA.now())
		wantCode(t, login(b, first), fault.CodeWrongCode) // it has confirmed the enrolment, on the other replica
		advance(time.Minute)
		now := clockA.now()
		if err := login(a, codeAt(t, made.Secret, now.Add(-30*time.Second))); err != nil {
			t.Error("the step before must do:", err)
		}
		if err := login(b, codeAt(t, made.Secret, now.Add(30*time.Second))); err != nil {
			t.Error("the step after must do:", err)
		}
		for what, i := range map[string]*Identity{"here": a, "elsewhere": b} {
			for _, skew := range []time.Duration{-30 * time.Second, 0, 30 * time.Second} { // used, passed over, used
				if err := login(i, codeAt(t, made.Secret, now.Add(skew))); !fault.Is(err, fault.CodeWrongCode) {
					t.Errorf("%s, a code of %s again: %v", what, skew, err)
				}
			}
		}
		advance(2 * time.Hour) // the failures are forgotten
		poll(t, a)
		poll(t, b)
		now = clockA.now()
		for _, skew := range []time.Duration{-time.Minute, time.Minute} {
			wantCode(t, login(a, codeAt(t, made.Secret, now.Add(skew))), fault.CodeWrongCode)
		}

		// The same code at the same time on two replicas lets one in.
		code := codeAt(t, made.Secret, now)
		var in [2]error
		var both sync.WaitGroup
		for n, i := range []*Identity{a, b} {
			both.Go(func() { in[n] = login(i, code) })
		}
		both.Wait()
		if (in[0] == nil) == (in[1] == nil) {
			t.Errorf("one code let in: %v, %v", in[0], in[1])
		}

		// What a sign-in has shown goes with it.
		s, err := b.Refresh(t.Context(), session.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.Authenticate(t.Context(), AdminPlane, s.Access, "")
		if err != nil || p.Factor != factorTOTP || !p.SecondFactor || !p.FactorAt.Equal(session.Principal.FactorAt) || !p.ProvedAt().Equal(p.FactorAt) {
			t.Errorf("%+v, %v", p, err)
		}
		var c claims
		if _, _, err := jwt.NewParser().ParseUnverified(s.Access, &c); err != nil || fmt.Sprint(c.Methods) != "[pwd otp mfa]" {
			t.Errorf("amr %v, %v", c.Methods, err)
		}
		advance(time.Minute)
		shown, err := b.ShowFactor(t.Context(), p, codeAt(t, made.Secret, clockB.now()), "10.0.0.1")
		if err != nil || !shown.Principal.FactorAt.Equal(clockB.now()) || !shown.Principal.SignedIn.Equal(session.Principal.SignedIn) {
			t.Errorf("shown again: %+v, %v", shown.Principal, err)
		}
		if s, err = a.Refresh(t.Context(), s.Refresh); err != nil || !s.Principal.FactorAt.Equal(clockB.now()) {
			t.Errorf("a renewal forgets when the factor was shown: %+v, %v", s.Principal, err)
		}
		_, err = b.ShowFactor(t.Context(), p, codeAt(t, made.Secret, clockB.now()), "10.0.0.1")
		wantCode(t, err, fault.CodeWrongCode)
		if s, err = a.ChangePassword(t.Context(), s.Principal, password, "a new long password", "10.0.0.1"); err != nil || !s.Principal.FactorAt.Equal(clockB.now()) {
			t.Errorf("after a change of password: %+v, %v", s.Principal, err)
		}
	})
}

// TestEnrolmentEndsOtherSignIns: those with the password alone prove less than the account now asks for.
func TestEnrolmentEndsOtherSignIns(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, c := withTenant(t, db)
		b, _ := replica(t, db)
		if _, err := a.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "dev", Password: password, Roles: []string{RoleDeveloper}}); err != nil {
			t.Fatal(err)
		}
		poll(t, b)
		mine, err := a.Login(t.Context(), "dev", password, "", "")
		other, err2 := b.Login(t.Context(), "dev", password, "", "")
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		_, _, err = a.ConfirmTOTP(t.Context(), mine.Principal, "000000", "")
		wantCode(t, err, fault.CodeConflict)
		first, err := a.StartTOTP(t.Context(), mine.Principal)
		if err != nil {
			t.Fatal(err)
		}
		made, err := a.StartTOTP(t.Context(), mine.Principal) // in place of it
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = a.ConfirmTOTP(t.Context(), mine.Principal, codeAt(t, first.Secret, c.now()), "")
		wantCode(t, err, fault.CodeWrongCode)
		if _, err := a.Login(t.Context(), "dev", password, "", ""); err != nil {
			t.Error("a factor is asked for before it is confirmed:", err)
		}
		c.advance(enrolTime)
		_, _, err = a.ConfirmTOTP(t.Context(), mine.Principal, codeAt(t, made.Secret, c.now()), "")
		wantCode(t, err, fault.CodeConflict)
		if made, err = a.StartTOTP(t.Context(), mine.Principal); err != nil {
			t.Fatal(err)
		}
		codes, _, err := a.ConfirmTOTP(t.Context(), mine.Principal, codeAt(t, made.Secret, c.now()), "")
		if err != nil || len(codes) != recoveryCodes {
			t.Fatal(codes, err)
		}
		poll(t, b)
		for what, s := range map[string]Session{"the token from before": mine, "another sign-in": other} {
			_, err := b.Authenticate(t.Context(), AdminPlane, s.Access, "")
			if !fault.Is(err, fault.CodeInvalidSession) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = b.Refresh(t.Context(), other.Refresh)
		wantCode(t, err, fault.CodeInvalidSession)
		if _, err = b.Refresh(t.Context(), mine.Refresh); err != nil {
			t.Error("the sign-in that has enrolled goes on:", err)
		}
	})
}

func TestRecoveryCodesWorkOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, c := withTenant(t, db)
		b, _ := replica(t, db)
		_, _, codes := withFactor(t, a, c, "root", RoleSecurityAdmin)
		_, _, others := withFactor(t, a, c, "dev", RoleDeveloper)
		poll(t, b)
		if _, err := a.Login(t.Context(), "root", password, others[0], "10.0.0.1"); !fault.Is(err, fault.CodeWrongCode) {
			t.Errorf("a code of somebody else: %v", err)
		}
		s, err := b.Login(t.Context(), "root", password, strings.ToLower(strings.ReplaceAll(codes[0], "-", " ")), "10.0.0.1")
		if err != nil || s.Principal.Factor != factorRecovery {
			t.Fatal(s.Principal.Factor, err)
		}
		for _, i := range []*Identity{a, b} {
			_, err := i.Login(t.Context(), "root", password, codes[0], "10.0.0.1")
			wantCode(t, err, fault.CodeWrongCode)
		}
		var in [2]error
		var both sync.WaitGroup
		for n, i := range []*Identity{a, b} {
			both.Go(func() { _, in[n] = i.Login(t.Context(), "root", password, codes[1], "10.0.0.1") })
		}
		both.Wait()
		if (in[0] == nil) == (in[1] == nil) {
			t.Errorf("one recovery code let in: %v, %v", in[0], in[1])
		}
		// A new factor has new codes, and the old ones end.
		made, err := a.StartTOTP(t.Context(), s.Principal)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.ConfirmTOTP(t.Context(), s.Principal, codeAt(t, made.Secret, c.now()), "10.0.0.1"); err != nil {
			t.Fatal(err)
		}
		_, err = a.Login(t.Context(), "root", password, codes[2], "10.0.0.1")
		wantCode(t, err, fault.CodeWrongCode)
	})
}

// TestWrongCodesAreThrottled: the right password in between takes none of them back.
func TestWrongCodesAreThrottled(t *testing.T) {
	a, c := withTenant(t, dbtest.SQLite(t))
	s, made, _ := withFactor(t, a, c, "root", RoleSecurityAdmin)
	guess := func() error {
		if _, err := a.Login(t.Context(), "root", password, "", "10.0.0.1"); !fault.Is(err, fault.CodeSecondFactor) {
			return err
		}
		_, err := a.Login(t.Context(), "root", password, "000000", "10.0.0.1")
		return err
	}
	for n := 1; ; n++ {
		err := guess()
		if fault.Is(err, fault.CodeLoginThrottled) {
			break
		}
		wantCode(t, err, fault.CodeWrongCode)
		if n > freePerPair {
			t.Fatalf("%d guesses went on", n)
		}
	}
	_, err := a.ShowFactor(t.Context(), s.Principal, codeAt(t, made.Secret, c.now()), "10.0.0.1")
	wantCode(t, err, fault.CodeLoginThrottled)
	c.advance(time.Minute)
	for range 2 {
		_, err = a.ShowFactor(t.Context(), s.Principal, "000000", "10.0.0.1")
	}
	wantCode(t, err, fault.CodeLoginThrottled)
}

// TestSecondFactorsAtRest: neither a secret nor a recovery code stands anywhere in the database.
func TestSecondFactorsAtRest(t *testing.T) {
	for _, suite := range []seal.Suite{seal.Intl, seal.GM} {
		db := dbtest.SQLite(t)
		i, c := withTenant(t, db)
		secrets, err := newFactorSecrets(ring(), suite)
		if err != nil {
			t.Fatal(err)
		}
		i.factors = secrets
		_, made, codes := withFactor(t, i, c, "root", RoleSecurityAdmin)
		var rows []factorRow
		var left []recoveryRow
		if err := db.Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		if err := db.Find(&left).Error; err != nil {
			t.Fatal(err)
		}
		raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(made.Secret)
		if err != nil || len(rows) != 1 || len(left) != recoveryCodes || rows[0].Suite != string(suite) {
			t.Fatalf("%d factors of %s, %d codes, %v", len(rows), rows[0].Suite, len(left), err)
		}
		stored := fmt.Sprintf("%s %s %+v %+v", rows[0].Sealed, string(rows[0].Sealed), rows, left)
		for _, canary := range append(codes, made.Secret, string(raw), canonicalCode(codes[0])) {
			if strings.Contains(stored, canary) {
				t.Errorf("%q is readable in the database", canary)
			}
		}
		c.advance(time.Minute)
		if _, err := i.Login(t.Context(), "root", password, codeAt(t, made.Secret, c.now()), ""); err != nil {
			t.Error(err)
		}
	}
}

// configured returns a replica with a choice of second factors.
func configured(t *testing.T, db *gorm.DB, who SecondFactors) (*Identity, *clock) {
	t.Helper()
	i, err := New(Config{SecondFactor: who, PasswordCost: quick}, Limits{}, db, ring(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, c := replica(t, db)
	i.now = c.now
	if err := i.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i, c
}

func TestWhoHasToEnrol(t *testing.T) {
	db := dbtest.SQLite(t)
	optional, c := withTenant(t, db)
	_, made, _ := withFactor(t, optional, c, "enrolled", RoleAuditor)
	for name, role := range map[string]string{"audit": RoleAuditor, "comp": RoleCompliance, "dev": RoleDeveloper} {
		if _, err := optional.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: name, Password: password, Roles: []string{role}}); err != nil {
			t.Fatal(err)
		}
	}
	must := func(i *Identity, name, code string) bool {
		t.Helper()
		s, err := i.Login(t.Context(), name, password, code, "")
		if err != nil {
			t.Fatal(name, err)
		}
		p, err := i.Authenticate(t.Context(), AdminPlane, s.Access, "")
		if err != nil || p.MustEnrol != s.Principal.MustEnrol {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		return p.MustEnrol
	}
	enforced, c := configured(t, db, SecondFactorsAdministrators)
	c.advance(time.Minute)
	if !must(enforced, "audit", "") || !must(enforced, "comp", "") || must(enforced, "dev", "") || must(enforced, "enrolled", codeAt(t, made.Secret, c.now())) {
		t.Error("administrators without a factor have to enrol one, and nobody else")
	}
	if must(optional, "audit", "") {
		t.Error("nobody has to where it is optional")
	}
	// What an account may not see itself, keys that it made do not see for it.
	s, err := optional.Login(t.Context(), "audit", password, "", "")
	if err != nil {
		t.Fatal(err)
	}
	_, credential, err := optional.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "reader", Scopes: []string{ScopeAdminRead}, CreatedBy: s.Principal.ID})
	if err != nil {
		t.Fatal(err)
	}
	poll(t, enforced)
	for i, want := range map[*Identity]string{optional: "[" + RoleAuditor + "]", enforced: "[]"} {
		if p, err := i.Authenticate(t.Context(), AdminPlane, credential, ""); err != nil || fmt.Sprint(p.Roles) != want {
			t.Errorf("a key reads as %v, want %s: %v", p.Roles, want, err)
		}
	}
	// What is off on one replica weakens nothing: who has a factor shows it there, too.
	off, offClock := configured(t, db, SecondFactorsOff)
	offClock.advance(2 * time.Minute)
	_, err = off.Login(t.Context(), "enrolled", password, "", "")
	wantCode(t, err, fault.CodeSecondFactor)
	if s, err = off.Login(t.Context(), "enrolled", password, codeAt(t, made.Secret, offClock.now()), ""); err != nil || !s.Principal.SecondFactor {
		t.Fatalf("%+v, %v", s.Principal, err)
	}
	_, err = off.StartTOTP(t.Context(), s.Principal)
	wantCode(t, err, fault.CodeConflict)
	_, err = off.StartKey(t.Context(), s.Principal)
	wantCode(t, err, fault.CodeConflict)
	if (Config{SecondFactor: "sometimes"}).Validate() == nil {
		t.Error("an unknown choice is accepted")
	}
}

func TestLostFactorsAreRemoved(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := withTenant(t, db)
		session, _, codes := withFactor(t, i, c, "root", RolePlatformAdmin)
		id := session.Principal.ID
		_, err := i.ResetFactor(t.Context(), Administrator{ID: id, Platform: true}, "acme", id)
		wantCode(t, err, fault.CodeConflict)
		_, err = i.ResetFactor(t.Context(), Administrator{ID: "sec"}, "acme", id)
		wantCode(t, err, fault.CodeRoleAbove)
		by := Administrator{ID: "boss", Platform: true}
		_, err = i.ResetFactor(t.Context(), by, "other", id)
		wantCode(t, err, fault.CodeNotFound)
		if !i.HasSecondFactor(id) {
			t.Fatal("a refused act has removed it")
		}
		if _, err := i.ResetFactor(t.Context(), by, "acme", id); err != nil || i.HasSecondFactor(id) {
			t.Fatal("it is still there:", err)
		}
		_, err = i.Authenticate(t.Context(), AdminPlane, session.Access, "")
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = i.Refresh(t.Context(), session.Refresh)
		wantCode(t, err, fault.CodeInvalidSession)
		s, err := i.Login(t.Context(), "root", password, "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = i.ResetFactor(t.Context(), by, "acme", id)
		wantCode(t, err, fault.CodeConflict)
		_, err = i.ShowFactor(t.Context(), s.Principal, codes[0], "")
		wantCode(t, err, fault.CodeConflict)

		again, _, _ := withFactor(t, i, c, "dev", RoleDeveloper)
		if err := i.RemoveFactor(t.Context(), again.Principal); err != nil {
			t.Fatal(err)
		}
		if _, err := i.Login(t.Context(), "dev", password, "", ""); err != nil {
			t.Error("the password alone must do again:", err)
		}
		var left int64
		if err := db.Model(&recoveryRow{}).Count(&left).Error; err != nil || left != 0 {
			t.Errorf("%d recovery codes are left, %v", left, err)
		}
	})
}

// TestDemandHoldsOnEveryReplica: where one replica has administrators enrol a second factor, the others do until a day after it has stopped.
func TestDemandHoldsOnEveryReplica(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		lax, c := withTenant(t, db)
		newUser(t, lax, "audit", nil, RoleAuditor)
		owner := newUser(t, lax, "dev", nil, RoleDeveloper, RoleAuditor)
		newUser(t, lax, "plain", nil, RoleDeveloper)
		newUser(t, lax, "app", nil, RoleCompliance)
		newUser(t, lax, "key", nil, RoleCompliance)
		_, credential, err := lax.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "own", Owner: owner.ID, CreatedBy: owner.ID})
		if err != nil {
			t.Fatal(err)
		}
		must := func(name string) bool {
			t.Helper()
			return signIn(t, lax, name, password).Principal.MustEnrol
		}
		strict, _ := configured(t, db, SecondFactorsAdministrators)
		if must("audit") {
			t.Error("nobody has demanded it yet")
		}
		if _, err := lax.Authenticate(t.Context(), DataPlane, credential, ""); err != nil {
			t.Error(err)
		}
		strict.demand(t.Context())
		poll(t, lax)
		if !must("audit") || must("plain") {
			t.Error("the demand of the other replica does not hold here, or for everybody")
		}
		for _, i := range []*Identity{lax, strict} {
			if _, err := i.Authenticate(t.Context(), DataPlane, credential, ""); !fault.Is(err, fault.CodeSuspendedKey) {
				t.Errorf("a key of somebody who has to enrol first: %v", err)
			}
		}
		enrolWhereTheyAreOff(t, db)
		poll(t, lax)
		poll(t, strict)
		before, err := lax.store.version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		strict.demand(t.Context()) // it holds for long enough
		if after, err := lax.store.version(t.Context()); err != nil || after != before {
			t.Errorf("%d, %d, %v", before, after, err)
		}
		strict.now = func() time.Time { return c.now().Add(demandSpan/2 + time.Minute) }
		strict.demand(t.Context())
		poll(t, lax)
		c.advance(demandSpan + time.Minute)
		poll(t, lax)
		if !must("audit") {
			t.Error("it was not prolonged")
		}
		c.advance(demandSpan)
		poll(t, lax)
		if must("audit") {
			t.Error("it holds for ever")
		}
		if _, err := lax.Authenticate(t.Context(), DataPlane, credential, ""); err != nil {
			t.Error(err)
		}
	})
}

// enrolWhereTheyAreOff has "app" and "key" enrol factors at a replica where they are off: they can do nothing else, since another replica demands it. Whoever need
// not cannot.
func enrolWhereTheyAreOff(t *testing.T, db *gorm.DB) {
	t.Helper()
	off, c := configured(t, db, SecondFactorsOff)
	withKeys(t, off)
	s := signIn(t, off, "app", password)
	made, err := off.StartTOTP(t.Context(), s.Principal)
	if err != nil || !s.Principal.MustEnrol {
		t.Fatal(err)
	}
	_, s, err = off.ConfirmTOTP(t.Context(), s.Principal, codeAt(t, made.Secret, c.now()), "")
	if err != nil || s.Principal.MustEnrol || !s.Principal.SecondFactor {
		t.Fatalf("%+v, %v", s.Principal, err)
	}
	for _, p := range []Principal{s.Principal, signIn(t, off, "plain", password).Principal} {
		_, err = off.StartTOTP(t.Context(), p)
		wantCode(t, err, fault.CodeConflict)
		if _, why := off.SecurityKeys(p); why == nil || why.In(fault.English) != fault.Say("identity.factors_off").In(fault.English) {
			t.Errorf("keys are off since %v", why)
		}
		_, err = off.StartKey(t.Context(), p)
		wantCode(t, err, fault.CodeConflict)
		_, _, err = off.ConfirmKey(t.Context(), p, "desk", []byte("{}"))
		wantCode(t, err, fault.CodeConflict)
	}
	s = signIn(t, off, "key", password)
	if origins, why := off.SecurityKeys(s.Principal); why != nil || len(origins) != 1 {
		t.Errorf("%v, %v", origins, why)
	}
	party := off.party
	off.party = relyingParty{why: fault.Say("identity.keys_no_address")}
	_, err = off.StartKey(t.Context(), s.Principal)
	wantCode(t, err, fault.CodeConflict)
	_, _, err = off.ConfirmKey(t.Context(), s.Principal, "desk", []byte("{}"))
	wantCode(t, err, fault.CodeConflict)
	off.party = party
	if s, _ = enrolKey(t, off, off, s, webauthntest.New(site, origin)); s.Principal.MustEnrol {
		t.Error("enrolling a key is not enough")
	}
}
