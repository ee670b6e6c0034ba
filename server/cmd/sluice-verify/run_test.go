package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/record"
)

type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range indexes {
		out = append(out, h[i])
	}
	return out, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSigner(t testing.TB, b byte) checkpoint.Signer {
	t.Helper()
	s, err := checkpoint.NewSigner("log.example/audit", bytes.Repeat([]byte{b}, 32))
	must(t, err)
	return s
}

func newWitness(t testing.TB) checkpoint.Witness {
	t.Helper()
	w, err := checkpoint.NewWitness("witness.example", bytes.Repeat([]byte{9}, 32), func() time.Time { return time.Unix(1_700_000_000, 0) })
	must(t, err)
	return w
}

// bundle writes a bundle of 600 records, cosigned, and returns its path.
func bundle(t testing.TB, tenant string) string {
	t.Helper()
	return bundleOf(t, tenant, newSigner(t, 1), newWitness(t))
}

func bundleOf(t testing.TB, tenant string, signer checkpoint.Signer, witness checkpoint.Witness) string {
	t.Helper()
	var list []evidence.Sealed
	var tree hashes
	for i := range int64(600) {
		b, err := record.Encode(record.Event{ID: fmt.Sprint("record-", i), Stage: record.StageAction, Time: i, Tenant: "demo"})
		must(t, err)
		h, err := tlog.StoredHashes(i, b, tree)
		must(t, err)
		tree, list = append(tree, h...), append(list, evidence.Sealed{Index: i, Payload: b})
	}
	root, err := tlog.TreeHash(600, tree)
	must(t, err)
	at := checkpoint.Tree{Size: 600, Root: root}
	text, err := signer.Sign(at)
	must(t, err)
	line, err := witness.Cosign(text)
	must(t, err)
	var buf bytes.Buffer
	_, err = evidence.WriteBundle(&buf, evidence.BundleConfig{
		Tenant: tenant, By: "test", Created: time.Unix(1_700_000_000, 0), Signer: signer, Checkpoint: checkpoint.Add(text, line), Tree: at, Key: signer.Key(),
	}, func(yield func(evidence.Sealed, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	}, tree)
	must(t, err)
	return write(t, "bundle.zip", buf.Bytes())
}

func write(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, b, 0o600))
	return path
}

