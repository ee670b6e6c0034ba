package record_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
)

// fullEvent sets every field, so that the golden file shows the place and the form of each.
func fullEvent() record.Event {
	e := fullEventV2()
	e.Schema, e.LabelKey = 3, "lk-1"
	e.Steps = record.Steps{Authenticate: 1, Limit: 2, Policy: 3, Route: 4, Reserve: 5, Retrieve: 6, Record: 7, Prefill: 8, Decode: 9}
	return e
}

func fullEventV2() record.Event {
	e := recordtest.Sample(1)
	e.Schema, e.ID, e.Salt = 2, "01890000-0000-7000-8000-000000000001", "00112233445566778899aabbccddeeff"
	e.Region, e.Watermark = "cn-east", "wm-1"
	e.Actor.OnBehalfOf, e.ErrorKind = "someone", "timeout"
	e.Model.Template, e.Model.Engine, e.Model.Adapter, e.Model.Replay = "chatml", "native/1", "sha256:ef", "rt1"
	e.Findings[0].Detector = "mobile/3"
	e.Safety = []record.Rule{{Direction: "answer", ID: "r-7", Action: "blocked"}}
	e.Contents = []record.Content{{Direction: "request", Form: "masked", Key: "k-1", Digest: "aabb", Bytes: 99}}
	e.Usage.CachedTokens, e.Usage.Estimated = 3, true
	e.Latency.Queue = 50
	e.Detail = map[string]string{
		"z": "last", "a": "first", "html": "<b>&</b>", "lines": "a\nb\tc\u2028d", "control": "\x01\x7f\b\f", "中文": "值", "quote": `"\`,
	}
	return e
}

func minimal() record.Event {
	return record.Event{Schema: 3, ID: "01890000-0000-7000-8000-000000000002", Stage: record.StageAction, Time: 1}
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEncodingV3IsFrozen must never be updated: stored records and signed hashes depend on these bytes.
func TestEncodingV3IsFrozen(t *testing.T) {
	for name, e := range map[string]record.Event{"v3_full": fullEvent(), "v3_minimal": minimal()} {
		want := golden(t, name)
		got, err := record.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: encoding version 3 has changed:\n%s", name, cmp.Diff(string(want), string(got)))
		}
		back, err := record.Decode(want)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, back); d != "" {
			t.Errorf("%s: decoding lost something:\n%s", name, d)
		}
	}
}

// TestOlderVersionsAreReadable must hold for ever: there are logs with such records.
func TestOlderVersionsAreReadable(t *testing.T) {
	full2, full1 := fullEventV2(), fullEventV2()
	full1.Schema, full1.Salt, full1.Region, full1.Watermark, full1.Model.Adapter, full1.Model.Replay, full1.Findings[0].Detector = 1, "", "", "", "", "", ""
	full1.Safety, full1.Contents = nil, nil
	least2, least1 := minimal(), minimal()
	least2.Schema, least1.Schema = 2, 1
	for name, want := range map[string]record.Event{"v1_full": full1, "v1_minimal": least1, "v2_full": full2, "v2_minimal": least2} {
		got, err := record.Decode(golden(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s is read otherwise than it was written:\n%s", name, d)
		}
	}
}

// TestEveryFieldIsEncoded sets one field at a time and wants it back; a field forgotten in the conversion shows here.
func TestEveryFieldIsEncoded(t *testing.T) {
	var visit func(v reflect.Value, path string, check func(string))
	visit = func(v reflect.Value, path string, check func(string)) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				visit(v.Field(i), path+"."+v.Type().Field(i).Name, check)
			}
			return
		case reflect.String:
			v.SetString("x")
		case reflect.Int, reflect.Int64:
			v.SetInt(7)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			if v.Type().Elem().Kind() == reflect.String {
				v.Index(0).SetString("x")
			}
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]string{"k": "v"}))
		default:
			t.Fatalf("%s has a kind the canonical encoding does not allow: %s", path, v.Kind())
		}
		check(path)
		v.SetZero()
	}
	var e record.Event
	visit(reflect.ValueOf(&e).Elem(), "Event", func(path string) {
		b, err := record.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := record.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		want := e
		want.Schema = 3
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s is lost:\n%s", path, d)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	for _, bad := range []string{
		``, `null`, `[]`, `{"schema":4}`, `{"schema":2,"steps":{}}`, `{"schema":3,"eventV2":{}}`, `{"schema":1,"surprise":1}`, `{"schema":1}{}`, `{"schema":1} x`, `{"schema":1,"time":1.5}`,
		`{"schema":1,"schema":2}`, `{"schema":2,"schema":1}`, `{"schema":22}`, `{"schema":2`, `{"schema":-1}`, `{"id":"x","schema":2}`, ` {"schema":2}`,
	} {
		if e, err := record.Decode([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, e)
		}
	}
}

func TestOversizedEventIsRefused(t *testing.T) {
	e := recordtest.Sample(1)
	e.Resource = strings.Repeat("x", record.MaxPayload)
	if _, err := record.Encode(e); err == nil {
		t.Error("an event beyond the entry limit was encoded")
	}
}

func FuzzDecodeEncode(f *testing.F) {
	full, _ := record.Encode(fullEvent())
	f.Add(full)
	f.Add([]byte(`{"schema":1,"id":"\ud800","stage":"action","time":-1,"detail":{"\u0000":"\ufffd"}}`))
	f.Add([]byte(`{"schema":1,"findings":[],"model":{},"STAGE":"x"}`))
	f.Add([]byte(`{"schema":2,"id":"","stage":"","time":0,"contents":[{}],"safety":null}`))
	f.Add([]byte(`{"schema":3,"id":"","stage":"","time":0,"steps":{"decode":1},"STEPS":{"limit":2},"label_key":"\ufffd"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := record.Decode(b)
		if err != nil {
			return
		}
		one, err := record.Encode(e)
		if err != nil {
			return // too large after escaping
		}
		again, err := record.Decode(one)
		if err != nil {
			t.Fatalf("own encoding is unreadable: %v\n%s", err, one)
		}
		two, err := record.Encode(again)
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("not a fixed point: %v\n%s\n%s", err, one, two)
		}
	})
}

func FuzzEncodeAnyString(f *testing.F) {
	f.Add("a\xffb", "\xed\xa0\x80")
	f.Add(`\ufffd`, "\u2028<")
	f.Fuzz(func(t *testing.T, s, k string) {
		one, err := record.Encode(record.Event{Request: s, Detail: map[string]string{k: s}})
		if err != nil {
			return
		}
		e, err := record.Decode(one)
		if err != nil {
			t.Fatal(err)
		}
		two, err := record.Encode(e)
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("not a fixed point: %v\n%q\n%q", err, one, two)
		}
	})
}

// TestWordsOfFindings: what records of any age say was done is read in the words of policies, and stays as it was written.
func TestWordsOfFindings(t *testing.T) {
	for word, want := range map[string]string{
		"masked": "token", "redacted": "redact", "hashed": "hash", "blocked": "block", "passed": "observe", "partial": "partial",
		"token": "token", "redact": "redact", "hash": "hash", "block": "block", "observe": "observe", "unknown": "unknown", "cut": "cut",
	} {
		if got := (record.Finding{Action: word}).Done(); got != want {
			t.Errorf("%s reads as %s, want %s", word, got, want)
		}
	}
	for _, name := range []string{"v1_full", "v2_full", "v3_full"} {
		e, err := record.Decode(golden(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if f := e.Findings[0]; f.Action != "masked" || f.Done() != "token" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
