package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const endpoint = "https://ai.example.com/oauth2/token"

// newService makes a service account of acme that belongs to a new person; its secret is "" where it has keys.
func newService(t *testing.T, i *Identity, name, keys string, roles ...string) (ServiceAccount, string) {
	t.Helper()
	owner := newUser(t, i, "owner-of-"+name, nil, RoleDeveloper)
	a, secret, err := i.CreateServiceAccount(t.Context(), NewServiceAccount{Tenant: "acme", Name: name, Roles: roles, Owner: owner.ID, PublicKeys: keys, CreatedBy: "u1"})
	if err != nil {
		t.Fatal(err)
	}
	return a, secret
}

func asks(a ServiceAccount, secret string) TokenRequest {
	return TokenRequest{Client: a.ID, Secret: secret, Planes: []Plane{DataPlane, AdminPlane}, Audiences: []string{endpoint}, Source: "198.51.100.7"}
}

func tokenFor(t *testing.T, i *Identity, r TokenRequest) string {
	t.Helper()
	got, err := i.IssueToken(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got.Access
}

// signer is a private key with how its public half is registered.
type signer struct {
	private crypto.Signer
	method  jwt.SigningMethod
}

func signers(t testing.TB) map[string]signer {
	t.Helper()
	ec, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, ed, err2 := ed25519.GenerateKey(rand.Reader)
	r, err3 := rsa.GenerateKey(rand.Reader, 2048)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string]signer{"ES256": {ec, jwt.SigningMethodES256}, "EdDSA": {ed, jwt.SigningMethodEdDSA}, "RS256": {r, jwt.SigningMethodRS256}}
}

