package siem

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/audittest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// filled opens a log with n sealed records.
func filled(t *testing.T, db *gorm.DB, n int) *audittest.Log {
	t.Helper()
	l := audittest.Open(t, db, nil)
	l.Append(0, n)
	l.Flush()
	return l
}

// exporter returns one with short pauses that sends to the destination.
func exporter(t *testing.T, db *gorm.DB, c Config) (*Exporter, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	c.History = true
	x, err := New([]Config{c}, db, t.Name(), "1.2.3", slog.New(slog.NewTextHandler(&locked{w: log}, nil)), prometheus.NewRegistry())
	must(t, err)
	x.every = 5 * time.Millisecond
	for _, d := range x.destinations {
		d.poll, d.pause = time.Millisecond, time.Millisecond
	}
	return x, log
}

type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.String()
}

// state reads how the only destination is doing.
func state(t *testing.T, x *Exporter) State {
	t.Helper()
	s, err := States(t.Context(), x.db, []Config{x.destinations[0].cfg})
	must(t, err)
	return s[0]
}

// sendAll passes until everything is confirmed.
func sendAll(t *testing.T, x *Exporter) {
	t.Helper()
	d := x.destinations[0]
	for range 200 {
		n, err := d.pass(t.Context())
		if err != nil {
			d.fail(t.Context(), err)
			continue
		}
		if n == 0 {
			return
		}
	}
	t.Fatalf("200 passes do not get to the end: %+v", state(t, x))
}

// complete fails the test unless every place from 0 to n came at least once, and none before the one in front of it.
func complete(t *testing.T, got []int64, n int64) {
	t.Helper()
	next := int64(0)
	for _, p := range got {
		if p > next {
			t.Fatalf("place %d came before place %d: %v", p, next, got)
		}
		next = max(next, p+1)
	}
	if next != n {
		t.Fatalf("the first %d of %d records came", next, n)
	}
}

// TestAllInOrder: everything that is sealed leaves once, in the order of the log, in batches, over TLS with certificates on both sides.
func TestAllInOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := filled(t, db, 700)
		a := newAuthority(t)
		cert, key := a.issue("siem.example", time.Now().Add(time.Hour))
		mine, minekey := a.issue("sluice.example", time.Now().Add(time.Hour))
		r := listen(t, cert, key, a.ca)
		x, _ := exporter(t, db, Config{Name: "soc", Address: r.address(), CAFile: a.ca, ServerName: "siem.example", CertFile: mine, KeyFile: minekey})
		if s := state(t, x); s.Next != 0 || s.Behind != 700 || s.Oldest.IsZero() || !s.Confirmed.IsZero() {
			t.Errorf("before the first batch %+v", s)
		}
		sendAll(t, x)
		if got := places(t, r.seen()); len(got) != 700 || !slices.IsSorted(got) {
			t.Fatalf("%d messages, in order %v", len(got), slices.IsSorted(got))
		}
		if r.whole != 2 {
			t.Errorf("%d connections for 700 records", r.whole)
		}
		if s := state(t, x); s.Next != 700 || s.Behind != 0 || !s.Oldest.IsZero() || s.Confirmed.IsZero() || s.Failure != "" || s.Skipped != 0 {
			t.Errorf("at the end %+v", s)
		}
		l.Append(700, 3)
		if n, err := x.destinations[0].pass(t.Context()); n != 0 || err != nil {
			t.Errorf("what is not sealed went: %d, %v", n, err)
		}
		l.Flush()
		sendAll(t, x)
		complete(t, places(t, r.seen()), 703)
		if got := testutil.ToFloat64(x.destinations[0].metrics.sent.WithLabelValues("soc")); got != 703 {
			t.Errorf("%v are counted as sent", got)
		}
	})
}

// TestNewDestinationsBeginNow: without history a destination gets what is sealed after its first look, and no other destination's place.
func TestNewDestinationsBeginNow(t *testing.T) {
	db := dbtest.SQLite(t)
	l := filled(t, db, 5)
	r := listen(t, "", "", "")
	x, _ := exporter(t, db, Config{Name: "soc", Address: r.address()})
	x.destinations[0].cfg.History = false
	sendAll(t, x)
	l.Append(5, 2)
	l.Flush()
	sendAll(t, x)
	if got := places(t, r.seen()); !slices.Equal(got, []int64{5, 6}) {
		t.Errorf("places %v", got)
	}
	if s := state(t, x); s.Next != 7 {
		t.Errorf("%+v", s)
	}
}

