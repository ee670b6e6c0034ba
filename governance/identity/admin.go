package identity

import (
	"context"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
)

// AllTenants asks a list for every tenant. It is no valid tenant id.
const AllTenants = "*"

// Tenant is an organisation whose people, keys, policies and budgets are apart from all others.
type Tenant struct {
	ID, Name  string
	Operator  bool // runs the installation
	CreatedAt time.Time
}

// User is a person.
type User struct {
	ID, Tenant, Name string
	Roles, Labels    []string
	Disabled         bool
	CreatedAt        time.Time
	CreatedBy        string
}

// NewUser asks for a person's account.
type NewUser struct {
	Tenant, Name, Password string
	Roles, Labels          []string
	CreatedBy              string
}

// Key is an API key as it may be shown: without its secret.
type Key struct {
	ID, Tenant, Project, Name string
	Labels, Scopes, Models    []string
	LabelMode                 string
	Limits                    Limits
	CreatedAt, ExpiresAt      time.Time
	CreatedBy                 string
	RevokedAt, LastUsedAt     time.Time // zero: not
}

// NewKey asks for an API key.
type NewKey struct {
	Tenant, Project, Name  string
	Labels, Scopes, Models []string // see Principal
	LabelMode              string   // "", LabelMetadata or LabelText
	Limits                 Limits
	ExpiresAt              time.Time // zero: Config.KeyTTL from now
	CreatedBy              string
}

// CreateTenant creates a tenant. Errors: CodeInvalidValue, CodeExists.
func (i *Identity) CreateTenant(ctx context.Context, t Tenant) error {
	if err := checkID("id", t.ID); err != nil {
		return err
	}
	if err := checkText("name", t.Name); err != nil {
		return err
	}
	defer i.reload(ctx)
	// Only EnsureAdmin makes a tenant the operator: no management call may.
	return i.store.createTenant(ctx, tenantRow{ID: t.ID, Name: t.Name, CreatedAt: i.now().UnixMicro()})
}

// ListTenants returns all tenants ordered by id.
func (i *Identity) ListTenants(ctx context.Context) ([]Tenant, error) {
	rows, err := i.store.tenants(ctx)
	out := make([]Tenant, len(rows))
	for n, r := range rows {
		out[n] = Tenant{ID: r.ID, Name: r.Name, Operator: r.IsOperator != 0, CreatedAt: at(r.CreatedAt)}
	}
	return out, err
}

// EnsureAdmin makes tenant the operator of the installation and gives it a platform administrator, unless a user of that name
// exists: then nothing about the user changes and created is false. It is for the first start, not for the management API.
func (i *Identity) EnsureAdmin(ctx context.Context, tenant, user, password string) (created bool, err error) {
	if err := checkID("tenant", tenant); err != nil {
		return false, err
	}
	row, err := i.userRow(NewUser{Tenant: tenant, Name: user, Password: password, Roles: []string{RolePlatformAdmin}, CreatedBy: "system"})
	if err != nil {
		return false, err
	}
	defer i.reload(ctx)
	return i.store.ensureAdmin(ctx, tenantRow{ID: tenant, Name: tenant, IsOperator: 1, CreatedAt: row.CreatedAt}, row)
}

// CreateUser creates a person's account. Names are unique over all tenants, without regard to case. Errors: CodeInvalidValue,
// CodeConflictingRole, CodeNotFound (tenant), CodeExists.
func (i *Identity) CreateUser(ctx context.Context, u NewUser) (User, error) {
	row, err := i.userRow(u)
	if err != nil {
		return User{}, err
	}
	defer i.reload(ctx)
	if err := i.store.createUser(ctx, row); err != nil {
		return User{}, err
	}
	return row.public(), nil
}

func (i *Identity) userRow(u NewUser) (userRow, error) {
	name := canonicalName(u.Name)
	if err := checkText("name", name); err != nil {
		return userRow{}, err
	}
	if err := checkPassword(u.Password); err != nil {
		return userRow{}, err
	}
	if err := CheckRoles(u.Roles); err != nil {
		return userRow{}, err
	}
	for _, r := range u.Roles {
		if r == RoleApplication {
			return userRow{}, invalid("roles", fault.Say("application is the role of API keys", "application 是 API 密钥的角色"))
		}
	}
	if err := checkList("labels", u.Labels); err != nil {
		return userRow{}, err
	}
	return userRow{
		ID: uuid.Must(uuid.NewV7()).String(), Tenant: u.Tenant, Name: name, PasswordHash: hashPassword(u.Password),
		Roles: pack(u.Roles), Labels: pack(u.Labels), Epoch: 1, CreatedAt: i.now().UnixMicro(), CreatedBy: u.CreatedBy,
	}, nil
}

// ListUsers returns a tenant's users by name.
func (i *Identity) ListUsers(ctx context.Context, tenant string) ([]User, error) {
	var rows []userRow
	err := i.store.list(ctx, userColumns, tenant, "name", &rows)
	out := make([]User, len(rows))
	for n, r := range rows {
		out[n] = r.public()
	}
	return out, err
}

// DisableUser ends a user's access: sign-ins at once here, within two polls elsewhere. Errors: CodeNotFound, CodeConflict for the
// last platform administrator.
func (i *Identity) DisableUser(ctx context.Context, tenant, id string) error {
	defer i.reload(ctx)
	return i.store.disableUser(ctx, tenant, id, i.now().UnixMicro())
}

// SetPassword changes a password and ends the user's sessions. Errors: CodeInvalidValue, CodeNotFound.
func (i *Identity) SetPassword(ctx context.Context, tenant, id, password string) error {
	if err := checkPassword(password); err != nil {
		return err
	}
	defer i.reload(ctx)
	return i.store.setPassword(ctx, tenant, id, hashPassword(password), i.now().UnixMicro())
}

