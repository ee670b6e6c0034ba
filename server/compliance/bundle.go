package compliance

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// listed is how many records of a bundle its report shows one by one.
const listed = 500

// Bundle is what the report of an evidence bundle says about it.
type Bundle struct {
	name     string
	size     int64
	digest   string // SHA-256 of the zip, hexadecimal
	manifest evidence.Manifest
	groups   []group
	records  [][]string // the first ones, in the columns of recordColumns
}

// group is how many records have one action, stage and outcome.
type group struct {
	action, stage, outcome string
	count                  int64
}

// ReadBundle reads a bundle that was verified and has the manifest m; name is what its file is called.
func ReadBundle(name string, r io.ReaderAt, size int64, m evidence.Manifest) (Bundle, error) {
	b := Bundle{name: name, size: size, manifest: m}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r, 0, size)); err != nil {
		return Bundle{}, fmt.Errorf("read bundle: %w", err)
	}
	b.digest = hex.EncodeToString(sum.Sum(nil))
	z, err := zip.NewReader(r, size)
	if err != nil {
		return Bundle{}, fmt.Errorf("read bundle: %w", err)
	}
	table, err := z.Open("records.csv")
	if err != nil {
		return Bundle{}, fmt.Errorf("read bundle: %w", err)
	}
	if err := errors.Join(b.read(table), table.Close()); err != nil {
		return Bundle{}, fmt.Errorf("read bundle: %w", err)
	}
	return b, nil
}

// recordColumns are the columns of the table of records, in the order of the report.
func recordColumns() []string {
	return []string{"index", "time", "tenant", "actor_name", "actor_id", "action", "stage", "outcome"}
}

func (b *Bundle) read(table io.Reader) error {
	lines := csv.NewReader(table)
	lines.ReuseRecord = true
	head, err := lines.Read()
	if err != nil {
		return err
	}
	head[0] = string(bytes.TrimPrefix([]byte(head[0]), []byte("\ufeff")))
	at := make([]int, len(recordColumns()))
	for i, name := range recordColumns() {
		if at[i] = slices.Index(head, name); at[i] < 0 {
			return fmt.Errorf("records.csv has no column %s", name)
		}
	}
	counts := map[group]int64{}
	for {
		line, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		cells := make([]string, len(at))
		for i, column := range at {
			cells[i] = line[column]
		}
		if len(b.records) < listed {
			b.records = append(b.records, cells)
		}
		counts[group{action: cells[5], stage: cells[6], outcome: cells[7]}]++
	}
	for g, n := range counts {
		g.count = n
		b.groups = append(b.groups, g)
	}
	slices.SortFunc(b.groups, func(x, y group) int {
		return cmp.Or(cmp.Compare(x.action, y.action), cmp.Compare(x.stage, y.stage), cmp.Compare(x.outcome, y.outcome))
	})
	return nil
}

// Document is the report of the bundle. It follows from the bundle alone.
func (b Bundle) Document(l message.Lang) report.Document {
	in := inLanguage(l)
	m := b.manifest
	return report.Document{
		Lang: l, Title: in(message.Say("compliance.bundle")), Subject: in(message.Say("compliance.about_log", m.Origin)), Issuer: m.Origin, Created: m.Created,
		Footer: in(message.Say("compliance.root", m.Root)),
		Body: []report.Block{
			report.Verdict{Outcome: report.Passed, Text: in(message.Say("compliance.bundle_verified", m.Records))},
			report.Heading{Level: 1, Text: in(message.Say("compliance.bundle_about"))},
			b.about(in),
			report.Paragraph(b.complete(in)),
			report.Heading{Level: 1, Text: in(message.Say("compliance.bundle_files"))},
			b.files(in),
			report.Heading{Level: 1, Text: in(message.Say("compliance.bundle_groups"))},
			b.table(in),
			report.Heading{Level: 1, Text: in(message.Say("compliance.bundle_records"))},
			report.Paragraph(in(message.Say("compliance.bundle_listed", len(b.records), m.Records))),
			b.list(in),
			report.Heading{Level: 1, Text: in(message.Say("compliance.repeat"))},
			report.Paragraph(in(message.Say("compliance.bundle_proves_itself"))),
			report.List{Items: []string{in(message.Say("compliance.bundle_digest", b.name)), in(message.Say("compliance.bundle_check", b.name)), in(message.Say("compliance.repeat_key"))}},
		},
	}
}

