package identity

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Federated is what a provider has said about a person, checked.
type Federated struct {
	Issuer, Subject string
	Name            string   // how the person is called there; anything but proof of who it is
	Groups          []string // all of them, of which the mapping uses some
	AMR             []string
	ACR             string
	Session         string    // of the provider's, which its logout names; "" if it said none
	ProvedAt        time.Time // when the person proved who he is there
}

// bindingRow binds an account to a person of a provider. It is written with the account and stays.
type bindingRow struct {
	Issuer, Subject, UserID string
	CreatedAt               int64
	ConfirmedAt             int64  // the provider has vouched for the roles, to within a day
	Factor                  string // with which it did; "": none
}

func (bindingRow) TableName() string { return "identity_bindings" }

//nolint:gochecknoglobals // a constant list
var bindingColumns = []string{"issuer", "subject", "user_id", "created_at", "confirmed_at", "factor"}

// confirmEvery is how often a sign-in that changes nothing is written down for all replicas.
const confirmEvery = 24 * time.Hour

// SignInFederated signs a person in whom a provider vouches for. The first time it makes the account, bound to issuer and subject and to nothing else;
// at every time the account gets the roles and labels of the groups, and one whose groups give none loses those that it had. A refused sign-in gives
// nothing, and confirms nothing, but takes away what the groups do not give; so does one of a disabled account. changed says what became of the
// account, with an error, too. Errors: CodeNoRole; CodeConflictingRole for groups that together would hold two duties; CodeProviderFactor without a second factor that is demanded;
// CodeAccountDisabled; CodeTenantSuspended, CodeOrganisationSuspended; CodeSignInRefused for a person or a tenant that is not the provider's, and for
// what was proved too long ago; CodeIdentityUnavailable; CodeDatabaseUnavailable.
func (i *Identity) SignInFederated(ctx context.Context, f Federated, source string) (out Session, changed FederatedChange, err error) {
	p, known := i.providerOf(f.Issuer)
	now := i.now()
	began := f.ProvedAt
	if began.After(now) { // within the difference of clocks
		began = now
	}
	if !known || f.Subject == "" || len(f.Subject) > MaxSubject || !now.Before(began.Add(p.SessionTTL)) {
		return Session{}, changed, fault.New(fault.CodeSignInRefused)
	}
	s, err := i.fresh()
	if err != nil {
		return Session{}, changed, err
	}
	if err := s.refusal(p.Tenant, ""); err != nil {
		return Session{}, changed, err
	}
	roles, labels, refused := p.rights(f.Groups)
	factor := p.SecondFactor.factor(f.AMR, f.ACR)
	if refused == nil && factor == "" && i.wantsFactor(s, p, roles) {
		refused = fault.New(fault.CodeProviderFactor)
	}
	before, row, err := i.refreshAccount(ctx, p, f, rights{roles, labels, factor, refused != nil}, now)
	changed = FederatedChange{Before: before.public(), After: row.public()}
	switch {
	case err != nil:
		return Session{}, changed, err
	case refused != nil:
		return Session{}, changed, refused
	case row.DisabledAt != 0:
		return Session{}, changed, fault.New(fault.CodeAccountDisabled)
	}
	refresh, sum := i.newRefresh()
	session := i.signIn(row, sum, source, now)
	session.Issuer, session.ProviderSession = f.Issuer, i.providerSession(f.Issuer, f.Session)
	session.ProvedAt, session.EndsAt = began.UnixMicro(), began.Add(p.SessionTTL).UnixMicro()
	session.ExpiresAt = min(session.ExpiresAt, session.EndsAt)
	if factor != "" {
		session.Factor, session.FactorAt = factor, began.UnixMicro()
	}
	err = i.store.startSession(ctx, session, row.Epoch, now.Add(-i.cfg.SessionTTL).UnixMicro())
	if err == nil {
		out, err = i.issue(ctx, row, session, refresh, now)
	}
	if err == nil {
		i.federated.forget(network(source))
	}
	if fault.Is(err, fault.CodeInvalidLogin) { // the account changed meanwhile; there is no password that could be wrong
		err = fault.Wrap(err, fault.CodeSignInRefused)
	}
	return out, changed, err
}

// FederatedChange is what a sign-in at a provider has made of an account. Without a Before.ID it has made the account, without an After.ID there is none.
type FederatedChange struct{ Before, After User }

// rights are what groups give at a sign-in, and with which second factor; a refused one, and one of a disabled account, only takes away.
type rights struct {
	roles, labels []string
	factor        string
	refused       bool
}

// wantsFactor reports whether somebody with these roles has to show a second factor at his provider.
func (i *Identity) wantsFactor(s *accounts, p Provider, roles []string) bool {
	return p.SecondFactor.Required || i.demanded(s) && Administers(roles)
}

