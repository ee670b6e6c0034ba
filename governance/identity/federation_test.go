package identity

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const corpIssuer = "https://login.example.com"

func corp() Provider {
	return Provider{
		Name: "corp", Issuer: corpIssuer, ClientID: "sluice", ClientSecret: keyring.Inline("of the test"), Tenant: "acme",
		Groups:       []GroupGrant{{Group: "devs", Roles: []string{RoleDeveloper}, Labels: []string{"internal"}}, {Group: "auditors", Roles: []string{RoleAuditor}}, {Group: "guards", Roles: []string{RoleSecurityAdmin}}},
		SecondFactor: ProviderFactor{AMR: []string{"mfa"}},
	}
}

// federated is a replica with providers, on the clock of c.
func federated(t *testing.T, db *gorm.DB, c *clock, who SecondFactors, providers ...Provider) *Identity {
	t.Helper()
	i, err := New(Config{SecondFactor: who, PasswordCost: quick, OIDC: providers, PasswordMaxAge: time.Hour}, Limits{}, db, ring(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	i.now = c.now
	if err := i.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func said(c *clock, subject string, groups ...string) Federated {
	return Federated{Issuer: corpIssuer, Subject: subject, Name: "Name-" + subject, Groups: groups, ProvedAt: c.now().Add(-time.Minute), AMR: []string{"pwd"}}
}

func enter(i *Identity, ctx context.Context, f Federated, source string) (Session, error) {
	s, _, err := i.SignInFederated(ctx, f, source)
	return s, err
}

// TestFederatedSessions: a sign-in by a provider is as fresh as the provider's, ends when it is too old for it, and neither renewals nor passwords nor
// another configuration carry it further.
func TestFederatedSessions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		_, c := withTenant(t, db)
		i := federated(t, db, c, SecondFactorsOptional, corp())
		s, err := enter(i, t.Context(), said(c, "1", "devs"), "10.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if p := s.Principal; !p.ProvedAt().Equal(c.now().Add(-time.Minute).Truncate(time.Second)) || p.Provider != "corp" || p.MustChange || p.MustEnrol || i.MayEnrol(p) {
			t.Errorf("%+v", p)
		}
		silent := said(c, "1", "devs")
		silent.ProvedAt = time.Time{}
		if _, err := enter(i, t.Context(), silent, ""); !fault.Is(err, fault.CodeSignInRefused) {
			t.Errorf("the provider does not say when the person proved himself: %v", err)
		}
		c.advance(2 * time.Hour) // longer than a password may be old
		poll(t, i)
		if s, err = i.Refresh(t.Context(), s.Refresh); err != nil || s.Principal.MustChange {
			t.Fatalf("%+v %v", s.Principal, err)
		}
		if p, err := i.Authenticate(t.Context(), AdminPlane, s.Access, ""); err != nil || p.Provider != "corp" || c.now().Sub(p.SignedIn) < 2*time.Hour {
			t.Errorf("%+v %v", p, err)
		}
		without := federated(t, db, c, SecondFactorsOptional)
		if _, err := without.Authenticate(t.Context(), AdminPlane, s.Access, ""); !fault.Is(err, fault.CodeInvalidSession) {
			t.Errorf("a session of a provider that is not configured: %v", err)
		}
		c.advance(9*time.Hour + 55*time.Minute)
		poll(t, i)
		if s, err = i.Refresh(t.Context(), s.Refresh); err != nil {
			t.Fatal(err)
		}
		if left := s.ExpiresAt.Sub(c.now()); left > 4*time.Minute+time.Second { // 12 hours after it was proved
			t.Errorf("the token lives for another %s", left)
		}
		c.advance(4 * time.Minute)
		poll(t, i)
		if _, err := i.Refresh(t.Context(), s.Refresh); !fault.Is(err, fault.CodeInvalidSession) {
			t.Errorf("renewed beyond its end: %v", err)
		}
		poll(t, i)
		old := said(c, "1", "devs")
		old.ProvedAt = c.now().Add(-12 * time.Hour)
		if _, err := enter(i, t.Context(), old, ""); !fault.Is(err, fault.CodeSignInRefused) {
			t.Errorf("proved too long ago: %v", err)
		}
	})
}

