package evidence

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/audit/record"
)

// csvTable writes the records as a table for people. It follows from the records, and the verifier makes it again to compare, so its
// columns are frozen with the format of the bundle.
type csvTable struct {
	buf bytes.Buffer
	w   *csv.Writer // into buf
}

// header is the first line, behind the mark by which spreadsheets know UTF-8.
func (t *csvTable) header() []byte { return append([]byte("\ufeff"), t.line(columnNames())...) }

// row is the line of a record. It is valid until the next call.
func (t *csvTable) row(index int64, e record.Event) []byte {
	cells := columns(index, e)
	for i, c := range cells {
		cells[i] = harmless(c)
	}
	return t.line(cells)
}

func (t *csvTable) line(cells []string) []byte {
	t.buf.Reset()
	if t.w == nil {
		t.w = csv.NewWriter(&t.buf)
	}
	_ = t.w.Write(cells) // into memory
	t.w.Flush()
	return t.buf.Bytes()
}

// harmless keeps a spreadsheet from taking a text for a formula. The wide forms count for some of them.
func harmless(cell string) string {
	if strings.IndexAny(cell, "=+-@\t\r\n＝＋－＠") == 0 {
		return "'" + cell
	}
	return cell
}

func columnNames() []string {
	return []string{
		"index", "time", "id", "request", "stage", "tenant", "project", "region",
		"actor_kind", "actor_id", "actor_name", "on_behalf_of", "session", "source", "action", "resource", "route", "dialect",
		"model_asked", "model_routed", "model_reported", "model_version", "model_digest", "precision", "template", "engine", "adapter", "replay",
		"policy", "policy_digest", "price_book", "rollout", "arm", "findings", "safety", "decision", "documents",
		"prompt_tokens", "cached_tokens", "completion_tokens", "estimated", "cost", "currency", "energy_joules", "energy_method",
		"label", "watermark", "prompt_digest", "answer_digest", "contents",
		"outcome", "error_kind", "error_code", "status", "admit_us", "queue_us", "first_token_us", "total_us", "detail",
	}
}

func columns(index int64, e record.Event) []string {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	a, m, u, l := e.Actor, e.Model, e.Usage, e.Latency
	return []string{
		n(index), stamp(e.Time), e.ID, e.Request, string(e.Stage), e.Tenant, e.Project, e.Region,
		a.Kind, a.ID, a.Name, a.OnBehalfOf, e.Session, e.Source, e.Action, e.Resource, e.Route, e.Dialect,
		m.Asked, m.Routed, m.Reported, m.Version, m.Digest, m.Precision, m.Template, m.Engine, m.Adapter, m.Replay,
		e.Policy, e.PolicyDigest, e.PriceBook, e.Rollout, e.Arm, findings(e), safety(e), e.Decision, strings.Join(e.Documents, "; "),
		n(u.PromptTokens), n(u.CachedTokens), n(u.CompletionTokens), strconv.FormatBool(u.Estimated),
		fixed(u.Cost, 9), u.Currency, fixed(u.Energy, 6), u.EnergyMethod,
		e.Label, e.Watermark, e.PromptDigest, e.AnswerDigest, contents(e),
		e.Outcome, e.ErrorKind, e.ErrorCode, n(int64(e.Status)), n(l.Admit), n(l.Queue), n(l.FirstToken), n(l.Total), detail(e),
	}
}

func findings(e record.Event) string {
	var out []string
	for _, f := range e.Findings {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %d %s", f.Direction, f.Class, f.Action, f.Count, f.Detector)))
	}
	return strings.Join(out, "; ")
}

func safety(e record.Event) string {
	var out []string
	for _, r := range e.Safety {
		out = append(out, fmt.Sprintf("%s %s %s", r.Direction, r.ID, r.Action))
	}
	return strings.Join(out, "; ")
}

func contents(e record.Event) string {
	var out []string
	for _, c := range e.Contents {
		out = append(out, fmt.Sprintf("%s %s %d %s %s", c.Direction, c.Form, c.Bytes, c.Digest, c.Key))
	}
	return strings.Join(out, "; ")
}

// detail is the last column. What version 3 of records brought stands in it too, so that the columns of older bundles stay.
func detail(e record.Event) string {
	var out []string
	if e.LabelKey != "" {
		out = append(out, "label_key="+e.LabelKey)
	}
	if s := e.Steps; s != (record.Steps{}) {
		out = append(out, fmt.Sprintf("steps_us=authenticate %d limit %d policy %d route %d reserve %d retrieve %d record %d prefill %d decode %d",
			s.Authenticate, s.Limit, s.Policy, s.Route, s.Reserve, s.Retrieve, s.Record, s.Prefill, s.Decode))
	}
	for _, k := range slices.Sorted(maps.Keys(e.Detail)) {
		out = append(out, k+"="+e.Detail[k])
	}
	return strings.Join(out, "; ")
}

// fixed writes v·10^-digits.
func fixed(v int64, digits int) string {
	sign, size := "", uint64(v)
	if v < 0 {
		sign, size = "-", -uint64(v)
	}
	s := fmt.Sprintf("%0*d", digits+1, size)
	return sign + s[:len(s)-digits] + "." + s[len(s)-digits:]
}
