package offboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

type kit struct {
	*Service
	t      *testing.T
	db     *gorm.DB
	faults *dbtest.Faults
	forgot []string
}

func newKit(t *testing.T, db *gorm.DB) *kit {
	t.Helper()
	k := &kit{t: t, db: db, faults: &dbtest.Faults{}}
	keys, discard, faulty := keyring.FromBytes([]byte(strings.Repeat("k", 32))), slog.New(slog.DiscardHandler), k.faults.Over(db)
	cfg := Config{DB: faulty, Keys: keys, Log: discard, Leads: func(context.Context) (bool, error) { return true, nil }, Forget: func(tenant string) { k.forgot = append(k.forgot, tenant) }}
	var err error
	if cfg.Audit, err = audit.Open(audit.Config{Dir: filepath.Join(t.TempDir(), "audit")}, faulty, keys, nil, discard, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cfg.Audit.Close() })
	if cfg.Identity, err = identity.New(identity.Config{PasswordCost: identity.PasswordCost{MemoryKiB: 64, Passes: 1}}, identity.Limits{}, faulty, keys, discard, nil); err != nil {
		t.Fatal(err)
	}
	if cfg.Guard, err = governance.New(governance.Config{}, governance.NewPolicyStore(faulty), keys, classify.New(classify.Classes()...), discard, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cfg.Guard.Close() })
	if cfg.Ledger, err = billing.New(billing.Config{Node: "n"}, faulty, discard, nil); err != nil {
		t.Fatal(err)
	}
	k.Service = New(cfg)
	k.must(cfg.Identity.Load(t.Context()))
	_, err = cfg.Identity.EnsureAdmin(t.Context(), "demo", "admin", "correct horse battery staple")
	k.must(err)
	return k
}

func (k *kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) wants(what string, err error, code fault.Code) {
	k.t.Helper()
	if !fault.Is(err, code) {
		k.t.Errorf("%s: %v, want %s", what, err, code)
	}
}

var boss = identity.Principal{ID: "u1", Name: "boss"}

func actor() audit.Actor { return audit.Actor{Kind: "user", ID: boss.ID, Name: boss.Name} }

