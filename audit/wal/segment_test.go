package wal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
)

const segmentTestName = "0123456789abcdef0123456789abcdef-00000001.log"

// attach appends a record of seq with what stands before it.
func attach(b []byte, seq uint64, payload string, attached ...Attachment) []byte {
	return AppendRecord(b, Record{seq, []byte(payload), attached})
}

func key(s string) Attachment        { return Attachment{KindKey, []byte(s)} }
func ciphertext(s string) Attachment { return Attachment{KindContent, []byte(s)} }

// TestTornTailWithTexts cuts the last write at every byte: a record counts with all that stands before it or not at all.
func TestTornTailWithTexts(t *testing.T) {
	b := AppendHeader(nil, segmentTestName, 1)
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
			img := Parse(segmentTestName, slices.Concat(b[:cut], tail))
			if len(img.Records) != want || img.damage == Corrupt || img.damage == Spoiled && tail == nil {
				t.Fatalf("cut at %d: %d records, damage %d; want %d", cut, len(img.Records), img.damage, want)
			}
			if want > 0 && int64(ends[want-1]) != img.end || want > 0 && img.ends()[want-1] != img.end {
				t.Fatalf("cut at %d: the records end at %d, want %d", cut, img.end, ends[want-1])
			}
		}
	}
}

func TestWhatStandsBeforeARecord(t *testing.T) {
	head := slices.Clip(AppendHeader(nil, segmentTestName, 5))
	good := slices.Clip(attach(head, 5, "r", key("k"), ciphertext("c")))
	spoilt := slices.Clone(good)
	spoilt[len(head)+frameHead] ^= 1 // in the key
	last := slices.Clone(good)
	last[len(last)-1] ^= 1 // in the record
	renamed := slices.Clone(good)
	copy(renamed[len(head):], KindContent)
	for name, c := range map[string]struct {
		b      []byte
		frames int
		damage Damage
	}{
		"whole":                     {good, 1, Whole},
		"two":                       {attach(good, 6, "s", key("k"), ciphertext("d")), 2, Whole},
		"and one without":           {attach(good, 6, "s"), 2, Whole},
		"without its record":        {appendAttachment(good, 6, ciphertext("d")), 1, Torn},
		"before another record":     {attach(appendAttachment(good, 6, ciphertext("d")), 7, "s"), 1, Corrupt},
		"of another sequence":       {appendFrame(appendAttachment(slices.Clone(head), 6, key("k")), 5, []byte("r")), 0, Corrupt},
		"a spoilt key":              {spoilt, 0, Corrupt},
		"another kind of frame":     {renamed, 0, Corrupt},
		"a spoilt record":           {last, 0, Spoiled},
		"as many as may be":         {attach(head, 5, "r", slices.Repeat([]Attachment{key("k")}, maxAttached)...), 1, Whole},
		"more than may be":          {attach(head, 5, "r", slices.Repeat([]Attachment{key("k")}, maxAttached+1)...), 0, Corrupt},
		"an unknown kind":           {slices.Concat(head, []byte("SLWX"), good[len(head)+4:]), 0, Corrupt},
		"a key longer than any key": {attach(head, 5, "r", key(string(make([]byte, 1<<15)))), 0, Corrupt},
	} {
		if img := Parse(segmentTestName, c.b); len(img.Records) != c.frames || img.damage != c.damage {
			t.Errorf("%s: %d records, damage %d; want %d, %d", name, len(img.Records), img.damage, c.frames, c.damage)
		}
	}
}

func FuzzParseSegmentWithTexts(f *testing.F) {
	good := attach(attach(AppendHeader(nil, segmentTestName, 5), 5, "{}", key("k"), ciphertext("c"), ciphertext("d")), 6, "x")
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good[:headerSize+2*frameHead+2])
	f.Add(appendAttachment(slices.Clone(good), 7, ciphertext("e")))
	f.Fuzz(func(t *testing.T, b []byte) {
		img := Parse(segmentTestName, b)
		if img.First == 0 {
			return
		}
		if img.end > int64(len(b)) || img.damage == Whole && img.end != int64(len(b)) {
			t.Fatalf("%d of %d bytes, damage %d", img.end, len(b), img.damage)
		}
		again := AppendHeader(nil, segmentTestName, img.First)
		for i, fr := range img.Records {
			if fr.Seq != img.First+uint64(i) {
				t.Fatal("sequence is not contiguous")
			}
			again = attach(again, fr.Seq, string(fr.Payload), fr.Attached...)
		}
		if !bytes.Equal(again, b[:img.end]) {
			t.Fatal("the records that count are not what was written")
		}
	})
}

// TestTornTail cuts the last write at every byte: what came before survives, and no cut stops the start.
func TestTornTail(t *testing.T) {
	var b []byte
	name := "0123456789abcdef0123456789abcdef-00000001.log"
	b = AppendHeader(nil, name, 1)
	var ends []int
	for seq := range uint64(4) {
		payload, err := record.Encode(recordtest.Sample(int(seq)))
		if err != nil {
			t.Fatal(err)
		}
		b = appendFrame(b, seq+1, payload)
		ends = append(ends, len(b))
	}
	for cut := range len(b) + 1 {
		want := 0
		for _, e := range ends {
			if cut >= e {
				want++
			}
		}
		for _, tail := range [][]byte{nil, make([]byte, 100)} { // cut short, or filled with zeros by the file system
			if tail != nil && slices.Contains(ends, cut) {
				continue
			}
			img := Parse(name, slices.Concat(b[:cut], tail))
			if len(img.Records) != want || img.damage == Corrupt || img.damage == Spoiled && tail == nil {
				t.Fatalf("cut at %d: %d frames, damage %d; want %d", cut, len(img.Records), img.damage, want)
			}
		}
	}
}

func FuzzParseSegment(f *testing.F) {
	name := "0123456789abcdef0123456789abcdef-00000001.log"
	good := appendFrame(appendFrame(AppendHeader(nil, name, 5), 5, []byte(`{}`)), 6, []byte("x"))
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(headerMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		img := Parse(name, b)
		if img.end > int64(len(b)) || img.damage == Whole && img.end != int64(len(b)) {
			t.Fatalf("%d of %d bytes, damage %d", img.end, len(b), img.damage)
		}
		for i, fr := range img.Records {
			if fr.Seq != img.First+uint64(i) {
				t.Fatal("sequence is not contiguous")
			}
		}
	})
}

// A verifier that lists the segments of a running log may find, when it opens them, that some were retired meanwhile. What it read of those
// before must not look like the end in front of a gap.
func TestSegmentsRetiredWhileRead(t *testing.T) {
	dir := t.TempDir()
	writer := strings.Repeat("ab", 16)
	for n := range 3 {
		path := Path(dir, writer, n+1)
		first := uint64(1 + 10*n)
		b := AppendHeader(nil, filepath.Base(path), first)
		for seq := first; seq < first+10; seq++ {
			b = appendFrame(b, seq, []byte("x"))
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := Path(dir, writer, 2)
	if err := errors.Join(os.Remove(second), os.Symlink(filepath.Join(dir, "gone"), second)); err != nil { // listed, and not there when it is opened
		t.Fatal(err)
	}
	got, err := Segments(dir)
	if err != nil || len(got) != 1 || got[0].Number != 3 || got[0].Damage != Whole {
		t.Fatalf("%+v, %v", got, err)
	}
}
