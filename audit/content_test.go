package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

var (
	alice = Subject(testKeys(), "demo", "alice")
	bob   = Subject(testKeys(), "demo", "bob")
)

// canary is a text that no disk may hold in clear.
func canary(n int) string { return fmt.Sprintf("canary-%d-the-merger-closes-on-friday", n) }

// say appends a record with a prompt and an answer that are kept.
func say(t testing.TB, l *Log, n int, subject string) Receipt {
	t.Helper()
	r, err := l.AppendWith(t.Context(), recordtest.Sample(n), subject, Text{"request", "masked", canary(n)}, Text{"answer", "masked", canary(n) + "!"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func texts(t testing.TB, l *Log, id string) (out []string) {
	t.Helper()
	kept, err := l.Contents(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kept {
		if k.Erased != (k.Text == "") {
			t.Errorf("%+v", k)
		}
		out = append(out, k.Text)
	}
	return out
}

func said(n int) []string { return []string{canary(n), canary(n) + "!"} }

func TestKeptTextsComeBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		appendN(t, l, 0, 3)
		a, b, c := say(t, l, 10, alice), say(t, l, 11, alice), say(t, l, 12, bob)
		flush(t, l)
		for n, r := range []Receipt{a, b, c} {
			if got := texts(t, l, r.ID); !slices.Equal(got, said(10+n)) {
				t.Errorf("%q", got)
			}
			if _, err := l.Prove(t.Context(), r.ID); err != nil {
				t.Error(err)
			}
		}
		if k := count(t, db, "audit_subject_keys"); k != 2 {
			t.Errorf("%d keys for two subjects", k)
		}
		if got := texts(t, l, mustAppend(t, l, "nothing kept")); len(got) != 0 {
			t.Errorf("%q", got)
		}
		mustVerify(t, l, db)
	})
}

func mustAppend(t testing.TB, l *Log, request string) string {
	t.Helper()
	e := recordtest.Sample(99)
	e.Request, e.Contents = request, []Content{{Direction: "answer", Digest: "made up"}}
	r, err := l.Append(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	flush(t, l)
	return r.ID
}

// TestWhatIsRefused lists texts that cannot be kept: better no answer than a text that cannot be erased.
func TestWhatIsRefused(t *testing.T) {
	l := openTest(t, testConfig(t.TempDir()), dbtest.SQLite(t), nil, durable.OS{})
	for name, try := range map[string]func() (Receipt, error){
		"nobody's": func() (Receipt, error) {
			return l.AppendWith(t.Context(), of("demo", 1), "", Text{"request", "clear", "x"})
		},
		"another direction": func() (Receipt, error) {
			return l.AppendWith(t.Context(), of("demo", 1), alice, Text{"passage", "clear", "x"})
		},
		"twice": func() (Receipt, error) {
			return l.AppendWith(t.Context(), of("demo", 1), alice, Text{"answer", "clear", "x"}, Text{"answer", "masked", "y"})
		},
	} {
		if r, err := try(); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, err := l.AppendWith(t.Context(), of("demo", 1), "", Text{"request", "clear", ""}); err != nil {
		t.Errorf("an empty text: %v", err)
	}
}

// TestLongTexts keeps texts far longer than what is shipped at once, and cuts one that is too long between two runes.
func TestLongTexts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		cfg := testConfig(t.TempDir())
		cfg.MaxContentBytes = 5 << 20
		l := openTest(t, cfg, db, nil, durable.OS{})
		long := strings.Repeat("长", 1<<20)
		var ids []string
		for n, texts := range [][]Text{{{"request", "masked", long}, {"answer", "clear", long + "end"}}, {{"answer", "clear", long + long}}, {{"request", "clear", "short"}}} {
			r, err := l.AppendWith(t.Context(), recordtest.Sample(n), alice, texts...)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		flush(t, l)
		if got := texts(t, l, ids[0]); got[0] != long || got[1] != long+"end" {
			t.Errorf("%d and %d bytes came back", len(got[0]), len(got[1]))
		}
		kept, err := l.Contents(t.Context(), ids[1])
		if err != nil || kept[0].Form != "clear-cut" || kept[0].Text != (long + long)[:(5<<20)-2] { // the limit lies inside a rune of three bytes
			t.Errorf("%s, %d bytes, %v", kept[0].Form, len(kept[0].Text), err)
		}
		mustVerify(t, l, db)
	})
}

// TestCutText cuts a masked text everywhere: no part of a pseudonym stays.
func TestCutText(t *testing.T) {
	const text = "长 ⟦手机·K7Q2F⟧ 短 ⟦姓名·ABCDE⟧"
	for n := range len(text) {
		got := cutText(text, n)
		if !strings.HasPrefix(text, got) || strings.Count(got, "⟦") != strings.Count(got, "⟧") || len(got) < n-len("⟦手机·K7Q2F⟧") {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
}

// TestKeptAfterFailedWrites appends while the disk fails in every way: what was acknowledged is readable, whatever the failed commit left.
func TestKeptAfterFailedWrites(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "syncdir"} {
		for _, m := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter, durabletest.FailsShort, durabletest.FailsHalf} {
			t.Run(fmt.Sprintf("%s %d", op, m), func(t *testing.T) {
				t.Parallel()
				db, disk, cfg := dbtest.SQLite(t), &durabletest.Files{}, testConfig(t.TempDir())
				l := openTest(t, cfg, db, nil, disk)
				acked := map[string]int{}
				for n := range 12 {
					failing := n%3 == 1
					disk.Set(func(o string) durabletest.Mode {
						if failing && o == op {
							return m
						}
						return durabletest.Healthy
					})
					r, err := l.AppendWith(t.Context(), recordtest.Sample(n), alice, Text{"request", "masked", canary(n)}, Text{"answer", "masked", canary(n) + "!"})
					if err == nil {
						acked[r.ID] = n
					}
				}
				disk.Set(nil)
				must(t, l.Close())
				l = openTest(t, cfg, db, nil, disk)
				flush(t, l)
				mustVerify(t, l, db)
				for id, n := range acked {
					if got := texts(t, l, id); !slices.Equal(got, said(n)) {
						t.Errorf("record %d: %q", n, got)
					}
				}
				if len(acked) < 8 {
					t.Errorf("only %d were acknowledged", len(acked))
				}
			})
		}
	}
}

// TestKeptInTheSpool reads what only the second directory took: its record has another id, to which the ciphertext is bound.
func TestKeptInTheSpool(t *testing.T) {
	db := dbtest.SQLite(t)
	l, first, _ := openDevices(t, db, func(*Config) {})
	first.Set(always(durabletest.FailsAfter))
	e := of("spool", 1)
	r, err := l.AppendWith(t.Context(), e, alice, Text{"request", "masked", canary(1)})
	if err != nil {
		t.Fatal(err)
	}
	first.Set(nil)
	say(t, l, 2, alice)
	flush(t, l)
	if got := texts(t, l, r.ID); !slices.Equal(got, []string{canary(1)}) {
		t.Errorf("%q", got)
	}
	rep, err := verify.Run(t.Context(), verify.Source{Dir: l.cfg.Dir, SpoolDir: l.cfg.SpoolDir, DB: db, VerifierKey: l.VerifierKey()}, nil)
	if err != nil || !rep.OK {
		t.Errorf("%+v %v", rep, err)
	}
}

// TestShippingKeptTextsAgain delivers the same records twice and after a sink failed: keys and texts are there once.
func TestShippingKeptTextsAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		failing := true
		l := openTest(t, testConfig(t.TempDir()), db, func(*gorm.DB, []Event) error {
			if failing {
				return durabletest.ErrInjected
			}
			return nil
		}, durable.OS{})
		for n := range 5 {
			say(t, l, n, alice)
		}
		if err := l.Flush(t.Context()); !errors.Is(err, durabletest.ErrInjected) || count(t, db, "audit_contents")+count(t, db, "audit_subject_keys") != 0 {
			t.Errorf("a failed transaction left something: %v", err)
		}
		failing = false
		seg := l.wal.Segments()[0]
		frames, _, err := seg.Read(&wal.Room{})
		must(t, err)
		for range 2 {
			if _, err := l.store.Ship(t.Context(), seg.Writer, frames); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, l)
		if k, c := count(t, db, "audit_subject_keys"), count(t, db, "audit_contents"); k != 1 || c != 10 {
			t.Errorf("%d keys, %d texts", k, c)
		}
		forged := frames[0]
		forged.Seq += 100
		forged.Attached = forged.Attached[:2]
		if _, err := l.store.Ship(t.Context(), seg.Writer, []wal.Record{forged}); err == nil {
			t.Error("a record was shipped without all that it keeps")
		}
		mustVerify(t, l, db)
	})
}