// settle makes a tenant with rows of each kind that its concern makes, and others by hand.
func (k *kit) settle(tenant string) {
	k.t.Helper()
	ctx := k.t.Context()
	k.must(k.cfg.Identity.CreateTenant(ctx, identity.Tenant{ID: tenant, Name: tenant}))
	u, err := k.cfg.Identity.CreateUser(ctx, identity.NewUser{Tenant: tenant, Name: "person-" + tenant, Password: "correct horse battery staple", Roles: []string{identity.RoleDeveloper}})
	k.must(err)
	_, _, err = k.cfg.Identity.CreateKey(ctx, identity.NewKey{Tenant: tenant, Name: "key"})
	k.must(err)
	subject := k.cfg.Audit.Subject(tenant, "alice")
	e := audit.Event{Request: "r-" + tenant, Stage: audit.StageAdmitted, Tenant: tenant, Actor: audit.Actor{Kind: "key", ID: "app", OnBehalfOf: subject}, Decision: "allow"}
	_, err = k.cfg.Audit.AppendWith(ctx, e, subject, audit.Text{Direction: "request", Form: "masked", Text: "a text"})
	k.must(err)
	k.must(k.cfg.Guard.Values().Store(ctx, pseudonym.Turn{
		Tenant: tenant, Scope: "session/s", Name: "s", Keep: time.Hour, Subject: subject, Values: []pseudonym.Value{{Code: "AAAAA", Class: "cn_mobile", Text: "13800138000"}},
	}))
	k.must(k.cfg.Audit.Flush(ctx))
	for _, statement := range []string{
		"INSERT INTO rag_collections (id, tenant, name, title, labels, revision, created_at) VALUES ('c-T', 'T', 'kb', '', '[]', 1, 1)",
		"INSERT INTO rag_documents (id, collection, name, labels, version, revision, created_at, updated_at) VALUES ('d-T', 'c-T', 'a', '[]', 1, 1, 1, 1)",
		"INSERT INTO rag_versions (id, collection, document, version, mime, title, digest, embedder, content, known, suite, epoch, chunks, valid_from, valid_until, created_at) VALUES ('v-T', 'c-T', 'd-T', 1, '', '', '', 'm', 'text', '', '', 0, 1, 1, 0, 1)",
		"INSERT INTO rag_glossary (id, collection, suite, epoch, sealed, updated_at) VALUES ('g-T', 'c-T', 'x', 0, 'x', 1)",
		"INSERT INTO rag_chunks (document, version, chunk, section, start_at, end_at, vector) VALUES ('d-T', 1, 0, '', 0, 1, '')",
		"INSERT INTO sla_hours (hour, tenant, model, class, counts, latencies) VALUES (0, 'T', 'm', '', '', '')",
		"INSERT INTO billing_budgets (id, tenant, api_key, period, zone, limit_amount, updated_at) VALUES ('b-T', 'T', '', 'month', 'UTC', 1, 1)",
		"INSERT INTO billing_spend (budget, period, spent) VALUES ('b-T', '2026-01', 1)",
		"INSERT INTO billing_leases (id, budget, period, node, owner, amount, expires_at) VALUES ('l-T', 'b-T', '2026-01', 'n', 'o', 1, 1)",
		"INSERT INTO policy_documents (tenant, version, digest, name, source, canonical, created_at, created_by) VALUES ('T', 1, 'd', 'n', 'schema: 2', '{}', 1, 'u')",
		"INSERT INTO policy_documents (tenant, version, digest, name, source, canonical, created_at, created_by) VALUES ('T'||'/p', 1, 'd', 'n', 'schema: 2', '{}', 1, 'u')",
		"INSERT INTO identity_projects (tenant, id, name, labels, created_at, suspended_at, suspended_by, suspension, requests_per_minute, tokens_per_minute, concurrent) VALUES ('T', 'p', 'P', '{}', 1, 0, '', '', 0, 0, 0)",
		"INSERT INTO identity_challenges (digest, user_id, expires_at) VALUES ('c-T', 'U', 1)",
		"INSERT INTO reveal_people (person, touched) VALUES ('U', 1)",
		"INSERT INTO reveal_uses (id, person, target, time, clear) VALUES ('ru-T', 'U', 't', 1, 1)",
		"INSERT INTO identity_sessions (digest, family, user_id, source, started_at, expires_at, used_at, revoked_at) VALUES ('s-T', 'f', 'U', '', 1, 1, 0, 0)",
		"INSERT INTO identity_passwords (user_id, hash, replaced_at) VALUES ('U', 'h', 1)",
		"INSERT INTO billing_usage_daily (tenant, api_key, model, day, requests, estimated, prompt_tokens, cached_tokens, completion_tokens, cost, energy) VALUES ('T', 'k', 'm', '2026-01-01', 1, 0, 1, 0, 1, 1, 1)",
	} {
		k.must(k.db.Exec(strings.NewReplacer("'T'", "'"+tenant+"'", "-T'", "-"+tenant+"'", "'U'", "'"+u.ID+"'").Replace(statement)).Error)
	}
}

// decided settles a tenant and suspends it, and begins its offboarding up to the erasure.
func (k *kit) decided(tenant string) row {
	k.t.Helper()
	ctx := k.t.Context()
	k.settle(tenant)
	_, _, err := k.cfg.Identity.SuspendTenant(ctx, tenant, "u1", "left")
	k.must(err)
	_, err = k.Begin(ctx, tenant, "left", boss)
	k.must(err)
	o, err := k.Decline(ctx, tenant, "they have everything", boss)
	k.must(err)
	_, err = k.Erase(ctx, tenant, o.Plan, "", actor())
	k.must(err)
	r, err := k.find(ctx, tenant)
	k.must(err)
	return r
}

func (k *kit) counts(tenant string) map[string]int64 {
	k.t.Helper()
	all, err := k.count(k.t.Context(), tenant)
	k.must(err)
	out := map[string]int64{}
	for _, c := range all {
		out[c.Table] = c.Before
	}
	return out
}

// TestEveryTableIsClassified: of every table of the schema it is decided what becomes of a tenant's rows, once.
func TestEveryTableIsClassified(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	var tables []string
	if err := db.Raw("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").Scan(&tables).Error; err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, p := range slices.Concat(kept(), rows(), staying()) {
		n[p.table]++
	}
	for _, name := range nobodys() {
		n[name]++
	}
	for _, table := range tables {
		if n[table] != 1 {
			t.Errorf("%s is in %d of the lists of tables.go", table, n[table])
		}
		delete(n, table)
	}
	for table := range n {
		t.Errorf("there is no table %s", table)
	}
}

