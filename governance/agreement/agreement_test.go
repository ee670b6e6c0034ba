package agreement

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// clock is the time of a test.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func open(t *testing.T, db *gorm.DB, c *clock) *Store {
	t.Helper()
	s, err := New(Config{
		DB: db, Freshness: snapshot.Config{MaxAge: time.Minute}, Log: slog.New(slog.DiscardHandler),
		Exists: func(_ context.Context, tenant, project, key string) error {
			if tenant == "nobody" || project == "nothing" || key == "none" {
				return fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), tenant)
			}
			return nil
		},
		Fresh: func(who identity.Principal) error {
			if who.SignedIn.IsZero() {
				return fault.New(fault.CodeReauthenticate, "5m")
			}
			return nil
		},
	})
	must(t, err)
	s.now = c.now
	must(t, s.Load(t.Context()))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func start() *clock { return &clock{time.Now().Truncate(time.Microsecond).UTC()} }

// people are accounts that have nothing to do with each other, but for the last one, which the first has created.
func people(t *testing.T, db *gorm.DB) (asker, officer, creature identity.Principal) {
	t.Helper()
	who := func(id, by string) identity.Principal {
		must(t, db.Exec("INSERT INTO identity_users (id, tenant, name, password_hash, roles, labels, epoch, disabled_at, created_at, created_by) VALUES (?, 'acme', ?, '', '[]', '[]', 0, 0, 0, ?)", id, id, by).Error)
		return identity.Principal{Tenant: "acme", Kind: "user", ID: id, Name: id, SignedIn: time.Now()}
	}
	return who("asker", "x"), who("officer", "y"), who("creature", "asker")
}

func (s *Store) wanted(c *clock) NewAgreement {
	return NewAgreement{
		Tenant: "acme", Recipient: "Example Press", Contact: "legal@example.com", Reference: "C-7", Purpose: "drafts for editors", TextDigest: s.text.Digest,
		Until: c.AddDate(0, 6, 0),
	}
}

// TestLife: an agreement is in force from the approval of a second person, and its first day, until its end or its revocation, on every replica.
func TestLife(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := start()
		s, replica := open(t, db, c), open(t, db, c)
		asker, officer, creature := people(t, db)
		a, err := s.Ask(t.Context(), s.wanted(c), asker)
		must(t, err)
		if a.State(c.now()) != Asked || s.Effective("acme", "p", "k") != "" || !a.End().IsZero() {
			t.Errorf("asked for: %+v", a)
		}
		for what, who := range map[string]identity.Principal{"the asker": asker, "whom the asker has made": creature} {
			_, err = s.Approve(t.Context(), "acme", a.ID, who)
			wantCode(t, what, err, fault.CodeSecondPerson)
		}
		stale := officer
		stale.SignedIn = time.Time{}
		_, err = s.Approve(t.Context(), "acme", a.ID, stale)
		wantCode(t, "signed in long ago", err, fault.CodeReauthenticate)
		_, err = s.Approve(t.Context(), "globex", a.ID, officer)
		wantCode(t, "another tenant", err, fault.CodeNotFound)
		c.Time = c.Add(time.Hour)
		a, err = s.Approve(t.Context(), "acme", a.ID, officer)
		must(t, err)
		if a.State(c.now()) != Active || !a.Approved.Equal(c.Time) || a.ApprovedBy != "officer" || s.Effective("acme", "p", "k") != a.ID || s.Effective("globex", "", "") != "" {
			t.Errorf("approved: %+v", a)
		}
		_, err = s.Approve(t.Context(), "acme", a.ID, officer)
		wantCode(t, "approved twice", err, fault.CodeConflict)
		if replica.Effective("acme", "", "") != "" {
			t.Error("a replica knows without asking")
		}
		must(t, replica.known.Refresh(t.Context()))
		if replica.Effective("acme", "", "") != a.ID {
			t.Error("a replica does not hear of it")
		}
		_, err = s.Revoke(t.Context(), "acme", a.ID, " ", officer)
		wantCode(t, "without a reason", err, fault.CodeMissing)
		if _, err = s.Revoke(t.Context(), "acme", a.ID, "the purpose has changed", asker); err != nil {
			t.Fatal(err)
		}
		if s.Effective("acme", "p", "k") != "" {
			t.Error("revoked, and in force")
		}
		must(t, replica.known.Refresh(t.Context()))
		if replica.Effective("acme", "", "") != "" {
			t.Error("a replica does not hear of the revocation")
		}
		_, err = s.Revoke(t.Context(), "acme", a.ID, "again", officer)
		wantCode(t, "revoked twice", err, fault.CodeConflict)
		got, err := replica.Get(t.Context(), "acme", a.ID)
		must(t, err)
		if got.State(c.now()) != Revoked || got.Reason != "the purpose has changed" || got.Text != s.text.Body || got.Recipient != "Example Press" || got.AskedName != "asker" || !got.End().Equal(c.Time) {
			t.Errorf("the record says %+v", got)
		}
		next, err := s.Ask(t.Context(), s.wanted(c), asker)
		must(t, err)
		got.Text, next.Text = "", ""
		for offset, want := range []Agreement{next, got} {
			if all, err := s.List(t.Context(), "acme", offset, 1); err != nil || len(all) != 1 || all[0] != want {
				t.Errorf("from %d: %+v, %v", offset, all, err)
			}
		}
	})
}