// TestKeptWhileErasing appends on two replicas while subjects are erased again and again: nothing gets stuck, every text is readable or
// erased, and after a last erasure no key of the subject is left anywhere.
func TestKeptWhileErasing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var loops, work sync.WaitGroup
		var logs []*Log
		for range 2 {
			l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
			l.cfg.ShipEvery, l.cfg.CheckpointEvery = time.Millisecond, time.Millisecond
			logs = append(logs, l)
			loops.Go(func() { _ = l.Run(ctx) })
		}
		var mu sync.Mutex
		ids := map[string]int{}
		for i := range 4 {
			work.Go(func() {
				for n := range 25 {
					r := say(t, logs[i%2], 100*i+n, []string{alice, bob}[n%2])
					mu.Lock()
					ids[r.ID] = 100*i + n
					mu.Unlock()
				}
			})
		}
		for i := range 3 {
			if _, err := logs[i%2].Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: Actor{Kind: "user", ID: "u"}}); err != nil {
				t.Error(err)
			}
		}
		work.Wait()
		if _, err := logs[0].Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: Actor{Kind: "user", ID: "u"}}); err != nil {
			t.Error(err)
		}
		flush(t, logs[1])
		cancel()
		loops.Wait()
		mustVerify(t, logs[1], db)
		mustVerify(t, logs[0], db)
		for id, n := range ids {
			got := texts(t, logs[0], id)
			if n%2 == 1 && !slices.Equal(got, said(n)) || n%2 == 0 && !slices.Equal(got, []string{"", ""}) {
				t.Errorf("record %d: %q", n, got)
			}
		}
	})
}

func TestHeldKeysAreBounded(t *testing.T) {
	c, err := newContents(testKeys(), content.Intl, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for n := range maxHeldKeys + 10 {
		if _, err := c.key(owner{"t", fmt.Sprint(n)}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.held) != 10 {
		t.Errorf("%d keys are held", len(c.held))
	}
}