func TestRun(t *testing.T) {
	good, selection, key := bundle(t, ""), bundle(t, "demo"), newSigner(t, 1).Key()
	whole, err := os.ReadFile(good)
	must(t, err)
	sm2, err := checkpoint.NewSM2Signer("log.example/audit", bytes.Repeat([]byte{1}, 32))
	must(t, err)
	sm2Witness, err := checkpoint.NewSM2Witness("witness.example", bytes.Repeat([]byte{9}, 32), time.Now)
	must(t, err)
	gm := bundleOf(t, "", sm2, sm2Witness)
	cut, spoiled := write(t, "cut.zip", whole[:len(whole)/2]), bytes.Clone(whole)
	spoiled[60] ^= 4
	bad, witness := write(t, "bad.zip", spoiled), newWitness(t).Key()
	wrong, err := checkpoint.NewWitness("other.example", bytes.Repeat([]byte{8}, 32), time.Now)
	must(t, err)
	for name, c := range map[string]struct {
		args []string
		code int
		want []string // in what is printed
	}{
		"proven":            {[]string{"--key", key, good}, exitProven, []string{"OK:", "通过", "Complete", "完整", "600 (proven / 已证明: 600)"}},
		"key file":          {[]string{"--key-file", write(t, "key", []byte(key+"\n")), good}, exitProven, []string{"OK:"}},
		"old and new key":   {[]string{"--key", newSigner(t, 2).Key() + " " + key, good}, exitProven, []string{"OK:"}},
		"witness":           {[]string{"--key", key, "--witness", witness, good}, exitProven, []string{"cosigned / 联署: witness.example, 2023-11-14"}},
		"selection":         {[]string{"--key", key, selection}, exitProven, []string{"nothing was left out", "不能证明没有遗漏"}},
		"no key":            {[]string{good}, exitConsistent, []string{"CONSISTENT", "自洽", key}},
		"another key":       {[]string{"--key", newSigner(t, 2).Key(), good}, exitProblems, []string{"FAILED", "未通过", "signature / 清单签名"}},
		"SM2":               {[]string{"--key", sm2.Key(), "--witness", sm2Witness.Key(), gm}, exitProven, []string{"OK: ", "witness.example"}},
		"SM2, other suite":  {[]string{"--key", key, gm}, exitProblems, []string{"signature / 清单签名: "}},
		"SM2, own key":      {[]string{gm}, exitConsistent, []string{sm2.Key()}},
		"missing witness":   {[]string{"--key", key, "--witness", witness, "--witness", wrong.Key(), good}, exitProblems, []string{"cosignature / 联署: these witnesses did not cosign the checkpoint: other.example"}},
		"spoiled":           {[]string{"--key", key, bad}, exitProblems, []string{"FAILED"}},
		"cut":               {[]string{"--key", key, cut}, exitProblems, []string{"zip / 压缩包"}},
		"cut, no key":       {[]string{cut}, exitProblems, []string{"zip / 压缩包"}},
		"help":              {[]string{"--help"}, exitProven, []string{"Exit codes / 退出码", "  3  problems"}},
		"no bundle":         {nil, exitFailed, []string{"want one bundle or proof, got 0"}},
		"two bundles":       {[]string{good, good}, exitFailed, []string{"want one bundle or proof, got 2"}},
		"unknown flag":      {[]string{"--fast", good}, exitFailed, []string{"-fast"}},
		"empty key":         {[]string{"--key", "", good}, exitFailed, []string{"--key is empty"}},
		"empty key file":    {[]string{"--key-file", write(t, "key", []byte("\n")), good}, exitFailed, []string{"holds no key"}},
		"both keys":         {[]string{"--key", key, "--key-file", "x", good}, exitFailed, []string{"not both"}},
		"unreadable key":    {[]string{"--key", "key", good}, exitFailed, []string{"read verifier key"}},
		"unreadable wit":    {[]string{"--key", key, "--witness", "w", good}, exitFailed, []string{"read witness key"}},
		"no such file":      {[]string{"--key", key, good + "x"}, exitFailed, []string{"no such file"}},
		"no such key file":  {[]string{"--key-file", good + "x", good}, exitFailed, []string{"no such file"}},
		"folder":            {[]string{"--key", key, filepath.Dir(good)}, exitFailed, []string{"is no file"}},
		"JSON":              {[]string{"--json", "--key", key, good}, exitProven, []string{`"ok": true`, `"complete": true`, `"key_given": true`}},
		"JSON of a problem": {[]string{"--json", cut}, exitProblems, []string{`"ok": false`, `"kind": "zip"`, `"cosignatures": []`}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run(t.Context(), c.args, &out, &errs, false); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String()+errs.String(), want) {
					t.Errorf("%q is not in\n%s%s", want, out.String(), errs.String())
				}
			}
			if (errs.Len() > 0) != (c.code == exitFailed) {
				t.Errorf("on the error output: %q", errs.String())
			}
			if len(c.args) > 0 && c.args[0] == "--json" {
				must(t, json.Unmarshal(out.Bytes(), &result{}))
			}
		})
	}
}

// proof writes the proof of a record of an erasure, cosigned, and returns its path.
func proof(t testing.TB, signer checkpoint.Signer, witness checkpoint.Witness) string {
	t.Helper()
	payload, err := record.Encode(record.Event{
		ID: "record-0", Stage: record.StageAction, Time: 1_767_225_600_000_000, Tenant: "demo", Action: "audit.erase", Actor: record.Actor{Kind: "user", Name: "officer"},
		Resource: "ab12", Outcome: "ok", Detail: map[string]string{"values": "3", "stays": "records backups", "warrant": "signed", "note": "\x1b[2J"},
	})
	must(t, err)
	leaf := tlog.RecordHash(payload)
	text, err := signer.Sign(checkpoint.Tree{Size: 1, Root: leaf})
	must(t, err)
	line, err := witness.Cosign(text)
	must(t, err)
	b, err := json.Marshal(evidence.ProofFile{
		Checkpoint: checkpoint.Add(text, line), Hashes: []string{}, ID: "record-0", LeafHash: fmt.Sprintf("%x", leaf[:]), Record: string(payload), TreeSize: 1, VerifierKey: signer.Key(),
	})
	must(t, err)
	return write(t, "proof.json", b)
}