// TestFederatedFactor: where administrators need a second factor, one of a provider's shows it there, or is refused, whatever replica asks; and a demand
// that comes later ends sign-ins without one.
func TestFederatedFactor(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		_, c := withTenant(t, db)
		lax, strict := federated(t, db, c, SecondFactorsOptional, corp()), federated(t, db, c, SecondFactorsAdministrators, corp())
		weak, strong := said(c, "a", "auditors"), said(c, "a", "auditors")
		strong.AMR = []string{"pwd", "mfa"}
		before, err := enter(lax, t.Context(), weak, "")
		if err != nil {
			t.Fatal(err)
		}
		poll(t, strict)
		if strict.ShowsSecondFactor(before.Principal.ID) {
			t.Error("an administrator shows a factor that nobody has vouched for")
		}
		if _, err := enter(strict, t.Context(), weak, ""); !fault.Is(err, fault.CodeProviderFactor) {
			t.Errorf("an administrator without a factor: %v", err)
		}
		if _, err := enter(strict, t.Context(), said(c, "new", "auditors"), ""); !fault.Is(err, fault.CodeProviderFactor) {
			t.Errorf("a new one: %v", err)
		}
		if _, found, _ := strict.FederatedAccount(t.Context(), corpIssuer, "new"); found {
			t.Error("whoever is refused has an account")
		}
		if s, err := enter(strict, t.Context(), strong, ""); err != nil || s.Principal.Factor != "provider" || s.Principal.MustEnrol || !strict.ShowsSecondFactor(s.Principal.ID) {
			t.Errorf("%+v %v", s.Principal, err)
		}
		if _, err := enter(strict, t.Context(), said(c, "d", "devs"), ""); err != nil {
			t.Errorf("a developer: %v", err)
		}
		strict.demand(t.Context())
		poll(t, lax)
		if _, err := lax.Authenticate(t.Context(), AdminPlane, before.Access, ""); !fault.Is(err, fault.CodeInvalidSession) {
			t.Errorf("a sign-in of before the demand: %v", err)
		}
		if _, err := lax.Refresh(t.Context(), before.Refresh); !fault.Is(err, fault.CodeInvalidSession) {
			t.Errorf("its renewal: %v", err)
		}
		all := corp()
		all.SecondFactor.Required = true
		if _, err := enter(federated(t, db, c, SecondFactorsOptional, all), t.Context(), said(c, "d", "devs"), ""); !fault.Is(err, fault.CodeProviderFactor) {
			t.Errorf("a developer where everybody needs one: %v", err)
		}
	})
}

// TestFederatedKeys: the own keys of a person stop when the provider has not vouched for him for long enough, and go on at his next sign-in.
func TestFederatedKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		_, c := withTenant(t, db)
		i := federated(t, db, c, SecondFactorsOptional, corp())
		s, err := enter(i, t.Context(), said(c, "1", "devs"), "")
		if err != nil {
			t.Fatal(err)
		}
		_, secret, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "own", Owner: s.Principal.ID, CreatedBy: s.Principal.ID})
		if err != nil {
			t.Fatal(err)
		}
		try := func(want fault.Code) {
			t.Helper()
			if err := i.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := i.Authenticate(t.Context(), DataPlane, secret, ""); want == "" && err != nil || want != "" && !fault.Is(err, want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		try("")
		c.advance(30*24*time.Hour - time.Minute)
		try("")
		c.advance(time.Minute)
		try(fault.CodeSuspendedKey)
		if _, err := enter(i, t.Context(), said(c, "1", "devs"), ""); err != nil {
			t.Fatal(err)
		}
		try("")
		if _, err := enter(i, t.Context(), said(c, "1"), ""); !fault.Is(err, fault.CodeNoRole) {
			t.Fatal(err)
		}
		try(fault.CodeSuspendedKey)
	})
}

