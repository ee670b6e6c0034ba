package identity

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
)

// AllTenants asks a list for every tenant. It is no valid tenant id.
const AllTenants = "*"

// User is a person.
type User struct {
	ID, Tenant, Name string
	Roles, Labels    []string
	Disabled         bool
	MustChange       bool      // the password, before anything else
	OneTimeUntil     time.Time // when it can no longer be changed, either; zero: no end
	CreatedAt        time.Time
	CreatedBy        string
	LastSignInAt     time.Time // zero: not known
}

// NewUser asks for a person's account.
type NewUser struct {
	Tenant, Name, Password string
	Roles, Labels          []string
	MustChange             bool // the password is for the first sign-in only
	CreatedBy              string
}

// UserChange says what to change of an account; nil leaves a list as it is.
type UserChange struct{ Roles, Labels *[]string }

// Administrator is who changes somebody else's account.
type Administrator struct {
	ID       string
	Platform bool // may make platform administrators, and change them
	// Emergency manages all but whoever reads what is recorded.
	Emergency bool
}

// Manages returns nil if the changer may make and manage an account with these roles: nobody manages one with a role that he could not
// grant. Error: CodeRoleAbove.
func (by Administrator) Manages(roles []string) error {
	if by.Emergency {
		return by.managesInEmergency(roles)
	}
	if !by.Platform && slices.Contains(roles, RolePlatformAdmin) {
		return fault.New(fault.CodeRoleAbove, RolePlatformAdmin)
	}
	return nil
}

// Key is an API key as it may be shown: without its secret.
type Key struct {
	ID, Tenant, Project, Name string
	Labels, Scopes, Models    []string
	Networks                  []string // it is accepted from; empty: from everywhere
	LabelMode                 string
	Limits                    Limits
	CreatedAt, ExpiresAt      time.Time
	CreatedBy                 string
	RevokedAt, LastUsedAt     time.Time // zero: not
	LastUsedFrom              string    // the /24 or /48 around the address; "" if not known
	RotatedAt                 time.Time // zero: never
	FormerExpiresAt           time.Time // until when the secret before the last rotation is accepted; zero: there is none
	FormerUsedAt              time.Time // when that one was used last; zero: never
	Owner                     string    // the person it belongs to; "" for a key of the tenant
	Suspended                 bool      // refused while its project is suspended, or its owner is disabled, has to change his password or may have no keys
}

// NewKey asks for an API key.
type NewKey struct {
	Tenant, Project, Name  string
	Labels, Scopes, Models []string // see Principal
	Networks               []string // networks or addresses it is accepted from; empty: from everywhere
	LabelMode              string   // "", LabelMetadata or LabelText
	Limits                 Limits
	ExpiresAt              time.Time // zero: Config.KeyTTL from now
	CreatedBy              string
	Owner                  string // a person, who makes it, or "" for a key of the tenant
}

// KeyChange says what to change of a key; nil leaves a field as it is. The credential never changes.
type KeyChange struct {
	Name, Project, LabelMode *string
	Labels, Scopes, Models   *[]string
	Networks                 *[]string
	Limits                   *Limits
	ExpiresAt                *time.Time
	ByOwner                  bool // its owner asks, and nobody who manages keys: he may narrow it and shorten its life, never the other way
}

// MaxOwnKeys is how many keys of his own a person may have that are neither revoked nor expired.
const MaxOwnKeys = 20

// KeyLifetime returns how long a key made without an expiry lives. Keys of people live no longer than that.
func (i *Identity) KeyLifetime() time.Duration { return i.cfg.KeyTTL }

// KeyLimits returns the limits of a key that has none of its own. Nobody gives himself higher ones.
func (i *Identity) KeyLimits() Limits { return i.limits }

