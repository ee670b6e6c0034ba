package identity

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// mustKey makes a key of the tenant acme.
func mustKey(t *testing.T, i *Identity, k NewKey) (Key, string) {
	t.Helper()
	k.Tenant, k.Name = "acme", "bot"
	key, credential, err := i.CreateKey(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return key, credential
}

// TestKeyNetworks: a key is accepted from its networks and nowhere else, however an address is written; what is no address is nowhere.
func TestKeyNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		networks []string
		yes, no  []string
	}{
		"everywhere":     {nil, []string{"1.2.3.4", "2001:db8::1", "", "@"}, nil},
		"IPv4":           {[]string{"10.20.0.0/16"}, []string{"10.20.0.0", "10.20.255.255", "::ffff:10.20.3.4", "::ffff:0a14:0304"}, []string{"10.21.0.0", "10.19.255.255", "::10.20.3.4", "::ffff:10.21.0.1", "", "@", "10.20.3.4:80", "10.20.3"}},
		"host bits":      {[]string{"10.20.30.40/16"}, []string{"10.20.0.1"}, []string{"10.21.30.40"}},
		"IPv6":           {[]string{"2001:db8::/32"}, []string{"2001:db8::1", "2001:0DB8:ffff::1", "2001:db8::1%eth0"}, []string{"2001:db9::1", "1.2.3.4", "::ffff:1.2.3.4"}},
		"one address":    {[]string{"192.0.2.7", "::1"}, []string{"192.0.2.7", "::ffff:192.0.2.7", "::1"}, []string{"192.0.2.8", "127.0.0.1", "::2"}},
		"mapped network": {[]string{"::ffff:10.0.0.0/104"}, []string{"10.255.0.1", "::ffff:10.0.0.1"}, []string{"11.0.0.0", "a00::"}},
		"mapped address": {[]string{"::ffff:192.0.2.7"}, []string{"192.0.2.7"}, []string{"192.0.2.6"}},
		"all of IPv4":    {[]string{"0.0.0.0/0"}, []string{"8.8.8.8", "::ffff:8.8.8.8"}, []string{"2001:db8::1"}},
		"all of IPv6":    {[]string{"::/0"}, []string{"2001:db8::1"}, []string{"8.8.8.8", "::ffff:8.8.8.8"}},
	} {
		networks, err := parseNetworks(c.networks)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again, err := parseNetworks(texts(networks)); err != nil || !slices.Equal(again, networks) {
			t.Errorf("%s: %v is read back as %v, %v", name, networks, again, err)
		}
		for _, s := range c.yes {
			if !within(networks, address(s)) {
				t.Errorf("%s: %q is refused", name, s)
			}
		}
		for _, s := range c.no {
			if within(networks, address(s)) {
				t.Errorf("%s: %q is accepted", name, s)
			}
		}
	}
	for _, wrong := range []string{"", "10.0.0.0/33", "10.0.0/8", "fe80::1%eth0", "fe80::%eth0/64", "::ffff:0.0.0.0/64", "example.org", "10.0.0.1/", " 10.0.0.1", "010.0.0.1", "::ffff:10.0.0.0/8"} {
		if p, err := parseNetworks([]string{wrong}); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%q is read as %v, %v", wrong, p, err)
		}
	}
	if p, err := parseNetworks([]string{"10.0.0.9/8", "10.0.0.0/8", "::ffff:10.0.0.0/104"}); err != nil || len(p) != 1 {
		t.Errorf("one network in three forms: %v, %v", p, err)
	}
	if _, err := parseNetworks(make([]string, maxNetworks+1)); !fault.Is(err, fault.CodeInvalidValue) {
		t.Error(err)
	}
}