// TestFederatedDemands: what is demanded of the people of a provider holds for what they have already, sign-ins, keys and what they have left to be
// asked, and so does that there is no such provider, or that it is another tenant's.
func TestFederatedDemands(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		base, c := withTenant(t, db)
		if err := base.CreateTenant(t.Context(), Tenant{ID: "other", Name: "Other"}); err != nil {
			t.Fatal(err)
		}
		i := federated(t, db, c, SecondFactorsOptional, corp())
		s, err := enter(i, t.Context(), said(c, "1", "devs", "auditors"), "")
		if err != nil {
			t.Fatal(err)
		}
		_, secret, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "own", Owner: s.Principal.ID, CreatedBy: s.Principal.ID})
		if err != nil {
			t.Fatal(err)
		}
		works := func(what string, i *Identity, sessions, keys bool) {
			t.Helper()
			poll(t, i)
			if _, err := i.Authenticate(t.Context(), AdminPlane, s.Access, ""); (err == nil) != sessions {
				t.Errorf("%s: the session: %v", what, err)
			}
			if _, err := i.Authenticate(t.Context(), DataPlane, secret, ""); (err == nil) != keys {
				t.Errorf("%s: the key: %v", what, err)
			}
			if _, err := i.Act(t.Context(), ActingFor(s.Principal), ""); (err == nil) != keys {
				t.Errorf("%s: what was left to be asked: %v", what, err)
			}
		}
		required, moved := corp(), corp()
		required.SecondFactor.Required, moved.Tenant = true, "other"
		works("as it was", i, true, true)
		works("no provider", federated(t, db, c, SecondFactorsOptional), false, false)
		works("another tenant", federated(t, db, c, SecondFactorsOptional, moved), false, false)
		works("a factor for everybody", federated(t, db, c, SecondFactorsOptional, required), false, false)
		works("a factor for administrators", federated(t, db, c, SecondFactorsAdministrators, corp()), false, false)
		strong := said(c, "1", "devs", "auditors")
		strong.AMR = []string{"mfa"}
		if s, err = enter(i, t.Context(), strong, ""); err != nil {
			t.Fatal(err)
		}
		works("with the factor", federated(t, db, c, SecondFactorsAdministrators, required), true, true)
		c.advance(30 * 24 * time.Hour)
		works("not confirmed", i, false, false)
	})
}

// TestFederatedLogout: a logout that names a session only says whose it was, is known when it comes again, and ends nobody else's.
func TestFederatedLogout(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		_, c := withTenant(t, db)
		i := federated(t, db, c, SecondFactorsOptional, corp())
		of := map[string]Session{}
		for _, subject := range []string{"1", "2"} {
			f := said(c, subject, "devs")
			f.Session = "at the provider " + subject
			s, err := enter(i, t.Context(), f, "")
			if err != nil {
				t.Fatal(err)
			}
			of[subject] = s
		}
		out := FederatedLogout{Issuer: corpIssuer, Session: "at the provider 1", ID: "j", Expires: c.now().Add(time.Minute)}
		if err := i.ObeyedFederated(t.Context(), out); err != nil {
			t.Errorf("before: %v", err)
		}
		if n, users, err := i.EndFederated(t.Context(), out); err != nil || n != 1 || !slices.Equal(users, []string{of["1"].Principal.ID}) {
			t.Errorf("%d %v %v", n, users, err)
		}
		_, _, again := i.EndFederated(t.Context(), out)
		if known := i.ObeyedFederated(t.Context(), out); !fault.Is(known, fault.CodeConflict) || !fault.Is(again, fault.CodeConflict) {
			t.Errorf("after: %v, %v", known, again)
		}
		for subject, ended := range map[string]bool{"1": true, "2": false} {
			if _, err := i.Authenticate(t.Context(), AdminPlane, of[subject].Access, ""); (err != nil) != ended {
				t.Errorf("%s: %v", subject, err)
			}
		}
	})
}

// TestFederatedRefusalOnlyTakes: a sign-in that is refused for want of the second factor gives no role and no time, and takes what the groups do not
// give.
func TestFederatedRefusalOnlyTakes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		_, c := withTenant(t, db)
		all := corp()
		all.SecondFactor.Required = true
		i := federated(t, db, c, SecondFactorsOptional, all)
		strong := said(c, "1", "devs", "auditors")
		strong.AMR = []string{"mfa"}
		s, changed, err := i.SignInFederated(t.Context(), strong, "")
		if err != nil || changed.Before.ID != "" || changed.After.ID != s.Principal.ID || len(changed.After.Roles) != 2 {
			t.Fatalf("%+v %v", changed, err)
		}
		c.advance(30*24*time.Hour - time.Minute)
		if err := i.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, changed, err = i.SignInFederated(t.Context(), said(c, "1", "devs", "guards"), "")
		if !fault.Is(err, fault.CodeProviderFactor) || !slices.Equal(changed.Before.Roles, []string{RoleAuditor, RoleDeveloper}) || !slices.Equal(changed.After.Roles, []string{RoleDeveloper}) {
			t.Errorf("%+v %v", changed, err)
		}
		if p, err := i.Act(t.Context(), ActingFor(s.Principal), ""); err != nil || !slices.Equal(p.Roles, []string{RoleDeveloper}) || !slices.Equal(p.Labels, []string{"internal"}) {
			t.Errorf("%+v %v", p, err)
		}
		c.advance(time.Minute)
		if err := i.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := i.Act(t.Context(), ActingFor(s.Principal), ""); !fault.Is(err, fault.CodeInvalidSession) {
			t.Errorf("a refused sign-in has confirmed the account: %v", err)
		}
	})
}