func (s signer) pem(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// jwk writes the public half as RFC 7518 and RFC 8037 do.
func (s signer) jwk(t testing.TB, more map[string]any) string {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	out := map[string]any{}
	switch p := s.private.Public().(type) {
	case ed25519.PublicKey:
		out["kty"], out["crv"], out["x"] = "OKP", "Ed25519", b64(p)
	case *ecdsa.PublicKey:
		raw, err := p.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		out["kty"], out["crv"], out["x"], out["y"] = "EC", "P-256", b64(raw[1:33]), b64(raw[33:])
	case *rsa.PublicKey:
		out["kty"], out["n"], out["e"] = "RSA", b64(p.N.Bytes()), b64(big.NewInt(int64(p.E)).Bytes())
	}
	for k, v := range more {
		out[k] = v
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (s signer) assertion(t testing.TB, client string, now time.Time, id string) string {
	t.Helper()
	out, err := jwt.NewWithClaims(s.method, jwt.MapClaims{
		"iss": client, "sub": client, "aud": endpoint, "exp": now.Add(time.Minute).Unix(), "iat": now.Unix(), "jti": id,
	}).SignedString(s.private)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTokensOfServiceAccounts: what a token opens, and that every replica refuses it within a poll once the account, its credential or its owner is
// gone.
func TestTokensOfServiceAccounts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, clockA := withTenant(t, db)
		b, clockB := replica(t, db)
		enter := func(i *Identity, token string) error {
			_, err := i.Authenticate(t.Context(), DataPlane, token, "198.51.100.7")
			return err
		}
		app, secret := newService(t, a, "crm", "", RoleApplication)
		poll(t, b)
		got, err := a.IssueToken(t.Context(), asks(app, secret))
		if err != nil || got.ExpiresIn != maxAccessTTL || got.Scope != "" {
			t.Fatalf("%+v, %v", got, err)
		}
		p, err := b.Authenticate(t.Context(), DataPlane, got.Access, "198.51.100.7")
		if err != nil || p.Kind != "service" || p.ID != app.ID || p.Tenant != "acme" || p.Name != "crm" || fmt.Sprint(p.Roles) != "[application]" {
			t.Errorf("%+v, %v", p, err)
		}
		_, err = b.Authenticate(t.Context(), AdminPlane, got.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidToken)

		ended := map[string]func() error{
			"disabled": func() error { _, err := a.DisableServiceAccount(t.Context(), "acme", app.ID); return err },
			"changed": func() error {
				_, _, err := a.ChangeServiceAccount(t.Context(), "acme", app.ID, ServiceChange{Labels: &[]string{"hr"}})
				return err
			},
			"rotated": func() error {
				_, next, err := a.RotateServiceSecret(t.Context(), "acme", app.ID, 0)
				secret = next
				return err
			},
			"owner disabled": func() error {
				_, err := a.DisableUser(t.Context(), Administrator{ID: "admin"}, "acme", app.Owner)
				return err
			},
		}
		for _, what := range []string{"disabled", "changed", "rotated", "owner disabled"} {
			token := tokenFor(t, a, asks(app, secret))
			if err := enter(b, token); err != nil {
				t.Errorf("before it is %s: %v", what, err)
			}
			if err := ended[what](); err != nil {
				t.Fatal(err)
			}
			wantCode(t, enter(a, token), fault.CodeInvalidToken)
			poll(t, b)
			wantCode(t, enter(b, token), fault.CodeInvalidToken)
			if what == "disabled" {
				if _, err := a.EnableServiceAccount(t.Context(), "acme", app.ID); err != nil {
					t.Fatal(err)
				}
				wantCode(t, enter(a, token), fault.CodeInvalidToken)
				poll(t, b)
			}
		}
		if _, err := a.EnableUser(t.Context(), Administrator{ID: "admin"}, "acme", app.Owner); err != nil {
			t.Fatal(err)
		}
		token := tokenFor(t, a, asks(app, secret))
		clockA.advance(maxAccessTTL + 3*time.Second)
		poll(t, a)
		wantCode(t, enter(a, token), fault.CodeInvalidToken)
		token = tokenFor(t, a, asks(app, secret))
		if _, _, err := a.SuspendTenant(t.Context(), "acme", "admin", "unpaid"); err != nil {
			t.Fatal(err)
		}
		clockB.advance(maxAccessTTL + 3*time.Second)
		poll(t, b)
		wantCode(t, enter(b, token), fault.CodeTenantSuspended)
		_, err = b.IssueToken(t.Context(), asks(app, secret))
		wantCode(t, err, fault.CodeInvalidClient)
	})
}

// TestSecretsOfServiceAccounts: two secrets overlap, one at a time is added, and nothing of them is stored in clear.
func TestSecretsOfServiceAccounts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := withTenant(t, db)
		app, first := newService(t, i, "crm", "", RoleApplication)
		_, second, err := i.RotateServiceSecret(t.Context(), "acme", app.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		token := tokenFor(t, i, asks(app, first))
		tokenFor(t, i, asks(app, second))
		_, _, err = i.RotateServiceSecret(t.Context(), "acme", app.ID, time.Hour)
		wantCode(t, err, fault.CodeConflict)
		_, _, err = i.RotateServiceSecret(t.Context(), "acme", app.ID, MaxOverlap+time.Hour)
		wantCode(t, err, fault.CodeInvalidValue)
		c.advance(time.Hour)
		poll(t, i)
		_, err = i.IssueToken(t.Context(), asks(app, first))
		wantCode(t, err, fault.CodeInvalidClient)
		tokenFor(t, i, asks(app, second))
		var dump strings.Builder
		for _, table := range []string{"identity_service_accounts", "identity_service_keys", "identity_assertions"} {
			var rows []map[string]any
			if err := db.Table(table).Find(&rows).Error; err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&dump, rows)
		}
		for _, kept := range []string{first, second, first[len(first)-keySecretSize:], token} {
			if strings.Contains(dump.String(), kept) {
				t.Error("a secret is stored in clear")
			}
		}
		if dump.Len() < 100 {
			t.Error("nothing was dumped")
		}
		if _, err := i.RemoveServiceSecret(t.Context(), "acme", app.ID); err != nil {
			t.Fatal(err)
		}
		_, err = i.IssueToken(t.Context(), asks(app, second))
		wantCode(t, err, fault.CodeInvalidClient)
		_, err = i.IssueToken(t.Context(), asks(app, ""))
		wantCode(t, err, fault.CodeInvalidClient)
	})
}