// FuzzNetworks: what is read as a network is written in one form, which is read as the same.
func FuzzNetworks(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "2001:db8::/32", "::1", "1.2.3.4", "fe80::1%x/64", "::ffff:0:0/95"} {
		f.Add(s, "10.1.2.3")
	}
	f.Fuzz(func(t *testing.T, network, from string) {
		p, ok := parseNetwork(network)
		if !ok {
			return
		}
		again, ok := parseNetwork(p.String())
		if !ok || again != p || p.Addr().Is4In6() || p != p.Masked() {
			t.Fatalf("%q is %v and then %v", network, p, again)
		}
		if a := address(from); within([]netip.Prefix{p}, a) && !a.IsValid() {
			t.Fatalf("%q is no address and in %v", from, p)
		}
	})
}

// TestKeyOfANetwork: from elsewhere the caller learns that only, whatever state the key is in, and the principal is there for the record.
func TestKeyOfANetwork(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, clock := withTenant(t, db)
		key, credential := mustKey(t, i, NewKey{Networks: []string{"192.0.2.9/24"}})
		if !slices.Equal(key.Networks, []string{"192.0.2.0/24"}) {
			t.Errorf("%q", key.Networks)
		}
		if _, err := i.Authenticate(t.Context(), DataPlane, credential, "::ffff:192.0.2.77"); err != nil {
			t.Error(err)
		}
		elsewhere := func() {
			t.Helper()
			for _, plane := range []Plane{DataPlane, AdminPlane} {
				p, err := i.Authenticate(t.Context(), plane, credential, "198.51.100.7")
				wantCode(t, err, fault.CodeKeyNetwork)
				if p.ID != key.ID || p.Tenant != "acme" {
					t.Errorf("%+v", p)
				}
			}
		}
		elsewhere()
		if got := i.Seen(Key{ID: key.ID}); got.LastUsedFrom != "192.0.2.0/24" || !got.LastUsedAt.Equal(clock.now()) {
			t.Errorf("a refused use counts: %+v", got)
		}
		if err := i.RevokeKey(t.Context(), "acme", key.ID); err != nil {
			t.Fatal(err)
		}
		elsewhere()
		_, err := i.Authenticate(t.Context(), DataPlane, credential, "192.0.2.77")
		wantCode(t, err, fault.CodeExpiredKey)
	})
}

// TestKeyRotation: both secrets work during the overlap, on every replica; then the one before is refused, and before that if it is retired. What
// is known of the last use is that of a network, never a whole address.
func TestKeyRotation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, clockA := withTenant(t, db)
		b, clockB := replica(t, db)
		key, first := mustKey(t, a, NewKey{ExpiresAt: clockA.now().Add(100 * time.Hour)})
		refused := func(credential string, code fault.Code) {
			t.Helper()
			for _, i := range []*Identity{a, b} {
				if err := i.accounts.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				_, err := i.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7")
				if code == "" && err != nil || code != "" && !fault.Is(err, code) {
					t.Errorf("error is %v, want %q", err, code)
				}
			}
		}
		rotate := func(overlap time.Duration) string {
			t.Helper()
			k, secret, err := a.RotateKey(t.Context(), "acme", key.ID, overlap)
			if err != nil || !k.RotatedAt.Equal(clockA.now()) || k.ID != key.ID {
				t.Fatalf("%+v, %v", k, err)
			}
			return secret
		}
		refused(first, "")
		second := rotate(24 * time.Hour)
		refused(first, "")
		refused(second, "")
		_, _, err := a.RotateKey(t.Context(), "acme", key.ID, time.Hour)
		wantCode(t, err, fault.CodeConflict)
		k, err := a.Key(t.Context(), "acme", key.ID)
		if err != nil || !k.FormerExpiresAt.Equal(clockA.now().Add(24*time.Hour)) || k.FormerUsedAt.IsZero() {
			t.Errorf("%+v, %v", k, err)
		}
		clockA.advance(24 * time.Hour)
		clockB.advance(24 * time.Hour)
		refused(first, fault.CodeExpiredKey)
		refused(second, "")
		if k, err := a.Key(t.Context(), "acme", key.ID); err != nil || !k.FormerExpiresAt.IsZero() || !k.FormerUsedAt.IsZero() {
			t.Errorf("%+v, %v", k, err)
		}

		third := rotate(time.Hour)
		refused(first, fault.CodeInvalidKey)
		refused(second, "")
		if _, err := a.RetireSecret(t.Context(), "other", key.ID); !fault.Is(err, fault.CodeNotFound) {
			t.Error(err)
		}
		for range 2 {
			if k, err := a.RetireSecret(t.Context(), "acme", key.ID); err != nil || !k.FormerExpiresAt.IsZero() {
				t.Errorf("%+v, %v", k, err)
			}
			refused(second, fault.CodeExpiredKey)
		}
		refused(third, "")
		fourth := rotate(time.Hour)
		fifth := rotate(0) // a leak: everything before ends
		refused(third, fault.CodeInvalidKey)
		refused(fourth, fault.CodeExpiredKey)
		refused(fifth, "")

		// An overlap is no longer than the life of the key, and what has ended is not rotated.
		sixth := rotate(MaxOverlap)
		clockA.advance(76 * time.Hour)
		clockB.advance(76 * time.Hour)
		refused(fifth, fault.CodeExpiredKey)
		refused(sixth, fault.CodeExpiredKey)
		_, _, err = a.RotateKey(t.Context(), "acme", key.ID, 0)
		wantCode(t, err, fault.CodeConflict)
		for _, wrong := range []time.Duration{-time.Hour, MaxOverlap + time.Hour} {
			_, _, err := a.RotateKey(t.Context(), "acme", key.ID, wrong)
			wantCode(t, err, fault.CodeInvalidValue)
		}
		_, _, err = a.RotateKey(t.Context(), "other", key.ID, 0)
		wantCode(t, err, fault.CodeNotFound)

		if err := b.flushUses(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows := mustKeys(t, b)
		if rows[0].LastUsedFrom != "198.51.100.0/24" {
			t.Errorf("%+v", rows[0])
		}
		if n := len(b.used.unwritten()); n != 0 {
			t.Errorf("%d uses are still to be written", n)
		}
	})
}

