package offboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/rag"
)

// ExportKind is what the manifest of an export calls it.
const ExportKind = "tenant-export"

// Wanted is what of an export nobody gets who does not ask for it.
type Wanted struct{ Texts, Values bool }

// Export writes what is the tenant's into an empty file, as a parcel: see [evidence.ParcelWriter]. The offboarding is exporting meanwhile, and exported when the
// file is whole and on the disk. Errors: CodeNotFound; CodeConflict where it cannot be exported any more, and for what the configuration does not
// permit; of what cannot be read: an export that lacks something is none.
func (s *Service) Export(ctx context.Context, f *os.File, tenant string, want Wanted, by identity.Principal) (Offboarding, error) {
	if want.Texts && !s.cfg.Permitted.Texts || want.Values && !s.cfg.Permitted.Values {
		return Offboarding{}, fault.New(fault.CodeConflict, fault.Say("offboard.not_permitted"))
	}
	r, err := s.current(ctx, tenant)
	if err != nil {
		return Offboarding{}, err
	}
	open := []State{Suspended, Exporting, Exported}
	if _, err := s.change(ctx, r, open, map[string]any{"state": string(Exporting), "changed": s.now().UnixMicro()}); err != nil {
		return Offboarding{}, err
	}
	if err := s.cfg.Audit.Flush(ctx); err != nil { // what is on its way belongs to it
		return Offboarding{}, database.Unavailable("export the tenant", err)
	}
	s.note(tenant, func(p *Progress) { p.Files, p.Bytes = 0, 0 })
	x := &exporter{Service: s, tenant: tenant, by: by, parcel: evidence.NewParcelWriter(f, ExportKind, map[string]string{
		"tenant": tenant, "by": by.Name, "texts": strconv.FormatBool(want.Texts), "values": strconv.FormatBool(want.Values),
	}, s.now())}
	m, digest, err := x.write(ctx, want)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return Offboarding{}, fmt.Errorf("export the tenant: %w", err)
	}
	var bytes int64
	for _, file := range m.Files {
		bytes += file.Bytes
	}
	now := s.now().UnixMicro()
	return s.change(ctx, r, open, map[string]any{
		"state": string(Exported), "exported": now, "exported_name": by.Name, "export_digest": digest, "export_files": len(m.Files), "export_bytes": bytes, "declined": "",
		"changed": now,
	})
}

// exporter writes one export.
type exporter struct {
	*Service
	tenant string
	by     identity.Principal
	parcel *evidence.ParcelWriter
}

func (x *exporter) write(ctx context.Context, want Wanted) (m evidence.ParcelManifest, digest string, err error) {
	steps := []func(context.Context) error{x.readme, x.records, x.tables, x.statements, x.policies, x.documents}
	if want.Texts {
		steps = append(steps, x.texts)
	}
	if want.Values {
		steps = append(steps, x.values)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return m, "", err
		}
	}
	keys, err := checkpoint.NewVerifier(x.cfg.Audit.VerifierKey())
	if err != nil {
		return m, "", err
	}
	return x.parcel.Close(keys.Origin(), x.cfg.Audit.VerifierKey(), x.cfg.Audit.SignText)
}

// create begins a file, and counts what is written into it.
func (x *exporter) create(name string) (io.Writer, error) {
	w, err := x.parcel.Create(name)
	x.note(x.tenant, func(p *Progress) { p.Files++ })
	return counted{w, x}, err
}

type counted struct {
	io.Writer
	x *exporter
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.x.note(c.x.tenant, func(p *Progress) { p.Bytes += int64(n) })
	return n, err
}

// lines begins a file of JSON Lines.
func (x *exporter) lines(name string) (*json.Encoder, error) {
	w, err := x.create(name)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc, err
}

func (x *exporter) readme(context.Context) error {
	w, err := x.create("README.txt")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n\n%s\n", message.Say("offboard.readme").In(message.English), message.Say("offboard.readme").In(message.Chinese))
	}
	return err
}

