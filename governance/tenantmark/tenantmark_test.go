package tenantmark

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func ring() *keyring.Ring { return keyring.FromBytes(bytes.Repeat([]byte{7}, 32)) }

func open(t *testing.T, db *gorm.DB) *Store {
	t.Helper()
	s, err := New(Config{DB: db, Keys: ring(), Suite: seal.GM, Exists: exists, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, s.Load(t.Context()))
	return s
}

func exists(_ context.Context, tenant string) error {
	if tenant == "nobody" {
		return fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), tenant)
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func marks(t *testing.T, s *Store, tenant string, p watermark.Params) *watermark.Key {
	t.Helper()
	k, err := s.MarkKey(t.Context(), tenant, p)
	must(t, err)
	return k
}

// TestRotation: each tenant has keys of its own, for each way of marking; new ones take over on every replica, and older ones stay, to find what they marked.
func TestRotation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, replica := open(t, db), open(t, db)
		kgw := watermark.Params{Scheme: watermark.KGW, Gamma: 0.5}
		first, other, heavy := marks(t, s, "acme", watermark.Params{}), marks(t, s, "globex", watermark.Params{}), marks(t, s, "acme", kgw)
		if first.ID() == other.ID() || first.ID() == heavy.ID() || marks(t, s, "acme", watermark.Params{Scheme: watermark.Gumbel}) != first || heavy.Params().Gamma != 0.5 || heavy.Epoch() != 2 {
			t.Fatal("keys are shared, or made twice")
		}
		if got := marks(t, replica, "acme", watermark.Params{}); got.ID() != first.ID() {
			t.Error("replicas mark with different keys")
		}
		all, err := s.Rotate(t.Context(), "acme")
		must(t, err)
		if len(all) != 3 || all[0].Number != 3 || !all[0].Retired.IsZero() || all[0].Params != heavy.Params() || all[1].Retired.IsZero() || all[2].Retired.IsZero() || all[2].ID != first.ID() {
			t.Errorf("%+v", all)
		}
		must(t, replica.known.Refresh(t.Context()))
		for _, at := range []*Store{s, replica} {
			if now := marks(t, at, "acme", kgw); now.ID() != all[0].ID {
				t.Errorf("after a rotation %s marks", now.ID())
			}
			if now := marks(t, at, "acme", watermark.Params{}); now.ID() == first.ID() || now.Epoch() != 4 {
				t.Errorf("after a rotation %s marks with parameters that were in use, too", now.ID())
			}
			if keys := keysOf(t, at, "acme"); len(keys) != 4 || keys[3].ID() != first.ID() {
				t.Errorf("%d keys find", len(keys))
			}
		}
		if marks(t, s, "globex", watermark.Params{}).ID() != other.ID() {
			t.Error("the rotation changed another tenant's key")
		}
		s.Forget()
		if marks(t, s, "globex", watermark.Params{}).ID() != other.ID() {
			t.Error("a key that is read again is another one")
		}
		if all, err := s.Rotate(t.Context(), "initech"); err != nil || len(all) != 1 || all[0].Params != first.Params() {
			t.Errorf("without a key before: %+v, %v", all, err)
		}
		if _, err := s.Rotate(t.Context(), "nobody"); !fault.Is(err, fault.CodeNotFound) {
			t.Error(err)
		}
	})
}

// TestRetiredElsewhere: a replica that has not heard of a rotation does not mark with a secret that it reads only then.
func TestRetiredElsewhere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		marks(t, s, "acme", watermark.Params{})
		replica := open(t, db)
		all, err := s.Rotate(t.Context(), "acme")
		must(t, err)
		if k := marks(t, replica, "acme", watermark.Params{}); k.ID() != all[0].ID {
			t.Errorf("the key %d marks", k.Epoch())
		}
	})
}