// TestStates: each moment of an agreement has its state, and only one of them lets answers out without a visible label.
func TestStates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := start()
		s := open(t, db, c)
		asker, officer, _ := people(t, db)
		make := func(from time.Duration) Agreement {
			in := s.wanted(c)
			in.From, in.Until = c.Add(from), c.Add(from+24*time.Hour)
			a, err := s.Ask(t.Context(), in, asker)
			must(t, err)
			return a
		}
		lapses, declined, coming := make(0), make(0), make(time.Hour)
		_, err := s.Revoke(t.Context(), "acme", declined.ID, "no", officer)
		must(t, err)
		_, err = s.Approve(t.Context(), "acme", declined.ID, officer)
		wantCode(t, "declined", err, fault.CodeConflict)
		_, err = s.Approve(t.Context(), "acme", coming.ID, officer)
		must(t, err)
		states := func(want ...State) {
			t.Helper()
			for i, id := range []string{lapses.ID, declined.ID, coming.ID} {
				a, err := s.Get(t.Context(), "acme", id)
				must(t, err)
				if got := a.State(c.now()); got != want[i] {
					t.Errorf("%d is %s, want %s", i, got, want[i])
				}
				if got := s.Effective("acme", "", "") == id; got != (want[i] == Active) {
					t.Errorf("%d, %s: in force %t", i, want[i], got)
				}
			}
		}
		states(Asked, Declined, Coming)
		c.Time = c.Add(time.Hour)
		must(t, s.Load(t.Context()))
		states(Asked, Declined, Active)
		c.Time = c.Add(24*time.Hour - time.Microsecond)
		must(t, s.Load(t.Context()))
		states(Lapsed, Declined, Active)
		c.Time = c.Add(time.Microsecond) // the snapshot does not have to be read again
		states(Lapsed, Declined, Ended)
		_, err = s.Approve(t.Context(), "acme", lapses.ID, officer)
		wantCode(t, "lapsed", err, fault.CodeConflict)
		_, err = s.Revoke(t.Context(), "acme", coming.ID, "late", officer)
		wantCode(t, "ended", err, fault.CodeConflict)
	})
}

// TestWhomItIsFor: an agreement binds its project and its key alone, and the narrowest is named.
func TestWhomItIsFor(t *testing.T) {
	t.Parallel()
	c := start()
	db := dbtest.SQLite(t)
	s := open(t, db, c)
	asker, officer, _ := people(t, db)
	approved := func(project, key string) string {
		in := s.wanted(c)
		in.Project, in.Key = project, key
		a, err := s.Ask(t.Context(), in, asker)
		must(t, err)
		_, err = s.Approve(t.Context(), "acme", a.ID, officer)
		must(t, err)
		return a.ID
	}
	ofKey, ofProject, ofBoth := approved("", "k1"), approved("p1", ""), approved("p2", "k2")
	check := func(project, key, want string) {
		t.Helper()
		if got := s.Effective("acme", project, key); got != want {
			t.Errorf("%s/%s: %q, want %q", project, key, got, want)
		}
	}
	check("", "k1", ofKey)
	check("p1", "k1", ofKey)
	check("p1", "k9", ofProject)
	check("p2", "k2", ofBoth)
	check("p2", "", "")
	check("p9", "k2", "")
	check("", "", "")
	all := approved("", "")
	check("", "", all)
	check("p1", "", ofProject)
	check("", "k1", ofKey)
}