// TestWrappedKeysLeaveNoDeadRows: each table of a tenant whose rows hold a wrapped key is written anew, and nothing is that no erasure empties.
func TestWrappedKeysLeaveNoDeadRows(t *testing.T) {
	t.Parallel()
	var wrapping []string
	if err := dbtest.SQLite(t).Raw("SELECT m.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' AND c.name = 'wrapped'").Scan(&wrapping).Error; err != nil {
		t.Fatal(err)
	}
	var erased []string
	for _, p := range slices.Concat(kept(), rows()) {
		erased = append(erased, p.table)
		if slices.Contains(wrapping, p.table) && !slices.Contains(rewritten(), p.table) {
			t.Errorf("dead rows of %s keep wrapped keys", p.table)
		}
	}
	if !slices.Contains(wrapping, "vault_keys") || !slices.Contains(wrapping, "reply_replies") {
		t.Errorf("tables with wrapped keys: %v", wrapping)
	}
	for _, table := range rewritten() {
		if !slices.Contains(erased, table) {
			t.Errorf("%s is written anew, and no row of it goes", table)
		}
	}
}

// TestEraseEverything: all that goes is gone, with a plan of before and a certificate whose figures are those; another tenant keeps its rows, and only an offboarding that
// erases takes policies away.
func TestEraseEverything(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db)
		k.settle("other")
		kept := k.counts("other")
		k.must(k.db.Exec("INSERT INTO policy_documents (tenant, version, digest, name, source, canonical, created_at, created_by) VALUES ('gone-not/p', 1, 'd', 'n', 's', '{}', 1, 'u'), ('org:gone', 1, 'd', 'n', 's', '{}', 1, 'u')").Error)
		r := k.decided("gone")
		before := k.counts("gone")
		if before["policy_documents"] != 2 || before["identity_projects"] != 1 {
			t.Errorf("%v", before)
		}
		for _, scope := range []string{"other", "other/p", "gone-not/p", "org:gone"} {
			if err := k.db.Exec("DELETE FROM policy_documents WHERE tenant = ?", scope).Error; err == nil {
				t.Errorf("a policy of %s was deleted, which stays", scope)
			}
		}
		k.must(k.attempt(t.Context(), r))
		for table, n := range k.counts("gone") {
			if n != 0 && Goes(table) {
				t.Errorf("%d rows of %s", n, table)
			}
			if !Goes(table) && n < before[table] {
				t.Errorf("%s has lost rows: %d of %d", table, n, before[table])
			}
		}
		report, raw, record, err := k.Certificate(t.Context(), "gone")
		k.must(err)
		for _, c := range report.Gone {
			if c.After != 0 || c.Before != before[c.Table] {
				t.Errorf("%+v, there were %d", c, before[c.Table])
			}
		}
		if len(report.Keys) != 2 || report.epochsText() != "0" || record == "" || len(raw) == 0 || report.Declined != "they have everything" || report.Documents[0] != 1 {
			t.Errorf("%+v", report)
		}
		if !slices.ContainsFunc(report.Stays, func(x Stay) bool { return x.Code == StaysPassages }) {
			t.Errorf("what servers hold of documents on their disks is not among %+v", report.Stays)
		}
		for _, x := range report.Stays {
			if id, _, _ := StaysPhrase(x.Code).Parts(); id == "" {
				t.Errorf("the document does not say what %q is", x.Code)
			}
		}
		if now := k.counts("other"); fmt.Sprint(now) != fmt.Sprint(kept) {
			t.Errorf("the other tenant: %v, before %v", now, kept)
		}
		if !slices.Contains(k.forgot, "gone") || slices.Contains(k.forgot, "other") {
			t.Errorf("the caches of %v", k.forgot)
		}
		open, err := retention.Uncertified(t.Context(), k.db, "gone", "")
		if err != nil || len(open) != 0 {
			t.Errorf("%+v, %v", open, err)
		}
		k.late("gone")
	})
}

// late lets something come of an erased tenant, and looks whether it is found.
func (k *kit) late(tenant string) {
	k.t.Helper()
	subject := k.cfg.Audit.Subject(tenant, "bob")
	e := audit.Event{Request: "late", Stage: audit.StageAdmitted, Tenant: tenant, Actor: audit.Actor{Kind: "key", ID: "app", OnBehalfOf: subject}, Decision: "allow"}
	_, err := k.cfg.Audit.AppendWith(k.t.Context(), e, subject, audit.Text{Direction: "request", Form: "masked", Text: "late"})
	k.must(err)
	k.must(k.cfg.Audit.Flush(k.t.Context()))
	k.must(k.db.Exec("INSERT INTO policy_documents (tenant, version, digest, name, source, canonical, created_at, created_by) VALUES (?, 1, 'd', 'n', 'schema: 2', '{}', 1, 'u')", tenant).Error)
	if n := k.counts(tenant); n["audit_contents"] != 1 || n["policy_documents"] != 1 {
		k.t.Fatalf("%v", n)
	}
	k.must(k.turn(k.t.Context(), new(time.Time)))
	if n := k.counts(tenant); n["audit_contents"] != 0 || n["policy_documents"] != 0 {
		k.t.Errorf("this stays: %v", n)
	}
}