// refreshAccount makes the account of a person, unless he is refused, or gives it what his groups say now.
func (i *Identity) refreshAccount(ctx context.Context, p Provider, f Federated, gets rights, now time.Time) (before, after userRow, err error) {
	by := "oidc:" + p.Name
	bound, found, err := i.store.binding(ctx, f.Issuer, f.Subject)
	if err != nil || !found && gets.refused {
		return before, after, err
	}
	if found {
		if before, err = i.store.user(ctx, p.Tenant, bound.UserID); fault.Is(err, fault.CodeNotFound) {
			err = fault.Wrap(errors.New("the account is of another tenant than the provider is for"), fault.CodeSignInRefused)
		}
		if err != nil || gets.written(before, bound, now) {
			return before, before, err
		}
		defer i.reload(ctx)
		return i.store.refreshFederated(ctx, by, bound, gets, now)
	}
	row := userRow{
		ID: uuid.Must(uuid.NewV7()).String(), Tenant: p.Tenant, PasswordHash: i.nobody, // which no password has
		Roles: pack(gets.roles), Labels: pack(gets.labels), Epoch: 1, CreatedAt: now.UnixMicro(), CreatedBy: by, PasswordSetAt: now.UnixMicro(),
	}
	bound = bindingRow{Issuer: f.Issuer, Subject: f.Subject, UserID: row.ID, CreatedAt: row.CreatedAt, ConfirmedAt: row.CreatedAt, Factor: gets.factor}
	defer i.reload(ctx)
	for _, suffix := range []string{"", "~" + strings.ToLower(randomText(12))} { // which nobody can take before
		row.Name = p.accountName(f.Name, f.Subject) + suffix
		if err = i.store.createFederated(ctx, row, bound); !fault.Is(err, fault.CodeExists) {
			break
		}
	}
	switch {
	case errors.Is(err, errBound): // another replica was faster
		return i.refreshAccount(ctx, p, f, gets, now)
	case fault.Is(err, fault.CodeNotFound), fault.Is(err, fault.CodeConflict):
		err = fault.Wrap(fmt.Errorf("the tenant of the provider: %w", err), fault.CodeSignInRefused)
	}
	if err != nil {
		return before, after, err
	}
	return before, row, nil
}

// onlyTakes reports whether a sign-in gives an account nothing.
func (r rights) onlyTakes(row userRow) bool { return r.refused || row.DisabledAt != 0 }

// of returns the roles and labels that an account has after a sign-in.
func (r rights) of(row userRow) (roles, labels string, err error) {
	if !r.onlyTakes(row) {
		return pack(r.roles), pack(r.labels), nil
	}
	had, err1 := unpack(row.Roles)
	seen, err2 := unpack(row.Labels)
	both := func(a, b []string) string {
		return pack(slices.DeleteFunc(a, func(s string) bool { return !slices.Contains(b, s) }))
	}
	return both(had, r.roles), both(seen, r.labels), errors.Join(err1, err2)
}

// written reports whether a sign-in changes nothing that is worth a write.
func (r rights) written(row userRow, bound bindingRow, now time.Time) bool {
	roles, labels, err := r.of(row)
	return err == nil && row.Roles == roles && row.Labels == labels &&
		(r.onlyTakes(row) || bound.Factor == r.factor && now.UnixMicro()-bound.ConfirmedAt < confirmEvery.Microseconds())
}

// errBound is that a person has an account already.
var errBound = errors.New("the person has an account")

// FederatedAccount returns who a person of a provider is here, for the audit record; found is false for one who never signed in.
func (i *Identity) FederatedAccount(ctx context.Context, issuer, subject string) (p Principal, found bool, err error) {
	bound, found, err := i.store.binding(ctx, issuer, subject)
	if err != nil || !found {
		return Principal{}, false, err
	}
	if s, loaded := i.accounts.Last(); loaded && s.users[bound.UserID].principal.ID != "" {
		return s.users[bound.UserID].principal, true, nil
	}
	return Principal{Kind: "user", ID: bound.UserID}, true, nil
}

// ProviderName returns the name of the provider that a person signs in at; "" for a local account, and for one whose provider is not configured here.
func (i *Identity) ProviderName(user string) string {
	s, loaded := i.accounts.Last()
	if !loaded || s.users[user].issuer == "" {
		return ""
	}
	p, _ := i.providerOf(s.users[user].issuer)
	return p.Name
}

// FederatedLogout is what a provider has said about the end of a sign-in there, checked.
type FederatedLogout struct {
	Issuer, Subject, Session string // the subject, the session or both
	ID                       string // of the message, which is obeyed once
	Expires                  time.Time
}