// TestWhatIsAskedFor: the recipient, the purpose, an end within two years, and the text in use have to be said.
func TestWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := start()
	db := dbtest.SQLite(t)
	s := open(t, db, c)
	asker, _, _ := people(t, db)
	for name, x := range map[string]struct {
		change func(in *NewAgreement)
		code   fault.Code
	}{
		"no recipient":    {func(in *NewAgreement) { in.Recipient = "" }, fault.CodeMissing},
		"no contact":      {func(in *NewAgreement) { in.Contact = "" }, fault.CodeMissing},
		"no purpose":      {func(in *NewAgreement) { in.Purpose = " " }, fault.CodeMissing},
		"no text":         {func(in *NewAgreement) { in.TextDigest = "" }, fault.CodeMissing},
		"another text":    {func(in *NewAgreement) { in.TextDigest = strings.Repeat("0", 64) }, fault.CodeConflict},
		"a line feed":     {func(in *NewAgreement) { in.Reference = "a\nb" }, fault.CodeInvalidValue},
		"over":            {func(in *NewAgreement) { in.Until = c.Time }, fault.CodeInvalidValue},
		"before it began": {func(in *NewAgreement) { in.From = in.Until }, fault.CodeInvalidValue},
		"too short":       {func(in *NewAgreement) { in.From, in.Until = c.Add(time.Hour), c.Add(25*time.Hour-1) }, fault.CodeInvalidValue},
		"too long":        {func(in *NewAgreement) { in.Until = c.AddDate(0, 0, MaxDays).Add(1) }, fault.CodeInvalidValue},
		"no tenant":       {func(in *NewAgreement) { in.Tenant = "nobody" }, fault.CodeNotFound},
		"no project":      {func(in *NewAgreement) { in.Project = "nothing" }, fault.CodeNotFound},
		"no key":          {func(in *NewAgreement) { in.Key = "none" }, fault.CodeNotFound},
	} {
		in := s.wanted(c)
		x.change(&in)
		_, err := s.Ask(t.Context(), in, asker)
		wantCode(t, name, err, x.code)
	}
	for _, kind := range []string{"service", "key"} {
		program := asker
		program.Kind = kind
		_, err := s.Ask(t.Context(), s.wanted(c), program)
		wantCode(t, "a "+kind+" asks", err, fault.CodeNeedsPerson)
		_, err = s.Approve(t.Context(), "acme", "x", program)
		wantCode(t, "a "+kind+" approves", err, fault.CodeNeedsPerson)
	}
	in := s.wanted(c)
	in.From, in.Until = c.AddDate(-1, 0, 0), c.AddDate(0, 0, MaxDays)
	if a, err := s.Ask(t.Context(), in, asker); err != nil || !a.From.Equal(c.Time) {
		t.Errorf("an agreement of two years begins now: %+v, %v", a, err)
	}
}

// TestWhenNobodyCanTell: before the first load, and once the database was away for too long, nothing is in force.
func TestWhenNobodyCanTell(t *testing.T) {
	t.Parallel()
	c := start()
	db := dbtest.SQLite(t)
	var faults dbtest.Faults
	s := open(t, faults.Over(db), c)
	asker, officer, _ := people(t, db)
	a, err := s.Ask(t.Context(), s.wanted(c), asker)
	must(t, err)
	_, err = s.Approve(t.Context(), "acme", a.ID, officer)
	must(t, err)
	fresh, err := New(s.cfg)
	must(t, err)
	if fresh.Effective("acme", "", "") != "" {
		t.Error("in force before anything is known")
	}
	faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
	c.Time = c.Add(time.Minute)
	if s.known.Refresh(t.Context()) == nil || s.Effective("acme", "", "") != a.ID {
		t.Error("an outage of a minute ends an agreement")
	}
	c.Time = c.Add(time.Second)
	if s.Effective("acme", "", "") != "" {
		t.Error("in force, though nobody can tell")
	}
	faults.Set(nil)
	must(t, s.known.Refresh(t.Context()))
	if s.Effective("acme", "", "") != a.ID {
		t.Error("the database is back")
	}
}

