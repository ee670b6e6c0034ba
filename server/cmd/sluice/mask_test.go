package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/scan"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// scanned reads what mask scan printed.
func scanned(t *testing.T, out string) []scan.Text {
	t.Helper()
	var all []scan.Text
	dec := json.NewDecoder(strings.NewReader(out))
	for dec.More() {
		var s scan.Text
		if err := dec.Decode(&s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func TestMaskScanJSONLines(t *testing.T) {
	path := file(t, "calls.jsonl", "\ufeff"+`{"id":"a","text":"找我：13800138000，谢谢😀，邮箱zs@example.com"}
{"id":7,"text":"没有","more":[1]}

not json
{"id":"b"}
{"text":"13900139000"}`)
	r := runCommand(t.Context(), nil, "", "mask", "scan", path)
	r.wants(t, exitFailed)
	for _, want := range []string{"2 places", "calls.jsonl:4: not a JSON object", "calls.jsonl:5: not a JSON object"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("stderr lacks %q: %s", want, r.err)
		}
	}
	all := scanned(t, r.out)
	if len(all) != 3 || string(all[0].ID) != `"a"` || string(all[1].ID) != "7" || string(all[2].ID) != "6" {
		t.Fatalf("%+v", all)
	}
	first := all[0]
	if len(first.Findings) != 2 || first.Findings[0].Start != 3 || first.Findings[0].End != 14 || first.Findings[1].Start != 21 || first.Findings[1].End != 35 {
		t.Errorf("%+v", first.Findings)
	}
	if first.Masked != "找我：138****8000，谢谢😀，邮箱z***@example.com" {
		t.Error(first.Masked)
	}
	if all[1].Findings == nil || len(all[1].Findings) != 0 || all[1].Masked != "没有" {
		t.Errorf("%+v", all[1])
	}
}

func TestMaskScanText(t *testing.T) {
	path := file(t, "note.txt", "电话13800138000\n第二行 13900139000\n")
	r := runCommand(t.Context(), nil, "", "mask", "scan", path)
	r.wants(t, exitOK)
	all := scanned(t, r.out)
	if len(all) != 1 || string(all[0].ID) != `"`+path+`"` || len(all[0].Findings) != 2 || all[0].Findings[1].Start != 18 {
		t.Fatalf("%+v", all)
	}
	r = runCommand(t.Context(), nil, "我的号码13800138000", "mask", "scan")
	r.wants(t, exitOK, `"id":"stdin"`, "138****8000")
	r = runCommand(t.Context(), nil, `{"id":1,"text":"号码13800138000"}`, "mask", "scan")
	r.wants(t, exitOK, `"id":1,`)
	r = runCommand(t.Context(), nil, "\xff\xfe", "mask", "scan")
	r.wants(t, exitFailed)
	if !strings.Contains(r.err, "not UTF-8") {
		t.Error(r.err)
	}
}

func TestMaskScanOnlyChosenTypesAndCounts(t *testing.T) {
	text := "13800138000和13900139000，邮箱zs@example.com"
	r := runCommand(t.Context(), nil, text, "mask", "scan", "--types", "email")
	r.wants(t, exitOK)
	if all := scanned(t, r.out); len(all[0].Findings) != 1 || all[0].Findings[0].Type != "email" {
		t.Errorf("%+v", all)
	}
	r = runCommand(t.Context(), nil, text, "mask", "scan", "--only-counts")
	r.wants(t, exitOK, "cn_mobile", "email")
	if strings.Contains(r.out, "138") || !strings.Contains(strings.Join(strings.Fields(r.out), " "), "cn_mobile 2 1") {
		t.Error(r.out)
	}
}

// TestMaskScanExplains: reasons are there when they are asked for, and add up to the score.
func TestMaskScanExplains(t *testing.T) {
	text := "身份证号：11010519491231002X"
	r := runCommand(t.Context(), nil, text, "mask", "scan")
	r.wants(t, exitOK)
	if strings.Contains(r.out, "reasons") || strings.Contains(r.out, "form") {
		t.Error(r.out)
	}
	r = runCommand(t.Context(), nil, text, "mask", "scan", "--explain")
	r.wants(t, exitOK, `"name":"check_right"`)
	f := scanned(t, r.out)[0].Findings[0]
	if f.Form == nil || len(f.Reasons) == 0 {
		t.Fatalf("%+v", f)
	}
	sum := *f.Form
	for _, why := range f.Reasons {
		sum += why.Weight
	}
	if math.Abs(min(sum, 1)-f.Score) > 1e-9 {
		t.Errorf("%v is not %v: %+v", sum, f.Score, f.Reasons)
	}
	runCommand(t.Context(), nil, text, "mask", "scan", "--explain", "--only-counts").wants(t, exitUsage)
}

func TestMaskScanMistakes(t *testing.T) {
	for _, args := range [][]string{{"--types", "nose"}, {"--format", "xml"}, {t.TempDir()}} {
		r := runCommand(t.Context(), nil, "", append([]string{"mask", "scan"}, args...)...)
		r.wants(t, exitUsage)
	}
	runCommand(t.Context(), nil, "", "mask", "scan", filepath.Join(t.TempDir(), "none.txt")).wants(t, exitFailed)
}

// TestMaskScanKeepsTheOrder: texts are scanned side by side and come out as they came in.
func TestMaskScanKeepsTheOrder(t *testing.T) {
	var in strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&in, `{"id":%d,"text":"%s1380013%04d"}`+"\n", i, strings.Repeat("很长的话。", i%400), i)
	}
	r := runCommand(t.Context(), nil, in.String(), "mask", "scan", "--types", "cn_mobile")
	r.wants(t, exitOK)
	all := scanned(t, r.out)
	if len(all) != 3000 {
		t.Fatal(len(all))
	}
	for i, s := range all {
		if string(s.ID) != fmt.Sprint(i) || len(s.Findings) != 1 || !strings.HasSuffix(s.Masked, fmt.Sprintf("138****%04d", i)) {
			t.Fatalf("%d: %+v", i, s.Findings)
		}
	}
}