// TestKeysAreOnlyNarrowedByTheirOwners: an administrator widens a key, its owner does not.
func TestKeysAreOnlyNarrowedByTheirOwners(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, _ := withTenant(t, db)
		dev, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "dev", Password: password, Roles: []string{RoleDeveloper}})
		if err != nil {
			t.Fatal(err)
		}
		of := func(list ...string) *[]string { return &list }
		whole := NewKey{Owner: dev.ID}
		bound := NewKey{Owner: dev.ID, Scopes: []string{ScopeChat, ScopeSearch}, Models: []string{"smol*", "m@2"}, Networks: []string{"10.0.0.0/8", "2001:db8::/32"}}
		for name, c := range map[string]struct {
			from   NewKey
			change KeyChange
			wider  bool
		}{
			"fewer scopes":             {bound, KeyChange{Scopes: of(ScopeSearch)}, false},
			"the same":                 {bound, KeyChange{Scopes: of(ScopeChat, ScopeSearch), Models: of("smol*", "m@2"), Networks: of("10.0.0.0/8", "2001:db8::/32")}, false},
			"scopes of a whole key":    {whole, KeyChange{Scopes: of(ScopeChat)}, false},
			"reading, of a whole key":  {whole, KeyChange{Scopes: of(ScopeChat, ScopeAdminRead)}, true},
			"another scope":            {bound, KeyChange{Scopes: of(ScopeChat, ScopeEmbed)}, true},
			"all scopes":               {bound, KeyChange{Scopes: of()}, true},
			"a model of the pattern":   {bound, KeyChange{Models: of("smollm2", "smol*-instruct")}, false},
			"another model":            {bound, KeyChange{Models: of("smollm2", "m@3")}, true},
			"a wider pattern":          {bound, KeyChange{Models: of("smo*")}, true},
			"all models":               {bound, KeyChange{Models: of()}, true},
			"a part of a network":      {bound, KeyChange{Networks: of("10.1.0.0/16", "2001:db8::1")}, false},
			"a wider network":          {bound, KeyChange{Networks: of("10.0.0.0/7")}, true},
			"another network":          {bound, KeyChange{Networks: of("10.1.0.0/16", "11.0.0.0/16")}, true},
			"everywhere":               {bound, KeyChange{Networks: of()}, true},
			"networks of a whole key":  {whole, KeyChange{Networks: of("0.0.0.0/0")}, false},
			"a name, and nothing else": {bound, KeyChange{Name: new("other")}, false},
		} {
			key, _ := mustKey(t, i, c.from)
			for _, byOwner := range []bool{true, false} {
				ch := c.change
				ch.ByOwner = byOwner
				_, _, err := i.ChangeKey(t.Context(), "acme", key.ID, ch)
				if refused := fault.Is(err, fault.CodeInvalidValue); refused != (c.wider && byOwner) || err != nil && !refused {
					t.Errorf("%s, by its owner %t: %v", name, byOwner, err)
				}
			}
			if err := i.RevokeKey(t.Context(), "acme", key.ID); err != nil {
				t.Fatal(err)
			}
		}
		for _, wrong := range []NewKey{{Scopes: []string{"inference.generate"}}, {Scopes: []string{ScopeChat, ScopeChat}}, {Networks: []string{"here"}}, {Models: []string{""}}} {
			wrong.Tenant, wrong.Name = "acme", "bot"
			if _, _, err := i.CreateKey(t.Context(), wrong); !fault.Is(err, fault.CodeInvalidValue) && !fault.Is(err, fault.CodeMissing) {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
	})
}