// EnsureAdmin makes tenant the operator of the installation and gives it a platform administrator, unless a user of that name
// exists: then nothing about the user changes and created is false. It is for the first start, not for the management API.
func (i *Identity) EnsureAdmin(ctx context.Context, tenant, user, password string) (created bool, err error) {
	if err := checkID("tenant", tenant); err != nil {
		return false, err
	}
	row, err := i.userRow(NewUser{Tenant: tenant, Name: user, Password: password, Roles: []string{RolePlatformAdmin}, CreatedBy: "system", MustChange: true})
	if err != nil {
		return false, err
	}
	row.OneTimeUntil = 0 // nobody could give this person another one
	defer i.reload(ctx)
	return i.store.ensureAdmin(ctx, tenantRow{
		ID: tenant, Name: tenant, Organisation: DefaultOrganisation, IsOperator: 1, CreatedAt: row.CreatedAt, Level: levelRow{Labels: "{}"},
	}, row)
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
	if err := CheckText("name", name); err != nil {
		return userRow{}, err
	}
	if err := checkPassword("password", u.Password, name, u.Tenant); err != nil {
		return userRow{}, err
	}
	if err := checkUserRoles(u.Roles); err != nil {
		return userRow{}, err
	}
	if err := checkList("labels", u.Labels); err != nil {
		return userRow{}, err
	}
	now := i.now()
	row := userRow{
		ID: uuid.Must(uuid.NewV7()).String(), Tenant: u.Tenant, Name: name, PasswordHash: i.cfg.PasswordCost.hash(u.Password),
		Roles: pack(u.Roles), Labels: pack(u.Labels), Epoch: 1, CreatedAt: now.UnixMicro(), CreatedBy: u.CreatedBy, MustChange: flag(u.MustChange),
		PasswordSetAt: now.UnixMicro(),
	}
	if u.MustChange {
		row.OneTimeUntil = now.Add(i.cfg.OneTimeTTL).UnixMicro()
	}
	return row, nil
}

