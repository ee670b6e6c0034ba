package accessreview

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/sleep"
)

const (
	maxTime   = 366 * 24 * time.Hour // from the start to the due date
	maxItems  = 10_000
	claimTime = time.Minute // after which another replica takes up what one has left
	interval  = 5 * time.Second
)

// Kind says what an entry is about.
type Kind string

// The kinds.
const (
	KindUser    Kind = "user"
	KindKey     Kind = "key"
	KindService Kind = "service" // account of a program
)

// Decision is what became of an entry.
type Decision string

// The decisions. An entry without one waits.
const (
	Confirmed Decision = "confirmed" // it keeps what it holds
	Ended     Decision = "ended"     // the account or service account is disabled, the key revoked
	Lapsed    Decision = "lapsed"    // nobody decided in time: ended, too
	Cancelled Decision = "cancelled" // nobody decided before the campaign was cancelled: it keeps what it holds
)

// Campaign is one review.
type Campaign struct {
	ID, Tenant, Name       string
	Owner, OwnerName       string // who decides
	StartedBy, StartedName string // who decides about the owner's own
	Started, Due           time.Time
	CancelledBy            string    // user id; "" unless somebody has cancelled it
	Cancellation           string    // why
	Ended                  time.Time // zero while it is open
	Waiting, All           int       // entries without a decision, and all
}

// Item is an account, a key or a service account under review.
type Item struct {
	Kind     Kind
	ID, Name string
	Holds    []string // what it held when it was last shown, such as "role auditor"; sorted
	Decision Decision
	By       string // user id
	ByName   string
	Reason   string
	Decided  time.Time
	Done     time.Time  // when it was ended; zero for what is confirmed, and until then
	Failure  fault.Code // why it could not be ended; "" if it was

	recorded bool // that it ends
}

// Config is what a service works with.
type Config struct {
	Identity *identity.Identity
	Access   *access.Enforcer
	// Notice is the shortest time from the start of a campaign to its due date.
	Notice time.Duration
	// Record makes a record durable that an entry ends without a request, before it does, or with a Failure that it cannot be ended. Its error
	// stops what it records.
	Record func(ctx context.Context, c Campaign, i Item) error
}

// Service runs campaigns. It is safe for concurrent use.
type Service struct {
	cfg Config
	db  *gorm.DB
	log *slog.Logger
	now func() time.Time
}

// New returns a service over a migrated database. Entries lapse while [Service.Run] runs.
func New(cfg Config, db *gorm.DB, log *slog.Logger) *Service {
	return &Service{cfg: cfg, db: db, log: log.With(slog.String("component", "accessreview")), now: time.Now}
}

// NewCampaign asks for a campaign.
type NewCampaign struct {
	Tenant, Name string
	Owner        string // name of the account that decides
	Due          time.Time
}

// Start begins a campaign over every active account, key and service account of a tenant. Errors: CodeInvalidValue; CodeMissing; CodeNotFound for an owner that
// is no active account of the tenant or of the operator; CodeConflict for an owner who may not read accounts or is the one who starts it, and
// while another campaign of the tenant is open.
func (s *Service) Start(ctx context.Context, in NewCampaign, by identity.Principal) (Campaign, error) {
	now := s.now()
	if err := identity.CheckText("name", in.Name); err != nil {
		return Campaign{}, err
	}
	if !in.Due.After(now) || in.Due.Before(now.Add(s.cfg.Notice)) || in.Due.After(now.Add(maxTime)) {
		return Campaign{}, invalid("due_at", fault.Say("accessreview.due", s.cfg.Notice.String()))
	}
	owner, err := s.owner(ctx, in.Tenant, in.Owner, by)
	if err != nil {
		return Campaign{}, err
	}
	if owner.ID == by.ID {
		return Campaign{}, fault.New(fault.CodeConflict, fault.Say("accessreview.owner_starts"))
	}
	rows, err := s.held(ctx, in.Tenant)
	if err != nil {
		return Campaign{}, err
	}
	c := Campaign{
		ID: uuid.Must(uuid.NewV7()).String(), Tenant: in.Tenant, Name: in.Name, Owner: owner.ID, OwnerName: owner.Name, StartedBy: by.ID, StartedName: by.Name,
		Started: now, Due: in.Due, Waiting: len(rows), All: len(rows),
	}
	return c, s.create(ctx, c, rows)
}