// EndFederated ends the sign-ins that a provider names: those of its session, and those of the person that belong to no session; without a session all
// that the person has from this provider. They end at once here, within two polls elsewhere. It returns how many, and whose they were. Errors:
// CodeConflict for a message that was obeyed before; CodeDatabaseUnavailable.
func (i *Identity) EndFederated(ctx context.Context, l FederatedLogout) (ended int, users []string, err error) {
	defer i.reload(ctx)
	once := l.once(i)
	session := ""
	if l.Session != "" {
		session = i.providerSession(l.Issuer, l.Session)
	}
	return i.store.endFederated(ctx, l.Issuer, l.Subject, session, once, i.now().UnixMicro())
}

// ObeyedFederated refuses a logout that was obeyed before, as EndFederated does, and ends nothing. Errors: as there.
func (i *Identity) ObeyedFederated(ctx context.Context, l FederatedLogout) error {
	obeyed, err := i.store.spent(ctx, l.once(i))
	if obeyed {
		err = fault.New(fault.CodeConflict, fault.Say("identity.logout_replayed"))
	}
	return err
}

func (l FederatedLogout) once(i *Identity) assertionRow {
	return i.once("logout", l.Issuer+"\x00"+l.ID, l.Expires)
}

// SpendSignIn notes that a sign-in at a provider has come back. fresh is false for one that any replica has seen come back before. Error:
// CodeDatabaseUnavailable.
func (i *Identity) SpendSignIn(ctx context.Context, id string, expires time.Time) (fresh bool, err error) {
	return i.store.spendAssertion(ctx, i.once("sign-in", id, expires), i.now().UnixMicro())
}

func (i *Identity) once(kind, id string, expires time.Time) assertionRow {
	sum := i.asserted.sum("oidc " + kind + "\x00" + id)
	return assertionRow{Digest: hex.EncodeToString(sum[:]), ExpiresAt: expires.UnixMicro()}
}

// FederatedWait returns how long a network has to wait before what it brings from a provider is looked at. It waits after many failures in a row that
// needed no provider, see [Identity.FederatedFailed], and for nothing else: neither local sign-ins nor break-glass nor programs wait for them.
func (i *Identity) FederatedWait(source string) time.Duration {
	return i.federated.wait("", network(source), i.now())
}

// FederatedFailed counts what a network has brought in the name of a provider and what takes no account there. A person of a provider who signs in from
// the network ends the count.
func (i *Identity) FederatedFailed(source string) {
	i.federated.failed(network(source), freeFederated, i.now())
}

func (i *Identity) providerSession(issuer, session string) string {
	if session == "" {
		return ""
	}
	sum := i.asserted.sum("oidc session\x00" + issuer + "\x00" + session)
	return hex.EncodeToString(sum[:])
}

// mayFederated refuses a sign-in of an account whose provider is not configured here any more or is for another tenant, and one without the second
// factor that is demanded by now. The error is for the log.
func (i *Identity) mayFederated(s *accounts, u userEntry, factor string) error {
	if u.issuer == "" {
		return nil
	}
	p, known := i.providerOf(u.issuer)
	switch {
	case !known:
		return errors.New("the provider of the account is not configured")
	case p.Tenant != u.principal.Tenant:
		return errors.New("the provider of the account is for another tenant")
	case factor == "" && i.wantsFactor(s, p, u.principal.Roles):
		return errors.New("sign-in without the second factor that is demanded")
	}
	return nil
}

// confirmed refuses what works without a sign-in, such as the keys of a person, where his provider has not vouched for his roles a short enough time
// ago, or has without the second factor that a sign-in needs. A local account's are its own. The error is for the log.
func (i *Identity) confirmed(s *accounts, u userEntry) error {
	err := i.mayFederated(s, u, u.confirmedWith)
	if p, known := i.providerOf(u.issuer); known && !i.now().Before(time.UnixMicro(u.confirmedAt).Add(p.ConfirmedFor)) {
		err = errors.New("the provider has not vouched for the person for too long")
	}
	return err
}

// notFederated refuses what an account of the tenant does not have whose person signs in at a provider: a password, a factor and roles of its own. A
// binding stays, so it needs no transaction with what follows.
func (i *Identity) notFederated(ctx context.Context, tenant, user string) error {
	bound, err := i.store.isBound(ctx, tenant, user)
	if err == nil && bound {
		err = fault.New(fault.CodeConflict, fault.Say("identity.federated"))
	}
	return err
}

func (s store) spent(ctx context.Context, row assertionRow) (bool, error) {
	_, found, err := one[assertionRow](s.db.WithContext(ctx).Where("digest = ?", row.Digest), []string{"digest"})
	return found, database.Unavailable("find what was spent", err)
}