// TestKeysAreMadeOnce: many that begin at once, on two replicas, mark with one key.
func TestKeysAreMadeOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		replicas := []*Store{open(t, db), open(t, db)}
		ids, wg := make([]string, 8), sync.WaitGroup{}
		for i := range ids {
			wg.Go(func() {
				k, err := replicas[i%2].MarkKey(t.Context(), "acme", watermark.Params{})
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = k.ID()
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("%v", ids)
			}
		}
	})
}

// TestSecretsAreWrapped: a rotation of the wrapping keys wraps the secrets anew that mark and those that do not any more, and each opens for its own tenant alone.
func TestSecretsAreWrapped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		first := marks(t, s, "acme", watermark.Params{})
		_, err := s.Rotate(t.Context(), "acme")
		must(t, err)
		wrapkeytest.Rotate(t, db, ring(), Wrapped(ring()))
		s.Forget()
		if keys := keysOf(t, s, "acme"); len(keys) != 2 || keys[1].ID() != first.ID() {
			t.Errorf("%d keys", len(keys))
		}
		must(t, db.Model(&row{}).Where("id = ?", first.ID()).Update("tenant", "globex").Error)
		must(t, db.Exec("UPDATE watermark_changes SET version = version + 1").Error)
		s.Forget()
		if _, err := s.keysToTry(t.Context(), "globex", ""); !fault.Is(err, fault.CodeDatabaseUnavailable) {
			t.Errorf("the key of another tenant: %v", err)
		}
	})
}

// TestTenantLeaves: once its rows are gone, nothing marks or finds by its keys.
func TestTenantLeaves(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		first := marks(t, s, "acme", watermark.Params{})
		must(t, db.Exec("UPDATE watermark_changes SET version = version + 1").Error)
		must(t, db.Where("tenant = ?", "acme").Delete(&row{}).Error)
		if keys := keysOf(t, s, "acme"); len(keys) != 0 {
			t.Errorf("%d", len(keys))
		}
		if _, there := s.opened.Load(first.ID()); there {
			t.Error("the secret is still in memory")
		}
	})
}

// TestManyKeys: rotations go on without end. A detection tries the newest keys, says how many it leaves out, and tries an older one that is named; one that does
// not open is named, and keeps nobody from trying the others.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	s := open(t, db)
	first := marks(t, s, "acme", watermark.Params{})
	text := written(first, 80)
	for range MaxTried {
		_, err := s.Rotate(t.Context(), "acme")
		must(t, err)
	}
	all, err := s.List("acme")
	if err != nil || len(all) != MaxTried+1 || !all[0].Retired.IsZero() || all[1].Retired.IsZero() {
		t.Fatalf("%d keys, %v", len(all), err)
	}
	must(t, db.Exec("UPDATE watermark_keys SET wrapped = x'00' WHERE id = ?", all[3].ID).Error)
	v := service(s, words(5000))
	f, err := v.Detect(t.Context(), Question{Tenant: "acme", Text: text})
	if err != nil || f.Verdict != watermark.NotFound || f.Keys != MaxTried-1 || f.Untried != 1 || len(f.Unreadable) != 1 || f.Unreadable[0] != all[3].ID {
		t.Errorf("%+v, %v", f, err)
	}
	f, err = v.Detect(t.Context(), Question{Tenant: "acme", Text: text, Key: first.ID()})
	if err != nil || f.Verdict != watermark.Found || f.Key.ID != first.ID() || f.Keys != 1 || f.Untried != 0 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := v.Detect(t.Context(), Question{Tenant: "acme", Text: text, Key: all[3].ID}); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("a key that does not open: %v", err)
	}
	for _, tenant := range []string{"acme", "globex"} {
		if _, err := v.Detect(t.Context(), Question{Tenant: tenant, Text: text, Key: "0123456789abcdef"}); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("a key that %s has not: %v", tenant, err)
		}
	}
	other := marks(t, s, "globex", watermark.Params{})
	if _, err := v.Detect(t.Context(), Question{Tenant: "acme", Text: text, Key: other.ID()}); !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("a key of another tenant: %v", err)
	}
}