// TestOldErasuresAreLeftAlone: a week after it a tenant costs nothing any more, neither a lease nor the caches of a process that starts.
func TestOldErasuresAreLeftAlone(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	k.must(k.attempt(t.Context(), k.decided("gone")))
	asked := 0
	k.cfg.Leads = func(context.Context) (bool, error) { asked++; return true, nil }
	for _, c := range []struct {
		age    time.Duration
		forgot string
		asked  int
	}{{lateFor - time.Hour, "[gone]", 1}, {lateFor + time.Hour, "[]", 0}} {
		asked, k.forgot, k.forgotten = 0, nil, map[string]int64{} // as after a restart
		k.now = func() time.Time { return time.Now().Add(c.age) }
		k.must(k.turn(t.Context(), new(time.Time)))
		if fmt.Sprint(k.forgot) != c.forgot || asked != c.asked {
			t.Errorf("after %s it forgets %v and asks for the lease %d times", c.age, k.forgot, asked)
		}
	}
}

// TestTheLeadIsKept: while work goes on its lead is prolonged, whatever one turn fails with, and the work ends once another replica has the lead. Nothing is left
// running.
func TestTheLeadIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, lost := 0, 0
		s := New(Config{Log: slog.New(slog.DiscardHandler), Leads: func(context.Context) (bool, error) {
			if asked++; asked == 2 {
				return false, errors.New("the database is away")
			}
			return asked != lost, nil
		}})
		long := func(ctx context.Context) error {
			select {
			case <-time.After(5 * time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := s.leading(t.Context(), long); err != nil || asked < 14 {
			t.Errorf("five minutes with %d turns: %v", asked, err)
		}
		asked, lost = 0, 4
		begun := time.Now()
		if err := s.leading(t.Context(), long); !errors.Is(err, errNotLeading) || !errors.Is(err, context.Canceled) || time.Since(begun) != 80*time.Second {
			t.Errorf("lost after %s: %v", time.Since(begun), err)
		}
		asked, lost = 0, 1 // too late to matter
		if err := s.leading(t.Context(), func(context.Context) error { time.Sleep(time.Minute); return nil }); err != nil {
			t.Errorf("done in spite of it: %v", err)
		}
		failed := errors.New("its own")
		if err := s.leading(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) || errors.Is(err, errNotLeading) {
			t.Errorf("%v", err)
		}
	})
}

