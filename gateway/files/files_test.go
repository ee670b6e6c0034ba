package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func ring() *keyring.Ring { return keyring.FromBytes(bytes.Repeat([]byte{7}, 32)) }

func store(t *testing.T, db *gorm.DB, l Limits, suite seal.Suite) *Store {
	t.Helper()
	s, err := New(Config{Limits: l, DB: db, Keys: ring(), Suite: suite, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(s *Store, o Owner, f NewFile, content string) (File, error) {
	u, err := s.Begin(context.Background(), o)
	if err != nil {
		return File{}, err
	}
	defer u.Abort(context.Background())
	if _, err := io.Copy(u, strings.NewReader(content)); err != nil {
		return File{}, err
	}
	return u.Commit(f)
}

func mustPut(t *testing.T, s *Store, o Owner, f NewFile, content string) File {
	t.Helper()
	if f.ID == "" {
		f.ID = NewID()
	}
	got, err := put(s, o, f, content)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func content(t *testing.T, s *Store, o Owner, id string) string {
	t.Helper()
	_, r, err := s.Open(t.Context(), o, id)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("%v, want %s", err, code)
	}
}

func count(t *testing.T, db *gorm.DB, table string) (n int64) {
	t.Helper()
	if err := db.Table(table).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

// long is more than two chunks that nothing compresses or repeats.
func long(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, 2*chunkBytes+4321)
	for i := range out {
		out[i] = byte('a' + r.IntN(26))
	}
	return string(out)
}

// TestFiles holds the whole contract on both databases and suites: what was written is read, by its owner and nobody else; a tenant has a content
// once, two tenants share none; nothing stands there in clear.
func TestFiles(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, gm := store(t, db, Limits{}, seal.Intl), store(t, db, Limits{}, seal.GM)
		a, other := Owner{"acme", "p", ""}, Owner{"bank", "", ""}
		text := "canary-" + long(1)
		one := mustPut(t, s, a, NewFile{Name: "secret-name.jsonl", Purpose: PurposeBatch}, text)
		two := mustPut(t, gm, a, NewFile{Name: "again", Purpose: PurposeUserData, Life: time.Hour}, text)
		theirs := mustPut(t, gm, other, NewFile{Name: "theirs", Purpose: PurposeBatch}, text)
		if count(t, db, "file_blobs") != 2 || count(t, db, "file_files") != 3 || count(t, db, "file_chunks") != 6 {
			t.Errorf("%d blobs, %d files, %d chunks", count(t, db, "file_blobs"), count(t, db, "file_files"), count(t, db, "file_chunks"))
		}
		for f, o := range map[File]Owner{one: a, two: a, theirs: other} {
			if got := content(t, s, o, f.ID); got != text {
				t.Errorf("%s has %d bytes of another content", f.Name, len(got))
			}
			if got, err := s.Get(t.Context(), o, f.ID); err != nil || got != f || f.Bytes != int64(len(text)) {
				t.Errorf("%+v, %v, want %+v", got, err, f)
			}
		}
		for _, stranger := range []Owner{other, {"acme", "q", ""}, {"acme", "p", "ada"}, {"acme", "", ""}} {
			_, err := s.Get(t.Context(), stranger, one.ID)
			wantCode(t, err, fault.CodeNotFound)
			_, _, err = s.Open(t.Context(), stranger, one.ID)
			wantCode(t, err, fault.CodeNotFound)
			wantCode(t, s.Delete(t.Context(), stranger, one.ID), fault.CodeNotFound)
			if page, _, err := s.List(t.Context(), stranger, Query{Limit: 10}); err != nil || slices.ContainsFunc(page, func(f File) bool { return f.ID == one.ID }) {
				t.Errorf("%+v is shown %+v, %v", stranger, page, err)
			}
		}
		noText(t, db, "canary-", "secret-name")
		if err := s.Delete(t.Context(), a, one.ID); err != nil {
			t.Fatal(err)
		}
		if got := content(t, s, a, two.ID); got != text {
			t.Error("the content went with the other file that had it")
		}
		if err := s.Delete(t.Context(), a, two.ID); err != nil || count(t, db, "file_blobs") != 1 || count(t, db, "file_chunks") != 3 {
			t.Errorf("%v: %d blobs and %d chunks are left", err, count(t, db, "file_blobs"), count(t, db, "file_chunks"))
		}
	})
}

// noText looks for words in all bytes that are stored.
func noText(t *testing.T, db *gorm.DB, words ...string) {
	t.Helper()
	var raws [][]byte
	for table, column := range map[string]string{"file_chunks": "sealed", "file_files": "name", "file_blobs": "wrapped"} {
		var some [][]byte
		if err := db.Table(table).Pluck(column, &some).Error; err != nil {
			t.Fatal(err)
		}
		raws = append(raws, some...)
	}
	if len(raws) < 6 {
		t.Fatalf("only %d values were looked at", len(raws))
	}
	for _, w := range words {
		if slices.ContainsFunc(raws, func(b []byte) bool { return bytes.Contains(b, []byte(w)) }) {
			t.Errorf("%q stands there in clear", w)
		}
	}
}

// TestPages: every file comes once, in either order, page by page.
func TestPages(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, o := store(t, db, Limits{}, seal.Intl), Owner{Tenant: "acme"}
		now := time.Now()
		s.now = func() time.Time { return now }
		var want []string
		for i := range 7 {
			purpose := []string{PurposeBatch, PurposeUserData}[i%2]
			if i%3 == 0 {
				now = now.Add(time.Millisecond) // some come at the same time
			}
			want = append(want, mustPut(t, s, o, NewFile{Name: fmt.Sprint(i), Purpose: purpose}, fmt.Sprint("text", i)).ID)
		}
		walk := func(q Query) (ids []string) {
			for {
				page, more, err := s.List(t.Context(), o, q)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range page {
					ids = append(ids, f.ID)
				}
				if !more {
					return ids
				}
				q.After = ids[len(ids)-1]
			}
		}
		if got := walk(Query{Limit: 2, Ascending: true}); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		back := slices.Clone(want)
		slices.Reverse(back)
		if got := walk(Query{Limit: 3}); !slices.Equal(got, back) {
			t.Errorf("%v, want %v", got, back)
		}
		if got := walk(Query{Limit: 10, Purpose: PurposeUserData}); len(got) != 3 {
			t.Errorf("%v", got)
		}
		_, _, err := s.List(t.Context(), o, Query{Limit: 1, After: "file-none"})
		wantCode(t, err, fault.CodeNotFound)
	})
}

