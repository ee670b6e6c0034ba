package identity

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Invitation is an account that waits for its person. There is no account before somebody with its token chooses a password.
type Invitation struct {
	ID, Tenant, Name        string // Name is that of the account
	Roles, Labels           []string
	CreatedAt               time.Time
	CreatedBy               string // who invites; he is the creator of the account
	ExpiresAt               time.Time
	AcceptedAt, WithdrawnAt time.Time // zero: not
	User                    string    // the account that came about
}

// NewInvitation asks for an invitation.
type NewInvitation struct {
	Tenant, Name  string
	Roles, Labels []string
}

// MayInvite returns nil if somebody may make accounts of a tenant. What that takes is data in package access.
type MayInvite func(inviter Principal, tenant string) error

const (
	invitationHead = "si-sluice-"
	invitationSize = 43 // 256 bits
)

type invitationRow struct {
	ID, Tenant, Name, Roles, Labels string
	Digest                          string
	CreatedAt                       int64
	CreatedBy                       string
	ExpiresAt, AcceptedAt           int64
	UserID                          string
	WithdrawnAt                     int64
	WithdrawnBy                     string
}

func (invitationRow) TableName() string { return "identity_invitations" }

//nolint:gochecknoglobals // a constant list
var invitationColumns = []string{
	"id", "tenant", "name", "roles", "labels", "digest", "created_at", "created_by", "expires_at", "accepted_at", "user_id", "withdrawn_at", "withdrawn_by",
}

func (r invitationRow) public() Invitation {
	roles, _ := unpack(r.Roles)
	labels, _ := unpack(r.Labels)
	return Invitation{
		ID: r.ID, Tenant: r.Tenant, Name: r.Name, Roles: roles, Labels: labels, CreatedAt: at(r.CreatedAt), CreatedBy: r.CreatedBy,
		ExpiresAt: at(r.ExpiresAt), AcceptedAt: at(r.AcceptedAt), WithdrawnAt: at(r.WithdrawnAt), User: r.UserID,
	}
}

// open reports whether an invitation can be accepted.
func (r invitationRow) open(now time.Time) bool {
	return r.AcceptedAt == 0 && r.WithdrawnAt == 0 && now.UnixMicro() < r.ExpiresAt
}

// Invite invites a person, and returns the token this once. It is stored as a keyed digest only. Errors: those of CreateUser, apart from the
// password's; CodeRoleAbove; CodeExists also while another invitation for the name is open.
func (i *Identity) Invite(ctx context.Context, by Administrator, n NewInvitation) (Invitation, string, error) {
	if err := by.Manages(n.Roles); err != nil {
		return Invitation{}, "", err
	}
	// Everything but the password is checked as of an account; the one here only passes.
	account, err := i.userRow(NewUser{Tenant: n.Tenant, Name: n.Name, Password: randomText(oneTimeSize), Roles: n.Roles, Labels: n.Labels, CreatedBy: by.ID})
	if err != nil {
		return Invitation{}, "", err
	}
	token, now := invitationHead+randomText(invitationSize), i.now()
	row := invitationRow{
		ID: uuid.Must(uuid.NewV7()).String(), Tenant: account.Tenant, Name: account.Name, Roles: account.Roles, Labels: account.Labels,
		Digest: i.invitationDigest(token), CreatedAt: now.UnixMicro(), CreatedBy: by.ID, ExpiresAt: now.Add(i.cfg.InvitationTTL).UnixMicro(),
	}
	if err := i.store.invite(ctx, row, account); err != nil {
		return Invitation{}, "", err
	}
	return row.public(), token, nil
}

func (i *Identity) invitationDigest(token string) string {
	sum := i.invited.sum(token)
	return hex.EncodeToString(sum[:])
}

// ListInvitations returns a tenant's invitations, newest first.
func (i *Identity) ListInvitations(ctx context.Context, tenant string) ([]Invitation, error) {
	var rows []invitationRow
	err := i.store.list(ctx, invitationColumns, tenant, "created_at DESC, id DESC", &rows)
	out := make([]Invitation, len(rows))
	for n, r := range rows {
		out[n] = r.public()
	}
	return out, err
}

// WithdrawInvitation ends an invitation that nobody has accepted. Repeating it changes nothing. Errors: CodeNotFound; CodeRoleAbove; CodeConflict for
// one that was accepted: its account can be disabled.
func (i *Identity) WithdrawInvitation(ctx context.Context, by Administrator, tenant, id string) (Invitation, error) {
	row, err := i.store.withdraw(ctx, by, tenant, id, i.now().UnixMicro())
	return row.public(), err
}

// Invited returns the invitation of a token that can be accepted. Guesses of tokens are counted and slowed by network. Errors: CodeInvitation for
// every other token; CodeLoginThrottled with a wait; CodeDatabaseUnavailable.
func (i *Identity) Invited(ctx context.Context, token, source string) (Invitation, error) {
	origin, now := network(source), i.now()
	attempt, wait := i.throttle.begin(guessName(origin), origin, now)
	if wait > 0 {
		return Invitation{}, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait)
	}
	if len(token) != len(invitationHead)+invitationSize {
		return Invitation{}, fault.New(fault.CodeInvitation)
	}
	row, found, err := i.store.invitation(ctx, i.invitationDigest(token))
	switch {
	case err != nil:
		attempt.cancel()
		return Invitation{}, err
	case !found:
		return Invitation{}, fault.New(fault.CodeInvitation)
	}
	attempt.succeeded(now)
	if !row.open(now) {
		return Invitation{}, fault.New(fault.CodeInvitation)
	}
	return row.public(), nil
}