// CreateKey makes an API key. The credential is returned this once and stored only as a keyed digest. Errors: CodeInvalidValue,
// CodeNotFound (tenant).
func (i *Identity) CreateKey(ctx context.Context, k NewKey) (Key, string, error) {
	now := i.now()
	if k.ExpiresAt.IsZero() {
		k.ExpiresAt = now.Add(i.cfg.KeyTTL)
	}
	if err := k.check(now); err != nil {
		return Key{}, "", err
	}
	id, credential := newCredential()
	sum := i.keys.sum(credential)
	row := keyRow{
		ID: id, Digest: hex.EncodeToString(sum[:]), Tenant: k.Tenant, Project: k.Project, Name: k.Name,
		Labels: pack(k.Labels), Scopes: pack(k.Scopes), Models: pack(k.Models), LabelMode: k.LabelMode,
		RequestsPerMinute: k.Limits.RequestsPerMinute, TokensPerMinute: k.Limits.TokensPerMinute, Concurrent: k.Limits.Concurrent,
		CreatedAt: now.UnixMicro(), CreatedBy: k.CreatedBy, ExpiresAt: k.ExpiresAt.UnixMicro(),
	}
	defer i.reload(ctx)
	if err := i.store.createKey(ctx, row); err != nil {
		return Key{}, "", err
	}
	return row.public(), credential, nil
}

func (k NewKey) check(now time.Time) error {
	if err := checkText("name", k.Name); err != nil {
		return err
	}
	if k.Project != "" {
		if err := checkID("project", k.Project); err != nil {
			return err
		}
	}
	if !k.ExpiresAt.After(now) || k.ExpiresAt.After(now.AddDate(5, 0, 0)) {
		return invalid("expires_at", fault.Say("choose a time within the next five years", "请选择五年之内的时间"))
	}
	if k.LabelMode != "" && k.LabelMode != LabelMetadata && k.LabelMode != LabelText {
		return invalid("label_mode", fault.Say("use 'metadata' or 'text'", "须为 'metadata' 或 'text'"))
	}
	if k.Limits.RequestsPerMinute < 0 || k.Limits.TokensPerMinute < 0 || k.Limits.Concurrent < 0 {
		return invalid("limits", fault.Say("must not be negative", "不能为负数"))
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"labels", k.Labels}, {"scopes", k.Scopes}, {"models", k.Models}} {
		if err := checkList(list.name, list.values); err != nil {
			return err
		}
	}
	return nil
}

// ListKeys returns a tenant's keys, oldest first.
func (i *Identity) ListKeys(ctx context.Context, tenant string) ([]Key, error) {
	var rows []keyRow
	err := i.store.list(ctx, keyColumns, tenant, "created_at, id", &rows)
	out := make([]Key, len(rows))
	for n, r := range rows {
		out[n] = r.public()
	}
	return out, err
}

// RevokeKey ends a key for good: at once here, within two polls elsewhere. Repeating it changes nothing. Error: CodeNotFound,
// also for a key of another tenant.
func (i *Identity) RevokeKey(ctx context.Context, tenant, id string) error {
	defer i.reload(ctx)
	return i.store.revokeKey(ctx, tenant, id, i.now().UnixMicro())
}

func (r userRow) public() User {
	roles, _ := unpack(r.Roles)
	labels, _ := unpack(r.Labels)
	return User{
		ID: r.ID, Tenant: r.Tenant, Name: r.Name, Roles: roles, Labels: labels, Disabled: r.DisabledAt != 0,
		CreatedAt: at(r.CreatedAt), CreatedBy: r.CreatedBy,
	}
}

func (r keyRow) public() Key {
	labels, _ := unpack(r.Labels)
	scopes, _ := unpack(r.Scopes)
	models, _ := unpack(r.Models)
	return Key{
		ID: r.ID, Tenant: r.Tenant, Project: r.Project, Name: r.Name, Labels: labels, Scopes: scopes, Models: models,
		LabelMode: r.LabelMode, CreatedAt: at(r.CreatedAt), ExpiresAt: at(r.ExpiresAt), CreatedBy: r.CreatedBy,
		RevokedAt: at(r.RevokedAt), LastUsedAt: at(r.LastUsedAt),
		Limits: Limits{RequestsPerMinute: r.RequestsPerMinute, TokensPerMinute: r.TokensPerMinute, Concurrent: r.Concurrent},
	}
}

func at(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

func canonicalName(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

func invalid(param string, why fault.Phrase) error {
	return fault.New(fault.CodeInvalidValue, param, why).WithParam(param)
}

// checkID accepts identifiers that are safe in paths, policies and logs.
func checkID(param, id string) error {
	ok := len(id) > 0 && len(id) <= 64 && id[0] != '-' && id[0] != '.'
	for n := range len(id) {
		c := id[n]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}
	if !ok {
		return invalid(param, fault.Say("use 1 to 64 of a-z, 0-9, '-', '_' and '.'", "须为 1 至 64 个 a-z、0-9、'-'、'_' 或 '.'"))
	}
	return nil
}

func checkText(param, s string) error {
	if s == "" {
		return fault.New(fault.CodeMissing, param).WithParam(param)
	}
	if utf8.RuneCountInString(s) > 128 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid(param, fault.Say("use at most 128 printable characters", "最多 128 个可打印字符"))
	}
	return nil
}

func checkList(param string, list []string) error {
	if len(list) > 100 {
		return invalid(param, fault.Say("use at most 100 entries", "最多 100 项"))
	}
	for _, s := range list {
		if err := checkText(param, s); err != nil {
			return err
		}
	}
	return nil
}