// TestReadingKeys: a key reads the management API as whoever made it, and no longer than he may himself.
func TestReadingKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, _ := withTenant(t, db)
		if err := i.CreateTenant(t.Context(), Tenant{ID: "bank", Name: "Bank"}); err != nil {
			t.Fatal(err)
		}
		officer, err := i.CreateUser(t.Context(), NewUser{Tenant: "bank", Name: "officer", Password: password, Roles: []string{RoleSecurityAdmin, RoleDeveloper}})
		if err != nil {
			t.Fatal(err)
		}
		boss, err := i.CreateUser(t.Context(), NewUser{Tenant: "bank", Name: "boss", Password: password, Roles: []string{RolePlatformAdmin}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.CreateUser(t.Context(), NewUser{Tenant: "bank", Name: "other", Password: password, Roles: []string{RolePlatformAdmin}}); err != nil {
			t.Fatal(err)
		}
		read := func(credential string, roles ...string) {
			t.Helper()
			p, err := i.Authenticate(t.Context(), AdminPlane, credential, "198.51.100.7")
			if err != nil || !slices.Equal(p.Roles, roles) || !slices.Equal(p.Scopes, []string{ScopeAdminRead}) || p.Kind != "key" || p.Tenant != "acme" || p.Operator {
				t.Errorf("%+v, %v, want the roles %v", p, err, roles)
			}
		}
		_, byBoss := mustKey(t, i, NewKey{Scopes: []string{ScopeChat, ScopeAdminRead}, CreatedBy: boss.ID})
		_, byOfficer := mustKey(t, i, NewKey{Scopes: []string{ScopeAdminRead}, CreatedBy: officer.ID})
		_, bySystem := mustKey(t, i, NewKey{Scopes: []string{ScopeAdminRead}, CreatedBy: "system"})
		read(byBoss, RolePlatformAdmin)
		read(byOfficer) // of another tenant
		read(bySystem)
		if p, err := i.Authenticate(t.Context(), DataPlane, byBoss, "198.51.100.7"); err != nil || !slices.Equal(p.Roles, []string{RoleApplication}) {
			t.Errorf("%+v, %v", p, err)
		}
		by := Administrator{ID: "x", Platform: true}
		if _, _, err := i.ChangeUser(t.Context(), by, "bank", boss.ID, UserChange{Roles: &[]string{RoleSecurityAdmin}}); err != nil {
			t.Fatal(err)
		}
		read(byBoss)
		if _, _, err := i.ChangeUser(t.Context(), by, "bank", boss.ID, UserChange{Roles: &[]string{RolePlatformAdmin}}); err != nil {
			t.Fatal(err)
		}
		read(byBoss, RolePlatformAdmin)
		if _, err := i.DisableUser(t.Context(), by, "bank", boss.ID); err != nil {
			t.Fatal(err)
		}
		read(byBoss)
		_, plain := mustKey(t, i, NewKey{Scopes: []string{ScopeChat}})
		_, err = i.Authenticate(t.Context(), AdminPlane, plain, "198.51.100.7")
		wantCode(t, err, fault.CodeKeyScope)
		_, err = i.Authenticate(t.Context(), AdminPlane, altered(plain), "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidKey)
	})
}

