package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// general reads a payload with the general decoder, which scan has to agree with.
func general(payload []byte) (Event, error) {
	if schemaOf(payload) == schemaV2 {
		return decode(payload, fromV2)
	}
	return decode(payload, fromV3)
}

// filled sets everything below v.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		filled(v.Index(0))
		filled(v.Index(1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"b": "\"\\\n\u2028<中文", "a": ""}))
	}
}

// TestScanReadsWhatIsWritten: what Encode writes never needs the general decoder. A field that is added and forgotten in scan shows here.
func TestScanReadsWhatIsWritten(t *testing.T) {
	var e Event
	filled(reflect.ValueOf(&e).Elem())
	b, err := Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	e.Schema = Schema
	got, ok := scan(b)
	if d := cmp.Diff(e, got); !ok || d != "" {
		t.Errorf("taken: %v\n%s\n%s", ok, b, d)
	}
	for _, name := range []string{"v2_full", "v2_minimal", "v3_full", "v3_minimal"} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := general(b)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := scan(b)
		if d := cmp.Diff(want, got); !ok || d != "" {
			t.Errorf("%s: taken: %v\n%s", name, ok, d)
		}
	}
}

// TestTextsWithMarks: a text is what JSON says, whatever is escaped in it and how.
func TestTextsWithMarks(t *testing.T) {
	parts := []string{`\"`, `\\`, `\n`, `\/`, `\u0041`, `\u005c`, `a`, `中`, `{`, `\x`, "\\\xff", "\\\n", ``}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				text := `"` + a + b + c + `"`
				var want string
				err := json.Unmarshal([]byte(text), &want)
				s := scanner{b: text}
				if got := s.quoted(); s.bad != (err != nil) || err == nil && (got != want || s.at != len(text)) {
					t.Errorf("%s: %q, bad %v, want %q, %v", text, got, s.bad, want, err)
				}
			}
		}
	}
}

// TestScanLeavesTheRest: what is not written as Encode writes is for the general decoder, whatever that makes of it.
func TestScanLeavesTheRest(t *testing.T) {
	for _, text := range []string{
		``, `{`, `{}`, `{"schema":3`, `{"schema":3,}`, `{"schema":3}}`, `{"schema":3} `, `{"schema":03}`, `{"schema":3,"time":1.5}`, `{"schema":3,"time":1e3}`,
		`{"schema":3,"time":}`, `{"schema":3,"time":-}`, `{"schema":3,"time":9223372036854775808}`, `{"schema":3,"id":"a","id":"b"}`, `{"schema":3,"salt":"a","id":"b"}`,
		`{"schema":3,"ID":"a"}`, `{"schema":3, "id":"a"}`, `{"schema":3"id":"a"}`, `{"schema":3;"id":"a"}`, `{"schema":3,,"id":"a"}`, `{"schema":3,"id":"a`, `{"schema":3,"id":"a\`, `{"schema":3,"id":"a\"}`,
		"{\"schema\":3,\"id\":\"\xff\"}", "{\"schema\":3,\"id\":\"a\nb\"}", `{"schema":3,"id":"\x"}`, `{"schema":3,"id":null}`, `{"schema":3,"actor":{}}`, `{"schema":3,"actor":null}`,
		`{"schema":3,"findings":[]}`, `{"schema":3,"findings":[{}]}`, `{"schema":3,"findings":[{"count":1},]}`, `{"schema":3,"documents":["a"}`, `{"schema":3,"detail":{}}`,
		`{"schema":3,"detail":{"a":"1","a":"2"}}`, `{"schema":3,"usage":{"estimated":false}}`, `{"schema":3,"usage":{"estimated":tru`, `{"schema":2,"label_key":"x"}`, `{"schema":3,"surprise":1}`,
	} {
		if e, ok := scan([]byte(text)); ok {
			t.Errorf("%q was taken as %+v", text, e)
		}
		if schemaOf([]byte(text)) == 0 {
			continue
		}
		want, werr := general([]byte(text))
		got, err := Decode([]byte(text))
		if (err == nil) != (werr == nil) || !cmp.Equal(want, got) {
			t.Errorf("%q: %+v, %v; the general decoder says %+v, %v", text, got, err, want, werr)
		}
	}
}

// FuzzScan: whatever scan takes, the general decoder reads the same way.
func FuzzScan(f *testing.F) {
	var e Event
	filled(reflect.ValueOf(&e).Elem())
	full, err := Encode(e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Add([]byte(strings.Replace(string(full), `"schema":3`, `"schema":2`, 1)))
	f.Add([]byte(`{"schema":2,"id":"\ud800\"{","time":-0,"findings":[{"count":-1}],"detail":{"{":"}"}}`))
	f.Add([]byte(`{"schema":3,"id":"","steps":{"decode":0}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := scan(b)
		if !ok {
			return
		}
		want, err := general(b)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("%q: %v\n%s", b, err, d)
		}
	})
}
