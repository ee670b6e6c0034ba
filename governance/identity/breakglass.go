package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// BreakGlass is the configuration of sealed credentials for an emergency. The zero value accepts none.
type BreakGlass struct {
	Enabled  bool          `koanf:"enabled"`
	Duration time.Duration `koanf:"duration"` // of an emergency session, which is not renewed; 1h, 4h at most
	Networks []string      `koanf:"networks"` // addresses and networks that it is accepted from; none: from everywhere
	// ReviewWithin is how long after its use the review of one is due; 72h.
	ReviewWithin time.Duration `koanf:"review_within"`
}

const (
	maxEmergency    = 4 * time.Hour
	maxSeals        = 10 // made at once
	emergencyHead   = "bg-"
	emergencyID     = 8
	emergencySecret = 32 // characters, of 5.9 bits each
	// emergencySubject is before the id of a use in the subject of its session token; no id of an account begins so.
	emergencySubject = "break-glass/"
	// KindEmergency is the kind of the principal of an emergency session: every record of an act says it.
	KindEmergency = "break_glass"
)

// WithDefaults fills the zero values.
func (c BreakGlass) WithDefaults() BreakGlass {
	if c.Duration == 0 {
		c.Duration = time.Hour
	}
	if c.ReviewWithin == 0 {
		c.ReviewWithin = 72 * time.Hour
	}
	return c
}

func (c BreakGlass) validate() (errs []error) {
	c = c.WithDefaults()
	if c.Duration < time.Minute || c.Duration > maxEmergency {
		errs = append(errs, fmt.Errorf("break_glass.duration: must lie between 1m and %s", maxEmergency))
	}
	if c.ReviewWithin < time.Second {
		errs = append(errs, errors.New("break_glass.review_within: must be at least 1s"))
	}
	if _, err := parseNetworks(c.Networks); err != nil {
		errs = append(errs, errors.New("break_glass.networks: each must be an address or a network, such as 10.0.0.0/8"))
	}
	return errs
}

// Seal is a sealed credential as it may be shown: without its secrets.
type Seal struct {
	ID               string
	Halves           int // that are needed together
	Created          time.Time
	CreatedBy        string // name
	Spent, RevokedAt time.Time
}

// EmergencyUse is one use of a sealed credential.
type EmergencyUse struct {
	ID, Seal, Reason, Source string
	Started, Expires         time.Time
	Ended                    time.Time // before that; zero: it was not
	ReviewDue, Reviewed      time.Time
	ReviewedBy, Review       string
}

// Open reports whether its session can act.
func (u EmergencyUse) Open(now time.Time) bool { return u.Ended.IsZero() && now.Before(u.Expires) }

type sealRow struct {
	ID, Halves             string
	CreatedAt              int64
	CreatedBy, CreatedName string
	SpentAt, RevokedAt     int64
}

func (sealRow) TableName() string { return "identity_break_glass" }

func (sealRow) columns() []string {
	return []string{"id", "halves", "created_at", "created_by", "created_name", "spent_at", "revoked_at"}
}

type useRow struct {
	ID, Credential, Reason, Source   string
	StartedAt, ExpiresAt, EndedAt    int64
	ReviewDue, ReviewedAt            int64
	ReviewedBy, ReviewedName, Review string
	Touched                          string // ids of accounts, each with a space behind it
}

func (useRow) TableName() string { return "identity_break_glass_uses" }

func (useRow) columns() []string {
	return []string{
		"id", "credential", "reason", "source", "started_at", "expires_at", "ended_at", "review_due", "reviewed_at", "reviewed_by", "reviewed_name", "review", "touched",
	}
}

func (r useRow) public() EmergencyUse {
	return EmergencyUse{
		ID: r.ID, Seal: r.Credential, Reason: r.Reason, Source: r.Source, Started: at(r.StartedAt), Expires: at(r.ExpiresAt), Ended: at(r.EndedAt), ReviewDue: at(r.ReviewDue),
		Reviewed: at(r.ReviewedAt), ReviewedBy: r.ReviewedName, Review: r.Review,
	}
}

func (r sealRow) public() (Seal, error) {
	halves, err := unpack(r.Halves)
	return Seal{ID: r.ID, Halves: len(halves), Created: at(r.CreatedAt), CreatedBy: r.CreatedName, Spent: at(r.SpentAt), RevokedAt: at(r.RevokedAt)}, err
}