// TestALostLeadStopsTheWork: a step that takes long is stopped when another replica goes on, in an erasure and in what is swept after it. That is no failure of the
// erasure: the other one ends it.
func TestALostLeadStopsTheWork(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	k.cfg.Prolong = time.Millisecond
	// stopped does something whose step that cleans the files ends with its context, since the lead is lost meanwhile.
	stopped := func(what string, act func() error) {
		t.Helper()
		var cleaning atomic.Bool
		work := make(chan context.Context, 1)
		k.cfg.Leads = func(ctx context.Context) (bool, error) {
			if !cleaning.Load() {
				return true, nil
			}
			select {
			case work <- ctx:
			default:
			}
			return false, nil
		}
		k.faults.Set(func(op string) dbtest.Outcome {
			if op == "VACUUM" {
				cleaning.Store(true)
				select {
				case ctx := <-work:
					<-ctx.Done()
				case <-time.After(time.Minute):
					t.Error("nobody asks for the lead meanwhile")
				}
			}
			return dbtest.Healthy
		})
		err := act()
		k.faults.Set(nil)
		k.cfg.Leads = func(context.Context) (bool, error) { return true, nil }
		if !errors.Is(err, errNotLeading) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r := k.decided("gone")
	stopped("an erasure", func() error { return k.attempt(t.Context(), r) })
	r, err := k.find(t.Context(), "gone")
	if err != nil || r.State != string(Erasing) || r.Failure != "" || r.Attempted != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	k.must(k.attempt(t.Context(), r))
	k.ended("gone")
	r, err = k.find(t.Context(), "gone")
	k.must(err)
	k.must(k.db.Exec("INSERT INTO billing_budgets (id, tenant, api_key, period, zone, limit_amount, updated_at) VALUES ('late', 'gone', '', 'month', 'UTC', 1, 1)").Error)
	stopped("what came late", func() error { return k.sweep(t.Context(), r) })
	k.must(k.sweep(t.Context(), r))
	k.ended("gone")

	k.decided("one")
	k.decided("two")
	k.cfg.Prolong = time.Hour
	asked := 0
	k.cfg.Leads = func(context.Context) (bool, error) { asked++; return asked == 1, nil }
	if err := k.turn(t.Context(), new(time.Time)); !errors.Is(err, errNotLeading) || asked != 2 {
		t.Errorf("a turn goes on without the lead, and asks for it %d times: %v", asked, err)
	}
}

// TestDeclinedAfterAnExport: who declines after an export, and a second one that broke off, has none: neither the answer nor the certificate names the first.
func TestDeclinedAfterAnExport(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	ctx := t.Context()
	k.must(k.cfg.Identity.CreateTenant(ctx, identity.Tenant{ID: "acme", Name: "acme"}))
	_, err := k.cfg.Audit.Append(ctx, audit.Event{Stage: audit.StageAction, Tenant: "acme", Actor: actor(), Action: "tenants.suspend", Decision: "allow", Outcome: "ok"})
	k.must(err)
	k.must(k.cfg.Audit.Flush(ctx)) // an export needs something that is sealed
	_, _, err = k.cfg.Identity.SuspendTenant(ctx, "acme", "u1", "left")
	k.must(err)
	_, err = k.Begin(ctx, "acme", "left", boss)
	k.must(err)
	export := func() (Offboarding, error) {
		f, err := os.Create(filepath.Join(t.TempDir(), "export.zip"))
		k.must(err)
		defer f.Close()
		return k.Export(ctx, f, "acme", Wanted{}, boss)
	}
	o, err := export()
	if err != nil || o.State != Exported || o.ExportDigest == "" || o.ExportFiles == 0 || o.ExportBytes == 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	_, err = k.Decline(ctx, "acme", "none", boss)
	k.wants("with an export", err, fault.CodeConflict)
	k.faults.Set(func(op string) dbtest.Outcome {
		if strings.Contains(op, "FROM billing_budgets") {
			return dbtest.FailsBefore
		}
		return dbtest.Healthy
	})
	_, err = export()
	k.faults.Set(nil)
	k.wants("an export that breaks off", err, fault.CodeDatabaseUnavailable)
	o, err = k.Decline(ctx, "acme", "the disk is full", boss)
	if err != nil || o.State != Exported || o.ExportDigest != "" || o.ExportFiles != 0 || o.ExportBytes != 0 || o.Declined != "the disk is full" {
		t.Fatalf("%+v, %v", o, err)
	}
	_, err = k.Erase(ctx, "acme", o.Plan, "", actor())
	k.must(err)
	r, err := k.find(ctx, "acme")
	k.must(err)
	k.must(k.attempt(ctx, r))
	said, _, _, err := k.Certificate(ctx, "acme")
	if err != nil || said.ExportDigest != "" || said.Declined != "the disk is full" {
		t.Errorf("%+v, %v", said, err)
	}
}

// TestOneCrashAfterTheOther fails every write of an erasure in turn, the next one in each attempt, as a process does that dies again and again: each attempt begins
// with what the one before has left, and the last ends it. The other tenant has everything.
func TestOneCrashAfterTheOther(t *testing.T) {
	if testing.Short() {
		t.Skip("it erases again and again; make test runs it")
	}
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		t.Parallel()
		k := newKit(t, db)
		k.settle("other")
		kept := k.counts("other")
		failures := map[string]bool{}
		for o, tenant := range map[dbtest.Outcome]string{dbtest.FailsBefore: "before", dbtest.FailsAfter: "after"} {
			k.decided(tenant)
			for n := 1; ; n++ {
				r, err := k.find(t.Context(), tenant)
				k.must(err)
				if r.State == string(Erased) {
					break
				}
				failed, at := "", n
				k.faults.Set(func(op string) dbtest.Outcome {
					if !writes(op) {
						return dbtest.Healthy
					}
					if at--; at == 0 {
						failed = op
						return o
					}
					return dbtest.Healthy
				})
				err = k.attempt(t.Context(), r)
				k.faults.Set(nil)
				if failures[failed] = true; err != nil && failed == "" {
					t.Fatalf("%d: %v", n, err)
				}
			}
			k.ended(tenant)
		}
		if len(failures) < 40 {
			t.Errorf("only these failed: %v", failures)
		}
		if now := k.counts("other"); fmt.Sprint(now) != fmt.Sprint(kept) {
			t.Errorf("the other tenant: %v, before %v", now, kept)
		}
	})
}