// TestBounds: each bound refuses by itself, to the byte, also where several upload at once; what was refused takes no room.
func TestBounds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		o := Owner{Tenant: "acme"}
		s := store(t, db, Limits{MaxFileBytes: 100, MaxTenantBytes: 250, MaxTenantFiles: 5}, seal.Intl)
		_, err := put(s, o, NewFile{ID: "a"}, strings.Repeat("a", 101))
		wantCode(t, err, fault.CodeFileTooLarge)
		var wg sync.WaitGroup
		var mu sync.Mutex
		stored := 0
		for i := range 6 {
			wg.Go(func() {
				_, err := put(s, o, NewFile{ID: fmt.Sprint("b", i)}, strings.Repeat(fmt.Sprint(i), 100))
				if err != nil && !fault.Is(err, fault.CodeFilesFull) {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					stored++
				}
			})
		}
		if wg.Wait(); stored != 2 || count(t, db, "file_blobs") != 2 {
			t.Errorf("%d files are there, of %d contents", stored, count(t, db, "file_blobs"))
		}
		mustPut(t, s, o, NewFile{}, strings.Repeat("x", 50))
		mustPut(t, s, o, NewFile{}, "")
		mustPut(t, s, o, NewFile{}, "")
		_, err = put(s, o, NewFile{ID: "z"}, "")
		wantCode(t, err, fault.CodeFilesFull)
		mustPut(t, s, Owner{Tenant: "bank"}, NewFile{}, strings.Repeat("x", 100))
		u, err := s.BeginResult(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(u, strings.Repeat("r", 400)); err != nil {
			t.Errorf("a result was refused: %v", err)
		}
		if _, err := u.Commit(NewFile{ID: "result", Purpose: PurposeOutput}); err != nil {
			t.Errorf("a result was refused: %v", err)
		}
	})
}

