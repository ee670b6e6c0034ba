package governance

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const revealPolicyText = `schema: 2
name: reveals
models: ["*"]
collections: ["*"]
entities: {default: {request: token, passage: token, answer: token}, email: {request: redact}}
`

const revealRulesText = `reveal:
  keep: 1h
  rules: [{roles: [compliance], classes: ["*"], show: clear}]
`

// keeper is a guard over a database with failures, with a policy in force.
func keeper(t *testing.T, db *gorm.DB, faults *dbtest.Faults, policy string) *Guard {
	t.Helper()
	g, err := New(Config{}, NewPolicyStore(faults.Over(db)), keyring.FromBytes([]byte(strings.Repeat("k", 32))), classify.New(classify.Classes()...),
		slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	if _, err := g.Publish(t.Context(), "acme", []byte(policy), "test"); err != nil {
		t.Fatal(err)
	}
	return g
}

func admitText(t *testing.T, g *Guard, request, text string) *Admission {
	t.Helper()
	a, err := g.Admit(t.Context(), AdmitRequest{Request: request, Tenant: "acme", Session: "digest", Name: "case-17", Action: "chat.completions", Fields: []Field{{Path: "x", Text: &text}}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// keptValues are the values that are stored of a target, sorted.
func keptValues(t *testing.T, g *Guard, db *gorm.DB, target pseudonym.Target, a *Admission) []string {
	t.Helper()
	target.Tenant = "acme"
	var codes []string
	for _, tok := range mask.Tokens(g.detectors, a.maskedAgain()) {
		codes = append(codes, tok.Code)
	}
	found, err := g.values.Find(t.Context(), target, codes)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range found {
		out = append(out, v.Text.Reveal())
	}
	slices.Sort(out)
	return out
}

// maskedAgain gives the pseudonyms of all values of these tests, as another request of the scope would.
func (a *Admission) maskedAgain() string {
	scope, _ := scopeOf(a.active.policy, "digest", "r1")
	text, _ := a.guard.newPseudonyms(a.tenant, scope).Mask(a.active.rulesFor(a.channel, DirectionPassage), "电话13800138000、13900139001和13700137002，邮箱zhang@example.com。")
	return text
}

func rowsIn(t *testing.T, db *gorm.DB, table string) (n int64) {
	t.Helper()
	if err := db.Table(table).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

// Values are stored where a rule lets somebody see them, and nowhere else; only those with a pseudonym; those of passages and of the answer too;
// and what cannot be stored is tried again, not forgotten.
func TestKeep(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		faults := &dbtest.Faults{}
		g := keeper(t, db, faults, revealPolicyText)
		a := admitText(t, g, "r1", "电话13800138000。")
		if err := a.StoreValues(t.Context()); err != nil || rowsIn(t, db, "vault_values")+rowsIn(t, db, "vault_scopes")+rowsIn(t, db, "vault_keys") != 0 {
			t.Fatalf("kept for nobody: %v", err)
		}
		if _, err := g.Publish(t.Context(), "acme", []byte(revealPolicyText+revealRulesText), "test"); err != nil {
			t.Fatal(err)
		}
		a = admitText(t, g, "r2", "电话13800138000，邮箱zhang@example.com。")
		faults.Set(func(op string) dbtest.Outcome {
			if op == "commit" {
				return dbtest.FailsBefore
			}
			return dbtest.Healthy
		})
		if err := a.StoreValues(t.Context()); !fault.Is(err, fault.CodeVaultUnavailable) || !errors.Is(err, dbtest.ErrInjected) {
			t.Fatalf("%v", err)
		}
		faults.Set(nil)
		if err := a.StoreValues(t.Context()); err != nil {
			t.Fatal(err)
		}
		session := pseudonym.Target{Name: "case-17"}
		if got := keptValues(t, g, db, session, a); fmt.Sprint(got) != "[13800138000]" { // the address was redacted
			t.Errorf("%v", got)
		}
		if _, err := a.MaskPassage("电话13900139001。"); err != nil {
			t.Fatal(err)
		}
		release := a.Release()
		out, err := release.Write("回电13700137002，")
		rest, cerr := release.Close()
		if out += rest; err != nil || cerr != nil || strings.Contains(out, "137") {
			t.Fatalf("%q, %v %v", out, err, cerr)
		}
		if err := a.StoreValues(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := "[13700137002 13800138000 13900139001]"
		for _, target := range []pseudonym.Target{session, {Scopes: RequestScopes("digest", "r2")}} {
			if got := keptValues(t, g, db, target, a); fmt.Sprint(got) != all {
				t.Errorf("%v: %v", target, got)
			}
		}
		statements := 0
		faults.Set(func(string) dbtest.Outcome { statements++; return dbtest.Healthy })
		next := admitText(t, g, "r3", "电话13800138000和13900139001。")
		for range 2 {
			if err := next.StoreValues(t.Context()); err != nil || statements != 0 {
				t.Errorf("the next turn took %d operations, %v", statements, err)
			}
		}
		faults.Set(nil)
		if n, err := eraseValues(t, db, g, pseudonym.Target{Tenant: "acme", Name: "case-17"}); err != nil || n != 3 {
			t.Errorf("erased %d, %v", n, err)
		}
	})
}

func eraseValues(t *testing.T, db *gorm.DB, g *Guard, target pseudonym.Target) (int64, error) {
	t.Helper()
	r := g.Values().EraseConversation(target)
	err := db.Transaction(func(tx *gorm.DB) error {
		if err := r.Lock(tx); err != nil {
			return err
		}
		return r.Delete(tx)
	})
	return r.Found.Values, err
}

// With pseudonyms of one request its values are found by the request, and by no conversation.
func TestKeepPerRequest(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	g := keeper(t, db, &dbtest.Faults{}, revealPolicyText+revealRulesText+"pseudonyms: request\n")
	a := admitText(t, g, "r1", "电话13800138000。")
	if err := a.StoreValues(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want, target := range map[string]pseudonym.Target{
		"[13800138000]": {Scopes: RequestScopes("digest", "r1")}, "[]": {Name: "case-17"},
	} {
		if got := keptValues(t, g, db, target, a); fmt.Sprint(got) != want {
			t.Errorf("%v: %v", target, got)
		}
	}
}

// Requests that begin alike and have no name for their conversation keep their values apart: one person's are not prolonged, filled up or
// erased with another's.
func TestKeepWithoutAName(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	g := keeper(t, db, &dbtest.Faults{}, revealPolicyText+revealRulesText)
	var a *Admission
	for request, text := range map[string]string{"r1": "电话13800138000。", "r2": "电话13900139001。"} {
		var err error
		a, err = g.Admit(t.Context(), AdmitRequest{Request: request, Tenant: "acme", Session: "digest", Action: "chat.completions", Fields: []Field{{Path: "x", Text: &text}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.StoreValues(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for request, want := range map[string]string{"r1": "[13800138000]", "r2": "[13900139001]"} {
		if got := keptValues(t, g, db, pseudonym.Target{Scopes: RequestScopes("digest", request)}, a); fmt.Sprint(got) != want {
			t.Errorf("%s: %v", request, got)
		}
	}
	if n, err := eraseValues(t, db, g, pseudonym.Target{Tenant: "acme", Scopes: RequestScopes("digest", "r1")}); err != nil || n != 1 {
		t.Errorf("erased %d, %v", n, err)
	}
}
