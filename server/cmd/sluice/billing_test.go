package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestBillingCommands goes the way of an operator: look at the month, correct, close the month before, file the statements, and find all of it
// in the audit log.
func TestBillingCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = p.client()
	admin := &cli.App{Environ: s.env, Stdin: strings.NewReader("")}
	flags := cli.RemoteFlags{URL: admin.Getenv("SLUICE_URL"), User: admin.Getenv("SLUICE_ADMIN_USER")}
	file := func(name string) string { return filepath.Join(s.dir, name) }
	now := time.Now().UTC()
	month, before := now.Format("2006-01"), time.Date(now.Year(), now.Month()-1, 15, 0, 0, 0, 0, time.UTC).Format("2006-01")
	s.run("chat", "one two three").wants(t, exitOK, "one two three")

	read := func(args ...string) statement.Statement {
		t.Helper()
		r := s.run(append([]string{"billing", "statement", "--format", "json", "--month"}, args...)...)
		r.wants(t, exitOK)
		var signed statement.Signed
		if err := json.Unmarshal([]byte(r.out), &signed); err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(signed.Statement); hex.EncodeToString(sum[:]) != signed.Digest {
			t.Errorf("the digest is of something else: %s", r.out)
		}
		x, err := statement.Parse(signed.Statement, signed.Digest)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	var shown statement.Statement
	p.eventually("the chat to be billed", func() bool { shown = read(month); return shown.Requests == 1 })
	if shown.State != statement.Provisional || shown.Tenant != "demo" || shown.Amounts.Total <= 0 || len(shown.Lines) != 2 {
		t.Errorf("%+v", shown)
	}
	var usage adminapi.UsageReport
	if err := admin.Ask(t.Context(), flags, http.MethodGet, "/usage", nil, &usage); err != nil || usage.Total.CostNano != shown.Amounts.Total {
		t.Errorf("the report says %+v, the statement %d, %v", usage.Total, shown.Amounts.Total, err)
	}

	// The same chat in the report of the service level.
	s.run("report", "sla", "--month", month).wants(t, exitOK, "P99.9", "100.0000%")
	s.run("report", "sla", "--month", before).wants(t, exitOK, " -")
	s.run("report", "sla", "--month", month, "--format", "csv", "--tenant", "*").wants(t, exitOK, "goodput_per_second")
	s.run("report", "sla").wants(t, exitUsage, "--month")
	s.run("report", "sla", "--month", month, "--format", "xls").wants(t, exitUsage, "xls")
	s.run("report", "sla", "--month", month, "--out", file("sla")).wants(t, exitUsage, "--format")
	s.run("report", "sla", "--month", month, "--out", file("sla.table")).wants(t, exitUsage, "table without --out")
	s.run("report", "sla", "--month", month, "--format", "table", "--out", file("sla")).wants(t, exitUsage, "table without --out")
	s.run("report", "sla", "--month", month, "--out", file("sla.JSON")).wants(t, exitOK)
	if b, err := os.ReadFile(file("sla.JSON")); err != nil || !json.Valid(b) {
		t.Errorf("%.20q, %v", b, err)
	}

	s.run("billing", "correct", "--reason", "outage", "--month", before, "--", "-0.0000005").wants(t, exitOK, "corrected by -0.0000005")
	s.run("billing", "corrections").wants(t, exitOK, "outage", before, "admin")
	if corrected := read(month); corrected.Amounts.Total != shown.Amounts.Total-500 || len(corrected.Corrections) != 1 {
		t.Errorf("%+v", corrected.Amounts)
	}
	if err := admin.Ask(t.Context(), flags, http.MethodGet, "/usage", nil, &usage); err != nil || usage.Total.CostNano != shown.Amounts.Total-500 || usage.Total.CorrectionsNano != -500 {
		t.Errorf("%+v, %v", usage.Total, err)
	}

	s.run("billing", "close", month).wants(t, exitFailed, "not over", "conflict")
	s.run("billing", "close", before, "--tenant", "nobody").wants(t, exitFailed, "not_found")
	closed := s.run("billing", "close", before)
	closed.wants(t, exitOK, before+" of demo is closed", "SHA-256 ")
	digest := strings.TrimSpace(closed.out[strings.LastIndex(closed.out, " "):])
	s.run("billing", "close", before).wants(t, exitFailed, "already_exists")
	s.run("billing", "list").wants(t, exitOK, before+"-demo", digest, "PAYABLE")
	if x := read(before); x.State != statement.Closed || x.ClosedBy != "admin" {
		t.Errorf("%+v", x)
	} else if d, err := x.Digest(); err != nil || d != digest {
		t.Errorf("closed with %s, read with %s", digest, d)
	}

	for name, begins := range map[string]string{"s.pdf": "%PDF-1.7", "s.docx": "PK", "s.md": "# Statement of usage", "s.csv": "\ufeffstatement,", "s.focus.csv": "BilledCost,", "s.focus.jsonl": `{"BilledCost":`} {
		s.run("billing", "statement", "--month", month, "--out", file(name)).wants(t, exitOK)
		if b, err := os.ReadFile(file(name)); err != nil || !bytes.HasPrefix(b, []byte(begins)) {
			t.Errorf("%s: %.20q, %v", name, b, err)
		}
	}
	s.run("billing", "statement", "--month", month, "--out", file("s.pdf")).wants(t, exitFailed, "exists")
	s.run("bill", "export", "--month", month, "--format", "focus").wants(t, exitOK, "Adjustment", "Rounding of the total", ",Tokens,", ",Demo,")
	zh := *s
	zh.env = append([]string{"LANG=zh_CN.UTF-8"}, s.env...)
	zh.run("billing", "statement", "--month", month, "--format", "md").wants(t, exitOK, "# 用量账单", "暂估", "outage")
	zh.run("billing", "statement", "--format", "md").wants(t, exitUsage, "需要 --month")
	for _, wrong := range [][]string{{"statement", "--month", month}, {"statement", "--month", month, "--out", file("s.xls")}, {"correct", "0"}, {"correct", "1e3"}, {"correct", "1"}} {
		s.run(append([]string{"billing"}, wrong...)...).wants(t, exitUsage)
	}
	s.run("billing", "statement", "--month", "2026-13", "--format", "csv").wants(t, exitFailed, "month")

	s.run("report", "cost", "--month", month).wants(t, exitFailed, "cost book effective in '"+month+"'")
	costs := `schema: 1
currency: ` + shown.Currency + `
effective_from: 2020-01-01T00:00:00Z
zone: Asia/Shanghai
engines:
  - name: rack-a
    models: ["*"]
    machines: {value: 2, source: inventory 14, date: 2026-09-05}
    machine_hour: {value: 7, source: contract 7, date: 2026-09-05}
    pue: {value: 1.25, source: meters, date: 2026-09-05}
    slo_total_ms: {value: 86400000, source: contract 9, date: 2026-09-05}
`
	if err := os.WriteFile(file("costs.yaml"), []byte(costs), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("report", "declare", file("costs.yaml")).wants(t, exitOK, "published cost book v1")
	s.run("report", "declare", file("costs.yaml")).wants(t, exitFailed, "already_exists")
	s.run("report", "books").wants(t, exitOK, "v1", "true")
	s.run("report", "books", "v1").wants(t, exitOK, "contract 7")
	s.run("report", "books", "v9").wants(t, exitFailed, "no cost book v9")
	s.run("report", "cost").wants(t, exitUsage, "--month")
	s.run("report", "cost", "--month", month).wants(t, exitOK, "by cost book v1", "rent", "unknown: idle_watts", "unknown, at least", "inventory 14", "not over")
	zh.run("report", "cost", "--month", month, "--before-book", "v1").wants(t, exitOK, "按成本表 v1", "未知：space_month", "的变化")
	var compared adminapi.CostComparison
	if err := admin.Ask(t.Context(), flags, http.MethodGet, "/cost-report?month="+month, nil, &compared); err != nil {
		t.Fatal(err)
	}
	if e := compared.After.Engines[0]; e.Requests != 1 || e.Good != 1 || e.Untimed != 0 || e.TotalNano != nil || *e.BilledNano != shown.Amounts.Total {
		t.Errorf("%+v", e)
	}

	var page struct {
		Items []struct {
			Event struct {
				Stage, Resource string
				Detail          map[string]string
			}
		}
	}
	for action, want := range map[string]string{"admin.closeMonth": "digest " + digest, "admin.getStatement": "format pdf", "admin.correctUsage": "amount -0.0000005"} {
		if err := admin.Ask(t.Context(), flags, http.MethodGet, "/audit/records?action="+action, nil, &page); err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(page.Items, func(i struct {
			Event struct {
				Stage, Resource string
				Detail          map[string]string
			}
		},
		) bool {
			key, value, _ := strings.Cut(want, " ")
			return i.Event.Stage == "outcome" && i.Event.Detail[key] == value
		})
		if !found {
			t.Errorf("no record of %s says %s: %+v", action, want, page.Items)
		}
	}
}

// TestBillingNeedsASecondPerson: once the duties are separated, the commands ask for the approval that closing and correcting need, and use it.
func TestBillingNeedsASecondPerson(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = append(p.client(), s.env...)
	split := s.run("duties", "split", "--system", "li.ming", "--security", "wang.fang", "--audit", "zhao.lei", "--compliance", "sun.yue")
	split.wants(t, exitOK, "li.ming")
	const password = "correct horse battery staple"
	person := func(name string) *site {
		other := *s
		as := func(password string, more ...string) {
			other.env = append(append([]string{"SLUICE_ADMIN_USER=" + name, "SLUICE_ADMIN_PASSWORD=" + password}, more...), s.env...)
		}
		_, rest, _ := strings.Cut(split.out, name)
		once := strings.Fields(rest)
		as(once[0], "SLUICE_NEW_PASSWORD="+password)
		p.eventually(name+" to be known", func() bool { return other.run("user", "password").code == exitOK })
		as(password)
		return &other
	}
	admin, officer := person("li.ming"), person("wang.fang")

	correct := func(more ...string) result {
		return admin.run(append(append([]string{"billing", "correct", "--reason", "outage"}, more...), "--", "-0.5")...)
	}
	correct().wants(t, exitFailed, "act_approval_required")
	asked := correct("--ask", "ticket 17")
	asked.wants(t, exitFailed, "Nothing was changed")
	_, id, _ := strings.Cut(asked.err, "give --acts ")
	id, _, _ = strings.Cut(id, "`")
	if list := admin.run("billing", "corrections"); strings.Contains(list.out, "outage") {
		t.Errorf("corrected before it was approved:\n%s", list.out)
	}
	officer.run("approval", "give", "--acts", id).wants(t, exitOK)
	correct("--approval", id).wants(t, exitOK, "corrected by -0.5")
	correct("--approval", id).wants(t, exitFailed)
	if err := p.stop(syscall.SIGINT); err != nil {
		t.Error(err)
	}
}