func flag(on bool) int64 {
	if on {
		return 1
	}
	return 0
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

func checkUserRoles(roles []string) error {
	if err := CheckRoles(roles); err != nil {
		return err
	}
	if slices.Contains(roles, RoleApplication) {
		return invalid("roles", fault.Say("identity.role_of_keys"))
	}
	return nil
}

// User returns one user of a tenant. Error: CodeNotFound.
func (i *Identity) User(ctx context.Context, tenant, id string) (User, error) {
	row, err := i.store.user(ctx, tenant, id)
	return row.public(), err
}

// NameOf returns the name of a person's account or a service account, "" if there is none.
func (i *Identity) NameOf(id string) string {
	s, loaded := i.accounts.Last()
	if !loaded {
		return ""
	}
	return cmp.Or(s.users[id].principal.Name, s.services[id].principal.Name)
}

// PersonNamed returns the id of the account of a name, without regard to case; "" if there is none.
func (i *Identity) PersonNamed(name string) string {
	s, loaded := i.accounts.Last()
	if !loaded {
		return ""
	}
	for id, u := range s.users {
		if u.principal.Name == canonicalName(name) {
			return id
		}
	}
	return ""
}

// ChangeUser changes roles and labels of somebody else. They are in force at once here, within two polls elsewhere. Errors:
// CodeInvalidValue, CodeConflictingRole, CodeNotFound, CodeRoleAbove where a platform administrator is made or changed by somebody
// else, CodeConflict for one's own account, for one that has its roles of a provider, and for the last platform administrator that is active.
func (i *Identity) ChangeUser(ctx context.Context, by Administrator, tenant, id string, change UserChange) (before, after User, err error) {
	if change.Roles != nil {
		if err := checkUserRoles(*change.Roles); err != nil {
			return User{}, User{}, err
		}
	}
	if change.Labels != nil {
		if err := checkList("labels", *change.Labels); err != nil {
			return User{}, User{}, err
		}
	}
	if err := i.notFederated(ctx, tenant, id); err != nil {
		return User{}, User{}, err
	}
	return i.changeUser(ctx, by, "change user", tenant, id, false, func(row *userRow) error {
		if change.Roles != nil {
			row.Roles = pack(*change.Roles)
		}
		if change.Labels != nil {
			row.Labels = pack(*change.Labels)
		}
		return nil
	})
}

// EnableUser gives a disabled user the account back; the sign-ins of before stay ended. Errors as of ChangeUser.
func (i *Identity) EnableUser(ctx context.Context, by Administrator, tenant, id string) (User, error) {
	_, after, err := i.changeUser(ctx, by, "enable user", tenant, id, false, func(row *userRow) error {
		row.DisabledAt = 0
		return nil
	})
	return after, err
}

// ResetPassword replaces the password of somebody else by one that lets him do nothing but change it, ends his sessions, and returns
// it this once. Errors as of ChangeUser.
func (i *Identity) ResetPassword(ctx context.Context, by Administrator, tenant, id string) (User, string, error) {
	if err := i.notFederated(ctx, tenant, id); err != nil {
		return User{}, "", err
	}
	password := randomText(oneTimeSize)
	hash := i.cfg.PasswordCost.hash(password)
	_, after, err := i.changeUser(ctx, by, "reset password", tenant, id, true, func(row *userRow) error {
		row.setOneTime(hash, i.now(), i.cfg.OneTimeTTL)
		return nil
	})
	if err != nil {
		return User{}, "", err
	}
	return after, password, nil
}

// oneTimeSize is the length of a one-time password: 119 bits.
const oneTimeSize = 20

func (i *Identity) changeUser(ctx context.Context, by Administrator, step, tenant, id string, end bool, fn func(row *userRow) error) (before, after User, err error) {
	if by.ID == id {
		return User{}, User{}, fault.New(fault.CodeConflict, fault.Say("identity.own_account"))
	}
	defer i.reload(ctx)
	was, is, err := i.store.changeUser(ctx, step, by.ID, tenant, id, i.now().UnixMicro(), end, func(row *userRow) error {
		if err := by.Manages(row.public().Roles); err != nil {
			return err
		}
		if err := fn(row); err != nil {
			return err
		}
		return by.Manages(row.public().Roles)
	})
	if err != nil {
		return User{}, User{}, err
	}
	return was.public(), is.public(), nil
}

// DisableUser ends the access of somebody else: sign-ins and keys at once here, within two polls elsewhere. Errors as of ChangeUser.
func (i *Identity) DisableUser(ctx context.Context, by Administrator, tenant, id string) (User, error) {
	now := i.now().UnixMicro()
	_, after, err := i.changeUser(ctx, by, "disable user", tenant, id, true, func(row *userRow) error {
		if row.DisabledAt == 0 {
			row.DisabledAt = now
		}
		return nil
	})
	return after, err
}

// setOneTime sets a password for the next sign-in only.
func (r *userRow) setOneTime(hash string, now time.Time, life time.Duration) {
	r.PasswordHash, r.MustChange, r.PasswordSetAt, r.OneTimeUntil = hash, 1, now.UnixMicro(), now.Add(life).UnixMicro()
}

// SetPassword sets a password that has to be changed at the next sign-in, whenever that is, and ends the user's sessions. It is for the setup
// of an installation, not for the management API. Errors: CodeInvalidValue, CodeNotFound.
func (i *Identity) SetPassword(ctx context.Context, tenant, id, password string) error {
	if err := checkPassword("password", password, "", tenant); err != nil {
		return err
	}
	if err := i.notFederated(ctx, tenant, id); err != nil {
		return err
	}
	hash := i.cfg.PasswordCost.hash(password)
	defer i.reload(ctx)
	_, _, err := i.store.changeUser(ctx, "set password", "", tenant, id, i.now().UnixMicro(), true, func(row *userRow) error {
		row.setOneTime(hash, i.now(), 0)
		row.OneTimeUntil = 0
		return nil
	})
	return err
}

// CreateKey makes an API key. The credential is returned this once and stored only as a keyed digest. Errors: CodeInvalidValue,
// CodeNotFound (tenant, project), CodeConflict for a suspended project, and for an owner who may have no key or no more of them.
func (i *Identity) CreateKey(ctx context.Context, k NewKey) (Key, string, error) {
	now := i.now()
	if k.ExpiresAt.IsZero() {
		k.ExpiresAt = now.Add(i.cfg.KeyTTL)
	}
	networks, err := k.check(now)
	if err != nil {
		return Key{}, "", err
	}
	id, credential := newCredential()
	sum := i.keys.sum(credential)
	row := keyRow{
		ID: id, Digest: hex.EncodeToString(sum[:]), Tenant: k.Tenant, Project: k.Project, Name: k.Name,
		Labels: pack(k.Labels), Scopes: pack(k.Scopes), Models: pack(k.Models), LabelMode: k.LabelMode, Networks: pack(networks),
		RequestsPerMinute: k.Limits.RequestsPerMinute, TokensPerMinute: k.Limits.TokensPerMinute, Concurrent: k.Limits.Concurrent,
		CreatedAt: now.UnixMicro(), CreatedBy: k.CreatedBy, ExpiresAt: k.ExpiresAt.UnixMicro(), Owner: k.Owner,
	}
	if err := i.checkOwned(keyRow{}, row, row.Owner != ""); err != nil {
		return Key{}, "", err
	}
	defer i.reload(ctx)
	if err := i.store.createKey(ctx, row); err != nil {
		return Key{}, "", err
	}
	return row.public(), credential, nil
}

// ChangeKey changes a key; its credential stays. Errors: CodeInvalidValue, CodeNotFound, CodeConflict for a key that was revoked and for a suspended
// project that it is to have.
func (i *Identity) ChangeKey(ctx context.Context, tenant, id string, change KeyChange) (before, after Key, err error) {
	was, is, err := i.store.changeKey(ctx, tenant, id, func(row *keyRow) error {
		if row.RevokedAt != 0 {
			return fault.New(fault.CodeConflict, fault.Say("identity.key_revoked"))
		}
		old := *row
		change.apply(row)
		k := row.public()
		asked := NewKey{
			Project: k.Project, Name: k.Name, Labels: k.Labels, Scopes: k.Scopes, Models: k.Models, Networks: k.Networks, LabelMode: k.LabelMode,
			Limits: k.Limits, ExpiresAt: k.ExpiresAt,
		}
		if change.ExpiresAt == nil {
			asked.ExpiresAt = i.now().Add(time.Second) // a key that has expired may still get another name
		}
		networks, err := asked.check(i.now())
		if err != nil {
			return err
		}
		row.Networks = pack(networks)
		return i.checkOwned(old, *row, change.ByOwner)
	})
	i.reload(ctx) // before Seen; also after an error, which may have come after the commit
	if err != nil {
		return Key{}, Key{}, err
	}
	return was.public(), i.Seen(is.public()), nil
}

func (c KeyChange) apply(row *keyRow) {
	for _, f := range []struct{ from, to *string }{{c.Name, &row.Name}, {c.Project, &row.Project}, {c.LabelMode, &row.LabelMode}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	for _, f := range []struct {
		from *[]string
		to   *string
	}{{c.Labels, &row.Labels}, {c.Scopes, &row.Scopes}, {c.Models, &row.Models}, {c.Networks, &row.Networks}} {
		if f.from != nil {
			*f.to = pack(*f.from)
		}
	}
	if c.Limits != nil {
		row.RequestsPerMinute, row.TokensPerMinute, row.Concurrent = c.Limits.RequestsPerMinute, c.Limits.TokensPerMinute, c.Limits.Concurrent
	}
	if c.ExpiresAt != nil {
		row.ExpiresAt = c.ExpiresAt.UnixMicro()
	}
}

// checkOwned holds the key of a person to what the tenant set: no longer than a key lives by default, and never without a label that the
// policy wants people to see; and the person himself, byOwner, to the limits and the end that the key has. Labels are looked at where the
// owner is read.
func (i *Identity) checkOwned(before, after keyRow, byOwner bool) error {
	if after.Owner == "" {
		return nil
	}
	if byOwner && before.ExpiresAt != 0 && after.ExpiresAt > before.ExpiresAt {
		return invalid("expires_at", fault.Say("identity.key_extension"))
	}
	if byOwner && before.ID != "" && after.Project != before.Project { // whose policy, limits and budgets bind it
		return invalid("project", fault.Say("identity.key_project"))
	}
	if byOwner {
		if err := errors.Join(i.checkLowered(before, after), checkNarrowed(before, after)); err != nil {
			return err
		}
	}
	if after.ExpiresAt > after.CreatedAt+i.cfg.KeyTTL.Microseconds() && after.ExpiresAt != before.ExpiresAt {
		return invalid("expires_at", fault.Say("identity.key_lifetime", int(i.cfg.KeyTTL.Hours()/24)))
	}
	if after.LabelMode == LabelMetadata && after.LabelMode != before.LabelMode {
		return invalid("label_mode", fault.Say("identity.key_label"))
	}
	return nil
}

// checkLowered refuses a limit above that of before, which for a new key is that of the installation.
func (i *Identity) checkLowered(before, after keyRow) error {
	for _, l := range []struct {
		name                    string
		before, after, standard int
	}{
		{"requests_per_minute", before.RequestsPerMinute, after.RequestsPerMinute, i.limits.RequestsPerMinute},
		{"tokens_per_minute", before.TokensPerMinute, after.TokensPerMinute, i.limits.TokensPerMinute},
		{"concurrent", before.Concurrent, after.Concurrent, i.limits.Concurrent},
	} {
		// 0 is the limit of the installation, and if that is 0, too, there is none.
		most, asked := cmp.Or(l.before, l.standard), cmp.Or(l.after, l.standard)
		if most != 0 && (asked == 0 || asked > most) {
			return invalid("limits."+l.name, fault.Say("identity.key_limit", most))
		}
	}
	return nil
}

// checkNarrowed refuses to let a key do what that of before may not; a new one may be anything.
func checkNarrowed(before, after keyRow) error {
	if before.ID == "" {
		return nil
	}
	was, is := before.public(), after.public()
	for _, l := range []struct {
		param   string
		narrow  bool
		changed bool
	}{
		{"scopes", narrows(opened(is.Scopes), opened(was.Scopes), slices.Contains), before.Scopes != after.Scopes},
		{"models", narrows(is.Models, was.Models, Matches), before.Models != after.Models},
		{"networks", networksNarrow(is.Networks, was.Networks), before.Networks != after.Networks},
	} {
		if l.changed && !l.narrow {
			return invalid(l.param, fault.Say("identity.key_widened"))
		}
	}
	return nil
}

// opened returns the scopes that a key has which says none: all but reading the management API.
func opened(scopes []string) []string {
	if len(scopes) > 0 {
		return scopes
	}
	return slices.DeleteFunc(Scopes(), func(s string) bool { return s == ScopeAdminRead })
}

// narrows reports whether every entry of part is covered by whole. An empty whole covers everything, and an empty part is everything.
func narrows(part, whole []string, covers func(whole []string, one string) bool) bool {
	if len(whole) == 0 {
		return true
	}
	return len(part) > 0 && !slices.ContainsFunc(part, func(s string) bool { return !covers(whole, s) })
}

func networksNarrow(part, whole []string) bool {
	p, err1 := parseNetworks(part)
	w, err2 := parseNetworks(whole)
	return err1 == nil && err2 == nil && coveredBy(p, w)
}

// check refuses what a key cannot be, and returns its networks in one form.
func (k NewKey) check(now time.Time) (networks []string, err error) {
	if err := CheckText("name", k.Name); err != nil {
		return nil, err
	}
	if k.Project != "" {
		if err := checkID("project", k.Project); err != nil {
			return nil, err
		}
	}
	if !k.ExpiresAt.After(now) || k.ExpiresAt.After(now.AddDate(5, 0, 0)) {
		return nil, invalid("expires_at", fault.Say("identity.expiry"))
	}
	if k.LabelMode != "" && k.LabelMode != LabelMetadata && k.LabelMode != LabelText {
		return nil, invalid("label_mode", fault.Say("identity.label_mode"))
	}
	if err := checkLimits(k.Limits); err != nil {
		return nil, err
	}
	for n, s := range k.Scopes {
		if !slices.Contains(Scopes(), s) || slices.Contains(k.Scopes[:n], s) {
			return nil, invalid("scopes", fault.Say("value.one_of", strings.Join(Scopes(), ", ")))
		}
	}
	if err := errors.Join(checkList("labels", k.Labels), checkList("models", k.Models)); err != nil {
		return nil, err
	}
	parsed, err := parseNetworks(k.Networks)
	return texts(parsed), err
}

// ListKeys returns a tenant's keys, or those of one owner unless that is "", oldest first.
func (i *Identity) ListKeys(ctx context.Context, tenant, owner string) ([]Key, error) {
	var rows []keyRow
	err := i.store.list(ctx, keyColumns, tenant, "created_at, id", &rows)
	if owner != "" {
		rows = slices.DeleteFunc(rows, func(r keyRow) bool { return r.Owner != owner })
	}
	out := make([]Key, len(rows))
	for n, r := range rows {
		out[n] = i.Seen(r.public())
	}
	return out, err
}

// Key returns one key of a tenant. Error: CodeNotFound.
func (i *Identity) Key(ctx context.Context, tenant, id string) (Key, error) {
	row, err := i.store.key(ctx, tenant, id)
	return i.Seen(row.public()), err
}

// Seen adds what the snapshot knows of a key: the state of the owner, and a use that is not yet written.
func (i *Identity) Seen(k Key) Key {
	s, loaded := i.accounts.Last()
	k.Suspended = loaded && (k.Owner != "" && !s.mayOwn(k.Owner, k.Tenant) || s.projects[projectID{k.Tenant, k.Project}].Level.suspended())
	last := i.used.of(k.ID)
	if at := at(last.at); at.After(k.LastUsedAt) {
		k.LastUsedAt, k.LastUsedFrom = at, last.network()
	}
	if at := at(last.formerAt); at.After(k.FormerUsedAt) {
		k.FormerUsedAt = at
	}
	if !k.FormerExpiresAt.After(i.now()) {
		k.FormerExpiresAt, k.FormerUsedAt = time.Time{}, time.Time{}
	}
	return k
}

// MaxOverlap is how long two secrets of a key are accepted beside each other at most.
const MaxOverlap = 30 * 24 * time.Hour

// RotateKey gives a key another secret, which is returned this once. The one before is accepted for the overlap: at most MaxOverlap, and
// never longer than the key lives; with none both earlier secrets end at once. Errors: CodeInvalidValue, CodeNotFound, CodeConflict for a
// key that has ended, and while the secret before is still accepted.
func (i *Identity) RotateKey(ctx context.Context, tenant, id string, overlap time.Duration) (Key, string, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Key{}, "", invalid("overlap_hours", fault.Say("value.from_zero", int(MaxOverlap.Hours())))
	}
	credential := newSecret(id)
	sum, now := i.keys.sum(credential), i.now()
	_, row, err := i.store.changeKey(ctx, tenant, id, func(row *keyRow) error {
		switch {
		case row.RevokedAt != 0 || row.ExpiresAt <= now.UnixMicro():
			return fault.New(fault.CodeConflict, fault.Say("identity.key_ended"))
		case overlap > 0 && row.FormerExpiresAt > now.UnixMicro():
			return fault.New(fault.CodeConflict, fault.Say("identity.key_overlap"))
		}
		row.FormerDigest, row.FormerExpiresAt, row.FormerUsedAt = row.Digest, min(now.Add(overlap).UnixMicro(), row.ExpiresAt), max(row.LastUsedAt, i.used.of(id).at)
		row.Digest, row.RotatedAt = hex.EncodeToString(sum[:]), now.UnixMicro()
		return nil
	})
	i.reload(ctx)
	if err != nil {
		return Key{}, "", err
	}
	return i.Seen(row.public()), credential, nil
}

// RetireSecret ends the secret before the last rotation now: at once here, within two polls elsewhere. Repeating it changes nothing.
// Error: CodeNotFound.
func (i *Identity) RetireSecret(ctx context.Context, tenant, id string) (Key, error) {
	now := i.now().UnixMicro()
	_, row, err := i.store.changeKey(ctx, tenant, id, func(row *keyRow) error {
		row.FormerExpiresAt = min(row.FormerExpiresAt, now)
		return nil
	})
	i.reload(ctx)
	return i.Seen(row.public()), err
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
		ID: r.ID, Tenant: r.Tenant, Name: r.Name, Roles: roles, Labels: labels, Disabled: r.DisabledAt != 0, MustChange: r.MustChange != 0,
		OneTimeUntil: at(r.OneTimeUntil), CreatedAt: at(r.CreatedAt), CreatedBy: r.CreatedBy, LastSignInAt: at(r.LastSignInAt),
	}
}

