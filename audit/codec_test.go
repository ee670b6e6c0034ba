package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fullEvent sets every field, so that the golden file shows the place and the form of each.
func fullEvent() Event {
	e := sampleEvent(1)
	e.Schema, e.ID = 1, "01890000-0000-7000-8000-000000000001"
	e.Actor.OnBehalfOf, e.ErrorKind = "someone", "timeout"
	e.Model.Template, e.Model.Engine = "chatml", "native/1"
	e.Usage.CachedTokens, e.Usage.Estimated = 3, true
	e.Latency.Queue = 50
	e.Detail = map[string]string{
		"z": "last", "a": "first", "html": "<b>&</b>", "lines": "a\nb\tc\u2028d", "control": "\x01\x7f\b\f", "中文": "值", "quote": `"\`,
	}
	return e
}

// TestEncodingV1IsFrozen must never be updated: stored records and signed hashes depend on these bytes.
func TestEncodingV1IsFrozen(t *testing.T) {
	for name, e := range map[string]Event{
		"v1_full":    fullEvent(),
		"v1_minimal": {ID: "01890000-0000-7000-8000-000000000002", Stage: StageAction, Time: 1},
	} {
		want, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: encoding version 1 has changed:\n%s", name, cmp.Diff(string(want), string(got)))
		}
		back, err := decode(want)
		if err != nil {
			t.Fatal(err)
		}
		e.Schema = 1
		if d := cmp.Diff(e, back); d != "" {
			t.Errorf("%s: decoding lost something:\n%s", name, d)
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
	var e Event
	visit(reflect.ValueOf(&e).Elem(), "Event", func(path string) {
		b, err := encode(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		want := e
		want.Schema = 1
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s is lost:\n%s", path, d)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	for _, bad := range []string{
		``, `null`, `[]`, `{"schema":2}`, `{"schema":1,"surprise":1}`, `{"schema":1}{}`, `{"schema":1} x`, `{"schema":1,"time":1.5}`,
	} {
		if e, err := decode([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, e)
		}
	}
}

func TestOversizedEventIsRefused(t *testing.T) {
	e := sampleEvent(1)
	e.Resource = strings.Repeat("x", maxPayload)
	if _, err := encode(e); err == nil {
		t.Error("an event beyond the entry limit was encoded")
	}
}

func FuzzDecodeEncode(f *testing.F) {
	full, _ := encode(fullEvent())
	f.Add(full)
	f.Add([]byte(`{"schema":1,"id":"\ud800","stage":"action","time":-1,"detail":{"\u0000":"\ufffd"}}`))
	f.Add([]byte(`{"schema":1,"findings":[],"model":{},"STAGE":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b)
		if err != nil {
			return
		}
		one, err := encode(e)
		if err != nil {
			return // too large after escaping
		}
		again, err := decode(one)
		if err != nil {
			t.Fatalf("own encoding is unreadable: %v\n%s", err, one)
		}
		two, err := encode(again)
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("not a fixed point: %v\n%s\n%s", err, one, two)
		}
	})
}

func FuzzEncodeAnyString(f *testing.F) {
	f.Add("a\xffb", "\xed\xa0\x80")
	f.Add(`\ufffd`, "\u2028<")
	f.Fuzz(func(t *testing.T, s, k string) {
		one, err := encode(Event{Request: s, Detail: map[string]string{k: s}})
		if err != nil {
			return
		}
		e, err := decode(one)
		if err != nil {
			t.Fatal(err)
		}
		two, err := encode(e)
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("not a fixed point: %v\n%q\n%q", err, one, two)
		}
	})
}
