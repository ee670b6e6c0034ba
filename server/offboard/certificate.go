package offboard

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Report is what the certificate of an erased tenant says. The audit record of the erasure has the SHA-256 of its JSON.
type Report struct {
	Tenant       string          `json:"tenant"`
	Name         string          `json:"name"`
	Reason       string          `json:"reason"`
	Suspended    time.Time       `json:"suspended"`
	Begun        time.Time       `json:"begun"`
	BegunBy      string          `json:"begun_by"`
	Decided      time.Time       `json:"decided"`
	DecidedBy    string          `json:"decided_by"`
	Done         time.Time       `json:"done"`
	ExportDigest string          `json:"export_digest,omitempty"`
	Exported     time.Time       `json:"exported"`
	Declined     string          `json:"export_declined,omitempty"`
	Holds        []string        `json:"holds_passed,omitempty"`
	Approval     string          `json:"holds_approval,omitempty"`
	Gone         []Count         `json:"gone"`
	Keys         []Key           `json:"keys_destroyed"`
	Documents    map[int64]int64 `json:"documents_by_epoch"`
	Stays        []Stay          `json:"stays"`
	Database     string          `json:"database"`
}

// Stay is something that stays. Rows and Until are zero where they say nothing.
type Stay struct {
	Code  string    `json:"code"`
	Rows  int64     `json:"rows,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

func (s *Service) report(ctx context.Context, r row, p plan) (Report, error) {
	t, err := s.cfg.Identity.FindTenant(ctx, r.Tenant)
	if err != nil {
		return Report{}, err
	}
	pass, err := r.pass()
	if err != nil {
		return Report{}, err
	}
	out := Report{
		Tenant: r.Tenant, Name: t.Name, Reason: r.Reason, Suspended: at(r.Since), Begun: at(r.Begun), BegunBy: r.BegunName, Decided: at(r.Erasing), DecidedBy: r.ErasingName,
		Done: s.now().UTC().Truncate(time.Microsecond), ExportDigest: r.ExportDigest, Exported: at(r.Exported), Declined: r.Declined, Holds: pass, Approval: r.Approval,
		Keys: p.Keys, Documents: p.Documents, Database: s.cfg.DB.Name(), Gone: []Count{},
	}
	left, err := s.count(ctx, r.Tenant)
	if err != nil {
		return Report{}, err
	}
	rowsOf := map[string]int64{}
	for _, c := range left {
		rowsOf[c.Table] = c.Before
		if Goes(c.Table) {
			out.Gone = append(out.Gone, Count{Table: c.Table, Before: p.Counts[c.Table], After: c.Before})
		}
	}
	out.Stays, err = s.staysNow(ctx, rowsOf, out.Done)
	return out, err
}

// staysNow lists what stays, with how much that is and until when it is known to.
func (s *Service) staysNow(ctx context.Context, rowsOf map[string]int64, now time.Time) ([]Stay, error) {
	var out []Stay
	for _, code := range []string{StaysRecords, StaysProofs, StaysBooks, StaysAgreements, StaysTenant} {
		x := Stay{Code: code}
		for _, p := range stays()[code] {
			x.Rows += rowsOf[p.table]
		}
		if code == StaysRecords {
			keep := s.cfg.Audit.Retention().WithDefaults()
			x.Rows, x.Until = rowsOf["audit_events"], now.Add(time.Duration(max(keep.SensitiveDays, keep.RecordsDays))*retention.Day).Truncate(time.Second)
		}
		out = append(out, x)
	}
	others, err := s.cfg.Audit.Others(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, x := range []struct {
		code  string
		there bool
	}{
		{StaysReplicas, others},
		{StaysPassages, true}, // also where none are now: a server that is stopped may have some
		{StaysPages, !database.IsSQLite(s.cfg.DB)},
		{StaysLog, !database.IsSQLite(s.cfg.DB)},
		{StaysSpill, s.cfg.Spill},
		{StaysBackups, true},
		{StaysRemote, s.cfg.Remote},
		{StaysCallers, true},
	} {
		if x.there {
			out = append(out, Stay{Code: x.code})
		}
	}
	return out, nil
}

// epochs are the numbers of the wrapping keys that the destroyed keys and documents were stored under.
func (r Report) epochs() []int64 {
	in := map[int64]bool{}
	for _, k := range r.Keys {
		in[k.Epoch] = true
	}
	for epoch := range r.Documents {
		in[epoch] = true
	}
	return slices.Sorted(maps.Keys(in))
}

func (r Report) epochsText() string {
	var out []string
	for _, e := range r.epochs() {
		out = append(out, strconv.FormatInt(e, 10))
	}
	return strings.Join(out, " ")
}

// detail is what the record of the erasure says. digest is that of the report.
func (r Report) detail(digest string) map[string]string {
	var before, after int64
	for _, c := range r.Gone {
		before, after = before+c.Before, after+c.After
	}
	var codes []string
	for _, x := range r.Stays {
		codes = append(codes, x.Code)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	out := map[string]string{
		"report": digest, "rows_before": number(before), "rows_after": number(after), "keys": number(int64(len(r.Keys))), "epochs": r.epochsText(), "stays": strings.Join(codes, " "),
	}
	if r.ExportDigest != "" {
		out["export"] = r.ExportDigest
	} else {
		out["export_declined"] = "true" // why stands in the record of that act
	}
	if r.Approval != "" {
		out["approval"], out["holds"] = r.Approval, strings.Join(r.Holds, " ")
	}
	return out
}

// Certificate returns the report of an erased tenant, with its JSON, whose SHA-256 the record called record has. Errors: CodeNotFound; CodeConflict while it is
// not erased.
func (s *Service) Certificate(ctx context.Context, tenant string) (out Report, raw []byte, record string, err error) {
	r, err := s.find(ctx, tenant)
	if err == nil && r.State != string(Erased) {
		err = fault.New(fault.CodeConflict, fault.Say("offboard.not_erased"))
	}
	if err != nil {
		return Report{}, nil, "", err
	}
	if err := json.Unmarshal([]byte(r.Report), &out); err != nil {
		return Report{}, nil, "", fmt.Errorf("read the certificate of %s: %w", tenant, err)
	}
	return out, []byte(r.Report), r.Certificate, nil
}

// maxListedKeys is how many keys a document lists. All of them are in the JSON.
const maxListedKeys = 200

// Document sets the certificate for people. record is the id of its audit record, digest that of its JSON, issuer who answers for it.
func (r Report) Document(l message.Lang, record, digest, issuer string) report.Document {
	in := func(p message.Phrase) string { return p.In(l) }
	utc := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	d := report.Document{
		Lang: l, Title: in(message.Say("offboard.certificate")), Subject: in(message.Say("offboard.about", r.Name, r.Tenant)), Issuer: issuer, Created: r.Done,
		Footer: in(message.Say("offboard.digest", digest)),
	}
	export := in(message.Say("offboard.export_made", utc(r.Exported), r.ExportDigest))
	if r.ExportDigest == "" {
		export = in(message.Say("offboard.export_declined", r.Declined))
	}
	fields := report.Fields{
		{Name: in(message.Say("offboard.reason")), Value: r.Reason},
		{Name: in(message.Say("offboard.suspended")), Value: utc(r.Suspended)},
		{Name: in(message.Say("offboard.begun")), Value: utc(r.Begun) + ", " + r.BegunBy},
		{Name: in(message.Say("offboard.export")), Value: export},
		{Name: in(message.Say("offboard.decided")), Value: utc(r.Decided) + ", " + r.DecidedBy},
		{Name: in(message.Say("offboard.done")), Value: utc(r.Done)},
		{Name: in(message.Say("offboard.record")), Value: record},
		{Name: in(message.Say("offboard.database")), Value: r.Database},
	}
	if r.Approval != "" {
		fields = append(fields, report.Field{Name: in(message.Say("offboard.holds")), Value: in(message.Say("offboard.holds_passed", strings.Join(r.Holds, ", "), r.Approval))})
	}
	d.Body = []report.Block{
		r.verdict(in),
		report.Heading{Level: 1, Text: in(message.Say("offboard.course"))},
		fields,
		report.Heading{Level: 1, Text: in(message.Say("offboard.gone"))},
		r.goneTable(in),
		report.Heading{Level: 1, Text: in(message.Say("offboard.keys"))},
		report.Paragraph(in(message.Say("offboard.keys_meaning", r.epochsText()))), r.keyTable(in),
	}
	if len(r.Keys) > maxListedKeys {
		d.Body = append(d.Body, report.Paragraph(in(message.Say("offboard.keys_more", len(r.Keys)-maxListedKeys))))
	}
	return r.withStays(d, in, utc)
}

func (r Report) verdict(in func(message.Phrase) string) report.Verdict {
	var before, after int64
	for _, c := range r.Gone {
		before, after = before+c.Before, after+c.After
	}
	if after > 0 {
		return report.Verdict{Outcome: report.Failed, Text: in(message.Say("offboard.verdict_left", after))}
	}
	return report.Verdict{Outcome: report.Passed, Text: in(message.Say("offboard.verdict", before, len(r.Keys)))}
}

func (r Report) goneTable(in func(message.Phrase) string) report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: in(message.Say("offboard.table"))}, {Title: in(message.Say("offboard.before")), Number: true}, {Title: in(message.Say("offboard.after")), Number: true},
	}}
	for _, c := range r.Gone {
		t.Rows = append(t.Rows, []string{c.Table, report.Count(c.Before), report.Count(c.After)})
	}
	return t
}

func (r Report) keyTable(in func(message.Phrase) string) report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: in(message.Say("offboard.key"))}, {Title: in(message.Say("offboard.key_use"))}, {Title: in(message.Say("offboard.epoch")), Number: true},
	}}
	for _, k := range r.Keys[:min(len(r.Keys), maxListedKeys)] {
		use := in(message.Say("offboard.use_texts"))
		if k.Use == "values" {
			use = in(message.Say("offboard.use_values"))
		}
		t.Rows = append(t.Rows, []string{k.ID, use, strconv.FormatInt(k.Epoch, 10)})
	}
	for _, epoch := range slices.Sorted(maps.Keys(r.Documents)) {
		t.Rows = append(t.Rows, []string{in(message.Say("offboard.documents", r.Documents[epoch])), in(message.Say("offboard.use_documents")), strconv.FormatInt(epoch, 10)})
	}
	return t
}

func (r Report) withStays(d report.Document, in func(message.Phrase) string, utc func(time.Time) string) report.Document {
	t := report.Table{Columns: []report.Column{
		{Title: in(message.Say("offboard.what_stays"))}, {Title: in(message.Say("offboard.rows"))}, {Title: in(message.Say("offboard.until"))},
	}}
	for _, x := range r.Stays {
		rows, until := "", in(message.Say("offboard.until_open"))
		if x.Rows > 0 {
			rows = report.Count(x.Rows)
		}
		if !x.Until.IsZero() {
			until = utc(x.Until)
		}
		t.Rows = append(t.Rows, []string{in(StaysPhrase(x.Code)), rows, until})
	}
	d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("offboard.stays"))}, t,
		report.Heading{Level: 1, Text: in(message.Say("offboard.check"))}, report.List{Items: []string{in(message.Say("offboard.check_record")), in(message.Say("offboard.check_digest"))}})
	return d
}

// StaysPhrase says what stays, and why.
func StaysPhrase(code string) message.Phrase {
	return map[string]message.Phrase{
		StaysRecords:    message.Say("offboard.stays_records"),
		StaysProofs:     message.Say("offboard.stays_proofs"),
		StaysBooks:      message.Say("offboard.stays_books"),
		StaysAgreements: message.Say("offboard.stays_agreements"),
		StaysTenant:     message.Say("offboard.stays_tenant"),
		StaysPages:      message.Say("offboard.stays_pages"),
		StaysLog:        message.Say("offboard.stays_wal"),
		StaysSpill:      message.Say("offboard.stays_spill"),
		StaysBackups:    message.Say("offboard.stays_backups"),
		StaysRemote:     message.Say("offboard.stays_remote"),
		StaysCallers:    message.Say("offboard.stays_callers"),
		StaysReplicas:   message.Say("offboard.stays_replicas"),
		StaysPassages:   message.Say("offboard.stays_passages"),
	}[code]
}