// TestAny: content counts for its tenant while it is there, and nobody takes a failure for none.
func TestAny(t *testing.T) {
	db := dbtest.SQLite(t)
	s := store(t, db, Limits{}, seal.Intl)
	has := func(tenant string) bool {
		t.Helper()
		has, err := Any(db, tenant)
		if err != nil {
			t.Fatal(err)
		}
		return has
	}
	if has("acme") {
		t.Error("a file before the first")
	}
	f := mustPut(t, s, Owner{Tenant: "acme", Person: "alice"}, NewFile{}, "text")
	if !has("acme") || has("other") {
		t.Error("the file is not of its tenant alone")
	}
	if err := s.Delete(t.Context(), Owner{Tenant: "acme", Person: "alice"}, f.ID); err != nil || has("acme") {
		t.Errorf("behind the last: %v", err)
	}
	faults := &dbtest.Faults{}
	faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
	if _, err := Any(faults.Over(db), "acme"); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("%v", err)
	}
}

// TestSweep: files go when their time has come and nobody reads them, and contents when they were given up; both are gone for their owner from the
// moment on.
func TestSweep(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, o := store(t, db, Limits{}, seal.Intl), Owner{Tenant: "acme"}
		now := time.Now()
		s.now = func() time.Time { return now }
		short := mustPut(t, s, o, NewFile{Life: time.Hour}, "short")
		held := mustPut(t, s, o, NewFile{Life: time.Hour}, "held")
		stays := mustPut(t, s, o, NewFile{}, "stays")
		if err := db.Transaction(func(tx *gorm.DB) error { _, err := s.Hold(tx, o, held.ID); return err }); err != nil {
			t.Fatal(err)
		}
		u, err := s.Begin(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(u, long(3)); err != nil {
			t.Fatal(err)
		}
		sweep := func(blobs int64) {
			t.Helper()
			if err := s.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := count(t, db, "file_blobs"); n != blobs {
				t.Errorf("%d contents are there, want %d", n, blobs)
			}
		}
		sweep(4)
		now = now.Add(time.Hour)
		_, err = s.Get(t.Context(), o, short.ID)
		wantCode(t, err, fault.CodeNotFound)
		if page, _, err := s.List(t.Context(), o, Query{Limit: 9}); err != nil || len(page) != 2 {
			t.Errorf("%+v, %v", page, err)
		}
		sweep(3)
		now = now.Add(time.Second)
		sweep(2)
		if _, err := u.Commit(NewFile{ID: "late"}); err == nil {
			t.Error("a content that was given up became a file")
		}
		wantCode(t, s.Delete(t.Context(), o, held.ID), fault.CodeConflict)
		if content(t, s, o, held.ID) != "held" || content(t, s, o, stays.ID) != "stays" {
			t.Error("a file that stays has lost its content")
		}
		if err := db.Transaction(func(tx *gorm.DB) error { return s.Release(tx, o, held.ID) }); err != nil {
			t.Fatal(err)
		}
		sweep(1)
	})
}

// TestCommitTwice: whoever does not know whether a commit has succeeded repeats it, and there is one file.
func TestCommitTwice(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, o := store(t, db, Limits{}, seal.Intl), Owner{Tenant: "acme"}
		first := mustPut(t, s, o, NewFile{ID: "file-1", Name: "n"}, "one content")
		if again := mustPut(t, s, o, NewFile{ID: "file-1", Name: "n"}, "one content"); again.Bytes != first.Bytes {
			t.Errorf("%+v", again)
		}
		mustPut(t, s, o, NewFile{ID: "file-1", Name: "n"}, "another content of the same id")
		if content(t, s, o, "file-1") != "one content" || count(t, db, "file_blobs") != 1 {
			t.Error("the second commit has changed the file, or left a content")
		}
		if _, err := put(s, Owner{Tenant: "bank"}, NewFile{ID: "file-1"}, "x"); err == nil {
			t.Error("another tenant has taken the id")
		}
	})
}