func (r keyRow) public() Key {
	labels, _ := unpack(r.Labels)
	scopes, _ := unpack(r.Scopes)
	models, _ := unpack(r.Models)
	networks, _ := unpack(r.Networks)
	return Key{
		ID: r.ID, Tenant: r.Tenant, Project: r.Project, Name: r.Name, Labels: labels, Scopes: scopes, Models: models,
		LabelMode: r.LabelMode, CreatedAt: at(r.CreatedAt), ExpiresAt: at(r.ExpiresAt), CreatedBy: r.CreatedBy,
		RevokedAt: at(r.RevokedAt), LastUsedAt: at(r.LastUsedAt), Owner: r.Owner,
		Networks: networks, LastUsedFrom: r.LastUsedFrom, RotatedAt: at(r.RotatedAt), FormerExpiresAt: at(r.FormerExpiresAt), FormerUsedAt: at(r.FormerUsedAt),
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
		return invalid(param, fault.Say("identity.name"))
	}
	return nil
}

// CheckText accepts what people call things: a line. Errors: CodeMissing, CodeInvalidValue.
func CheckText(param, s string) error {
	if s == "" {
		return fault.New(fault.CodeMissing, param).WithParam(param)
	}
	if utf8.RuneCountInString(s) > 128 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid(param, fault.Say("identity.printable"))
	}
	return nil
}

// CheckReason accepts what a person says about an act: some lines of text.
func CheckReason(param, s string) error {
	if strings.TrimSpace(s) == "" {
		return fault.New(fault.CodeMissing, param).WithParam(param)
	}
	if utf8.RuneCountInString(s) > 1024 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }) {
		return invalid(param, fault.Say("identity.printable"))
	}
	return nil
}

// mostLimit is the highest limit that can be set; the limiter counts no finer.
const mostLimit = 60_000_000

func checkLimits(l Limits) error {
	for _, n := range []int{l.RequestsPerMinute, l.TokensPerMinute, l.Concurrent} {
		if n < 0 || n > mostLimit {
			return invalid("limits", fault.Say("value.between", 0, mostLimit))
		}
	}
	return nil
}

func checkList(param string, list []string) error {
	if len(list) > 100 {
		return invalid(param, fault.Say("identity.entries"))
	}
	for _, s := range list {
		if err := CheckText(param, s); err != nil {
			return err
		}
	}
	return nil
}