// TestCutConnections: whatever becomes of connections, a batch that was not read to its end is not confirmed and comes again, and none is left
// out.
func TestCutConnections(t *testing.T) {
	const records = 40
	db := dbtest.SQLite(t)
	filled(t, db, records)
	a := newAuthority(t)
	cert, key := a.issue("127.0.0.1", time.Now().Add(time.Hour))
	for _, secure := range []bool{true, false} {
		for i, m := range []mood{
			{"refused", 0, refuses},
			{"nothing read, reset", 0, resets},
			{"nothing read, closed", 0, closes},
			{"half read, reset", records / 2, resets},
			{"half read, closed", records / 2, closes},
			{"a quarter read, closed", records / 4, closes},
			{"all read, but died before the end", -1, resets},
			{"half read, then hangs", records / 2, stays},
			{"talks", -1, talks},
		} {
			name := "tcp, "
			if secure {
				name = "tls, "
			}
			t.Run(name+m.name, func(t *testing.T) {
				r := listen(t, "", "", "")
				if secure {
					r = listen(t, cert, key, "")
				}
				r.then(m)
				x, _ := exporter(t, db, Config{Name: fmt.Sprintf("%s-%d", name[:3], i), Address: r.address(), CAFile: a.ca})
				x.destinations[0].timeout = 300 * time.Millisecond
				n, err := x.destinations[0].pass(t.Context())
				if err == nil || n != 0 {
					t.Fatalf("the batch counts as confirmed: %d, %v", n, err)
				}
				x.destinations[0].fail(t.Context(), err)
				if s := state(t, x); s.Next != 0 || s.Failure == "" || s.FailedSince.IsZero() || x.Ready() == nil {
					t.Errorf("after the cut %+v, ready: %v", s, x.Ready())
				}
				x.destinations[0].timeout = 30 * time.Second
				sendAll(t, x)
				complete(t, places(t, r.seen()), records)
				if s := state(t, x); s.Next != records || s.Failure != "" || !s.FailedSince.IsZero() || x.Ready() != nil {
					t.Errorf("at the end %+v, ready: %v", s, x.Ready())
				}
			})
		}
	}
}

// TestSlowReceivers: a receiver that reads few records before it is too slow gets fewer at a time, until it confirms them.
func TestSlowReceivers(t *testing.T) {
	const records = 60
	db := dbtest.SQLite(t)
	filled(t, db, records)
	r := listen(t, "", "", "")
	r.then(slices.Repeat([]mood{{"slow", 9, stays}}, 500)...)
	x, _ := exporter(t, db, Config{Name: "soc", Address: r.address()})
	x.destinations[0].timeout = 50 * time.Millisecond
	// The ninth frame is the last that it reads: with fewer it sees the end and closes.
	sendAll(t, x)
	complete(t, places(t, r.seen()), records)
}

// TestForeignCertificates: nothing is sent to a receiver whose certificate does not prove that it is the one.
func TestForeignCertificates(t *testing.T) {
	db := dbtest.SQLite(t)
	filled(t, db, 3)
	a, other := newAuthority(t), newAuthority(t)
	good, goodKey := a.issue("siem.example", time.Now().Add(time.Hour))
	for name, tc := range map[string]struct {
		certificate func() (string, string)
		change      func(c *Config)
		clients     string
		want        string
	}{
		"of another authority": {func() (string, string) { return other.issue("siem.example", time.Now().Add(time.Hour)) }, nil, "", "unknown authority"},
		"of another name":      {func() (string, string) { return a.issue("elsewhere.example", time.Now().Add(time.Hour)) }, nil, "", "elsewhere.example"},
		"expired":              {func() (string, string) { return a.issue("siem.example", time.Now().Add(-time.Hour)) }, nil, "", "expired"},
		"none of ours":         {func() (string, string) { return good, goodKey }, nil, a.ca, "certificate"},
		"no authority":         {func() (string, string) { return good, goodKey }, func(c *Config) { c.CAFile = goodKey }, "", "holds no certificate"},
		"no file":              {func() (string, string) { return good, goodKey }, func(c *Config) { c.CAFile += ".not" }, "", "ca_file"},
		"of the system":        {func() (string, string) { return good, goodKey }, func(c *Config) { c.CAFile = "" }, "", "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			cert, key := tc.certificate()
			r := listen(t, cert, key, tc.clients)
			c := Config{Name: "soc", Address: r.address(), CAFile: a.ca, ServerName: "siem.example"}
			if tc.change != nil {
				tc.change(&c)
			}
			x, _ := exporter(t, db, c)
			n, err := x.destinations[0].pass(t.Context())
			if err == nil || n != 0 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%d, %v; want %q", n, err, tc.want)
			}
			if got := r.seen(); len(got) != 0 {
				t.Errorf("%d messages went there", len(got))
			}
			if s := state(t, x); s.Next != 0 {
				t.Errorf("the cursor moved: %+v", s)
			}
		})
	}
	plain := listen(t, "", "", "")
	x, _ := exporter(t, db, Config{Name: "soc", Address: strings.Replace(plain.address(), "tcp:", "tls:", 1), CAFile: a.ca, Timeout: time.Second})
	if _, err := x.destinations[0].pass(t.Context()); err == nil || len(plain.seen()) != 0 {
		t.Errorf("a receiver without TLS: %v, %d messages", err, len(plain.seen()))
	}
}