// TestRevokedKeys: what a revoked key finds is an indication, however sure the statistics are, also for another replica; another key marks in its place on
// every replica, and nobody else's key is touched.
func TestRevokedKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, replica := open(t, db), open(t, db)
		kgw := watermark.Params{Scheme: watermark.KGW}
		first, other := marks(t, s, "acme", watermark.Params{}), marks(t, s, "acme", kgw)
		text := written(first, 80)
		for _, tenant := range []string{"globex", "acme"} {
			id := map[string]string{"globex": first.ID(), "acme": "0123456789abcdef"}[tenant]
			if _, err := s.Revoke(t.Context(), tenant, id); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("a key that %s has not: %v", tenant, err)
			}
		}
		gone, err := s.Revoke(t.Context(), "acme", first.ID())
		if err != nil || gone.ID != first.ID() || gone.Revoked.IsZero() || gone.Retired != gone.Revoked {
			t.Fatalf("%+v, %v", gone, err)
		}
		for _, s := range []*Store{s, replica} {
			f, err := service(s, words(5000)).Detect(t.Context(), Question{Tenant: "acme", Text: text})
			if err != nil || f.Verdict != watermark.Indication || f.P > 1e-9 || f.Key.ID != first.ID() || f.Key.Revoked.IsZero() {
				t.Errorf("%+v, %v", f, err)
			}
			good := marks(t, s, "acme", watermark.Params{})
			if good.ID() == first.ID() || good.Epoch() != 3 {
				t.Errorf("the key %d marks", good.Epoch())
			}
			// A longer passage by the leaked key takes nothing from what the good one has marked.
			f, err = service(s, words(5000)).Detect(t.Context(), Question{Tenant: "acme", Text: written(good, 120) + " " + written(first, 300)})
			if err != nil || f.Verdict != watermark.Found || f.Key.ID != good.ID() {
				t.Errorf("beside a passage of the revoked key: %+v, %v", f, err)
			}
			if k := marks(t, s, "acme", kgw); k.ID() != other.ID() {
				t.Errorf("of other parameters the key %d marks", k.Epoch())
			}
		}
		if _, err := s.Revoke(t.Context(), "acme", first.ID()); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("once more: %v", err)
		}
		_, err = s.Rotate(t.Context(), "acme")
		must(t, err)
		all, err := s.List("acme")
		must(t, err)
		before := len(all)
		if _, err := s.Revoke(t.Context(), "acme", other.ID()); err != nil { // which marks no more: nothing takes its place
			t.Error(err)
		}
		if all, err = s.List("acme"); err != nil || len(all) != before {
			t.Errorf("%d keys, %v", len(all), err)
		}
	})
}

// keysOf are the keys that find the texts of a tenant.
func keysOf(t *testing.T, s *Store, tenant string) []*watermark.Key {
	t.Helper()
	out, err := s.keysToTry(t.Context(), tenant, "")
	must(t, err)
	return out.keys
}

// TestFaults: where the database fails, at any write, no key is made, and the code says so.
func TestFaults(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	s := open(t, db)
	first := marks(t, s, "acme", watermark.Params{})
	for _, statement := range []string{
		"CREATE TRIGGER stop BEFORE UPDATE ON watermark_changes BEGIN SELECT RAISE(FAIL, 'broken'); END",
		"CREATE TRIGGER stop BEFORE UPDATE ON watermark_keys BEGIN SELECT RAISE(FAIL, 'broken'); END",
		"CREATE TRIGGER stop BEFORE INSERT ON watermark_keys BEGIN SELECT RAISE(FAIL, 'broken'); END",
	} {
		must(t, db.Exec(statement).Error)
		if _, err := s.Rotate(t.Context(), "acme"); !fault.Is(err, fault.CodeDatabaseUnavailable) {
			t.Errorf("%s: %v", statement, err)
		}
		if _, err := s.Revoke(t.Context(), "acme", first.ID()); !fault.Is(err, fault.CodeDatabaseUnavailable) {
			t.Errorf("%s: %v", statement, err)
		}
		must(t, db.Exec("DROP TRIGGER stop").Error)
		all, err := open(t, db).List("acme")
		if err != nil || len(all) != 1 || !all[0].Retired.IsZero() || !all[0].Revoked.IsZero() {
			t.Errorf("%s: %+v, %v", statement, all, err)
		}
	}
	must(t, db.Exec("UPDATE watermark_keys SET wrapped = x'00'").Error)
	s.Forget()
	if _, err := s.MarkKey(t.Context(), "acme", watermark.Params{}); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("a secret that cannot be opened: %v", err)
	}
}