// TestWhenTheDatabaseFails: whichever operation fails, before or after it was carried out, a repeated upload or deletion ends as if nothing had been.
func TestWhenTheDatabaseFails(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var f dbtest.Faults
		s, o := store(t, f.Over(db), Limits{}, seal.Intl), Owner{Tenant: "acme"}
		text := strings.Repeat("x", chunkBytes+10)
		for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			f.Each(t, how, func() error { _, err := put(s, o, NewFile{ID: "file-x", Name: "n"}, text); return err })
			if got := content(t, s, o, "file-x"); got != text {
				t.Errorf("%d bytes", len(got))
			}
			f.Each(t, how, func() error {
				if err := s.Delete(context.Background(), o, "file-x"); !fault.Is(err, fault.CodeNotFound) {
					return err
				}
				return nil // an earlier attempt has done it
			})
			late := time.Now().Add(2 * abandonedAfter)
			s.now = func() time.Time { return late }
			f.Each(t, how, func() error { return s.sweep(context.Background()) })
			s.now = time.Now
			if count(t, db, "file_chunks")+count(t, db, "file_blobs")+count(t, db, "file_files") != 0 {
				t.Error("something is left")
			}
		}
	})
}

// TestOutlivesRotations: the keys of contents move to the newest wrapping key, and everything opens.
func TestOutlivesRotations(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, o := store(t, db, Limits{}, seal.Intl), Owner{Tenant: "acme"}
		f := mustPut(t, s, o, NewFile{Name: "n"}, long(9))
		wrapkeytest.Rotate(t, db, ring(), Wrapped(ring()))
		if got, err := store(t, db, Limits{}, seal.GM).Get(t.Context(), o, f.ID); err != nil || got.Name != "n" {
			t.Errorf("%+v, %v", got, err)
		}
		if content(t, store(t, db, Limits{}, seal.GM), o, f.ID) != long(9) {
			t.Error("the content does not open")
		}
	})
}

// TestDamage: a chunk that was changed, exchanged or taken away is an error, never a shorter or another content.
func TestDamage(t *testing.T) {
	db := dbtest.SQLite(t)
	s, o := store(t, db, Limits{}, seal.Intl), Owner{Tenant: "acme"}
	for name, sql := range map[string]string{
		"changed":   "UPDATE file_chunks SET sealed = zeroblob(100) WHERE number = 1",
		"exchanged": "UPDATE file_chunks SET sealed = (SELECT c.sealed FROM file_chunks AS c WHERE c.blob = file_chunks.blob AND c.number = 0) WHERE number = 1",
		"gone":      "DELETE FROM file_chunks WHERE number = 2",
	} {
		f := mustPut(t, s, o, NewFile{}, name+long(1))
		if err := db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
		_, r, err := s.Open(t.Context(), o, f.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r); err == nil {
			t.Errorf("%s: nobody noticed", name)
		}
	}
}

// TestStrangeNames: what no database takes as text is the name of nothing.
func TestStrangeNames(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, o := store(t, db, Limits{}, seal.Intl), Owner{Tenant: "acme"}
		mustPut(t, s, o, NewFile{Name: "x", Purpose: PurposeBatch}, "x")
		for _, id := range []string{"\x00", "file-\x00x", "\xff", "file-\xc3("} {
			_, err := s.Get(t.Context(), o, id)
			wantCode(t, err, fault.CodeNotFound)
			_, _, err = s.Open(t.Context(), o, id)
			wantCode(t, err, fault.CodeNotFound)
			wantCode(t, s.Delete(t.Context(), o, id), fault.CodeNotFound)
			_, _, err = s.List(t.Context(), o, Query{After: id, Limit: 1})
			wantCode(t, err, fault.CodeNotFound)
			if page, _, err := s.List(t.Context(), o, Query{Purpose: id, Limit: 1}); err != nil || len(page) > 0 {
				t.Errorf("%q: %v, %v", id, page, err)
			}
		}
	})
}

// TestAbortAfterErasure: an upload that ends when its tenant was erased leaves nothing of the tenant.
func TestAbortAfterErasure(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := store(t, db, Limits{}, seal.Intl)
		u, err := s.Begin(t.Context(), Owner{Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"file_tenants", "file_blobs"} {
			if err := db.Exec("DELETE FROM " + table).Error; err != nil {
				t.Fatal(err)
			}
		}
		u.Abort(t.Context())
		var n int64
		if err := db.Table("file_tenants").Count(&n).Error; err != nil || n != 0 {
			t.Errorf("%d tenants, %v", n, err)
		}
	})
}
