package compliance

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// TestMatrixIsWhole: the matrix of the release can be read, and one in which something leads nowhere cannot.
func TestMatrixIsWhole(t *testing.T) {
	t.Parallel()
	m, err := ReadMatrix()
	if err != nil || len(m.Sources) < 10 || len(m.Controls) < 20 {
		t.Fatalf("%d sources, %d controls, %v", len(m.Sources), len(m.Controls), err)
	}
	for was, becomes := range map[string]string{
		"controls: [audit-records, ": "controls: [audit-record, ", "tests: [TestTLS]": "tests: []", "- id: transport": "- id: masking", "zh: 第六条": "zh: ''",
		"controls: [masking]}": "controls: []}", ", operator: {en: rules and people, zh: 制度与人员}": "", "page: /audit": "pages: /audit", "- id: dsl": "- id: csl",
	} {
		changed := strings.Replace(string(matrixFile), was, becomes, 1)
		if changed == string(matrixFile) {
			t.Fatalf("%s is not in the matrix", was)
		}
		if _, err := parseMatrix([]byte(changed)); err == nil {
			t.Errorf("with %q in place of %q it is taken", becomes, was)
		}
	}
}

// TestEvaluation: a clause is as its worst control is; what cannot be asked, or does not answer in time, is never taken for good.
func TestEvaluation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		says := func(s State) Probe {
			return func(context.Context) (Answer, error) { return Answer{State: s}, nil }
		}
		m := Matrix{Controls: []Control{{ID: "holds"}, {ID: "partly"}, {ID: "off"}, {ID: "broken"}, {ID: "fails"}, {ID: "hangs"}, {ID: "none"}, {ID: "odd"}, {ID: "panics"}, {ID: "built"}}}
		probes := map[string]Probe{
			"holds": says(Holds), "partly": says(Partly), "off": says(Off), "broken": says(Broken), "odd": says("fine"),
			"built": says(Built), "panics": func(context.Context) (Answer, error) { panic("a map is nil") },
			"fails": func(context.Context) (Answer, error) { return Answer{State: Holds}, errors.New("no database") },
			"hangs": func(ctx context.Context) (Answer, error) {
				<-ctx.Done()
				return Answer{State: Holds}, ctx.Err()
			},
		}
		begun := time.Now()
		e := m.Evaluate(t.Context(), probes, begun)
		if took := time.Since(begun); took != probeTimeout {
			t.Errorf("it took %s", took)
		}
		for _, c := range []struct {
			controls []string
			want     State
		}{
			{nil, Operator},
			{[]string{"holds"}, Holds},
			{[]string{"holds", "partly"}, Partly},
			{[]string{"off", "partly"}, Off},
			{[]string{"fails", "off"}, Unknown},
			{[]string{"holds", "hangs"}, Unknown},
			{[]string{"none"}, Unknown},
			{[]string{"odd"}, Unknown},
			{[]string{"panics"}, Unknown},
			{[]string{"built", "holds"}, Built},
			{[]string{"partly", "built"}, Partly},
			{[]string{"broken", "none", "holds"}, Broken},
		} {
			if got := e.Of(Clause{Controls: c.controls}); got != c.want {
				t.Errorf("%v: %s, want %s", c.controls, got, c.want)
			}
		}
	})
}

// TestMatrixReports: the report says of every clause how it stands, in both languages, and what to do where a control does not hold.
func TestMatrixReports(t *testing.T) {
	t.Parallel()
	m, err := ReadMatrix()
	if err != nil {
		t.Fatal(err)
	}
	probes := map[string]Probe{}
	for _, c := range m.Controls {
		probes[c.ID] = func(context.Context) (Answer, error) {
			return StandsFor(1, map[bool]int{true: 2, false: 1}[c.ID == "masking"], Part(message.Say("compliance.fact_safe"), 1, 2), Moment(message.Say("compliance.fact_library"), time.Time{})), nil
		}
	}
	e := m.Evaluate(t.Context(), probes, time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC))
	counts := e.Counts()
	if counts[Partly] == 0 || counts[Operator] == 0 || counts[Holds] < 30 || counts[Broken]+counts[Unknown]+counts[Off] > 0 {
		t.Errorf("%v", counts)
	}
	for l, wants := range map[message.Lang][]string{
		message.English: {"Compliance matrix", "do not hold, or only in part", "8\\.1\\.4\\.3 audit", "Held by the tests", "Publish a policy", "1 / 2", "in part"},
		message.Chinese: {"合规矩阵", "未满足或仅部分满足", "第五十一条", "对应测试", "处理办法", "部分满足"},
	} {
		d := e.Document(l, "sluice.example", "demo", "v1")
		for _, format := range []report.Format{report.Markdown, report.PDF, report.DOCX} {
			var b bytes.Buffer
			if err := report.Write(&b, format, d); err != nil {
				t.Fatal(err)
			}
			if format != report.Markdown {
				continue
			}
			for _, want := range wants {
				if !strings.Contains(b.String(), want) && !strings.Contains(b.String(), strings.ReplaceAll(want, "\\", "")) {
					t.Errorf("%q is missing", want)
				}
			}
		}
	}
}