// owner finds the account that a campaign of a tenant is to belong to. Only the operator's people may name one of the operator's.
func (s *Service) owner(ctx context.Context, tenant, name string, by identity.Principal) (identity.User, error) {
	operator := s.cfg.Identity.Operator()
	homes := []string{tenant}
	if by.Operator && operator != tenant {
		homes = append(homes, operator)
	}
	for _, home := range homes {
		users, err := s.cfg.Identity.ListUsers(ctx, home)
		if err != nil {
			return identity.User{}, err
		}
		at := slices.IndexFunc(users, func(u identity.User) bool { return u.Name == strings.ToLower(strings.TrimSpace(name)) && !u.Disabled })
		if at < 0 {
			continue
		}
		u := users[at]
		p := identity.Principal{Tenant: u.Tenant, Kind: "user", ID: u.ID, Roles: u.Roles, Operator: u.Tenant == operator}
		if s.cfg.Access.Allow(p, access.UsersRead, tenant) != nil {
			return identity.User{}, fault.New(fault.CodeConflict, fault.Say("accessreview.owner_cannot_read"))
		}
		return u, nil
	}
	return identity.User{}, fault.New(fault.CodeNotFound, fault.Say("thing.user"), name)
}

// held lists what is active in a tenant, and what it holds.
func (s *Service) held(ctx context.Context, tenant string) ([]itemRow, error) {
	users, err := s.cfg.Identity.ListUsers(ctx, tenant)
	if err != nil {
		return nil, err
	}
	keys, err := s.cfg.Identity.ListKeys(ctx, tenant, "")
	if err != nil {
		return nil, err
	}
	services, err := s.cfg.Identity.ListServiceAccounts(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var out []itemRow
	for _, a := range services {
		if row, active := s.ofService(a); active {
			out = append(out, row)
		}
	}
	for _, u := range users {
		if row, active := ofUser(u); active {
			out = append(out, row)
		}
	}
	for _, k := range keys {
		if row, active := s.ofKey(k); active {
			out = append(out, row)
		}
	}
	if len(out) > maxItems {
		return nil, invalid("tenant", fault.Say("accessreview.too_many", maxItems))
	}
	return out, nil
}

// current is what an entry holds now, and whether it is active.
func (s *Service) current(ctx context.Context, tenant string, i Item) (row itemRow, active bool, err error) {
	switch i.Kind {
	case KindKey:
		k, err := s.cfg.Identity.Key(ctx, tenant, i.ID)
		if err != nil {
			return itemRow{}, false, err
		}
		row, active = s.ofKey(k)
		return row, active, nil
	case KindService:
		a, err := s.cfg.Identity.ServiceAccount(ctx, tenant, i.ID)
		if err != nil {
			return itemRow{}, false, err
		}
		row, active = s.ofService(a)
		return row, active, nil
	case KindUser:
	}
	u, err := s.cfg.Identity.User(ctx, tenant, i.ID)
	if err != nil {
		return itemRow{}, false, err
	}
	row, active = ofUser(u)
	return row, active, nil
}

func ofUser(u identity.User) (row itemRow, active bool) {
	holds := slices.Concat(each("role", u.Roles), each("label", u.Labels))
	return itemRow{Kind: KindUser, Item: u.ID, Name: u.Name, Holds: pack(holds)}, !u.Disabled
}

func (s *Service) ofKey(k identity.Key) (row itemRow, active bool) {
	holds := slices.Concat(each("scope", k.Scopes), each("model", k.Models), each("label", k.Labels), each("network", k.Networks))
	if k.Owner != "" {
		holds = append(holds, "owner "+k.Owner)
	}
	holds = append(holds, "until "+k.ExpiresAt.UTC().Format(time.DateOnly))
	return itemRow{Kind: KindKey, Item: k.ID, Name: k.Name, Holds: pack(holds)}, k.RevokedAt.IsZero() && k.ExpiresAt.After(s.now())
}

// ofService says also by how many credentials an account proves who it is: one that is added is something to look at again.
func (s *Service) ofService(a identity.ServiceAccount) (row itemRow, active bool) {
	holds := slices.Concat(each("role", a.Roles), each("scope", a.Scopes), each("model", a.Models), each("label", a.Labels), each("network", a.Networks))
	for _, k := range a.Keys {
		holds = append(holds, "public key "+k.ID)
	}
	if a.HasSecret {
		holds = append(holds, "secret")
	}
	holds = append(holds, "owner "+a.Owner, "until "+a.ExpiresAt.UTC().Format(time.DateOnly))
	return itemRow{Kind: KindService, Item: a.ID, Name: a.Name, Holds: pack(holds)}, !a.Disabled && a.ExpiresAt.After(s.now())
}

func each(what string, values []string) (out []string) {
	for _, v := range values {
		out = append(out, what+" "+v)
	}
	slices.Sort(out)
	return out
}

// Verdict is what the owner of a campaign says about an entry.
type Verdict struct {
	Kind   Kind
	ID     string
	Keep   bool     // false: end it
	Holds  []string // what whoever keeps it was shown
	Reason string
}

// Decide stores what by says about an entry, and ends it if he says so. Repeating a decision finishes it. Errors: CodeNotFound; CodeNotReviewer
// for anybody but the owner, and those who decide where the owner may not; CodeSecondPerson for what is his own, or an
// account that he made or gave its roles; CodeConflict for an entry that was decided otherwise, after the due date, and for what holds
// something else than was shown: it is shown anew then; CodeMissing without a reason to end something.
func (s *Service) Decide(ctx context.Context, tenant, campaign string, v Verdict, by identity.Principal) (Item, error) {
	if !v.Keep || v.Reason != "" {
		if err := identity.CheckReason("reason", v.Reason); err != nil {
			return Item{}, err
		}
	}
	c, items, err := s.Campaign(ctx, tenant, campaign)
	if err != nil {
		return Item{}, err
	}
	at := slices.IndexFunc(items, func(i Item) bool { return i.Kind == v.Kind && i.ID == v.ID })
	if at < 0 {
		return Item{}, fault.New(fault.CodeNotFound, fault.Say("thing.review_item"), v.ID)
	}
	item := items[at]
	if item.Decision == "" && !c.Due.After(s.now()) {
		return Item{}, fault.New(fault.CodeConflict, fault.Say("accessreview.ended"))
	}
	if err := s.mayDecide(ctx, c, item, by); err != nil {
		return Item{}, err
	}
	if v.Keep && item.Decision == "" {
		if err := s.unchanged(ctx, c, item, v.Holds); err != nil {
			return Item{}, err
		}
	}
	item.Decision = Ended
	if v.Keep {
		item.Decision = Confirmed
	}
	item.By, item.ByName, item.Reason, item.Decided = by.ID, by.Name, v.Reason, s.now()
	if err := s.decide(ctx, c, item); err != nil {
		return Item{}, err
	}
	if v.Keep {
		return item, nil
	}
	return s.end(ctx, c, item, true)
}

// Cancel ends a campaign that is not due yet: what nobody has decided about stays as it is. Errors: CodeMissing and CodeInvalidValue of the reason;
// CodeNotFound; CodeConflict for one that is due or has ended.
func (s *Service) Cancel(ctx context.Context, tenant, campaign, reason string, by identity.Principal) (Campaign, error) {
	if err := identity.CheckReason("reason", reason); err != nil {
		return Campaign{}, err
	}
	c, _, err := s.Campaign(ctx, tenant, campaign)
	if err != nil {
		return Campaign{}, err
	}
	if err := s.cancel(ctx, c, by.ID, reason); err != nil {
		return Campaign{}, err
	}
	c, _, err = s.Campaign(ctx, tenant, campaign)
	return c, err
}

// mayDecide refuses whoever may not decide about an entry.
func (s *Service) mayDecide(ctx context.Context, c Campaign, i Item, by identity.Principal) error {
	for _, first := range []string{c.Owner, c.StartedBy} {
		err := s.apart(ctx, c, i, first)
		if by.ID == first {
			return err
		}
		if err == nil { // it is for him to decide
			return fault.New(fault.CodeNotReviewer)
		}
		if !fault.Is(err, fault.CodeSecondPerson) {
			return err
		}
	}
	if s.cfg.Access.Allow(by, access.UsersWrite, c.Tenant) != nil {
		return fault.New(fault.CodeNotReviewer)
	}
	return s.apart(ctx, c, i, by.ID)
}

// unchanged refuses to confirm what holds something else than was shown, and shows it anew.
func (s *Service) unchanged(ctx context.Context, c Campaign, i Item, shown []string) error {
	now, active, err := s.current(ctx, c.Tenant, i)
	if err != nil {
		return err
	}
	if !active { // it was ended by other means, which confirming does not undo
		return fault.New(fault.CodeConflict, fault.Say("accessreview.gone"))
	}
	if now.Holds == pack(shown) && now.Holds == pack(i.Holds) {
		return nil
	}
	if err := s.showAnew(ctx, c, now); err != nil {
		return err
	}
	return fault.New(fault.CodeConflict, fault.Say("accessreview.changed"))
}

// end disables the account or service account, or revokes the key, of an entry whose decision says so and is stored. What a request ends has the records of that.
func (s *Service) end(ctx context.Context, c Campaign, i Item, requested bool) (Item, error) {
	claimed, err := s.claim(ctx, c, i)
	if err != nil || !claimed {
		return i, err
	}
	if !requested && !i.recorded {
		err := s.cfg.Record(ctx, c, i)
		if err == nil {
			err = s.recorded(ctx, c, i)
		}
		if err != nil {
			return i, errors.Join(fmt.Errorf("record what ends: %w", err), s.unclaim(ctx, c, i))
		}
	}
	err = s.revoke(ctx, c, i)
	if err != nil {
		i.Failure = fault.Public(err).Code()
		if i.Failure != fault.CodeConflict && i.Failure != fault.CodeNotFound { // those stay so
			return i, errors.Join(err, s.unclaim(ctx, c, i))
		}
		if !requested {
			if err := s.cfg.Record(ctx, c, i); err != nil {
				return i, errors.Join(fmt.Errorf("record what cannot be ended: %w", err), s.unclaim(ctx, c, i))
			}
		}
	}
	i.Done = s.now()
	return i, s.finished(ctx, c, i)
}

// revoke takes away what an entry is about.
func (s *Service) revoke(ctx context.Context, c Campaign, i Item) error {
	switch i.Kind {
	case KindKey:
		return s.cfg.Identity.RevokeKey(ctx, c.Tenant, i.ID)
	case KindService:
		_, err := s.cfg.Identity.DisableServiceAccount(ctx, c.Tenant, i.ID)
		return err
	case KindUser:
	}
	// What protects the last administrator protects him here, too; nobody's rank does.
	_, err := s.cfg.Identity.DisableUser(ctx, identity.Administrator{ID: "access-review", Platform: true}, c.Tenant, i.ID)
	return err
}

// Run ends what lapses, and what another replica has left, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "reviews of access cannot be brought to their end; it is tried again", slog.Any("error", err))
		}
		if !sleep.For(ctx, interval) {
			return nil
		}
	}
}

// Sweep has entries lapse whose campaigns are due, ends what is to end, and closes campaigns in which nothing waits.
func (s *Service) Sweep(ctx context.Context) error {
	open, err := s.open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range open {
		errs = append(errs, s.sweep(ctx, c))
	}
	return errors.Join(errs...)
}

func (s *Service) sweep(ctx context.Context, c Campaign) error {
	if !c.Due.After(s.now()) {
		if err := s.lapse(ctx, c); err != nil {
			return err
		}
	}
	items, err := s.unfinished(ctx, c)
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range items {
		_, err := s.end(ctx, c, i, false)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.close(ctx, c))...)
}

func invalid(param string, why fault.Phrase) error {
	return fault.New(fault.CodeInvalidValue, param, why).WithParam(param)
}