// altered returns a credential with another last character.
func altered(credential string) string {
	head, last := credential[:len(credential)-1], credential[len(credential)-1:]
	if last == "x" {
		return head + "y"
	}
	return head + "x"
}

// TestActingForPeople: what a person has left to be asked is asked with the rights of his account as it is now, whether he is signed in or not, and what
// ends or binds his sign-ins ends or binds it.
func TestActingForPeople(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, clock := withTenant(t, db)
		user := newUser(t, i, "dev", []string{"public"}, RoleDeveloper)
		by := Administrator{}
		session, err := i.Login(t.Context(), "dev", password, "", "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		who, err := i.Authenticate(t.Context(), AdminPlane, session.Access, "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		as := ActingFor(who)
		if strings.Contains(session.Access+session.Refresh, as.Proof) || as.Kind != "user" || as.ID != user.ID {
			t.Errorf("%+v", as)
		}
		act := func(code fault.Code, roles ...string) {
			t.Helper()
			p, err := i.Act(t.Context(), as, "198.51.100.7")
			switch {
			case code != "":
				wantCode(t, err, code)
			case err != nil || p.ID != user.ID || p.Tenant != "acme" || !slices.Equal(p.Roles, roles) || p.Session != "" || p.Factor != "" || !p.ProvedAt().IsZero():
				t.Errorf("%+v, %v", p, err)
			}
		}
		act("", RoleDeveloper)
		clock.advance(48 * time.Hour) // the sign-in is over
		if err := i.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		act("", RoleDeveloper)
		change := func(roles ...string) {
			t.Helper()
			if _, _, err := i.ChangeUser(t.Context(), by, "acme", user.ID, UserChange{Roles: &roles}); err != nil {
				t.Fatal(err)
			}
		}
		change(RoleAuditor) // who may do what is asked, package access says
		act("", RoleAuditor)
		change(RoleDeveloper)
		_, suspended, err := i.SuspendTenant(t.Context(), "acme", "u1", "test")
		if err != nil {
			t.Fatal(err)
		}
		act(fault.CodeTenantSuspended)
		if _, _, err := i.ResumeTenant(t.Context(), "acme", suspended.Suspension.Since); err != nil {
			t.Fatal(err)
		}
		if _, err := i.DisableUser(t.Context(), by, "acme", user.ID); err != nil {
			t.Fatal(err)
		}
		act(fault.CodeInvalidSession)
		if _, err := i.EnableUser(t.Context(), by, "acme", user.ID); err != nil {
			t.Fatal(err)
		}
		act("", RoleDeveloper)
		for _, nobody := range []Acting{{Kind: "user"}, {Kind: "user", ID: user.ID}, {Kind: "user", ID: user.ID, Proof: as.Proof + "0"}, {Kind: "user", ID: "none", Proof: as.Proof}, {Kind: KindEmergency, ID: user.ID, Proof: as.Proof}} {
			if p, err := i.Act(t.Context(), nobody, "192.0.2.1"); err == nil {
				t.Errorf("%+v acts as %+v", nobody, p)
			}
		}
		clock.advance(time.Second)
		if _, _, err := i.ResetPassword(t.Context(), by, "acme", user.ID); err != nil {
			t.Fatal(err)
		}
		act(fault.CodeInvalidSession)
		s, err := i.fresh()
		if err != nil {
			t.Fatal(err)
		}
		as.Proof = s.users[user.ID].proof() // as if it had been left with the new password
		act(fault.CodeChangePassword)
	})
}