// guessName is what guesses of invitations from a network are counted under. Those from other networks do not count: they must not keep a person
// from accepting.
func guessName(origin string) string { return "\x00invitation/" + origin }

// Accept makes the account of an invitation, with a password that the person chooses. The inviter must be there still, and may (see MayInvite) and
// manage roles such as these now: an invitation gives nothing that he could not give himself. Errors: those of Invited and CreateUser; CodeInvitation
// also when somebody else was faster, and where the inviter no longer may; CodeTenantSuspended.
func (i *Identity) Accept(ctx context.Context, token, password, source string, may MayInvite) (User, error) {
	in, err := i.Invited(ctx, token, source)
	if err != nil {
		return User{}, err
	}
	account, err := i.userRow(NewUser{Tenant: in.Tenant, Name: in.Name, Password: password, Roles: in.Roles, Labels: in.Labels, CreatedBy: in.CreatedBy})
	if err != nil {
		return User{}, err
	}
	defer i.reload(ctx)
	if err := i.store.accept(ctx, i.invitationDigest(token), account, i.now(), may); err != nil {
		return User{}, err
	}
	return account.public(), nil
}

func (s store) invite(ctx context.Context, row invitationRow, account userRow) error {
	return s.change(ctx, "invite", func(tx *gorm.DB) error {
		if _, err := openTenant(tx, row.Tenant); err != nil {
			return err
		}
		if err := checkActive(tx, account); err != nil {
			return err
		}
		_, taken, err := one[userRow](tx.Where("name = ?", row.Name), userColumns)
		if err != nil {
			return err
		}
		var open int64
		err = tx.Model(&invitationRow{}).Where("name = ? AND accepted_at = 0 AND withdrawn_at = 0 AND expires_at > ?", row.Name, row.CreatedAt).Count(&open).Error
		if err == nil && (taken || open > 0) {
			err = fault.New(fault.CodeExists, fault.Say("thing.user"), row.Name)
		}
		if err != nil {
			return err
		}
		return tx.Create(&row).Error
	})
}

func (s store) withdraw(ctx context.Context, by Administrator, tenant, id string, now int64) (row invitationRow, err error) {
	err = s.change(ctx, "withdraw invitation", func(tx *gorm.DB) error {
		var found bool
		row, found, err = one[invitationRow](tx.Where("tenant = ? AND id = ?", tenant, id), invitationColumns)
		switch {
		case err != nil:
			return err
		case !found:
			return fault.New(fault.CodeNotFound, fault.Say("thing.invitation"), id)
		case row.AcceptedAt != 0:
			return fault.New(fault.CodeConflict, fault.Say("identity.invitation_accepted"))
		case row.WithdrawnAt != 0:
			return nil
		}
		if err := by.Manages(row.public().Roles); err != nil {
			return err
		}
		row.WithdrawnAt, row.WithdrawnBy = now, by.ID
		return tx.Model(&invitationRow{}).Where("id = ?", id).Updates(map[string]any{"withdrawn_at": now, "withdrawn_by": by.ID}).Error
	})
	return row, err
}

func (s store) invitation(ctx context.Context, digest string) (invitationRow, bool, error) {
	row, found, err := one[invitationRow](s.db.WithContext(ctx).Where("digest = ?", digest), invitationColumns)
	return row, found, database.Unavailable("find invitation", err)
}

// accept makes an account of an invitation that is open still, and whose inviter still may.
func (s store) accept(ctx context.Context, digest string, account userRow, now time.Time, may MayInvite) error {
	return s.change(ctx, "accept invitation", func(tx *gorm.DB) error {
		row, found, err := one[invitationRow](tx.Where("digest = ?", digest), invitationColumns)
		if err != nil {
			return err
		}
		if !found || !row.open(now) {
			return fault.New(fault.CodeInvitation)
		}
		if _, err := openHome(tx, row.Tenant); err != nil {
			return err
		}
		if err := inviterMay(tx, row, may); err != nil {
			return err
		}
		if err := checkActive(tx, account); err != nil {
			return err
		}
		if err := insert(tx, &account, fault.Say("thing.user"), account.Name); err != nil {
			return err
		}
		if err := granted(tx, account.ID, row.CreatedBy, account.CreatedAt); err != nil {
			return err
		}
		return tx.Model(&invitationRow{}).Where("id = ?", row.ID).Updates(map[string]any{"accepted_at": now.UnixMicro(), "user_id": account.ID}).Error
	})
}

// inviterMay refuses an invitation of somebody who could not make its account now.
func inviterMay(tx *gorm.DB, row invitationRow, may MayInvite) error {
	inviter, found, err := one[userRow](tx.Where("id = ?", row.CreatedBy), userColumns)
	if err != nil {
		return err
	}
	if !found || inviter.DisabledAt != 0 || inviter.MustChange != 0 {
		return fault.Wrap(errors.New("the inviter is gone"), fault.CodeInvitation)
	}
	home, err := openHome(tx, inviter.Tenant)
	switch {
	case fault.Is(err, fault.CodeTenantSuspended), fault.Is(err, fault.CodeOrganisationSuspended):
		return fault.Wrap(fmt.Errorf("the home of the inviter: %w", err), fault.CodeInvitation)
	case err != nil:
		return err
	}
	p, err := inviter.principal(&accounts{tenants: map[string]tenantRow{home.ID: home}})
	if err != nil {
		return err
	}
	by := Administrator{ID: p.ID, Platform: hasRole(inviter.Roles, RolePlatformAdmin)}
	if err := errors.Join(may(p, row.Tenant), by.Manages(row.public().Roles)); err != nil {
		return fault.Wrap(err, fault.CodeInvitation)
	}
	return nil
}