// TestWhenTheDatabaseFails: whatever write fails, or seems to, an agreement is in force only once it is stored as approved, and never after it is stored as revoked.
func TestWhenTheDatabaseFails(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := start()
		plain := open(t, db, c)
		asker, officer, _ := people(t, db)
		var faults dbtest.Faults
		asked := func() string {
			a, err := plain.Ask(t.Context(), plain.wanted(c), asker)
			must(t, err)
			return a.ID
		}
		// again takes the answer of an act that was done before its answer was lost.
		again := func(err error) error {
			if fault.Is(err, fault.CodeConflict) {
				return nil
			}
			return err
		}
		for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for name, act := range map[string]func(s *Store, id string) error{
				"ask": func(s *Store, _ string) error {
					_, err := s.Ask(t.Context(), s.wanted(c), asker)
					return err
				},
				"approve": func(s *Store, id string) error {
					_, err := s.Approve(t.Context(), "acme", id, officer)
					return again(err)
				},
				"revoke": func(s *Store, id string) error {
					if _, err := plain.Approve(t.Context(), "acme", id, officer); again(err) != nil {
						return err
					}
					_, err := s.Revoke(t.Context(), "acme", id, "over", officer)
					return again(err)
				},
			} {
				id := asked()
				s := open(t, db, c)
				s.cfg.DB = faults.Over(db)
				faults.Each(t, how, func() error {
					err := act(s, id)
					faults.Set(nil)
					stored, gerr := plain.Get(t.Context(), "acme", id)
					must(t, gerr)
					must(t, s.Load(t.Context()))
					if in := s.Effective("acme", "", "") == id; in != (stored.State(c.now()) == Active) {
						t.Errorf("%s: stored as %s, in force %t", name, stored.State(c.now()), in)
					}
					return err
				})
				if a, err := plain.Get(t.Context(), "acme", id); err != nil || a.State(c.now()) != map[string]State{"ask": Asked, "approve": Active, "revoke": Revoked}[name] {
					t.Errorf("%s: %+v, %v", name, a, err)
				}
				if _, err := plain.Revoke(t.Context(), "acme", id, "next", asker); again(err) != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestDoneThoughNotRead: what is stored is done, also where the reading behind it fails or the caller has hung up; the poll repeats the reading.
func TestDoneThoughNotRead(t *testing.T) {
	t.Parallel()
	c := start()
	db := dbtest.SQLite(t)
	var faults dbtest.Faults
	s := open(t, faults.Over(db), c)
	asker, officer, _ := people(t, db)
	stored := false
	faults.Set(func(op string) dbtest.Outcome {
		if stored && op != "begin" {
			return dbtest.FailsBefore
		}
		stored = op == "commit"
		return dbtest.Healthy
	})
	a, err := s.Ask(t.Context(), s.wanted(c), asker)
	must(t, err)
	stored = false
	a, err = s.Approve(t.Context(), "acme", a.ID, officer)
	must(t, err)
	if a.State(c.now()) != Active || s.Effective("acme", "", "") != "" {
		t.Errorf("%+v", a)
	}
	faults.Set(nil)
	must(t, s.known.Refresh(t.Context()))
	if s.Effective("acme", "", "") != a.ID {
		t.Error("the poll does not read it")
	}
	gone, hangUp := context.WithCancel(t.Context())
	stored = false
	faults.Set(func(op string) dbtest.Outcome {
		if stored {
			hangUp()
		}
		stored = op == "commit"
		return dbtest.Healthy
	})
	_, err = s.Revoke(gone, "acme", a.ID, "over", officer)
	must(t, err)
	if gone.Err() == nil || s.Effective("acme", "", "") != "" {
		t.Error("revoked, and in force, since the caller has hung up")
	}
}

// TestBetween: the record of a period has what was in force at some time in it, and nothing else.
func TestBetween(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := start()
		s := open(t, db, c)
		asker, officer, _ := people(t, db)
		day := 24 * time.Hour
		begin := c.Time
		make := func(until time.Duration) string {
			in := s.wanted(c)
			in.Until = c.Add(until)
			a, err := s.Ask(t.Context(), in, asker)
			must(t, err)
			return a.ID
		}
		approve := func(id string) {
			_, err := s.Approve(t.Context(), "acme", id, officer)
			must(t, err)
		}
		make(100 * day) // that nobody approves
		never := s.wanted(c)
		never.From = c.Add(50 * day)
		coming, err := s.Ask(t.Context(), never, asker)
		must(t, err)
		short, revoked, late := make(10*day), make(100*day), make(100*day)
		approve(short)
		approve(revoked)
		approve(coming.ID)
		_, err = s.Revoke(t.Context(), "acme", coming.ID, "before its first day", officer)
		must(t, err)
		c.Time = begin.Add(20 * day)
		_, err = s.Revoke(t.Context(), "acme", revoked, "over", officer)
		must(t, err)
		c.Time = begin.Add(30 * day)
		approve(late)
		for _, x := range []struct {
			from, to time.Duration
			want     []string
		}{
			{0, 10 * day, []string{short, revoked}},
			{10 * day, 20 * day, []string{revoked}},
			{20 * day, 30 * day, nil},
			{20 * day, 40 * day, []string{late}},
			{-day, 200 * day, []string{short, revoked, late}},
			{100 * day, 200 * day, nil},
		} {
			all, err := s.Between(t.Context(), "acme", begin.Add(x.from), begin.Add(x.to))
			must(t, err)
			var got []string
			for _, a := range all {
				got = append(got, a.ID)
			}
			if slices.Sort(got); !slices.Equal(got, sorted(x.want)) {
				t.Errorf("from %s to %s: %v, want %v", x.from, x.to, got, x.want)
			}
		}
		must(t, db.Exec("INSERT INTO label_agreements SELECT id || '-' || n, tenant, project, key_id, recipient, contact, reference, purpose, text, digest, valid_from, valid_until, asked_at, asked_by, asked_name, approved_at, approved_by, approved_name, revoked_at, revoked_by, revoked_name, revoke_reason FROM label_agreements, (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?) SELECT n FROM c) AS many WHERE id = ?", MaxBetween, late).Error)
		_, err = s.Between(t.Context(), "acme", begin.Add(-day), begin.Add(200*day))
		wantCode(t, "too many for a record", err, fault.CodeInvalidValue)
		if all, err := s.Between(t.Context(), "globex", begin.Add(-day), begin.Add(day)); err != nil || len(all) > 0 {
			t.Errorf("of another tenant: %v, %v", all, err)
		}
	})
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// TestText: the responsibilities are those that come with the program, or those of a file, which has to be a text.
func TestText(t *testing.T) {
	t.Parallel()
	c := start()
	db := dbtest.SQLite(t)
	builtIn := open(t, db, c).Text()
	for _, duty := range []string{"第九条", "自提供之日起保存不少于六个月", "协议结束后保存不少于六个月", "Article 9", "the logs for at least six months from when content was provided", "at least six months after the agreement has ended"} {
		if !strings.Contains(builtIn.Body, duty) {
			t.Errorf("%s is missing", duty)
		}
	}
	path := filepath.Join(t.TempDir(), "text.txt")
	read := func(content string) (Text, error) {
		must(t, os.WriteFile(path, []byte(content), 0o600))
		s, err := New(Config{DB: db, TextFile: path, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return Text{}, err
		}
		return s.Text(), nil
	}
	if own, err := read("\ufeffown duties\r\n"); err != nil || own.Body != "own duties\n" || own.Digest == builtIn.Digest || len(own.Digest) != 64 {
		t.Errorf("%+v, %v", own, err)
	}
	for _, wrong := range []string{"", " \n", "\xff", "a\x00", strings.Repeat("x", maxText+1)} {
		if _, err := read(wrong); err == nil {
			t.Errorf("%.20q is taken", wrong)
		}
	}
	if _, err := New(Config{DB: db, TextFile: path + ".none", Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