// MakeSeals makes n sealed credentials for an emergency, each of two halves that are needed together, or whole. What it returns beside them, by credential, is shown
// once: only slow hashes of it are stored. Errors: CodeConflict while break-glass is off; CodeInvalidValue; CodeDatabaseUnavailable.
func (i *Identity) MakeSeals(ctx context.Context, by Principal, n int, whole bool) (seals []Seal, secrets [][]string, err error) {
	if !i.cfg.BreakGlass.Enabled {
		return nil, nil, fault.New(fault.CodeConflict, fault.Say("identity.break_glass_off"))
	}
	if n < 1 || n > maxSeals {
		return nil, nil, invalid("copies", fault.Say("value.between", 1, maxSeals))
	}
	parts := []string{"1", "2"}
	if whole {
		parts = []string{"0"}
	}
	now := i.now().UnixMicro()
	var rows []sealRow
	for range n {
		row := sealRow{ID: randomText(emergencyID), CreatedAt: now, CreatedBy: by.ID, CreatedName: by.Name}
		var shown, hashes []string
		for _, p := range parts {
			half := emergencyHead + row.ID + "-" + p + "-" + randomText(emergencySecret)
			shown, hashes = append(shown, half), append(hashes, i.cfg.PasswordCost.hash(half))
		}
		row.Halves = pack(hashes)
		seal, err := row.public()
		if err != nil {
			return nil, nil, err
		}
		rows, seals, secrets = append(rows, row), append(seals, seal), append(secrets, shown)
	}
	err = i.store.change(ctx, "seal break-glass credentials", func(tx *gorm.DB) error { return tx.Create(&rows).Error })
	return seals, secrets, err
}

// RevokeSeal makes a sealed credential good for nothing. Errors: CodeNotFound; CodeConflict for one that was used or revoked.
func (i *Identity) RevokeSeal(ctx context.Context, id string) error {
	return i.store.change(ctx, "revoke break-glass credential", func(tx *gorm.DB) error {
		res := tx.Model(&sealRow{}).Where("id = ? AND spent_at = 0 AND revoked_at = 0", database.Text(id)).Update("revoked_at", i.now().UnixMicro())
		if res.Error != nil || res.RowsAffected > 0 {
			return res.Error
		}
		if _, found, err := one[sealRow](tx.Where("id = ?", database.Text(id)), sealRow{}.columns()); err != nil || found {
			return errors.Join(err, fault.New(fault.CodeConflict, fault.Say("identity.seal_spent")))
		}
		return fault.New(fault.CodeNotFound, fault.Say("thing.seal"), id)
	})
}