// TestActing: whoever has left something to be asked is looked up as he is now, and what refuses his credential refuses that, too.
func TestActing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, clock := withTenant(t, db)
		key, credential := mustKey(t, i, NewKey{Networks: []string{"192.0.2.0/24"}, Scopes: []string{ScopeChat}})
		who, err := i.Authenticate(t.Context(), DataPlane, credential, "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		as := ActingFor(who)
		act := func(code fault.Code, source string) {
			t.Helper()
			p, err := i.Act(t.Context(), as, source)
			if code != "" {
				wantCode(t, err, code)
			} else if err != nil || p.ID != key.ID || !slices.Equal(p.Scopes, who.Scopes) || p.Tenant != "acme" {
				t.Errorf("%+v, %v", p, err)
			}
		}
		act("", "192.0.2.1")
		act(fault.CodeKeyNetwork, "198.51.100.7")
		_, credential, err = i.RotateKey(t.Context(), "acme", key.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		act("", "192.0.2.1") // the secret is still accepted
		former := as
		if who, err = i.Authenticate(t.Context(), DataPlane, credential, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		as = ActingFor(who)
		act("", "192.0.2.1")
		clock.advance(2 * time.Hour)
		if err := i.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := i.Act(t.Context(), former, "192.0.2.1"); !fault.Is(err, fault.CodeExpiredKey) {
			t.Errorf("when the overlap is over: %v", err)
		}
		act("", "192.0.2.1")
		if _, _, err := i.RotateKey(t.Context(), "acme", key.ID, 0); err != nil {
			t.Fatal(err)
		}
		act(fault.CodeExpiredKey, "192.0.2.1")
		if _, credential, err = i.RotateKey(t.Context(), "acme", key.ID, 0); err != nil {
			t.Fatal(err)
		}
		act(fault.CodeInvalidKey, "192.0.2.1")
		if who, err = i.Authenticate(t.Context(), DataPlane, credential, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		as = ActingFor(who)
		act("", "192.0.2.1")
		_, suspended, err := i.SuspendTenant(t.Context(), "acme", "u1", "test")
		if err != nil {
			t.Fatal(err)
		}
		act(fault.CodeTenantSuspended, "192.0.2.1")
		if _, _, err := i.ResumeTenant(t.Context(), "acme", suspended.Suspension.Since); err != nil {
			t.Fatal(err)
		}
		if err := i.RevokeKey(t.Context(), "acme", key.ID); err != nil {
			t.Fatal(err)
		}
		act(fault.CodeExpiredKey, "192.0.2.1")
		for _, nobody := range []Acting{{}, {Kind: "key", ID: "none"}, {Kind: "user", ID: "u1"}, {Kind: "service", ID: key.ID}, {Kind: "key", ID: key.ID}} {
			if p, err := i.Act(t.Context(), nobody, "192.0.2.1"); err == nil {
				t.Errorf("%+v acts as %+v", nobody, p)
			}
		}

		account, secret := newService(t, i, "night", "", RoleApplication)
		clock.advance(time.Second)
		ask := asks(account, secret)
		ask.Scope = ScopeEmbed
		service, err := i.Authenticate(t.Context(), DataPlane, tokenFor(t, i, ask), "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		as = ActingFor(service)
		if p, err := i.Act(t.Context(), as, "192.0.2.1"); err != nil || !slices.Equal(p.Scopes, []string{ScopeEmbed}) || p.ID != account.ID {
			t.Errorf("%+v, %v", p, err)
		}
		// What ends the tokens of an account ends what they have left to be asked.
		if _, _, err := i.RotateServiceSecret(t.Context(), "acme", account.ID, 0); err != nil {
			t.Fatal(err)
		}
		_, err = i.Act(t.Context(), as, "192.0.2.1")
		wantCode(t, err, fault.CodeInvalidToken)
		if _, err := i.DisableServiceAccount(t.Context(), "acme", account.ID); err != nil {
			t.Fatal(err)
		}
		_, err = i.Act(t.Context(), as, "192.0.2.1")
		wantCode(t, err, fault.CodeInvalidToken)
	})
}