// records writes the evidence bundle of the tenant's records, which is made and checked beside the parcel: it is read while it is checked.
func (x *exporter) records(ctx context.Context) error {
	f, err := os.CreateTemp("", "sluice-evidence-*.zip")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()
	if _, err := x.cfg.Audit.ExportChecked(ctx, f, export.Selection{Tenant: x.tenant, By: x.by.Name}); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	w, err := x.create("audit/evidence.zip")
	if err == nil {
		_, err = io.Copy(w, f)
	}
	return err
}

// exported are the columns of tables that are written as they are: without passwords, digests of credentials, and what only the product uses.
func exported() []struct{ file, table, columns, order string } {
	return []struct{ file, table, columns, order string }{
		{"users.jsonl", "identity_users", "id, name, roles, labels, created_at, created_by, disabled_at, last_sign_in_at", "name"},
		{"projects.jsonl", "identity_projects", "id, name, labels, requests_per_minute, tokens_per_minute, concurrent, created_at, suspended_at, suspended_by, suspension", "id"},
		{
			"keys.jsonl", "identity_keys",
			"id, name, project, owner, labels, scopes, models, networks, label_mode, requests_per_minute, tokens_per_minute, concurrent, created_at, created_by, expires_at, revoked_at, last_used_at", "id",
		},
		{
			"service-accounts.jsonl", "identity_service_accounts",
			"id, name, project, owner, roles, labels, scopes, models, networks, requests_per_minute, tokens_per_minute, concurrent, created_at, created_by, expires_at, disabled_at, removed_at, last_used_at", "id",
		},
		{"budgets.jsonl", "billing_budgets", "id, api_key, period, zone, limit_amount, updated_at", "id"},
		{
			"usage.jsonl", "billing_usage",
			"request, project, api_key, actor, action, model, model_version, at, prompt_tokens, cached_tokens, completion_tokens, estimated, cost, currency, price_book, energy, energy_method, outcome",
			"at, request",
		},
		{"usage-daily.jsonl", "billing_usage_daily", "api_key, model, day, requests, estimated, prompt_tokens, cached_tokens, completion_tokens, cost, energy, energy_method", "day, api_key, model"},
	}
}

func (x *exporter) tables(ctx context.Context) error {
	for _, t := range exported() {
		enc, err := x.lines(t.file)
		if err != nil {
			return err
		}
		if err := x.table(ctx, enc, "SELECT "+t.columns+" FROM "+t.table+" WHERE tenant = ? ORDER BY "+t.order); err != nil {
			return fmt.Errorf("%s: %w", t.file, err)
		}
	}
	enc, err := x.lines("corrections.jsonl")
	if err != nil {
		return err
	}
	corrections, err := x.cfg.Ledger.Corrections(ctx, x.tenant)
	for _, c := range corrections {
		err = errors.Join(err, enc.Encode(c))
	}
	return err
}

// table writes the rows of a query, one at a time.
func (x *exporter) table(ctx context.Context, enc *json.Encoder, query string) error {
	db := x.cfg.DB.WithContext(ctx)
	found, err := db.Raw(query, x.tenant).Rows()
	if err != nil {
		return database.Unavailable("read", err)
	}
	defer found.Close() //nolint:errcheck // read only
	for found.Next() {
		one := map[string]any{}
		if err := db.ScanRows(found, &one); err != nil {
			return database.Unavailable("read", err)
		}
		if err := enc.Encode(one); err != nil {
			return err
		}
	}
	return database.Unavailable("read", found.Err())
}