// TestAssertions: each kind of key proves its account, once over all replicas.
func TestAssertions(t *testing.T) {
	all := signers(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, c := withTenant(t, db)
		b, _ := replica(t, db)
		for alg, s := range all {
			for form, keys := range map[string]string{"pem": s.pem(t), "jwk": s.jwk(t, map[string]any{"use": "sig", "alg": alg}), "set": `{"keys":[` + s.jwk(t, map[string]any{"kid": "k1"}) + `]}`} {
				app, none := newService(t, a, strings.ToLower(alg)+"-"+form, keys, RoleApplication)
				if none != "" || len(app.Keys) != 1 || app.Keys[0].Algorithm != alg || form == "set" && app.Keys[0].ID != "k1" || form != "set" && len(app.Keys[0].ID) != 43 {
					t.Errorf("%s, %s: %+v", alg, form, app.Keys)
				}
				poll(t, b)
				r := asks(app, "")
				r.Client, r.Assertion = "", s.assertion(t, app.ID, c.now(), "one")
				tokenFor(t, a, r)
				for _, i := range []*Identity{a, b} {
					_, err := i.IssueToken(t.Context(), r)
					wantCode(t, err, fault.CodeInvalidClient)
				}
				r.Assertion = s.assertion(t, app.ID, c.now(), "two")
				tokenFor(t, b, r)
				r.Client, r.Assertion = "svc-other-"+alg+form, s.assertion(t, app.ID, c.now(), "three")
				_, err := a.IssueToken(t.Context(), r)
				wantCode(t, err, fault.CodeInvalidClient)
			}
		}
		c.advance(10 * time.Minute)
		app, _ := newService(t, a, "last", all["EdDSA"].pem(t), RoleApplication)
		r := asks(app, "")
		r.Assertion = all["EdDSA"].assertion(t, app.ID, c.now(), "one")
		tokenFor(t, a, r)
		var kept int64
		if err := db.Model(&assertionRow{}).Count(&kept).Error; err != nil || kept != 1 {
			t.Errorf("%d assertions are remembered that have long expired: %v", kept-1, err)
		}
	})
}

func TestPublicKeysOfServiceAccounts(t *testing.T) {
	all := signers(t)
	small, err := rsa.GenerateKey(rand.Reader, 1024) // it is to be refused
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(all["EdDSA"].private)
	if err != nil {
		t.Fatal(err)
	}
	for what, keys := range map[string]string{
		"nothing": " ", "text": "hello", "a short RSA key": signer{small, nil}.pem(t), "a short RSA key as JWK": signer{small, nil}.jwk(t, nil),
		"P-384":                    signer{p384, nil}.pem(t),
		"a private key":            string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"a private JWK":            all["EdDSA"].jwk(t, map[string]any{"d": "AAAA"}),
		"a shared secret":          `{"kty":"oct","k":"AAAA"}`,
		"for encryption":           all["RS256"].jwk(t, map[string]any{"use": "enc"}),
		"for another algorithm":    all["RS256"].jwk(t, map[string]any{"alg": "PS256"}),
		"a point beside the curve": all["ES256"].jwk(t, map[string]any{"y": base64.RawURLEncoding.EncodeToString(make([]byte, 32))}),
		"an even exponent":         all["RS256"].jwk(t, map[string]any{"e": "Ag"}),
		"an empty set":             `{"keys":[]}`,
		"text behind a key":        all["EdDSA"].pem(t) + "x",
		"a certificate":            string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	} {
		if keys, err := parseClientKeys(keys); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%s: %v, %v", what, keys, err)
		}
	}
	if _, err := parseClientKeys(all["EdDSA"].pem(t) + all["EdDSA"].pem(t)); !fault.Is(err, fault.CodeExists) {
		t.Errorf("the same key twice: %v", err)
	}
	many := strings.Builder{}
	for range maxServiceKeys + 1 {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		many.WriteString(signer{private, nil}.pem(t))
	}
	if _, err := parseClientKeys(many.String()); !fault.Is(err, fault.CodeInvalidValue) {
		t.Errorf("too many: %v", err)
	}
	i, _ := withTenant(t, dbtest.SQLite(t))
	app, _ := newService(t, i, "full", all["EdDSA"].pem(t), RoleApplication)
	_, err = i.AddServiceKeys(t.Context(), "acme", app.ID, all["EdDSA"].pem(t), "u1")
	wantCode(t, err, fault.CodeExists)
	if got, err := i.AddServiceKeys(t.Context(), "acme", app.ID, all["ES256"].pem(t)+all["RS256"].pem(t), "u1"); err != nil || len(got.Keys) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = i.RemoveServiceKey(t.Context(), "acme", app.ID, "none")
	wantCode(t, err, fault.CodeNotFound)
}

