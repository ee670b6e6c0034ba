package identity

import (
	"context"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// ServiceAccount is the account of a program. It is neither a person, who signs in, nor an API key, which is a secret for good: it proves who it
// is by a secret or by a key of its own, and gets tokens that live for minutes. Its roles say at which plane: an application calls the data plane,
// every other role the management API.
type ServiceAccount struct {
	ID, Tenant, Project, Name string
	Roles, Labels             []string
	Scopes, Models            []string // see Principal
	Networks                  []string // it is accepted from; empty: from everywhere
	Limits                    Limits
	Owner                     string // the person who answers for it
	CreatedAt, ExpiresAt      time.Time
	CreatedBy                 string
	Disabled                  bool
	Suspended                 bool      // refused while its owner may not answer for it
	LastUsedAt                time.Time // zero: not known
	HasSecret                 bool
	RotatedAt                 time.Time // zero: never
	FormerExpiresAt           time.Time // until when the secret before the last rotation is accepted; zero: there is none
	Keys                      []ServiceKey
}

// Plane returns the plane that the tokens of the account are for.
func (a ServiceAccount) Plane() Plane { return planeOf(a.Roles) }

// ServiceKey is a public key by which a service account signs what it shows for a token.
type ServiceKey struct {
	ID, Algorithm string
	CreatedAt     time.Time
	CreatedBy     string
}

// NewServiceAccount asks for a service account.
type NewServiceAccount struct {
	Tenant, Project, Name string
	Roles, Labels         []string
	Scopes, Models        []string
	Networks              []string
	Limits                Limits
	Owner                 string    // user id
	ExpiresAt             time.Time // zero: Config.KeyTTL from now
	PublicKeys            string    // a JWK, a JWK set or PEM; "": the account gets a secret instead
	CreatedBy             string
}

// ServiceChange says what to change of a service account; nil leaves a field as it is. Credentials never change by it.
type ServiceChange struct {
	Name, Project, Owner     *string
	Roles, Labels            *[]string
	Scopes, Models, Networks *[]string
	Limits                   *Limits
	ExpiresAt                *time.Time
}

// ServicePrefix begins the id of every service account, and of no key.
const ServicePrefix = "svc-"

const (
	serviceIDSize     = 12
	serviceSecretHead = "ss-sluice-" //nolint:gosec // what secrets begin with
	maxServiceKeys    = 8
)

// ServiceRoles are the roles that a service account can have. Whoever may do everything, and whoever reads what people wrote, is a person.
func ServiceRoles() []string {
	return []string{RoleApplication, RoleDeveloper, RoleWitness, RoleAuditor, RoleSystemAdmin, RoleSecurityAdmin}
}

// CreateServiceAccount makes a service account, with the public keys that it is given or with a secret, which is returned this once. Errors:
// CodeInvalidValue; CodeMissing; CodeConflictingRole, also where the owner holds another duty of administrators than the account; CodeNotFound
// (tenant, owner, project); CodeConflict for an owner who may answer for none and for a suspended project; CodeExists.
func (i *Identity) CreateServiceAccount(ctx context.Context, n NewServiceAccount) (ServiceAccount, string, error) {
	now := i.now()
	if n.ExpiresAt.IsZero() {
		n.ExpiresAt = now.Add(i.cfg.KeyTTL)
	}
	row, err := n.row(now)
	if err != nil {
		return ServiceAccount{}, "", err
	}
	row.ID, row.Epoch, row.CreatedAt, row.CreatedBy = ServicePrefix+randomText(serviceIDSize), 1, now.UnixMicro(), n.CreatedBy
	var keys []serviceKeyRow
	secret := ""
	if n.PublicKeys == "" {
		secret = newServiceSecret(row.ID)
		row.Digest = i.serviceDigest(secret)
	} else if keys, err = keyRows(row.ID, n.PublicKeys, n.CreatedBy, now); err != nil {
		return ServiceAccount{}, "", err
	}
	defer i.reload(ctx)
	if err := i.store.createService(ctx, row, keys); err != nil {
		return ServiceAccount{}, "", err
	}
	return row.public(keys, now), secret, nil
}

// row checks what was asked for and returns it as it is stored.
func (n NewServiceAccount) row(now time.Time) (serviceRow, error) {
	// What they share is checked as of a key.
	networks, err := NewKey{
		Project: n.Project, Name: n.Name, Labels: n.Labels, Models: n.Models, Networks: n.Networks, Limits: n.Limits, ExpiresAt: n.ExpiresAt,
	}.check(now)
	if err != nil {
		return serviceRow{}, err
	}
	if err := checkServiceRoles(n.Roles); err != nil {
		return serviceRow{}, err
	}
	if err := checkServiceScopes(n.Roles, n.Scopes); err != nil {
		return serviceRow{}, err
	}
	if n.Owner == "" {
		return serviceRow{}, fault.New(fault.CodeMissing, "owner").WithParam("owner")
	}
	return serviceRow{
		Tenant: n.Tenant, Project: n.Project, Name: n.Name, Roles: pack(n.Roles), Labels: pack(n.Labels), Scopes: pack(n.Scopes), Models: pack(n.Models),
		Networks: pack(networks), Owner: n.Owner, ExpiresAt: n.ExpiresAt.UnixMicro(),
		RequestsPerMinute: n.Limits.RequestsPerMinute, TokensPerMinute: n.Limits.TokensPerMinute, Concurrent: n.Limits.Concurrent,
	}, nil
}

func checkServiceRoles(roles []string) error {
	if err := CheckRoles(roles); err != nil {
		return err
	}
	if slices.ContainsFunc(roles, func(r string) bool { return !slices.Contains(ServiceRoles(), r) }) {
		return invalid("roles", fault.Say("identity.role_of_people"))
	}
	return nil
}

// serviceScopes are the scopes that a service account with these roles, or a token of it, can be narrowed to.
func serviceScopes(roles []string) []string {
	if slices.Contains(roles, RoleApplication) {
		return opened(nil)
	}
	return []string{ScopeAdminRead}
}

func checkServiceScopes(roles, scopes []string) error {
	can := serviceScopes(roles)
	for n, s := range scopes {
		if !slices.Contains(can, s) || slices.Contains(scopes[:n], s) {
			return invalid("scopes", fault.Say("value.one_of", strings.Join(can, ", ")))
		}
	}
	return nil
}

// checkOwnerDuties refuses an owner with another duty of administrators than the account: together they would be one person with both.
func checkOwnerDuties(owner, account []string) error {
	for _, duty := range account {
		if !slices.Contains(administrators(), duty) {
			continue
		}
		for _, held := range owner {
			if slices.Contains(administrators(), held) && held != duty && held != RolePlatformAdmin {
				return fault.New(fault.CodeConflictingRole, held, duty).WithParam("roles")
			}
		}
	}
	return nil
}

// ListServiceAccounts returns a tenant's service accounts, oldest first.
func (i *Identity) ListServiceAccounts(ctx context.Context, tenant string) ([]ServiceAccount, error) {
	rows, keys, err := i.store.listServices(ctx, tenant)
	out := make([]ServiceAccount, len(rows))
	for n, r := range rows {
		out[n] = i.seenService(r, keys[r.ID])
	}
	return out, err
}

// ServiceAccount returns one service account of a tenant. Error: CodeNotFound.
func (i *Identity) ServiceAccount(ctx context.Context, tenant, id string) (ServiceAccount, error) {
	row, keys, err := i.store.service(ctx, tenant, id)
	if err != nil {
		return ServiceAccount{}, err
	}
	return i.seenService(row, keys), nil
}

// seenService adds what the snapshot knows: the state of the owner, and a use that is not yet written.
func (i *Identity) seenService(row serviceRow, keys []serviceKeyRow) ServiceAccount {
	out := row.public(keys, i.now())
	if s, loaded := i.accounts.Last(); loaded {
		out.Suspended = !s.mayAnswerFor(row.Owner, row.Tenant, out.Roles)
	}
	if used := at(i.used.of(row.ID).at); used.After(out.LastUsedAt) {
		out.LastUsedAt = used
	}
	return out
}

// ChangeServiceAccount changes a service account; its credentials stay, and its tokens end. Errors: as of CreateServiceAccount.
func (i *Identity) ChangeServiceAccount(ctx context.Context, tenant, id string, change ServiceChange) (before, after ServiceAccount, err error) {
	return i.changeService(ctx, "change service account", tenant, id, func(row *serviceRow) error {
		was := row.public(nil, i.now())
		want := NewServiceAccount{
			Tenant: was.Tenant, Project: was.Project, Name: was.Name, Roles: was.Roles, Labels: was.Labels, Scopes: was.Scopes, Models: was.Models,
			Networks: was.Networks, Limits: was.Limits, Owner: was.Owner, ExpiresAt: was.ExpiresAt,
		}
		change.apply(&want)
		now := i.now()
		if change.ExpiresAt == nil {
			now = was.ExpiresAt.Add(-time.Second) // one that has expired may still get another name
		}
		next, err := want.row(now)
		if err != nil {
			return err
		}
		row.Project, row.Name, row.Roles, row.Labels, row.Scopes, row.Models = next.Project, next.Name, next.Roles, next.Labels, next.Scopes, next.Models
		row.Networks, row.Owner, row.ExpiresAt = next.Networks, next.Owner, next.ExpiresAt
		row.RequestsPerMinute, row.TokensPerMinute, row.Concurrent = next.RequestsPerMinute, next.TokensPerMinute, next.Concurrent
		return nil
	})
}

func (c ServiceChange) apply(to *NewServiceAccount) {
	for _, f := range []struct{ from, to *string }{{c.Name, &to.Name}, {c.Project, &to.Project}, {c.Owner, &to.Owner}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	for _, f := range []struct{ from, to *[]string }{
		{c.Roles, &to.Roles}, {c.Labels, &to.Labels}, {c.Scopes, &to.Scopes}, {c.Models, &to.Models}, {c.Networks, &to.Networks},
	} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if c.Limits != nil {
		to.Limits = *c.Limits
	}
	if c.ExpiresAt != nil {
		to.ExpiresAt = *c.ExpiresAt
	}
}

// RotateServiceSecret gives a service account another secret, or its first, which is returned this once. The one before is accepted for the
// overlap: at most MaxOverlap; with none both earlier ones end at once, with the tokens that were got by them. Errors: CodeInvalidValue,
// CodeNotFound, CodeConflict for an account that has expired, and while the secret before is still accepted.
func (i *Identity) RotateServiceSecret(ctx context.Context, tenant, id string, overlap time.Duration) (ServiceAccount, string, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return ServiceAccount{}, "", invalid("overlap_hours", fault.Say("value.from_zero", int(MaxOverlap.Hours())))
	}
	secret, now := newServiceSecret(id), i.now()
	_, after, err := i.changeService(ctx, "rotate service secret", tenant, id, func(row *serviceRow) error {
		switch {
		case row.ExpiresAt <= now.UnixMicro():
			return fault.New(fault.CodeConflict, fault.Say("identity.service_ended"))
		case overlap > 0 && row.FormerExpiresAt > now.UnixMicro():
			return fault.New(fault.CodeConflict, fault.Say("identity.key_overlap"))
		}
		row.FormerDigest, row.FormerExpiresAt = row.Digest, min(now.Add(overlap).UnixMicro(), row.ExpiresAt)
		if overlap == 0 || row.Digest == "" {
			row.FormerDigest, row.FormerExpiresAt = "", 0
		}
		row.keepTokens = overlap > 0
		row.Digest, row.RotatedAt = i.serviceDigest(secret), now.UnixMicro()
		return nil
	})
	if err != nil {
		return ServiceAccount{}, "", err
	}
	return after, secret, nil
}

// RemoveServiceSecret takes both secrets of a service account away, and ends its tokens. Repeating it changes nothing. Error: CodeNotFound.
func (i *Identity) RemoveServiceSecret(ctx context.Context, tenant, id string) (ServiceAccount, error) {
	_, after, err := i.changeService(ctx, "remove service secret", tenant, id, func(row *serviceRow) error {
		row.Digest, row.FormerDigest, row.FormerExpiresAt = "", "", 0
		return nil
	})
	return after, err
}

// AddServiceKeys adds public keys to a service account: a JWK, a JWK set or PEM. Errors: CodeInvalidValue, CodeNotFound, CodeExists for a key id
// that the account has, CodeConflict for more keys than it can have.
func (i *Identity) AddServiceKeys(ctx context.Context, tenant, id, keys, by string) (ServiceAccount, error) {
	rows, err := keyRows(id, keys, by, i.now())
	if err != nil {
		return ServiceAccount{}, err
	}
	return i.after(ctx, tenant, id, i.store.addServiceKeys(ctx, tenant, id, rows))
}

// RemoveServiceKey takes a public key from a service account, and ends its tokens. Error: CodeNotFound, also for a key that it does not have.
func (i *Identity) RemoveServiceKey(ctx context.Context, tenant, id, key string) (ServiceAccount, error) {
	return i.after(ctx, tenant, id, i.store.removeServiceKey(ctx, tenant, id, key))
}

func (i *Identity) after(ctx context.Context, tenant, id string, err error) (ServiceAccount, error) {
	i.reload(ctx) // also after an error, which may have come after the commit
	if err != nil {
		return ServiceAccount{}, err
	}
	return i.ServiceAccount(ctx, tenant, id)
}

// DisableServiceAccount refuses a service account and its tokens: at once here, within two polls elsewhere. Error: CodeNotFound.
func (i *Identity) DisableServiceAccount(ctx context.Context, tenant, id string) (ServiceAccount, error) {
	now := i.now().UnixMicro()
	_, after, err := i.changeService(ctx, "disable service account", tenant, id, func(row *serviceRow) error {
		if row.DisabledAt == 0 {
			row.DisabledAt = now
		}
		return nil
	})
	return after, err
}

// EnableServiceAccount lets a disabled service account get tokens again. Error: CodeNotFound; those of an owner who may not answer for it.
func (i *Identity) EnableServiceAccount(ctx context.Context, tenant, id string) (ServiceAccount, error) {
	_, after, err := i.changeService(ctx, "enable service account", tenant, id, func(row *serviceRow) error {
		row.DisabledAt = 0
		return nil
	})
	return after, err
}

// RemoveServiceAccount ends a service account for good, with its credentials and tokens. Error: CodeNotFound.
func (i *Identity) RemoveServiceAccount(ctx context.Context, tenant, id string) error {
	now := i.now().UnixMicro()
	_, _, err := i.changeService(ctx, "remove service account", tenant, id, func(row *serviceRow) error {
		row.RemovedAt, row.Digest, row.FormerDigest, row.FormerExpiresAt = now, "", "", 0
		return nil
	})
	return err
}

func (i *Identity) changeService(ctx context.Context, step, tenant, id string, fn func(row *serviceRow) error) (before, after ServiceAccount, err error) {
	was, is, keys, err := i.store.changeService(ctx, step, tenant, id, fn)
	i.reload(ctx) // also after an error, which may have come after the commit
	if err != nil {
		return ServiceAccount{}, ServiceAccount{}, err
	}
	return was.public(keys, i.now()), i.seenService(is, keys), nil
}

func newServiceSecret(id string) string {
	return serviceSecretHead + id + "-" + randomText(keySecretSize)
}

func (i *Identity) serviceDigest(secret string) string {
	sum := i.service.sum(secret)
	return hex.EncodeToString(sum[:])
}

// serviceEntry is a service account as the snapshot has it.
type serviceEntry struct {
	principal      Principal
	networks       []netip.Prefix
	epoch          int64
	expires        int64
	disabled       bool
	suspended      bool // see mayAnswerFor
	digest, former string
	formerExpires  int64
	keys           []clientKey
}

// secretIs reports whether a secret with this digest is accepted now.
func (e serviceEntry) secretIs(digest string, now int64) bool {
	return e.digest != "" && same(e.digest, digest) || e.former != "" && now < e.formerExpires && same(e.former, digest)
}

// addService adds a service account with its keys to the snapshot.
func (s *accounts) addService(row serviceRow, keys []serviceKeyRow) error {
	p, err := row.principal(s)
	if err != nil {
		return err
	}
	listed, err := unpack(row.Networks)
	if err != nil {
		return err
	}
	networks, err := parseNetworks(listed)
	if err != nil {
		return err
	}
	entry := serviceEntry{
		principal: p, networks: networks, epoch: row.Epoch, expires: row.ExpiresAt, disabled: row.DisabledAt != 0,
		suspended: !s.mayAnswerFor(row.Owner, row.Tenant, p.Roles), digest: row.Digest, former: row.FormerDigest, formerExpires: row.FormerExpiresAt,
	}
	for _, k := range keys {
		key, err := k.parse()
		if err != nil {
			return err
		}
		entry.keys = append(entry.keys, key)
	}
	entry.principal.proof = strconv.FormatInt(row.Epoch, 10)
	s.services[row.ID] = entry
	return nil
}

// mayAnswerFor reports whether a person can own a service account with these roles that works: he is there, of its tenant or the operator's, has
// not got a password of somebody else's, and holds no duty that excludes one of the account's.
func (s *accounts) mayAnswerFor(user, tenant string, roles []string) bool {
	u, ok := s.users[user]
	home := u.principal.Tenant
	return ok && !u.disabled && !u.principal.MustChange && (home == tenant || home == s.operator) && s.refusal(home, "") == nil &&
		checkOwnerDuties(u.principal.Roles, roles) == nil
}
