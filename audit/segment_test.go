package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const segmentTestName = "0123456789abcdef0123456789abcdef-00000001.log"

// attach appends a record of seq with what stands before it.
func attach(b []byte, seq uint64, payload string, attached ...attachment) []byte {
	for _, a := range attached {
		b = appendAttachment(b, seq, a)
	}
	return appendFrame(b, seq, []byte(payload))
}

func key(s string) attachment        { return attachment{keyMagic, []byte(s)} }
func ciphertext(s string) attachment { return attachment{contentMagic, []byte(s)} }

// TestTornTailWithTexts cuts the last write at every byte: a record counts with all that stands before it or not at all.
func TestTornTailWithTexts(t *testing.T) {
	b := segmentHeader(segmentTestName, 1)
	var ends []int
	for seq := range uint64(4) {
		b = attach(b, seq+1, "the record itself", key("a wrapped key"), ciphertext("a ciphertext"), ciphertext("another"))
		ends = append(ends, len(b))
	}
	for cut := range len(b) + 1 {
		want := 0
		for _, e := range ends {
			if cut >= e {
				want++
			}
		}
		for _, tail := range [][]byte{nil, make([]byte, 100)} {
			if tail != nil && slices.Contains(ends, cut) {
				continue
			}
			img := parseSegment(segmentTestName, slices.Concat(b[:cut], tail))
			if len(img.frames) != want || img.damage == corrupt || img.damage == spoiled && tail == nil {
				t.Fatalf("cut at %d: %d records, damage %d; want %d", cut, len(img.frames), img.damage, want)
			}
			if want > 0 && int64(ends[want-1]) != img.end || want > 0 && img.ends()[want-1] != img.end {
				t.Fatalf("cut at %d: the records end at %d, want %d", cut, img.end, ends[want-1])
			}
		}
	}
}

func TestWhatStandsBeforeARecord(t *testing.T) {
	head := slices.Clip(segmentHeader(segmentTestName, 5))
	good := slices.Clip(attach(head, 5, "r", key("k"), ciphertext("c")))
	spoilt := slices.Clone(good)
	spoilt[len(head)+frameHead] ^= 1 // in the key
	last := slices.Clone(good)
	last[len(last)-1] ^= 1 // in the record
	renamed := slices.Clone(good)
	copy(renamed[len(head):], contentMagic)
	for name, c := range map[string]struct {
		b      []byte
		frames int
		damage damage
	}{
		"whole":                     {good, 1, whole},
		"two":                       {attach(good, 6, "s", key("k"), ciphertext("d")), 2, whole},
		"and one without":           {attach(good, 6, "s"), 2, whole},
		"without its record":        {appendAttachment(good, 6, ciphertext("d")), 1, torn},
		"before another record":     {attach(appendAttachment(good, 6, ciphertext("d")), 7, "s"), 1, corrupt},
		"of another sequence":       {appendFrame(appendAttachment(slices.Clone(head), 6, key("k")), 5, []byte("r")), 0, corrupt},
		"a spoilt key":              {spoilt, 0, corrupt},
		"another kind of frame":     {renamed, 0, corrupt},
		"a spoilt record":           {last, 0, spoiled},
		"as many as may be":         {attach(head, 5, "r", slices.Repeat([]attachment{key("k")}, maxAttached)...), 1, whole},
		"more than may be":          {attach(head, 5, "r", slices.Repeat([]attachment{key("k")}, maxAttached+1)...), 0, corrupt},
		"an unknown kind":           {slices.Concat(head, []byte("SLWX"), good[len(head)+4:]), 0, corrupt},
		"a key longer than any key": {attach(head, 5, "r", key(string(make([]byte, 1<<15)))), 0, corrupt},
	} {
		if img := parseSegment(segmentTestName, c.b); len(img.frames) != c.frames || img.damage != c.damage {
			t.Errorf("%s: %d records, damage %d; want %d, %d", name, len(img.frames), img.damage, c.frames, c.damage)
		}
	}
}

