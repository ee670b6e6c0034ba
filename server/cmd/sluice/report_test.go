package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReports: verification and export leave a report in the format of its name and the language of the command, and never over another file.
func TestReports(t *testing.T) {
	s := newSite(t, nil, quiet)
	if err := s.up().stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(s.dir, name) }
	read := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s.run("audit", "verify", "--report", file("v.doc")).wants(t, exitUsage, ".pdf, .docx or .md")
	s.run("audit", "verify", "--report", file("v.pdf")).wants(t, exitOK, "OK: nothing was altered")
	s.run("audit", "verify", "--report", file("v.pdf")).wants(t, exitFailed, "exists")
	s.run("audit", "export", "--out", file("b.zip"), "--report", file("v.pdf")).wants(t, exitFailed, "exists")
	if b := read("v.pdf"); !bytes.HasPrefix(b, []byte("%PDF-1.7")) || !bytes.Contains(b, []byte("/Lang (en)")) {
		t.Errorf("%.40q", b)
	}
	s.run("audit", "export", "--out", file("b.zip"), "--report", file("b.md")).wants(t, exitOK, "checked")
	if b := string(read("b.md")); !strings.Contains(b, "# Evidence bundle: contents") || !strings.Contains(b, "b.zip") {
		t.Errorf("%s", b)
	}
	s.env = append(s.env, "LANG=zh_CN.UTF-8")
	s.run("audit", "verify", "--report", file("v.docx")).wants(t, exitOK, "通过：没有记录被更改")
	z, err := zip.NewReader(bytes.NewReader(read("v.docx")), int64(len(read("v.docx"))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Open("word/document.xml"); err != nil {
		t.Error(err)
	}
	s.run("audit", "verify", "--report", file("v.md")).wants(t, exitOK)
	if b := string(read("v.md")); !strings.Contains(b, "# 审计日志校验报告") {
		t.Errorf("%s", b)
	}
}