func (s store) binding(ctx context.Context, issuer, subject string) (bindingRow, bool, error) {
	row, found, err := one[bindingRow](s.db.WithContext(ctx).Where("issuer = ? AND subject = ?", issuer, subject), bindingColumns)
	return row, found, database.Unavailable("find the account of a provider's person", err)
}

func (s store) isBound(ctx context.Context, tenant, user string) (bool, error) {
	of := "user_id = ? AND user_id IN (SELECT id FROM identity_users WHERE tenant = ?)"
	_, found, err := one[bindingRow](s.db.WithContext(ctx).Where(of, user, tenant), bindingColumns)
	return found, database.Unavailable("find the provider of an account", err)
}

// createFederated makes an account and its binding together. CodeExists is for the name, errBound for the person.
func (s store) createFederated(ctx context.Context, row userRow, bound bindingRow) error {
	return s.change(ctx, "create user", func(tx *gorm.DB) error {
		if _, err := openTenant(tx, row.Tenant); err != nil {
			return err
		}
		if _, taken, err := one[bindingRow](tx.Where("issuer = ? AND subject = ?", bound.Issuer, bound.Subject), bindingColumns); err != nil {
			return err
		} else if taken {
			return errBound
		}
		if _, taken, err := one[userRow](tx.Where("name = ?", row.Name), userColumns); err != nil {
			return err
		} else if taken {
			return fault.New(fault.CodeExists, fault.Say("thing.user"), row.Name)
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		if err := tx.Create(&bound).Error; err != nil {
			return fmt.Errorf("bind the account: %w", err)
		}
		return granted(tx, row.ID, row.CreatedBy, row.CreatedAt)
	})
}

// refreshFederated gives a bound account its roles and labels. Unlike a change by hand it also takes the last duty of its kind away: what the provider
// says holds, and break-glass is there for who is left without. Without roles the sign-ins end.
func (s store) refreshFederated(ctx context.Context, by string, bound bindingRow, gets rights, at time.Time) (before, after userRow, err error) {
	now := at.UnixMicro()
	err = s.change(ctx, "refresh roles", func(tx *gorm.DB) error {
		row, found, err := one[userRow](tx.Where("id = ?", bound.UserID), userColumns)
		if err != nil {
			return err
		}
		if !found {
			return fault.New(fault.CodeSignInRefused)
		}
		before, after = row, row
		if !gets.onlyTakes(row) {
			err = tx.Exec("UPDATE identity_bindings SET confirmed_at = ?, factor = ? WHERE issuer = ? AND subject = ?", now, gets.factor, bound.Issuer, bound.Subject).Error
			if err != nil {
				return err
			}
		}
		roles, labels, err := gets.of(row)
		if err != nil || row.Roles == roles && row.Labels == labels {
			return err
		}
		after.Roles, after.Labels, after.Epoch = roles, labels, row.Epoch+1
		if err := tx.Exec("UPDATE identity_users SET roles = ?, labels = ?, epoch = ? WHERE id = ?", roles, labels, after.Epoch, row.ID).Error; err != nil {
			return err
		}
		if roles != row.Roles {
			err = granted(tx, row.ID, by, now)
		}
		if err != nil || roles != pack(nil) {
			return err
		}
		return endSessions(tx, row.ID, now)
	})
	return before, after, err
}

func (s store) endFederated(ctx context.Context, issuer, subject, session string, once assertionRow, now int64) (ended int, users []string, err error) {
	err = s.change(ctx, "end sign-ins of a provider", func(tx *gorm.DB) error {
		if err := tx.Create(&once).Error; err != nil {
			if errors.Is(err, gorm.ErrDuplicatedKey) {
				return fault.New(fault.CodeConflict, fault.Say("identity.logout_replayed"))
			}
			return err
		}
		q := tx.Model(&sessionRow{}).Where("issuer = ? AND revoked_at = 0", issuer)
		if subject != "" {
			q = q.Where("user_id IN (SELECT user_id FROM identity_bindings WHERE issuer = ? AND subject = ?)", issuer, subject)
			if session != "" {
				q = q.Where("provider_session IN (?, '')", session)
			}
		} else {
			q = q.Where("provider_session = ?", session)
		}
		var rows []sessionRow
		if err := q.Distinct("family", "user_id").Find(&rows).Error; err != nil || len(rows) == 0 {
			return err
		}
		var families []string
		for _, row := range rows { // a family is of one user
			families = append(families, row.Family)
			if !slices.Contains(users, row.UserID) {
				users = append(users, row.UserID)
			}
		}
		ended = len(families)
		return tx.Exec("UPDATE identity_sessions SET revoked_at = ? WHERE family IN ? AND revoked_at = 0", now, families).Error
	})
	return ended, users, err
}