// TestDamageAmongTexts flips bytes of a real segment: the start is refused rather than a record or its texts dropped.
func TestDamageAmongTexts(t *testing.T) {
	cfg := testConfig(t.TempDir())
	db := dbtest.SQLite(t)
	l := openTest(t, cfg, db, nil, diskFiles{})
	for n := range 3 {
		say(t, l, n, alice)
	}
	seg := l.wal.snapshot()[0]
	must(t, l.Close())
	whole, err := os.ReadFile(seg.path)
	must(t, err)
	frames := parseSegment(filepath.Base(seg.path), whole).frames
	for at := 0; at < len(whole)-frameHead-len(frames[2].payload); at += 83 {
		b := slices.Clone(whole)
		b[at] ^= 0x20
		must(t, os.WriteFile(seg.path, b, 0o600))
		if _, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), diskFiles{}, diskFiles{}); err == nil {
			t.Fatalf("a flipped byte at %d of %d went unnoticed", at, len(whole))
		}
		r, err := Verify(t.Context(), VerifySource{Dir: cfg.Dir, DB: db, VerifierKey: l.VerifierKey()}, nil)
		if err != nil || r.OK || r.Problems[0].Kind != "wal" {
			t.Fatalf("verify: %+v, %v", r, err)
		}
	}
}

// TestTextsTakenOutOfTheLog leaves a segment whose frames are all sound but whose record lacks what it keeps: it is not shipped without, and
// the verification says so.
func TestTextsTakenOutOfTheLog(t *testing.T) {
	cfg := testConfig(t.TempDir())
	db := dbtest.SQLite(t)
	l := openTest(t, cfg, db, nil, diskFiles{})
	say(t, l, 1, alice)
	seg := l.wal.snapshot()[0]
	must(t, l.Close())
	name := filepath.Base(seg.path)
	b, err := os.ReadFile(seg.path)
	must(t, err)
	f := parseSegment(name, b).frames[0]
	for what, attached := range map[string][]attachment{
		"all": nil, "a text": f.attached[:2], "the key": f.attached[1:], "a text for another": {f.attached[0], f.attached[1], ciphertext("else")},
		"a text more": append(slices.Clone(f.attached), ciphertext("more")),
	} {
		must(t, os.WriteFile(seg.path, attach(segmentHeader(name, 1), 1, string(f.payload), attached...), 0o600))
		again, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), diskFiles{}, diskFiles{})
		must(t, err)
		if err := again.Flush(t.Context()); err == nil || count(t, db, "audit_events") != 0 {
			t.Errorf("%s: shipped", what)
		}
		if r := verify(t, again, db); r.OK || r.Problems[0].Kind != "wal" {
			t.Errorf("%s: %+v", what, r)
		}
		must(t, again.Close())
	}
}

// TestTextsCountAgainstTheBudget refuses records when what they keep fills the write-ahead log, while outcomes still fit.
func TestTextsCountAgainstTheBudget(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.MaxBytes = 1 << 20
	l := openTest(t, cfg, dbtest.SQLite(t), nil, diskFiles{})
	text := Text{"request", "clear", string(make([]byte, 100<<10))}
	admitted := recordtest.Sample(1)
	admitted.Stage = StageAdmitted
	taken := 0
	for range 20 {
		if _, err := l.AppendWith(t.Context(), admitted, alice, text); err != nil {
			break
		}
		taken++
	}
	if taken < 8 || taken > 9 {
		t.Errorf("%d texts of 100 KiB fit into 90 %% of 1 MiB", taken)
	}
	if _, err := l.Append(t.Context(), recordtest.Sample(2)); err != nil {
		t.Errorf("an outcome: %v", err)
	}
}

func FuzzParseSegmentWithTexts(f *testing.F) {
	good := attach(attach(segmentHeader(segmentTestName, 5), 5, "{}", key("k"), ciphertext("c"), ciphertext("d")), 6, "x")
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good[:headerSize+2*frameHead+2])
	f.Add(appendAttachment(slices.Clone(good), 7, ciphertext("e")))
	f.Fuzz(func(t *testing.T, b []byte) {
		img := parseSegment(segmentTestName, b)
		if img.first == 0 {
			return
		}
		if img.end > int64(len(b)) || img.damage == whole && img.end != int64(len(b)) {
			t.Fatalf("%d of %d bytes, damage %d", img.end, len(b), img.damage)
		}
		again := segmentHeader(segmentTestName, img.first)
		for i, fr := range img.frames {
			if fr.seq != img.first+uint64(i) {
				t.Fatal("sequence is not contiguous")
			}
			again = attach(again, fr.seq, string(fr.payload), fr.attached...)
		}
		if !bytes.Equal(again, b[:img.end]) {
			t.Fatal("the records that count are not what was written")
		}
	})
}
