package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/eval"
)

// TestEvalMaskingOnOwnCorpus measures a corpus whose figures are known beforehand.
func TestEvalMaskingOnOwnCorpus(t *testing.T) {
	path := file(t, "own.jsonl", `{"id":"own/bank/00000/clean","text":"电话13800138000","spans":[{"start":2,"end":13,"type":"cn_mobile","wellformed":true}]}
{"id":"own/bank/00001/clean","text":"代号Q","spans":[{"start":2,"end":3,"type":"wechat","wellformed":true}]}
{"id":"own/negatives/00000/clean","text":"拨打12345","spans":[]}
`)
	r := runCommand(t.Context(), nil, "", "eval", "masking", "--corpus", path)
	r.wants(t, exitOK, "cn_mobile", "50.00%", "0 of 1 touched")
	if strings.Contains(r.out, "13800138000") {
		t.Error("prints texts unasked")
	}
	r = runCommand(t.Context(), nil, "", "eval", "masking", "--corpus", path, "--show-misses")
	r.wants(t, exitOK, "代号⟪wechat:Q⟫", "missed #0 wechat")
	r = runCommand(t.Context(), []string{"SLUICE_LANG=zh"}, "", "eval", "masking", "--corpus", path)
	r.wants(t, exitOK, "召回率", "难负例")

	r = runCommand(t.Context(), nil, "", "eval", "masking", "--corpus", path, "--json")
	r.wants(t, exitOK)
	var report struct {
		eval.Report
		Gates  []eval.Failure `json:"gates_missed"`
		Change *eval.Change   `json:"change,omitempty"`
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Overall.Spans != 2 || report.Overall.Hits != 1 || len(report.Missed) != 1 || report.Missed[0] != "own/bank/00001/clean#0 wechat" {
		t.Errorf("%+v", report)
	}
	// Against a baseline that missed nothing, what is missed now is named and fails.
	report.Missed = []string{}
	better, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	baseline := file(t, "better.json", string(better))
	r = runCommand(t.Context(), nil, "", "eval", "masking", "--corpus", path, "--baseline", baseline)
	r.wants(t, exitFindings, "missed now, found before: 1", "own/bank/00001/clean#0 wechat")
	// Of another set it says nothing.
	report.Digest = "sha256:other"
	other, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	r = runCommand(t.Context(), nil, "", "eval", "masking", "--corpus", path, "--baseline", file(t, "other.json", string(other)))
	r.wants(t, exitFailed)
}

func TestEvalMaskingReadsFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "frames", "gate"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "frames", "gate", "bank.txt"), []byte("手机{cn_mobile}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runCommand(t.Context(), nil, "", "eval", "masking", "--corpus", dir).wants(t, exitOK, "cn_mobile", "bank")
}

func TestEvalMaskingMistakes(t *testing.T) {
	empty := file(t, "empty.jsonl", "")
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"--set", "other"}, "gate or tune"},
		{exitFailed, []string{"--corpus", empty}, "no documents"},
		{exitFailed, []string{"--corpus", t.TempDir()}, "nothing found"},
		{exitFailed, []string{"--corpus", empty + "x"}, "empty.jsonlx"},
		{exitFailed, []string{"--corpus", file(t, "bad.jsonl", "{")}, "document 1"},
	} {
		runCommand(t.Context(), nil, "", append([]string{"eval", "masking"}, c.args...)...).wants(t, c.code, c.want)
	}
}