// Seals returns all sealed credentials, newest first.
func (i *Identity) Seals(ctx context.Context) ([]Seal, error) {
	var rows []sealRow
	if err := i.store.db.WithContext(ctx).Select(sealRow{}.columns()).Order("created_at DESC, id").Find(&rows).Error; err != nil {
		return nil, database.Unavailable("list break-glass credentials", err)
	}
	out := make([]Seal, len(rows))
	for n, r := range rows {
		var err error
		if out[n], err = r.public(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// EmergencyUses returns all uses, newest first.
func (i *Identity) EmergencyUses(ctx context.Context) ([]EmergencyUse, error) {
	var rows []useRow
	if err := i.store.db.WithContext(ctx).Select(useRow{}.columns()).Order("started_at DESC, id").Find(&rows).Error; err != nil {
		return nil, database.Unavailable("list uses of break-glass", err)
	}
	out := make([]EmergencyUse, len(rows))
	for n, r := range rows {
		out[n] = r.public()
	}
	return out, nil
}

// EmergencyWait returns how long OpenEmergency would make this source wait, without counting an attempt.
func (i *Identity) EmergencyWait(source string) time.Duration {
	return i.throttle.wait(emergencySubject, network(source), i.now())
}

// Emergency is who an emergency session acts as, and who tries to begin one; use is "" for the latter.
func (i *Identity) Emergency(use string) Principal {
	p := Principal{Kind: KindEmergency, ID: use, Name: "break-glass", Roles: []string{RoleBreakGlass}, Operator: true}
	if s, loaded := i.accounts.Last(); loaded {
		p.Tenant, p.Organisation, p.Above = s.operator, s.tenants[s.operator].Organisation, s.above[s.operator]
	}
	return p
}

// OpenEmergency spends a sealed credential, of which all halves are given, and begins its session. Failures are counted as those of sign-ins are. Errors: CodeMissing
// and CodeInvalidValue of the reason; CodeConflict while break-glass is off, and from other networks; CodeInvalidLogin, the same for a wrong, a spent and a revoked one and
// for one half alone; CodeLoginThrottled with a wait; CodeIdentityUnavailable; CodeDatabaseUnavailable.
func (i *Identity) OpenEmergency(ctx context.Context, halves []string, reason, source string) (Session, EmergencyUse, error) {
	refuse := func(err error) (Session, EmergencyUse, error) { return Session{}, EmergencyUse{}, err }
	cfg := i.cfg.BreakGlass.WithDefaults()
	if !cfg.Enabled {
		return refuse(fault.New(fault.CodeConflict, fault.Say("identity.break_glass_off")))
	}
	attempt, wait := i.throttle.begin(emergencySubject, network(source), i.now())
	if wait > 0 {
		return refuse(fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait))
	}
	if err := CheckReason("reason", reason); err != nil { // it counts, too: each leaves a record
		return refuse(err)
	}
	if networks, err := parseNetworks(cfg.Networks); err != nil || !within(networks, address(source)) {
		return refuse(errors.Join(err, fault.New(fault.CodeConflict, fault.Say("identity.break_glass_network"))))
	}
	id, err := i.checkHalves(ctx, halves)
	if err != nil {
		if !fault.Is(err, fault.CodeInvalidLogin) {
			attempt.cancel()
		}
		return refuse(err)
	}
	now := i.now().Truncate(time.Microsecond)
	use := useRow{
		ID: uuid.Must(uuid.NewV7()).String(), Credential: id, Reason: strings.TrimSpace(reason), Source: source, StartedAt: now.UnixMicro(), ExpiresAt: now.Add(cfg.Duration).UnixMicro(),
		ReviewDue: now.Add(cfg.ReviewWithin).UnixMicro(),
	}
	if err := i.store.openEmergency(ctx, use); err != nil {
		if !fault.Is(err, fault.CodeInvalidLogin) {
			attempt.cancel()
		}
		return refuse(err)
	}
	attempt.succeeded(now)
	i.reload(ctx)
	session, err := i.signEmergency(use, now)
	return session, use.public(), err
}

// checkHalves returns the credential whose halves these are, all of them, without spending it. The work is the same for an unknown one.
func (i *Identity) checkHalves(ctx context.Context, given []string) (string, error) {
	wrong := fault.New(fault.CodeInvalidLogin)
	if len(given) == 0 || len(given) > 2 || slices.ContainsFunc(given, func(s string) bool { return len(s) > maxPassword }) {
		return "", wrong
	}
	given = slices.Sorted(slices.Values(given)) // by id, then by the number of the half
	id, _, _ := strings.Cut(strings.TrimPrefix(given[0], emergencyHead), "-")
	row, found, err := one[sealRow](i.store.db.WithContext(ctx).Where("id = ? AND spent_at = 0 AND revoked_at = 0", database.Text(id)), sealRow{}.columns())
	if err != nil {
		return "", database.Unavailable("find break-glass credential", err)
	}
	hashes := []string{i.nobody, i.nobody}
	if found {
		if hashes, err = unpack(row.Halves); err != nil {
			return "", err
		}
	}
	right := found && len(hashes) == len(given) && len(hashes) > 0
	for n := range hashes {
		same, err := i.matches(ctx, hashes[n], given[min(n, len(given)-1)])
		if err != nil {
			return "", err
		}
		right = right && same
	}
	if !right {
		return "", wrong
	}
	return row.ID, nil
}

// openEmergency spends the credential of a use and notes the use, both or neither: it is good once, whoever is faster.
func (s store) openEmergency(ctx context.Context, use useRow) error {
	return s.change(ctx, "use break-glass credential", func(tx *gorm.DB) error {
		res := tx.Model(&sealRow{}).Where("id = ? AND spent_at = 0 AND revoked_at = 0", use.Credential).Update("spent_at", use.StartedAt)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 0 {
			return fault.New(fault.CodeInvalidLogin)
		}
		return tx.Create(&use).Error
	})
}

func (i *Identity) signEmergency(use useRow, now time.Time) (Session, error) {
	key := i.sessions.current(now)
	expires := at(use.ExpiresAt)
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.cfg.Issuer, Audience: jwt.ClaimStrings{adminAudience}, Subject: emergencySubject + use.ID,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires), ID: uuid.NewString(),
		},
		Family: use.ID, SignedIn: now.Unix(), Methods: []string{"pwd"},
	})
	token.Header["kid"] = key.id
	access, err := token.SignedString(key.private)
	if err != nil {
		return Session{}, fmt.Errorf("sign session: %w", err)
	}
	return Session{Access: access, ExpiresAt: expires, Principal: i.Emergency(use.ID)}, nil
}

