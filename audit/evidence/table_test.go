package evidence

import (
	"encoding/csv"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit/record"
)

var update = flag.Bool("update", false, "write the golden files")

// TestTableGolden fixes the table: bundles that were written must stay verifiable, so a change here needs another format of the bundle.
func TestTableGolden(t *testing.T) {
	var table csvTable
	got := append([]byte{}, table.header()...)
	older := fullEvent() // its row was written before version 3
	older.Schema, older.LabelKey, older.Steps = 2, "", record.Steps{}
	for i, e := range []record.Event{older, {}, {ID: "=cmd|' /C calc'!A0", Tenant: "@x", Project: "＝1", Detail: map[string]string{"a": "\"q\",\nb"}}, fullEvent()} {
		got = append(got, table.row(int64(i), e)...)
	}
	path := filepath.Join("testdata", "table.csv")
	if *update {
		must(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if string(got) != string(want) {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(got), "\ufeff"))).ReadAll()
	must(t, err)
	for i, r := range rows {
		if len(r) != len(columnNames()) {
			t.Errorf("row %d has %d cells, want %d", i, len(r), len(columnNames()))
		}
		for _, c := range r {
			if c != "" && strings.ContainsAny(c[:1], "=+-@\t\r") {
				t.Errorf("row %d: %q is a formula", i, c)
			}
		}
	}
}

func fullEvent() record.Event {
	return record.Event{
		Schema: 3, ID: "id", Salt: "salt", Request: "request", Stage: record.StageOutcome, Time: 1_700_000_000_000_001, Tenant: "租户", Project: "project",
		Region: "region", Actor: record.Actor{Kind: "key", ID: "actor", Name: "name", OnBehalfOf: "someone"}, Session: "session", Source: "10.0.0.1",
		Action: "chat.completions", Resource: "resource", Route: "route", Dialect: "openai",
		Model: record.Model{
			Asked: "asked", Routed: "routed", Reported: "reported", Version: "1", Digest: "sha256:ab", Precision: "q8", Template: "template",
			Engine: "native/1", Adapter: "adapter", Replay: "replay",
		},
		Policy: "3", PolicyDigest: "sha256:cd", PriceBook: "2", Rollout: "rollout", Arm: "stable",
		Findings: []record.Finding{
			{Direction: "request", Class: "mobile", Detector: "mobile/2", Action: "masked", Count: 2},
			{Direction: "answer", Class: "name", Action: "passed", Count: 1},
		},
		Safety:   []record.Rule{{Direction: "request", ID: "rule-1", Action: "passed"}, {Direction: "answer", ID: "rule-2", Action: "blocked"}},
		Decision: "allow", Documents: []string{"c/d@1#0", "c/e@2#1"},
		Usage: record.Usage{
			PromptTokens: 10, CachedTokens: 3, CompletionTokens: 20, Estimated: true, Cost: -1_234_567_890_123, Currency: "CNY", Energy: 99, EnergyMethod: "declared",
		},
		Label: "label", LabelKey: "label key", Watermark: "watermark", PromptDigest: "aa", AnswerDigest: "bb",
		Contents: []record.Content{{Direction: "request", Form: "masked", Key: "k1", Digest: "dd", Bytes: 5}},
		Outcome:  "ok", ErrorKind: "kind", ErrorCode: "code", Status: 200, Latency: record.Latency{Admit: 100, Queue: 50, FirstToken: 2000, Total: 9000},
		Steps:  record.Steps{Authenticate: 1, Limit: 2, Policy: 3, Route: 4, Reserve: 5, Retrieve: 6, Record: 7, Prefill: 8, Decode: 9},
		Detail: map[string]string{"b": "2", "a": "1"},
	}
}

// TestTableHasEverything fails when a field of a record has no column: set one field at a time, the row has to differ.
func TestTableHasEverything(t *testing.T) {
	row := func(e record.Event) string { return strings.Join(columns(0, e), "\x00") }
	full := fullEvent()
	left := map[string]bool{"Schema": true, "Salt": true} // these say nothing to people
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch {
		case left[path]:
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), v.Field(i))
			}
		case v.Kind() == reflect.Slice:
			walk(path+"[0]", v.Index(0))
		default:
			before, old := row(full), reflect.New(v.Type()).Elem()
			old.Set(v)
			if v.IsZero() {
				t.Errorf("%s is not set in the test", path)
			}
			v.SetZero()
			if row(full) == before {
				t.Errorf("%s has no column", path)
			}
			v.Set(old)
		}
	}
	walk("", reflect.ValueOf(&full).Elem())
}

func TestFixed(t *testing.T) {
	for v, want := range map[int64]string{0: "0.000000", 1: "0.000001", -1: "-0.000001", 1234567: "1.234567", math.MinInt64: "-9223372036854.775808"} {
		if got := fixed(v, 6); got != want {
			t.Errorf("%d is %s, want %s", v, got, want)
		}
	}
}