// TestFederatedDisabledOnlyTakes: neither does a sign-in of a disabled account give a role, nor confirm it, until somebody enables it again.
func TestFederatedDisabledOnlyTakes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		_, c := withTenant(t, db)
		i := federated(t, db, c, SecondFactorsOptional, corp())
		s, err := enter(i, t.Context(), said(c, "1", "devs", "auditors"), "")
		if err != nil {
			t.Fatal(err)
		}
		id := s.Principal.ID
		disable := func(at int64) {
			t.Helper()
			if err := db.Exec("UPDATE identity_users SET disabled_at = ? WHERE id = ?", at, id).Error; err != nil {
				t.Fatal(err)
			}
		}
		var was, is bindingRow
		bound := func(to *bindingRow) {
			t.Helper()
			if err := db.Where("user_id = ?", id).Take(to).Error; err != nil {
				t.Fatal(err)
			}
		}
		bound(&was)
		disable(c.now().UnixMicro())
		c.advance(confirmEvery)
		poll(t, i)
		strong := said(c, "1", "devs", "guards")
		strong.AMR = []string{"mfa"}
		_, changed, err := i.SignInFederated(t.Context(), strong, "")
		if !fault.Is(err, fault.CodeAccountDisabled) || !slices.Equal(changed.After.Roles, []string{RoleDeveloper}) {
			t.Errorf("%+v %v", changed, err)
		}
		if bound(&is); is != was || i.ShowsSecondFactor(id) {
			t.Errorf("confirmed: %+v, before %+v", is, was)
		}
		disable(0)
		poll(t, i)
		if s, err = enter(i, t.Context(), strong, ""); err != nil || !slices.Equal(s.Principal.Roles, []string{RoleDeveloper, RoleSecurityAdmin}) {
			t.Errorf("enabled again: %+v %v", s.Principal, err)
		}
		if bound(&is); is.ConfirmedAt == was.ConfirmedAt || !i.ShowsSecondFactor(id) || i.HasSecondFactor(id) {
			t.Errorf("enabled again: %+v", is)
		}
	})
}