// words is a tokenizer: a word is a token, with the space before it.
func words(vocab int32) Tokenizer {
	return func(text string) (ids []int32, ends []int) {
		at := 0
		for w := range strings.FieldsSeq(text) {
			n := int32(0)
			for _, r := range w {
				n = (n*31 + r) % vocab
			}
			at += strings.Index(text[at:], w) + len(w)
			ids, ends = append(ids, n), append(ends, at)
		}
		return ids, ends
	}
}

// written is a text of n words that a key has marked, as a model would that finds any word as good as another.
func written(k *watermark.Key, n int) string {
	const vocab = 5000
	tokens, r := words(vocab), rand.New(rand.NewPCG(1, 2))
	byToken := map[int32]string{}
	for len(byToken) < vocab/2 {
		w := ""
		for range 2 + r.IntN(8) {
			w += string(rune('a' + r.IntN(26)))
		}
		id, _ := tokens(w)
		byToken[id[0]] = w
	}
	weights := make([]float32, vocab)
	for id := range byToken {
		weights[id] = 1
	}
	var ids []int32
	var text []string
	m := k.Begin(5, 0)
	for len(ids) < n {
		index, marked := m.Mark(ids, nil, weights)
		for !marked && (index < 0 || weights[index] == 0) {
			index = r.IntN(vocab)
		}
		ids, text = append(ids, int32(index)), append(text, byToken[int32(index)])
	}
	return strings.Join(text, " ")
}

func service(s *Store, tokenizers ...Tokenizer) *Service {
	return NewService(ServiceConfig{Store: s, Tokenizers: func() []Tokenizer { return tokenizers }})
}