func (x *exporter) statements(ctx context.Context) error {
	closed, err := x.cfg.Ledger.Statements(ctx, x.tenant)
	if err != nil {
		return err
	}
	for _, st := range closed {
		w, err := x.create("statements/" + st.Month + ".json")
		if err == nil {
			err = statement.Write(w, statement.JSON, st, message.English, statement.Names{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// policies writes those of the tenant and of its projects. Those of its organisation and of all tenants are not its own.
func (x *exporter) policies(ctx context.Context) error {
	var scopes []string
	err := x.cfg.DB.WithContext(ctx).Raw("SELECT DISTINCT tenant FROM policy_documents WHERE "+ofPolicies+" ORDER BY tenant", x.tenant).Scan(&scopes).Error
	if err != nil {
		return database.Unavailable("look for policies", err)
	}
	for _, scope := range scopes {
		if err := x.policiesOf(ctx, scope); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) policiesOf(ctx context.Context, scope string) error {
	name := "policies/"
	if _, _, project := governance.ReadScope(scope); project != "" { // which may have been called anything by a release of before
		name += "project-" + url.PathEscape(project) + "-"
	}
	versions, err := x.cfg.Guard.Versions(ctx, scope)
	if err != nil {
		return err
	}
	for _, v := range versions {
		_, source, err := x.cfg.Guard.Get(ctx, scope, v.Version)
		if err != nil {
			return err
		}
		w, err := x.create(fmt.Sprintf("%s%d.yaml", name, v.Version))
		if err == nil {
			_, err = w.Write(source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// documents writes each document into a file named by its id: what people called it may be no name for a file.
func (x *exporter) documents(ctx context.Context) error {
	type about struct {
		File, Collection, Name, Title, MIME, Version, SHA256 string
		Labels                                               []string
		Restricted                                           bool
		From, Until, Created, Updated                        time.Time
	}
	var list []about
	err := rag.Originals(ctx, x.cfg.DB, x.cfg.Keys, x.tenant, func(o rag.Original) error {
		name := "documents/" + o.ID + "." + o.Version + ".txt"
		w, err := x.create(name)
		if err == nil {
			_, err = io.WriteString(w, o.Text)
		}
		list = append(list, about{name, o.Collection, o.Name, o.Title, o.MIME, o.Version, o.Digest, o.Labels, o.Restricted, o.ValidFrom, o.ValidUntil, o.CreatedAt, o.UpdatedAt})
		return err
	})
	if err != nil {
		return err
	}
	enc, err := x.lines("documents.jsonl")
	for _, d := range list {
		row := map[string]any{
			"file": d.File, "collection": d.Collection, "name": d.Name, "title": d.Title, "mime": d.MIME, "version": d.Version, "digest": d.SHA256, "labels": d.Labels,
			"restricted": d.Restricted, "valid_from": d.From, "created_at": d.Created, "updated_at": d.Updated,
		}
		if !d.Until.IsZero() {
			row["valid_until"] = d.Until
		}
		err = errors.Join(err, enc.Encode(row))
	}
	return err
}

// texts writes the prompts and answers that are kept.
func (x *exporter) texts(ctx context.Context) error {
	enc, err := x.lines("texts.jsonl")
	if err != nil {
		return err
	}
	for after := ""; ; {
		var records []string
		err := x.cfg.DB.WithContext(ctx).Raw("SELECT DISTINCT record FROM audit_contents WHERE "+ofKeys+" AND record > ? ORDER BY record LIMIT 200", x.tenant, after).Scan(&records).Error
		if err != nil || len(records) == 0 {
			return database.Unavailable("look for kept texts", err)
		}
		for _, id := range records {
			after = id
			kept, err := x.cfg.Audit.Contents(ctx, id)
			if err != nil {
				return err
			}
			for _, k := range kept {
				if err := enc.Encode(map[string]any{"record": id, "direction": k.Direction, "form": k.Form, "text": k.Text}); err != nil {
					return err
				}
			}
		}
	}
}

// values writes the values behind pseudonyms that are stored.
func (x *exporter) values(ctx context.Context) error {
	enc, err := x.lines("values.jsonl")
	if err != nil {
		return err
	}
	return x.cfg.Guard.Values().Each(ctx, x.tenant, func(class string, text keyring.Secret) error {
		return enc.Encode(map[string]string{"class": class, "value": text.Reveal()})
	})
}