// TestRunProof: the proof of a record is told from a bundle, checked with the key given or the one inside, and its record is printed.
func TestRunProof(t *testing.T) {
	good, key, witness := proof(t, newSigner(t, 1), newWitness(t)), newSigner(t, 1).Key(), newWitness(t).Key()
	b, err := os.ReadFile(good)
	must(t, err)
	sm2, err := checkpoint.NewSM2Signer("log.example/audit", bytes.Repeat([]byte{1}, 32))
	must(t, err)
	if !bytes.Contains(b, []byte("officer")) {
		t.Fatal(string(b))
	}
	forged := write(t, "forged.json", bytes.Replace(b, []byte("officer"), []byte("0fficer"), 1))
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"proven": {[]string{"--key", key, good}, exitProven, []string{
			"OK: the record", "通过：该记录", "record / 记录: record-0, index / 序号 0", "action / 操作: audit.erase", "values / 已擦除假名原值（个）: 3",
			"stays / 仍保留的内容: records backups", "time / 时间: 2026-01-01 00:00:00.000000 UTC", "not checked", "note / 详情: ?[2J",
		}},
		"witness":     {[]string{"--key", key, "--witness", witness, good}, exitProven, []string{"cosigned / 联署: witness.example, 2023-11-14"}},
		"no key":      {[]string{good}, exitConsistent, []string{"CONSISTENT", "自洽", key}},
		"another key": {[]string{"--key", newSigner(t, 2).Key(), good}, exitProblems, []string{"FAILED", "未通过", "checkpoint / 检查点"}},
		"SM2":         {[]string{"--key", sm2.Key(), proof(t, sm2, newWitness(t))}, exitProven, []string{"OK: "}},
		"changed":     {[]string{forged}, exitProblems, []string{"inclusion / 收录证明"}},
		"cut":         {[]string{"--key", key, write(t, "cut.json", b[:len(b)/2])}, exitProblems, []string{"proof / 证明"}},
		"another":     {[]string{"--key", key, write(t, "other.json", []byte("{\"a\":1}"))}, exitProblems, []string{"proof / 证明"}},
		"no such key": {[]string{"--key", "key", good}, exitFailed, []string{"read verifier key"}},
		"JSON":        {[]string{"--json", "--key", key, good}, exitProven, []string{`"ok": true`, `"key_given": true`, `"action": "audit.erase"`, `"problems": []`}},
		"JSON, cut":   {[]string{"--json", write(t, "cut.json", b[:9])}, exitProblems, []string{`"ok": false`, `"kind": "proof"`, `"record": null`}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run(t.Context(), c.args, &out, &errs, false); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String()+errs.String(), want) {
					t.Errorf("%q is not in\n%s%s", want, out.String(), errs.String())
				}
			}
			if text := out.String(); strings.Contains(text, "\x1b") || strings.Contains(text, "signed removal") {
				t.Errorf("%q", text)
			}
		})
	}
}

func TestRunIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"--key", newSigner(t, 1).Key(), bundle(t, "")}, &out, &errs, false); code != exitFailed || out.Len() > 0 {
		t.Errorf("exit code %d, %s", code, out.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestRunCannotPrint: a report that nobody received is not a success.
func TestRunCannotPrint(t *testing.T) {
	for _, args := range [][]string{{bundle(t, "")}, {"--json", bundle(t, "")}} {
		if code := run(t.Context(), args, full{}, &bytes.Buffer{}, false); code != exitFailed {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestNoControlCharacters: what a bundle says does not reach the terminal as a command.
func TestNoControlCharacters(t *testing.T) {
	r := result{BundleReport: evidence.BundleReport{Problems: []evidence.Problem{{Kind: "record", Record: "\x1b]0;x\x07", Index: 3, Cause: "a\nOK: all\u202e"}}}}
	if text := r.text(); strings.ContainsAny(text, "\x1b\x07\u202e") || strings.Contains(text, "\nOK") {
		t.Errorf("%q", text)
	}
}

// TestRunShowsProgress: on a terminal the bar is drawn, to the end.
func TestRunShowsProgress(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{bundle(t, "")}, &out, &errs, true); code != exitConsistent || !strings.Contains(errs.String(), "100%  600/600") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

// TestSize builds the program as it is given to auditors and holds it to what it promises: small, and without the platform inside.
func TestSize(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	path := filepath.Join(t.TempDir(), "sluice-verify")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	info, err := os.Stat(path)
	must(t, err)
	t.Logf("sluice-verify has %.1f MB", float64(info.Size())/1e6)
	if info.Size() > 20e6 {
		t.Errorf("sluice-verify has %d bytes", info.Size())
	}
	out, err := exec.CommandContext(t.Context(), path, "--key", newSigner(t, 1).Key(), bundle(t, "")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "OK:") {
		t.Errorf("%v\n%s", err, out)
	}
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	must(t, err)
	for _, dep := range strings.Fields(string(list)) {
		own, mine := strings.CutPrefix(dep, "github.com/sluice-project/sluice/")
		first, _, _ := strings.Cut(dep, "/")
		switch {
		case mine && (strings.HasPrefix(own, "audit/") || own == "server/cmd/sluice-verify" || own == "governance/signature" || own == "internal/strictjson" || own == "internal/progress"):
		case mine, strings.Contains(first, ".") && first != "golang.org" && !strings.HasPrefix(dep, "github.com/emmansun/gmsm/"):
			t.Errorf("sluice-verify depends on %s", dep)
		}
	}
}