// TestDetect: a text is found by the keys of its tenant, by the right of several tokenizers, after a rotation too; and what cannot be said is said.
func TestDetect(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t))
	mark := marks(t, s, "acme", watermark.Params{})
	text := written(mark, 120)
	_, err := s.Rotate(t.Context(), "acme")
	must(t, err)
	_, err = s.Rotate(t.Context(), "globex")
	must(t, err)
	right, wrong := words(5000), words(4999)
	detect := func(tenant, text string, tokenizers ...Tokenizer) Finding {
		t.Helper()
		f, err := service(s, tokenizers...).Detect(t.Context(), Question{Tenant: tenant, Text: text})
		must(t, err)
		return f
	}
	alone, both := detect("acme", text, right, words(5000)), detect("acme", text, wrong, right)
	for _, f := range []Finding{alone, both} {
		if f.Verdict != watermark.Found || f.P > 1e-9 || f.Key == nil || f.Key.ID != mark.ID() || f.Key.Retired.IsZero() || f.Tokens != 120 || f.Counted != 116 || f.End <= f.Begin || f.Keys != 2 {
			t.Errorf("%+v", f)
		}
	}
	unknown := words(5000)
	nowhere := func(text string) ([]int32, []int) {
		ids, _ := unknown(text)
		return ids, nil
	}
	before := ""
	for n := range 200 {
		before += fmt.Sprint("word", n, " ")
	}
	around := detect("acme", before+text, right)
	if p := around.Passage; p == nil || p.Begin < len(before)/2 || p.End <= len(before)+len(text)/2 || p.End > len(before)+len(text) || alone.Passage == nil || *alone.Passage != (Passage{0, len(text)}) || detect("acme", text, nowhere).Passage != nil {
		t.Errorf("the passage is %+v and %+v", around.Passage, alone.Passage)
	}
	if alone.Readings != 1 || both.Readings != 2 || both.Log10P <= alone.Log10P+0.3 || both.Log10P >= alone.Log10P+0.31 {
		t.Errorf("p does not pay for a second reading: %+v, %+v", alone, both)
	}
	if f := detect("globex", text, right); f.Verdict != watermark.NotFound || f.P < 1e-6 || f.Key != nil {
		t.Errorf("another tenant: %+v", f)
	}
	if f := detect("acme", text, wrong); f.Verdict != watermark.NotFound {
		t.Errorf("another tokenizer: %+v", f)
	}
	for name, c := range map[string]struct {
		f    Finding
		want Reason
	}{
		"short":        {detect("acme", strings.Join(strings.Fields(text)[:60], " "), wrong, right), ReasonShort},
		"repeats":      {detect("acme", strings.Repeat("on and on ", 100), right), ReasonShort},
		"no key":       {detect("initech", text, right), ReasonNoKey},
		"no tokenizer": {detect("acme", text), ReasonTokenizer},
	} {
		if c.f.Verdict != watermark.CannotSay || c.f.Reason != c.want || c.f.P != 1 || c.f.Log10P != 0 || c.f.Key != nil {
			t.Errorf("%s: %+v", name, c.f)
		}
	}
	if all, err := s.List("initech"); err != nil || len(all) > 0 {
		t.Errorf("a question made a key: %+v, %v", all, err)
	}
}

// TestDetectionsAreBounded: in length, in work, in time, and in how many compute at once.
func TestDetectionsAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t))
	text := written(marks(t, s, "acme", watermark.Params{}), 80)
	marks(t, s, "globex", watermark.Params{})
	v := service(s, words(5000))
	ask := func(text string) (Finding, error) { return v.Detect(t.Context(), Question{Tenant: "acme", Text: text}) }
	if _, err := ask(strings.Repeat("x ", MaxText/2) + "x"); !fault.Is(err, fault.CodeInvalidValue) {
		t.Error(err)
	}
	v.maxWork = 80*256 - 1
	if _, err := ask(text); !fault.Is(err, fault.CodeInvalidValue) {
		t.Errorf("too much work: %v", err)
	}
	v.maxWork++
	v.maxWait = 0
	v.turn <- struct{}{}
	if _, err := ask(text); !fault.Is(err, fault.CodeConcurrency) {
		t.Errorf("while another computes: %v", err)
	}
	<-v.turn
	v.maxWait, v.maxTime = maxWait, 0
	if _, err := ask(text); !fault.Is(err, fault.CodeInvalidValue) {
		t.Errorf("too slow: %v", err)
	}
	v.maxTime = maxTime
	if f, err := ask(text); err != nil || f.Verdict != watermark.Found {
		t.Errorf("afterwards: %+v, %v", f, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := v.Detect(ctx, Question{Tenant: "acme", Text: text}); !errors.Is(err, context.Canceled) || fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("the caller left: %v", err)
	}
	if len(v.places) > 0 {
		t.Errorf("%d places are kept", len(v.places))
	}
}

// TestTurns: a tenant whose questions wait has one place among those of all tenants.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := NewService(ServiceConfig{})
		done, err := v.wait(t.Context(), "initech")
		must(t, err)
		var order []string
		ask := func(tenant string) {
			go func() {
				done, err := v.wait(t.Context(), tenant)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, tenant)
				done()
			}()
			synctest.Wait()
		}
		for range 5 {
			ask("acme")
		}
		ask("globex")
		done()
		synctest.Wait()
		if at := slices.Index(order, "globex"); at != 1 || len(order) != 6 || len(v.places) > 0 {
			t.Errorf("%v, %d places are kept", order, len(v.places))
		}
	})
}