func (b Bundle) about(in translator) report.Fields {
	m := b.manifest
	tenant := m.Tenant
	if tenant == "" {
		tenant = in(message.Say("compliance.all_tenants"))
	}
	return report.Fields{
		{Name: in(message.Say("compliance.file")), Value: b.name},
		{Name: "SHA-256", Value: b.digest},
		{Name: in(message.Say("compliance.bytes")), Value: report.Count(b.size)},
		{Name: in(message.Say("compliance.log")), Value: m.Origin},
		{Name: in(message.Say("compliance.public_key")), Value: strings.Join(strings.Fields(m.Key), " ")},
		{Name: in(message.Say("compliance.tenant")), Value: tenant},
		{Name: in(message.Say("compliance.period")), Value: in(period(m.From, m.To))},
		{Name: in(message.Say("compliance.exported_by")), Value: m.By},
		{Name: in(message.Say("compliance.records")), Value: report.Count(m.Records)},
		{Name: in(message.Say("compliance.figure_checkpoint")), Value: report.Count(m.Size)},
		{Name: in(message.Say("compliance.tree_root")), Value: m.Root},
	}
}

// period says from when until when, in unix microseconds; 0 is open.
func period(from, to int64) message.Phrase {
	at := func(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }
	switch {
	case from == 0 && to == 0:
		return message.Say("compliance.period_all")
	case to == 0:
		return message.Say("compliance.period_from", at(from))
	case from == 0:
		return message.Say("compliance.period_before", at(to))
	default:
		return message.Say("compliance.period_between", at(from), at(to))
	}
}

// complete says whether anything may be left out.
func (b Bundle) complete(in translator) string {
	m := b.manifest
	switch {
	case m.Tenant != "" || m.From > 0 || m.To != 0:
		return in(message.Say("compliance.bundle_selection"))
	case m.Until != 0 && m.Until != m.Size:
		return in(message.Say("compliance.bundle_range", m.Least, m.Until-1))
	default:
		return in(message.Say("compliance.bundle_whole", m.Least))
	}
}

func (b Bundle) files(in translator) report.Table {
	t := report.Table{Columns: []report.Column{{Title: in(message.Say("compliance.file"))}, {Title: in(message.Say("compliance.bytes")), Number: true}, {Title: "SHA-256"}}}
	for _, f := range b.manifest.Files {
		t.Rows = append(t.Rows, []string{f.Name, report.Count(f.Bytes), f.SHA256})
	}
	return t
}

func (b Bundle) table(in translator) report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: in(message.Say("compliance.action"))}, {Title: in(message.Say("compliance.stage"))}, {Title: in(message.Say("compliance.outcome"))}, {Title: in(message.Say("compliance.records")), Number: true},
	}}
	total := int64(0)
	for _, g := range b.groups {
		t.Rows = append(t.Rows, []string{g.action, g.stage, g.outcome, report.Count(g.count)})
		total += g.count
	}
	if len(b.groups) > 0 {
		t.Total = []string{in(message.Say("compliance.total")), "", "", report.Count(total)}
	}
	return t
}

func (b Bundle) list(in translator) report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: in(message.Say("compliance.index")), Number: true},
		{Title: in(message.Say("compliance.time"))},
		{Title: in(message.Say("compliance.tenant"))},
		{Title: in(message.Say("compliance.actor"))},
		{Title: in(message.Say("compliance.action"))},
		{Title: in(message.Say("compliance.stage"))},
		{Title: in(message.Say("compliance.outcome"))},
	}}
	for _, r := range b.records {
		t.Rows = append(t.Rows, []string{r[0], r[1], r[2], cmp.Or(r[3], r[4]), r[5], r[6], r[7]})
	}
	return t
}