// TestFederatedBinding: an account belongs to issuer and subject: a name binds nobody, two first sign-ins at once make one account, and an account of
// another tenant is not the provider's.
func TestFederatedBinding(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		base, c := withTenant(t, db)
		i, j := federated(t, db, c, SecondFactorsOptional, corp()), federated(t, db, c, SecondFactorsOptional, corp())
		var both sync.WaitGroup
		got := make([]Session, 2)
		for n, at := range []*Identity{i, j} {
			both.Go(func() {
				var err error
				if got[n], err = enter(at, t.Context(), said(c, "twin", "devs"), ""); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if got[0].Principal.ID != got[1].Principal.ID || got[0].Principal.ID == "" {
			t.Errorf("two accounts of one person: %s, %s", got[0].Principal.ID, got[1].Principal.ID)
		}
		same := said(c, "other", "devs")
		same.Name = "name-TWIN"
		s, err := enter(i, t.Context(), same, "")
		if err != nil || s.Principal.ID == got[0].Principal.ID || !strings.HasPrefix(s.Principal.Name, "corp:name-twin~") {
			t.Errorf("somebody of the same name is %+v (%v)", s.Principal, err)
		}
		third := said(c, "third", "devs")
		third.Name = "name-twin~" + corp().SubjectDigest("fourth")
		if _, err := enter(i, t.Context(), third, ""); err != nil {
			t.Fatal(err)
		}
		taken := said(c, "taker", "devs")
		taken.Name = corp().SubjectDigest("nameless")
		if _, err := enter(i, t.Context(), taken, ""); err != nil {
			t.Fatal(err)
		}
		for subject, name := range map[string]string{"fourth": "name-twin", "nameless": "\x00"} { // names that are taken keep nobody out
			f := said(c, subject, "devs")
			f.Name = name
			if _, err := enter(i, t.Context(), f, ""); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		if err := base.CreateTenant(t.Context(), Tenant{ID: "other", Name: "Other"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := i.ChangeUser(t.Context(), Administrator{ID: "x"}, "other", got[0].Principal.ID, UserChange{}); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("an account of another tenant: %v", err)
		}
		moved, second := corp(), corp()
		moved.Tenant = "other"
		if _, err := enter(federated(t, db, c, SecondFactorsOptional, moved), t.Context(), said(c, "twin", "devs"), ""); !fault.Is(err, fault.CodeSignInRefused) {
			t.Errorf("in a provider that is now for another tenant: %v", err)
		}
		second.Issuer, second.Name = "https://second.example.com", "second"
		two := federated(t, db, c, SecondFactorsOptional, corp(), second)
		f := said(c, "twin", "devs")
		f.Issuer = second.Issuer
		if s, err := enter(two, t.Context(), f, ""); err != nil || s.Principal.ID == got[0].Principal.ID {
			t.Errorf("the same subject of another issuer: %+v %v", s.Principal, err)
		}
		f.Issuer = "https://unknown.example.com"
		if _, err := enter(two, t.Context(), f, ""); !fault.Is(err, fault.CodeSignInRefused) {
			t.Errorf("an unknown issuer: %v", err)
		}
	})
}

// TestFederatedAttempts: what comes back from a provider and takes none counts for its network and for nothing else: whatever fails there, local
// sign-in, break-glass and programs do not wait. Somebody who signs in ends the count.
func TestFederatedAttempts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		_, c := withTenant(t, db)
		i := federated(t, db, c, SecondFactorsOptional, corp())
		fail := func() {
			t.Helper()
			for n := range freeFederated + 2 {
				if wait := i.FederatedWait("10.0.0.9"); (wait > 0) != (n >= freeFederated) {
					t.Fatalf("attempt %d waits %s", n, wait)
				}
				i.FederatedFailed("10.0.0.9")
			}
		}
		fail()
		if i.FederatedWait("10.0.0.10") > 0 {
			t.Error("another network waits")
		}
		if wait := max(i.LoginWait("ada", "10.0.0.9"), i.throttle.wait("", "10.0.0.9", c.now())); wait > 0 {
			t.Errorf("local sign-ins wait %s", wait)
		}
		if _, err := i.Login(t.Context(), "nobody", "a wrong password", "", "10.0.0.9"); !fault.Is(err, fault.CodeInvalidLogin) {
			t.Errorf("a local sign-in: %v", err)
		}
		if _, err := enter(i, t.Context(), said(c, "1", "devs"), "10.0.0.9"); err != nil {
			t.Fatal(err)
		}
		fail() // from the beginning
	})
}

func TestProviderConfiguration(t *testing.T) {
	t.Parallel()
	if err := (Config{OIDC: []Provider{corp()}}).Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(p *Provider){
		"oidc[0].name": func(p *Provider) { p.Name = "Corp/.." }, "oidc[0].issuer": func(p *Provider) { p.Issuer = "http://login.example.com" },
		"oidc[0].client_id": func(p *Provider) { p.ClientID = "" }, "oidc[0].client_secret": func(p *Provider) { p.ClientSecret = keyring.Credential{} },
		"oidc[0].tenant": func(p *Provider) { p.Tenant = "" }, "oidc[0].clock_skew": func(p *Provider) { p.ClockSkew = 6 * time.Minute },
		"oidc[0].session_ttl": func(p *Provider) { p.SessionTTL = 200 * time.Hour }, "oidc[0].confirmed_for": func(p *Provider) { p.ConfirmedFor = time.Hour },
		"oidc[0].groups[0].roles":        func(p *Provider) { p.Groups = []GroupGrant{{Group: "g", Roles: []string{RolePlatformAdmin}}} },
		"oidc[0].groups[0].group":        func(p *Provider) { p.Groups = []GroupGrant{{Roles: []string{RoleDeveloper}}} },
		"oidc[0].second_factor.required": func(p *Provider) { p.SecondFactor = ProviderFactor{Required: true} },
		"oidc[0].scopes":                 func(p *Provider) { p.Scopes = []string{"a b"} },
	} {
		p := corp()
		change(&p)
		err := (Config{OIDC: []Provider{p}}).Validate()
		if err == nil || !strings.Contains(err.Error(), want+": ") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := (Config{OIDC: []Provider{corp(), corp()}}).Validate(); err == nil || !strings.Contains(err.Error(), "oidc[1].issuer: is taken") {
		t.Error(err)
	}
	for _, role := range []string{RolePlatformAdmin, RoleWitness, RoleApplication, RoleBreakGlass} {
		if slices.Contains(federatedRoles(), role) {
			t.Errorf("a provider gives %s", role)
		}
	}
}