// writes reports whether an operation on the database may change something.
func writes(op string) bool {
	word, _, _ := strings.Cut(op, " ")
	return !slices.Contains([]string{"begin", "SELECT"}, word)
}

func (k *kit) ended(tenant string) {
	k.t.Helper()
	r, err := k.find(k.t.Context(), tenant)
	k.must(err)
	if r.State != string(Erased) || r.Certificate == "" || r.Failure != "" {
		k.t.Errorf("%+v", r)
	}
	for table, n := range k.counts(tenant) {
		if n != 0 && Goes(table) {
			k.t.Errorf("%d rows of %s", n, table)
		}
	}
}

// TestWhatRefuses: the tenant that runs the installation, one that is not suspended, one that was resumed meanwhile, one without an export, another plan, and a hold.
func TestWhatRefuses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db)
		ctx := t.Context()
		k.settle("acme")
		begin := func(tenant, reason string) error { _, err := k.Begin(ctx, tenant, reason, boss); return err }
		erase := func(plan, approval string) error { _, err := k.Erase(ctx, "acme", plan, approval, actor()); return err }
		k.wants("the operator", begin("demo", "x"), fault.CodeConflict)
		k.wants("an active tenant", begin("acme", "x"), fault.CodeConflict)
		k.wants("nobody", begin("none", "x"), fault.CodeNotFound)
		k.wants("no reason", begin("acme", " "), fault.CodeMissing)
		_, first, err := k.cfg.Identity.SuspendTenant(ctx, "acme", "u1", "left")
		k.must(err)
		k.wants("before it begins", erase("", ""), fault.CodeNotFound)
		k.must(begin("acme", "left"))
		o, err := k.Get(ctx, "acme", actor())
		k.must(err)
		k.wants("without an export", erase(o.Plan, ""), fault.CodeConflict)
		o, err = k.Decline(ctx, "acme", "none", boss)
		k.must(err)
		k.wants("another plan", erase(strings.Repeat("0", 64), ""), fault.CodeConflict)

		_, _, err = k.cfg.Identity.ResumeTenant(ctx, "acme", first.Suspension.Since)
		k.must(err)
		k.wants("one that was resumed", erase(o.Plan, ""), fault.CodeConflict)
		_, _, err = k.cfg.Identity.SuspendTenant(ctx, "acme", "u1", "left")
		k.must(err)
		k.wants("another suspension", erase(o.Plan, ""), fault.CodeConflict)
		k.must(begin("acme", "left"))
		again, err := k.Decline(ctx, "acme", "none", boss)
		k.must(err)
		k.wants("the plan of before", erase(o.Plan, ""), fault.CodeConflict)

		_, err = k.cfg.Audit.Hold(ctx, retention.Hold{Tenant: "acme", Reason: "case", CreatedBy: "u9"})
		k.must(err)
		k.wants("a hold", erase(again.Plan, ""), fault.CodeHeld)
		k.wants("an approval that is none", erase(again.Plan, "nothing"), fault.CodeConflict)
		if x, err := k.cfg.Identity.FindTenant(ctx, "acme"); err != nil || !x.ClosedAt.IsZero() {
			t.Errorf("a refusal has closed it: %+v, %v", x, err)
		}
	})
}

// TestHoldsStopTheWork: one that is placed while it erases stops it before the next thing is destroyed, and it goes on when that is released.
func TestHoldsStopTheWork(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	r := k.decided("acme")
	h, err := k.cfg.Audit.Hold(t.Context(), retention.Hold{Tenant: "acme", Reason: "case", CreatedBy: "u9"})
	k.must(err)
	if err := k.attempt(t.Context(), r); !fault.Is(err, fault.CodeHeld) {
		t.Fatalf("%v", err)
	}
	o, err := k.Get(t.Context(), "acme", actor())
	if err != nil || o.Failure != fault.CodeHeld || len(o.Holds) != 1 || k.counts("acme")["audit_contents"] != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = k.cfg.Audit.ReleaseHold(t.Context(), "acme", h.ID, audit.Actor{Kind: "user", ID: "u9"})
	k.must(err)
	if r, err = k.find(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	k.must(k.attempt(t.Context(), r))
	k.ended("acme")
}
