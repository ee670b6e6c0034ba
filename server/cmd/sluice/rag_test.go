package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// TestRAGCommands fills a knowledge base from a folder as an operator does: once, again, after changes, with files that cannot be
// added, in both languages; and searches it.
func TestRAGCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, "")
	raw, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	s.write(strings.NewReplacer(
		"models: []}", fmt.Sprintf("models: [{id: %s, path: %q}]}", testmodel.E5ID, testmodel.Path(t, testmodel.E5)),
		`rag: {embedding_model: ""}`, "rag: {embedding_model: "+testmodel.E5ID+"}").Replace(string(raw)))
	s.env = s.up("--no-temporal", "--no-console").client()

	folder := filepath.Join(s.dir, "docs")
	file := func(name, content string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("停车.md", "# 停车\n\n居民到7号窗口换领停车证。\n")
	file("bins.html", "<h1>Bins</h1><p>They are emptied on Tuesday.")
	file("sub/bins.html", "<p>Other bins.")
	file(".git/note.txt", "hidden")
	file("photo.jpg", "no text")
	sheet, err := os.ReadFile(filepath.Join("..", "..", "..", "rag", "parse", "testdata", "sheet.xlsx"))
	if err != nil {
		t.Fatal(err)
	}
	file("sheet.xlsx", string(sheet))

	s.run("rag", "ingest", folder).wants(t, exitUsage, "--collection")
	s.run("rag", "ingest", folder, "--collection", "kb").wants(t, exitFailed, "kb", "--create")
	s.run("rag", "ingest", filepath.Join(s.dir, "none"), "--collection", "kb").wants(t, exitFailed, "none", "no such file")
	s.run("rag", "ingest", filepath.Join(folder, ".git"), "--collection", "kb", "--create").wants(t, exitOK, "note.txt … new")
	s.run("rag", "ingest", filepath.Join(folder, "bins.html"), filepath.Join(folder, "sub", "bins.html"), "--collection", "kb").
		wants(t, exitUsage, "bins.html", "the folder above")

	s.run("rag", "ingest", folder, "--collection", "kb", "--create").
		wants(t, exitOK, "[1/4] bins.html … new, chunks: 1", "sheet.xlsx … new", "left out: 1 hidden sheets were left out", "sub/bins.html … new", "kb: 4 new, 0 updated, 0 unchanged, 0 not added; 1 files of other types")
	file("bins.html", "<h1>Bins</h1><p>They are emptied on Monday.")
	file("bad.txt", "Gr\xfc\xdfe")
	s.run("rag", "ingest", folder, "--collection", "kb").
		wants(t, exitFailed, "bins.html … v1 → v2", "停车.md … unchanged", "cannot be told for certain", "kb: 0 new, 1 updated, 3 unchanged, 1 not added", "not added (1): bad.txt")
	s.env = append(s.env, "LANG=zh_CN.UTF-8")
	s.run("rag", "ingest", folder, "--collection", "kb").wants(t, exitFailed, "未变化", "无法确定其字符集", "未收入：已略去 1 个隐藏的工作表", "kb：新增 0，更新 0，未变化 4，未导入 1")
	s.env = s.env[:len(s.env)-1]

	known := filepath.Join(s.dir, "known.txt")
	ingest := func(values string) result {
		t.Helper()
		if err := os.WriteFile(known, []byte(values), 0o600); err != nil {
			t.Fatal(err)
		}
		return s.run("rag", "ingest", filepath.Join(folder, "停车.md"), "--collection", "kb", "--known", known)
	}
	ingest("张三\ncompany\tZorblax\n").wants(t, exitOK, "停车.md … v1 → v2")
	ingest("\ufeff张三\r\n\n company\t Zorblax").wants(t, exitOK, "unchanged")
	bad := ingest("张三\nnothing\tZorblax\n")
	bad.wants(t, exitFailed, "known[1].class")
	if strings.Contains(bad.out+bad.err, "Zorblax") {
		t.Errorf("a value is printed: %s%s", bad.out, bad.err)
	}
	ingest(" \n\t\n").wants(t, exitUsage, "names no values")
	for values, want := range map[string]string{ // each would mask nothing
		"\xd5\xc5\xc8\xfd\n": "not UTF-8", "张三\ncompany Zorblax\n": "line 2 wants a tab", "company\t\n": "line 1 wants a class", "\n\tZorblax\n": "line 2 wants a class",
	} {
		r := ingest(values)
		r.wants(t, exitUsage, want)
		if strings.Contains(r.out+r.err, "Zorblax") {
			t.Errorf("a value is printed: %s%s", r.out, r.err)
		}
	}
	s.run("rag", "ingest", folder, "--collection", "kb", "--known", filepath.Join(s.dir, "none")).wants(t, exitFailed, "none", "no such file")
	s.run("rag", "ingest", filepath.Join(folder, "停车.md"), "--collection", "kb").wants(t, exitOK, "v2 → v3") // they belong to a version

	s.run("rag", "search", "Monday", "--collection", "kb", "--top", "1").wants(t, exitOK, "bins.html v2 [0:33]", "emptied on Monday")
	s.run("rag", "search", "停车证在哪里换", "--collection", "kb", "--top", "1").wants(t, exitOK, "停车.md v3 [", "7号窗口")
	set, report := filepath.Join(s.dir, "set.jsonl"), filepath.Join(s.dir, "report.json")
	question := func(lines string) {
		t.Helper()
		if err := os.WriteFile(set, []byte(`{"set":"small","version":"1"}`+"\n"+lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	question(`{"id":"1","question":"停车证在哪里换领？","documents":["停车.md"]}` + "\n" + `{"id":"2","question":"Who was the first emperor of Rome?","unanswerable":true}`)
	s.run("rag", "eval", set).wants(t, exitUsage, "--collection")
	s.run("rag", "eval", set, "--collection", "kb", "--report", report).wants(t, exitOK, "small 1, 2", "HIT_RATE", "100.0 %", "1/1", "ANSWERED", "FALSE_ANSWERS")
	s.run("rag", "eval", set, "--collection", "kb", "--against", report, "--json").wants(t, exitOK, `"refused_right"`, `"changes"`, `"score": 0.`)
	question(`{"id":"1","question":"停车证在哪里换领？"}`)
	s.run("rag", "eval", set, "--collection", "kb").wants(t, exitFailed, "line 2")
	question(`{"id":"1","question":"停车证在哪里换领？","documents":["停车.md"]}`)
	s.run("rag", "eval", set, "--collection", "kb", "--against", report).wants(t, exitFailed, "another set")
	s.run("rag", "eval", set, "--collection", "none").wants(t, exitFailed, "none")

	s.run("rag", "delete", "停车.md", "nothing.md", "--collection", "kb").wants(t, exitFailed, "停车.md: deleted", "nothing.md: no such document")
	s.run("rag", "list", "--collection", "kb").wants(t, exitOK, "sub/bins.html", "v2")
	s.run("rag", "create", "private", "--label", "staff", "--title", "Private").wants(t, exitOK, "sluice rag ingest")
	s.run("rag", "keep", "kb", "--versions", "2").wants(t, exitOK, "2 of each document", "for 0 days")
	s.run("rag", "keep", "kb", "--days", "30").wants(t, exitOK, "2 of each document", "for 30 days") // the other stays
	s.run("rag", "keep", "kb", "--days", "-1").wants(t, exitFailed, "keep_days")
	s.run("rag", "keep", "none", "--days", "1").wants(t, exitFailed, "no such collection")
	s.run("rag", "list").wants(t, exitOK, "kb", "private", "staff", "Private")
	s.run("rag", "search", "x", "--collection", "private").wants(t, exitFailed, "access labels", "sluice rag list")
}