// TestDatabaseFaults: whatever the database does to the cursor, nothing is left out, and what it keeps is right at the end.
func TestDatabaseFaults(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		filled(t, db, 12)
		for _, outcome := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for failing := range 16 {
				var faults dbtest.Faults
				r := listen(t, "", "", "")
				x, _ := exporter(t, faults.Over(db), Config{Name: "soc-" + string(rune('a'+int(outcome))) + string(rune('a'+failing)), Address: r.address()})
				x.destinations[0].most = 5
				op := 0
				faults.Set(func(string) dbtest.Outcome {
					op++
					if op == failing+1 {
						return outcome
					}
					return dbtest.Healthy
				})
				sendAll(t, x)
				faults.Set(nil)
				complete(t, places(t, r.seen()), 12)
				if s := state(t, x); s.Next != 12 || s.Behind != 0 || s.Skipped != 0 {
					t.Errorf("operation %d, %v: %+v", failing, outcome, s)
				}
			}
		}
	})
}

// TestReplicas: one replica sends at a time, another goes on where it stopped, and nothing is left out between them.
func TestReplicas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := filled(t, db, 20)
		r := listen(t, "", "", "")
		type replica struct {
			*Exporter
			stop func()
		}
		start := func(name string) replica {
			x, _ := exporter(t, db, Config{Name: "soc", Address: r.address()})
			x.holder = name
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- x.Run(ctx) }()
			stop := sync.OnceFunc(func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
			t.Cleanup(stop)
			return replica{x, stop}
		}
		arrived := func(n int64) {
			t.Helper()
			deadline := time.After(time.Minute)
			for state(t, &Exporter{db: db, destinations: []*destination{{cfg: Config{Name: "soc", History: true}}}}).Next < n {
				select {
				case <-deadline:
					t.Fatalf("place %d is not reached", n)
				case <-time.After(time.Millisecond):
				}
			}
		}
		one := start("one")
		arrived(20)
		two := start("two")
		l.Append(20, 20)
		l.Flush()
		arrived(40)
		one.stop()
		l.Append(40, 20)
		l.Flush()
		arrived(60)
		two.stop()
		complete(t, places(t, r.seen()), 60)
		if got := len(r.seen()); got != 60 {
			t.Errorf("%d messages of 60 records though nothing failed", got)
		}
	})
}

// TestRemovedRecords: what was removed before it could be sent is counted and told, and does not hold up what follows.
func TestRemovedRecords(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		filled(t, db, 10)
		r := listen(t, "", "", "")
		x, log := exporter(t, db, Config{Name: "soc", Address: r.address()})
		d := x.destinations[0]
		d.most = 2
		if n, err := d.pass(t.Context()); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		must(t, db.Exec("INSERT INTO audit_prunings (first_index, until_index, kept, root, oldest, newest, size, archive, digest, record, time, actor) VALUES (0, 5, 0, '', 0, 0, 10, '', '', '', 0, '')").Error)
		must(t, db.Exec("DELETE FROM audit_leaves WHERE idx < 5").Error)
		sendAll(t, x)
		if got := places(t, r.seen()); !slices.Equal(got, []int64{0, 1, 5, 6, 7, 8, 9}) {
			t.Errorf("places %v", got)
		}
		if s := state(t, x); s.Skipped != 3 || s.Next != 10 {
			t.Errorf("%+v", s)
		}
		if !strings.Contains(log.String(), "records were removed before") || testutil.ToFloat64(d.metrics.skipped.WithLabelValues("soc")) != 3 {
			t.Errorf("not told: %s", log)
		}
	})
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		all  []Config
		want []string
	}{
		"good":      {[]Config{{Name: "a", Address: "tls://siem.example:6514"}, {Name: "b", Address: "tcp://[::1]:514", Format: "cef"}, {Name: "c", Address: "tcp://localhost:514"}}, nil},
		"names":     {[]Config{{Address: "tls://h:1"}, {Name: "a", Address: "tls://h:1"}, {Name: "a", Address: "tls://h:1"}}, []string{"siem[0].name", "siem[2].name"}},
		"addresses": {[]Config{{Name: "a", Address: "siem.example:6514"}, {Name: "b", Address: "tls://h"}, {Name: "c", Address: "udp://h:514"}, {Name: "d", Address: "tls://u:p@h:1"}, {Name: "e", Address: "tls://h:1/x"}}, []string{"siem[0].address", "siem[1].address", "siem[2].address", "siem[3].address", "siem[4].address"}},
		"in clear":  {[]Config{{Name: "a", Address: "tcp://siem.example:514"}, {Name: "b", Address: "tcp://10.0.0.1:514"}}, []string{"siem[0].address: must be tls://", "siem[1].address: must be tls://"}},
		"rest":      {[]Config{{Name: "a", Address: "tls://h:1", Format: "leef", CertFile: "x", MessageBytes: 100, Timeout: -1}}, []string{"format", "cert_file", "message_bytes", "timeout"}},
	} {
		err := Validate(tc.all)
		if (err == nil) != (tc.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q", name, err, w)
			}
		}
	}
}