// TestServiceAccountsAreChecked: roles, scopes and owners that an account may not have.
func TestServiceAccountsAreChecked(t *testing.T) {
	i, c := withTenant(t, dbtest.SQLite(t))
	if err := i.CreateTenant(t.Context(), Tenant{ID: "other", Name: "Other"}); err != nil {
		t.Fatal(err)
	}
	owner := newUser(t, i, "owner", nil, RoleDeveloper)
	auditor := newUser(t, i, "auditor", nil, RoleAuditor)
	stranger, err := i.CreateUser(t.Context(), NewUser{Tenant: "other", Name: "stranger", Password: password, Roles: []string{RoleDeveloper}})
	if err != nil {
		t.Fatal(err)
	}
	make := func(n NewServiceAccount) error {
		n.Tenant = "acme"
		if n.Name == "" {
			n.Name = "x"
		}
		if n.Owner == "" {
			n.Owner = owner.ID
		}
		_, _, err := i.CreateServiceAccount(t.Context(), n)
		return err
	}
	for what, bad := range map[string]struct {
		in   NewServiceAccount
		code fault.Code
	}{
		"no role":              {NewServiceAccount{}, fault.CodeMissing},
		"everything":           {NewServiceAccount{Roles: []string{RolePlatformAdmin}}, fault.CodeInvalidValue},
		"compliance":           {NewServiceAccount{Roles: []string{RoleCompliance}}, fault.CodeInvalidValue},
		"two duties":           {NewServiceAccount{Roles: []string{RoleAuditor, RoleSystemAdmin}}, fault.CodeConflictingRole},
		"both planes":          {NewServiceAccount{Roles: []string{RoleApplication, RoleDeveloper}}, fault.CodeConflictingRole},
		"reading as a scope":   {NewServiceAccount{Roles: []string{RoleApplication}, Scopes: []string{ScopeAdminRead}}, fault.CodeInvalidValue},
		"chats as a scope":     {NewServiceAccount{Roles: []string{RoleAuditor}, Scopes: []string{ScopeChat}}, fault.CodeInvalidValue},
		"an end that is past":  {NewServiceAccount{Roles: []string{RoleApplication}, ExpiresAt: c.now()}, fault.CodeInvalidValue},
		"a network":            {NewServiceAccount{Roles: []string{RoleApplication}, Networks: []string{"home"}}, fault.CodeInvalidValue},
		"nobody":               {NewServiceAccount{Roles: []string{RoleApplication}, Owner: "nobody"}, fault.CodeNotFound},
		"another tenant's":     {NewServiceAccount{Roles: []string{RoleApplication}, Owner: stranger.ID}, fault.CodeNotFound},
		"another duty":         {NewServiceAccount{Roles: []string{RoleSecurityAdmin}, Owner: auditor.ID}, fault.CodeConflictingRole},
		"keys that are no key": {NewServiceAccount{Roles: []string{RoleApplication}, PublicKeys: "x"}, fault.CodeInvalidValue},
	} {
		if err := make(bad.in); !fault.Is(err, bad.code) {
			t.Errorf("%s: %v, want %s", what, err, bad.code)
		}
	}
	if err := make(NewServiceAccount{Roles: []string{RoleAuditor}, Owner: auditor.ID}); err != nil {
		t.Error(err)
	}
	wantCode(t, make(NewServiceAccount{Roles: []string{RoleApplication}}), fault.CodeExists)
	// An owner who gets another duty later no longer answers for it.
	all, err := i.ListServiceAccounts(t.Context(), "acme")
	if err != nil || len(all) != 1 || all[0].Suspended {
		t.Fatalf("%+v, %v", all, err)
	}
	if _, _, err := i.ChangeUser(t.Context(), Administrator{ID: "admin"}, "acme", auditor.ID, UserChange{Roles: &[]string{RoleSecurityAdmin}}); err != nil {
		t.Fatal(err)
	}
	if got, err := i.ServiceAccount(t.Context(), "acme", all[0].ID); err != nil || !got.Suspended {
		t.Errorf("%+v, %v", got, err)
	}
	for _, role := range ServiceRoles() {
		if err := checkServiceRoles([]string{role}); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
}

// TestNetworksAndExpiryOfServiceAccounts are asked for at the token and at every use of it.
func TestNetworksAndExpiryOfServiceAccounts(t *testing.T) {
	i, c := withTenant(t, dbtest.SQLite(t))
	app, secret := newService(t, i, "bound", "", RoleApplication)
	end := c.now().Add(5 * time.Minute)
	if _, _, err := i.ChangeServiceAccount(t.Context(), "acme", app.ID, ServiceChange{Networks: &[]string{"198.51.100.0/24"}, ExpiresAt: &end}); err != nil {
		t.Fatal(err)
	}
	got, err := i.IssueToken(t.Context(), asks(app, secret))
	if err != nil || got.ExpiresIn != 5*time.Minute {
		t.Errorf("a token outlives its account: %+v, %v", got.ExpiresIn, err)
	}
	away := asks(app, secret)
	away.Source = "203.0.113.9"
	_, err = i.IssueToken(t.Context(), away)
	wantCode(t, err, fault.CodeInvalidClient)
	_, err = i.Authenticate(t.Context(), DataPlane, got.Access, "203.0.113.9")
	wantCode(t, err, fault.CodeKeyNetwork)
	c.advance(5 * time.Minute)
	_, err = i.IssueToken(t.Context(), asks(app, secret))
	wantCode(t, err, fault.CodeInvalidClient)
	_, err = i.Authenticate(t.Context(), DataPlane, got.Access, "198.51.100.7")
	wantCode(t, err, fault.CodeInvalidToken)
}

// TestServiceAccountsWhenTheDatabaseFails: an error before the commit leaves everything as it was, and gives no token.
func TestServiceAccountsWhenTheDatabaseFails(t *testing.T) {
	all := signers(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		f := &dbtest.Faults{}
		i, c := withTenant(t, f.Over(db))
		app, secret := newService(t, i, "crm", "", RoleApplication)
		if _, err := i.AddServiceKeys(t.Context(), "acme", app.ID, all["EdDSA"].pem(t), "u1"); err != nil {
			t.Fatal(err)
		}
		before, err := i.ServiceAccount(t.Context(), "acme", app.ID)
		if err != nil {
			t.Fatal(err)
		}
		token := tokenFor(t, i, asks(app, secret))
		assert := asks(app, "")
		assert.Assertion = all["EdDSA"].assertion(t, app.ID, c.now(), "one")
		for name, act := range map[string]func() error{
			"create": func() error {
				_, _, err := i.CreateServiceAccount(t.Context(), NewServiceAccount{Tenant: "acme", Name: "x", Roles: []string{RoleApplication}, Owner: app.Owner, PublicKeys: all["ES256"].pem(t)})
				return err
			},
			"change": func() error {
				_, _, err := i.ChangeServiceAccount(t.Context(), "acme", app.ID, ServiceChange{Labels: &[]string{"hr"}})
				return err
			},
			"rotate": func() error { _, _, err := i.RotateServiceSecret(t.Context(), "acme", app.ID, 0); return err },
			"secret": func() error { _, err := i.RemoveServiceSecret(t.Context(), "acme", app.ID); return err },
			"add": func() error {
				_, err := i.AddServiceKeys(t.Context(), "acme", app.ID, all["ES256"].pem(t), "u1")
				return err
			},
			"key":     func() error { _, err := i.RemoveServiceKey(t.Context(), "acme", app.ID, before.Keys[0].ID); return err },
			"disable": func() error { _, err := i.DisableServiceAccount(t.Context(), "acme", app.ID); return err },
			"remove":  func() error { return i.RemoveServiceAccount(t.Context(), "acme", app.ID) },
			"assert":  func() error { _, err := i.IssueToken(t.Context(), assert); return err },
		} {
			failEachWrite(t, f, name, act)
		}
		poll(t, i)
		if _, err := i.Authenticate(t.Context(), DataPlane, token, "198.51.100.7"); err != nil {
			t.Errorf("the token: %v", err)
		}
		after, err := i.ServiceAccount(t.Context(), "acme", app.ID)
		before.LastUsedAt, after.LastUsedAt = time.Time{}, time.Time{}
		if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("was %+v, is %+v, %v", before, after, err)
		}
		if list, err := i.ListServiceAccounts(t.Context(), "acme"); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// failEachWrite does something again and again: each time another one of its writes fails, and at last its commit.
func failEachWrite(t *testing.T, f *dbtest.Faults, name string, act func() error) {
	t.Helper()
	for n := 1; ; n++ {
		seen, failed := 0, false
		f.Set(func(op string) dbtest.Outcome {
			writes := slices.ContainsFunc([]string{"INSERT", "UPDATE", "DELETE"}, func(w string) bool { return strings.HasPrefix(op, w) })
			if writes {
				seen++
			}
			if op == "commit" || writes && seen == n {
				failed = true
				return dbtest.FailsBefore
			}
			return dbtest.Healthy
		})
		err := act()
		f.Set(nil)
		if failed && !fault.Is(err, fault.CodeDatabaseUnavailable) || !failed && err != nil {
			t.Errorf("%s, write %d: %v", name, n, err)
		}
		if seen < n {
			if n < 3 {
				t.Errorf("%s has only %d writes", name, seen)
			}
			return
		}
	}
}

// TestServiceAccountsOfManyTenants: each has the keys that are its own, a list of one tenant reads no keys of another, and a use writes only where it can say
// something.
func TestServiceAccountsOfManyTenants(t *testing.T) {
	all := signers(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		f := &dbtest.Faults{}
		i, c := withTenant(t, f.Over(db))
		must(t, i.CreateTenant(t.Context(), Tenant{ID: "bank", Name: "Bank"}))
		one, _ := newService(t, i, "one", all["EdDSA"].pem(t), RoleApplication)
		two, _ := newService(t, i, "two", all["ES256"].pem(t)+all["RS256"].pem(t), RoleApplication)
		owner, err := i.CreateUser(t.Context(), NewUser{Tenant: "bank", Name: "owner", Password: password, Roles: []string{RoleDeveloper}})
		must(t, err)
		three, _, err := i.CreateServiceAccount(t.Context(), NewServiceAccount{
			Tenant: "bank", Name: "three", Roles: []string{RoleApplication}, Owner: owner.ID, PublicKeys: all["EdDSA"].pem(t), CreatedBy: "u1",
		})
		must(t, err)
		for tenant, want := range map[string]map[string]int{
			"acme": {one.ID: 1, two.ID: 2}, "bank": {three.ID: 1}, "none": {}, AllTenants: {one.ID: 1, two.ID: 2, three.ID: 1},
		} {
			_, keys, err := i.store.listServices(t.Context(), tenant)
			got := map[string]int{}
			for account, of := range keys {
				got[account] = len(of)
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v, %v", tenant, got, want, err)
			}
			list, err := i.ListServiceAccounts(t.Context(), tenant)
			for _, a := range list {
				if len(a.Keys) != want[a.ID] {
					t.Errorf("%s has %d keys", a.ID, len(a.Keys))
				}
			}
			if err != nil || len(list) != len(want) {
				t.Errorf("%s: %+v, %v", tenant, list, err)
			}
		}
		s, _ := i.accounts.Last()
		for id, want := range map[string]int{one.ID: 1, two.ID: 2, three.ID: 1} {
			if n := len(s.services[id].keys); n != want {
				t.Errorf("%s has %d keys after a load", id, n)
			}
		}

		key, _ := mustKey(t, i, NewKey{ExpiresAt: c.now().Add(time.Hour)})
		for _, use := range []struct {
			id     string
			former bool
			want   string
		}{{one.ID, false, "[identity_service_accounts]"}, {key.ID, false, "[identity_keys]"}, {key.ID, true, "[identity_keys identity_keys]"}} {
			c.advance(time.Second)
			i.used.note(use.id, use.former, address("198.51.100.7"), c.now().UnixMicro())
			var tables []string
			f.Set(func(op string) dbtest.Outcome {
				if words := strings.Fields(op); words[0] == "UPDATE" {
					tables = append(tables, words[1])
				}
				return dbtest.Healthy
			})
			err := i.flushUses(t.Context())
			f.Set(nil)
			if err != nil || fmt.Sprint(tables) != use.want {
				t.Errorf("%+v writes %v, %v", use, tables, err)
			}
		}
		b, _ := replica(t, db)
		a, err1 := b.ServiceAccount(t.Context(), "acme", one.ID)
		k, err2 := b.Key(t.Context(), "acme", key.ID)
		if err1 != nil || err2 != nil || !a.LastUsedAt.Equal(c.now().Add(-2*time.Second)) || !k.LastUsedAt.Equal(c.now()) || k.LastUsedFrom != "198.51.100.0/24" {
			t.Errorf("%+v, %+v, %v, %v", a, k, err1, err2)
		}
	})
}