// emergencyOf returns who the session token of a use stands for, as long as it is open.
func (i *Identity) emergencyOf(s *accounts, id string, c claims) (Principal, error) {
	use, there := s.emergencies[id]
	now := i.now()
	switch {
	case !i.cfg.BreakGlass.Enabled || !there || !use.public().Open(now):
		return Principal{}, fault.Wrap(errors.New("emergency over, ended or unknown"), fault.CodeInvalidSession)
	case c.ID == "" || c.IssuedAt == nil || c.ExpiresAt.Sub(c.IssuedAt.Time) > maxEmergency:
		return Principal{}, fault.Wrap(errors.New("token lacks an id or lives too long"), fault.CodeInvalidSession)
	}
	p := i.Emergency(id)
	p.Session, p.SignedIn = id, time.Unix(c.SignedIn, 0)
	return p, nil
}

// EndEmergency ends an open session. Ending one that is over changes nothing. Error: CodeNotFound.
func (i *Identity) EndEmergency(ctx context.Context, id string) (EmergencyUse, error) {
	defer i.reload(ctx)
	now := i.now().UnixMicro()
	return i.changeUse(ctx, "end emergency", id, func(_ *gorm.DB, row *useRow) error {
		if row.EndedAt == 0 && row.ExpiresAt > now {
			row.EndedAt = now
		}
		return nil
	})
}

// ReviewEmergency closes the review of a use, with what was found, and ends its session. Errors: CodeMissing and CodeInvalidValue of what was found; CodeNotFound; CodeConflict for one
// that was reviewed; CodeSecondPerson for an account that the emergency has made or changed.
func (i *Identity) ReviewEmergency(ctx context.Context, id, found string, by Principal) (EmergencyUse, error) {
	if err := CheckReason("reason", found); err != nil {
		return EmergencyUse{}, err
	}
	defer i.reload(ctx)
	now := i.now().UnixMicro()
	return i.changeUse(ctx, "review emergency", id, func(tx *gorm.DB, row *useRow) error {
		if row.ReviewedAt != 0 {
			return fault.New(fault.CodeConflict, fault.Say("identity.reviewed_before", row.ReviewedName))
		}
		maker, err := Creator(tx.Session(&gorm.Session{NewDB: true}), by.ID)
		if err != nil {
			return err
		}
		if maker == id || strings.Contains(" "+row.Touched, " "+by.ID+" ") {
			return fault.New(fault.CodeSecondPerson)
		}
		if row.EndedAt == 0 && row.ExpiresAt > now {
			row.EndedAt = now
		}
		row.ReviewedAt, row.ReviewedBy, row.ReviewedName, row.Review = now, by.ID, by.Name, strings.TrimSpace(found)
		return nil
	})
}

func (i *Identity) changeUse(ctx context.Context, step, id string, fn func(tx *gorm.DB, row *useRow) error) (EmergencyUse, error) {
	var row useRow
	err := i.store.change(ctx, step, func(tx *gorm.DB) error {
		var found bool
		var err error
		if row, found, err = one[useRow](tx.Where("id = ?", database.Text(id)), useRow{}.columns()); err != nil {
			return err
		}
		if !found {
			return fault.New(fault.CodeNotFound, fault.Say("thing.emergency"), id)
		}
		if err := fn(tx, &row); err != nil {
			return err
		}
		return tx.Model(&useRow{}).Where("id = ?", row.ID).Updates(map[string]any{
			"ended_at": row.EndedAt, "reviewed_at": row.ReviewedAt, "reviewed_by": row.ReviewedBy, "reviewed_name": row.ReviewedName, "review": row.Review,
		}).Error
	})
	return row.public(), err
}

// touched notes that an emergency, if it is one, has changed an account.
func touched(tx *gorm.DB, by, user string) error {
	return tx.Exec("UPDATE identity_break_glass_uses SET touched = touched || ? WHERE id = ?", user+" ", by).Error
}

// managesInEmergency is Manages for an emergency: it brings back whoever runs and secures the installation, and never whoever reads what is recorded, since that would be a way to
// read it.
func (by Administrator) managesInEmergency(roles []string) error {
	for _, r := range []string{RoleAuditor, RoleCompliance, RoleWitness} {
		if slices.Contains(roles, r) {
			return fault.New(fault.CodeRoleAbove, r)
		}
	}
	return nil
}

// BreakGlassEnabled reports whether sealed credentials open anything.
func (i *Identity) BreakGlassEnabled() bool { return i.cfg.BreakGlass.Enabled }
