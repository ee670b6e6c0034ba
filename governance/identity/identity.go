package identity

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// Config sets lifetimes. Zero values mean the defaults named at each field.
type Config struct {
	Issuer     string        `koanf:"issuer"`      // of session tokens; "sluice"
	Duties     Duties        `koanf:"duties"`      // "merged" lets a server run while a platform administrator holds all duties; "separated"
	AccessTTL  time.Duration `koanf:"access_ttl"`  // of a session token; 15m, also the most
	RefreshTTL time.Duration `koanf:"refresh_ttl"` // idle time after which a sign-in ends; 12h
	SessionTTL time.Duration `koanf:"session_ttl"` // after which a sign-in ends in any case; 168h
	// SigningPeriod is how long a key signs session tokens before the next one does; 720h, at least 24h.
	SigningPeriod time.Duration `koanf:"signing_period"`
	KeyTTL        time.Duration `koanf:"key_ttl"` // of an API key made without an expiry; 8760h
	// OneTimeTTL is how long a password that somebody else has set opens its change; 24h.
	OneTimeTTL time.Duration `koanf:"one_time_ttl"`
	// InvitationTTL is how long an invitation can be accepted; 72h, at most 168h.
	InvitationTTL time.Duration `koanf:"invitation_ttl"`
	// PasswordMaxAge is the age at which a password has to be changed; 0: never.
	PasswordMaxAge time.Duration `koanf:"password_max_age"`
	// PasswordHistory is how many passwords before the current one cannot be chosen again; 0: none, 24 at most.
	PasswordHistory int `koanf:"password_history"`
	// ReviewNotice is the shortest time from the start of a review of access to its due date; 168h.
	ReviewNotice time.Duration `koanf:"review_notice"`
	// SecondFactor says who shows a second factor: "optional" (who has enrolled one), "administrators" (they have to enrol one before anything else) or
	// "off" (who has one shows it, and nobody can enrol another); optional.
	SecondFactor SecondFactors `koanf:"second_factor"`
	// BreakGlass lets sealed credentials open an emergency session.
	BreakGlass BreakGlass `koanf:"break_glass"`
	WebAuthn   WebAuthn   `koanf:"webauthn"`
	// OIDC are the OpenID providers that people sign in at; local accounts sign in beside them.
	OIDC []Provider `koanf:"oidc"`
	// PasswordCost is the work of new password hashes; the zero value is the product's. Only tests ask for less.
	PasswordCost PasswordCost `koanf:"-"`
	Suite        seal.Suite   `koanf:"-"` // that the secrets of second factors are encrypted with; seal.Intl

	Poll     time.Duration `koanf:"poll"`      // between looks at the change counter; 1s, also the most
	MaxStale time.Duration `koanf:"max_stale"` // how long to trust identities that cannot be refreshed; 5m
}

const (
	maxAccessTTL     = 15 * time.Minute
	maxInvitationTTL = 7 * 24 * time.Hour
	maxHistory       = 24

	minSigningPeriod = 24 * time.Hour // published keys may be cached for an hour, and clocks differ
)

// WithDefaults fills the zero values.
func (c Config) WithDefaults() Config {
	if c.Issuer == "" {
		c.Issuer = "sluice"
	}
	if c.Duties == "" {
		c.Duties = DutiesSeparated
	}
	if c.SecondFactor == "" {
		c.SecondFactor = SecondFactorsOptional
	}
	c.PasswordCost = c.PasswordCost.withDefaults()
	c.OIDC = slices.Clone(c.OIDC)
	for n, p := range c.OIDC {
		c.OIDC[n] = p.WithDefaults()
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.AccessTTL, maxAccessTTL},
		{&c.RefreshTTL, 12 * time.Hour},
		{&c.SessionTTL, 7 * 24 * time.Hour},
		{&c.KeyTTL, 365 * 24 * time.Hour},
		{&c.OneTimeTTL, 24 * time.Hour},
		{&c.InvitationTTL, 72 * time.Hour},
		{&c.ReviewNotice, 7 * 24 * time.Hour},
		{&c.SigningPeriod, 30 * 24 * time.Hour},
		{&c.Poll, time.Second},
		{&c.MaxStale, snapshot.DefaultMaxAge},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return c
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	for name, d := range map[string]time.Duration{
		"access_ttl": c.AccessTTL, "refresh_ttl": c.RefreshTTL, "session_ttl": c.SessionTTL, "key_ttl": c.KeyTTL, "poll": c.Poll,
		"max_stale": c.MaxStale, "one_time_ttl": c.OneTimeTTL, "password_max_age": c.PasswordMaxAge, "review_notice": c.ReviewNotice,
		"invitation_ttl": c.InvitationTTL,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", name))
		}
	}
	if c.Duties != DutiesMerged && c.Duties != DutiesSeparated {
		errs = append(errs, fmt.Errorf("duties: must be %s or %s", DutiesSeparated, DutiesMerged))
	}
	if !slices.Contains([]SecondFactors{SecondFactorsOff, SecondFactorsOptional, SecondFactorsAdministrators}, c.SecondFactor) {
		errs = append(errs, fmt.Errorf("second_factor: must be %s, %s or %s", SecondFactorsOff, SecondFactorsOptional, SecondFactorsAdministrators))
	}
	if _, _, _, err := c.WebAuthn.origins(); err != nil {
		errs = append(errs, fmt.Errorf("webauthn.%w", err))
	}
	if c.AccessTTL > maxAccessTTL {
		errs = append(errs, fmt.Errorf("access_ttl: must be at most %s", maxAccessTTL))
	}
	if c.InvitationTTL > maxInvitationTTL {
		errs = append(errs, fmt.Errorf("invitation_ttl: must be at most %s", maxInvitationTTL))
	}
	if c.SigningPeriod < minSigningPeriod || c.SigningPeriod%time.Second != 0 {
		errs = append(errs, fmt.Errorf("signing_period: must be whole seconds, and at least %s", minSigningPeriod))
	}
	if c.PasswordHistory < 0 || c.PasswordHistory > maxHistory {
		errs = append(errs, fmt.Errorf("password_history: must lie between 0 and %d", maxHistory))
	}
	if c.Poll > time.Second {
		errs = append(errs, errors.New("poll: must be at most 1s, or a revocation is not seen within 2 seconds"))
	}
	errs = append(errs, c.BreakGlass.validate()...)
	errs = append(errs, validateProviders(c.OIDC)...)
	return errors.Join(append(errs, c.freshness().Validate())...)
}

func (c Config) freshness() snapshot.Config {
	return snapshot.Config{Poll: c.Poll, MaxAge: c.MaxStale}
}

// Identity knows who may call. It is safe for concurrent use.
type Identity struct {
	cfg      Config
	limits   Limits // of a key that has none of its own; zero bounds nothing
	store    store
	keys     digester
	refresh  digester
	recovery digester
	service  digester // of secrets of service accounts
	asserted digester
	invited  digester
	factors  factorSecrets
	party    relyingParty

	challenges, credentials digester

	sessions  *signingKeys
	log       *slog.Logger
	now       func() time.Time
	throttle  *throttle
	federated *throttle     // of what comes back from providers
	hashing   chan struct{} // bounds the memory of concurrent password checks
	nobody    string        // hash compared with when the user does not exist

	accounts *snapshot.Snapshot[*accounts]
	used     uses
}

// New returns an identity service without accounts: it refuses everybody until [Identity.Load]. limits are those of a key that has none of
// its own; zero bounds nothing. reg may be nil.
func New(cfg Config, limits Limits, db *gorm.DB, keys *keyring.Ring, log *slog.Logger, reg prometheus.Registerer) (*Identity, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	factors, err := newFactorSecrets(keys, cfg.Suite)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	party, err := newRelyingParty(cfg.WebAuthn, cfg.WithDefaults().Issuer)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	i := &Identity{
		cfg:      cfg.WithDefaults(),
		limits:   limits,
		store:    store{db: db},
		keys:     newDigester(keys.Derive("identity/api-key/v1")),
		refresh:  newDigester(keys.Derive("identity/refresh-token/v1")),
		recovery: newDigester(keys.Derive("identity/recovery-code/v1")),
		service:  newDigester(keys.Derive("identity/service-secret/v1")),
		asserted: newDigester(keys.Derive("identity/assertion/v1")),
		invited:  newDigester(keys.Derive("identity/invitation/v1")),
		factors:  factors,
		party:    party,

		challenges:  newDigester(keys.Derive("identity/challenge/v1")),
		credentials: newDigester(keys.Derive("identity/credential/v1")),

		sessions: &signingKeys{derive: keys.Derive, period: cfg.WithDefaults().SigningPeriod, made: map[int64]signingKey{}},
		log:      log.With(slog.String("component", "identity")),
		now:      time.Now,
		throttle: newThrottle(), federated: newThrottle(),
		hashing: make(chan struct{}, 4),
		nobody:  cfg.WithDefaults().PasswordCost.unknownUser(),
		used:    uses{keys: map[string]lastUse{}},
	}
	i.accounts, err = snapshot.New(i.cfg.freshness(), snapshot.Source[*accounts]{
		Name: "identity", Version: i.store.version, Load: i.load, Now: func() time.Time { return i.now() },
	}, i.log, reg)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return i, nil
}

// accounts are who may call. They are immutable.
type accounts struct {
	operator      string // the tenant that runs the installation
	keys          map[digest]keyEntry
	users         map[string]userEntry
	organisations map[string]organisationRow
	tenants       map[string]tenantRow
	projects      map[projectID]projectRow
	above         map[string][]Level  // callers of a tenant: the tenant and its organisation
	ended         map[string]struct{} // sign-in families ended before their session tokens expired
	duties        Duties
	services      map[string]serviceEntry
	demanded      time.Time         // until when a replica has administrators enrol a second factor
	emergencies   map[string]useRow // that may be open
}

type keyEntry struct {
	principal          Principal
	networks           []netip.Prefix
	expires, revokedAt int64
	suspended          bool   // see mayOwn
	former             bool   // the secret before the last rotation
	maker              string // whose reading of the management API the key may share
}

type userEntry struct {
	principal   Principal
	epoch       int64
	disabled    bool
	passwordSet int64
	factor      bool // it has a second one, which is asked for

	issuer      string // of the provider that the person signs in at; "": the account is local
	confirmedAt int64  // see bindingRow

	confirmedWith string
}

// proof is what a person who has left something to be asked is known by.
func (u userEntry) proof() string { return strconv.FormatInt(u.passwordSet, 10) }

// signedIn returns the principal of a person's sign-in: who has a password that is too old has to change it first, too.
func (i *Identity) signedIn(s *accounts, u userEntry) Principal {
	p := u.principal
	p.SecondFactor, p.MustEnrol, p.proof = u.factor, i.mustEnrol(s, u), u.proof()
	if of, known := i.providerOf(u.issuer); known {
		p.Provider = of.Name
	}
	if age := i.cfg.PasswordMaxAge; age > 0 && u.issuer == "" && i.now().Sub(time.UnixMicro(u.passwordSet)) > age {
		p.MustChange = true
	}
	return p
}

// mustEnrol reports whether somebody has to enrol a second factor before anything else, because this replica says so or another one has.
func (i *Identity) mustEnrol(s *accounts, u userEntry) bool {
	return i.demanded(s) && !u.factor && u.issuer == "" && Administers(u.principal.Roles) // who signs in at a provider shows it there, see mayFederated
}

// demanded reports whether administrators need a second factor, because this replica says so or another one has.
func (i *Identity) demanded(s *accounts) bool {
	return i.cfg.SecondFactor == SecondFactorsAdministrators || i.now().Before(s.demanded)
}

// demandSpan is how long what a replica demands holds on the others after it has stopped.
const demandSpan = 24 * time.Hour

// demand has every replica ask administrators for second factors where this one does.
func (i *Identity) demand(ctx context.Context) {
	s, loaded := i.accounts.Last()
	if i.cfg.SecondFactor != SecondFactorsAdministrators || loaded && s.demanded.After(i.now().Add(demandSpan/2)) {
		return
	}
	if err := i.store.demandFactors(ctx, i.now().Add(demandSpan).UnixMicro()); err != nil {
		i.log.Warn("other replicas were not told that administrators need a second factor; the next turn repeats it", slog.Any("error", err))
		return
	}
	i.reload(ctx)
}

// Load reads the accounts. Call it once before serving.
func (i *Identity) Load(ctx context.Context) error { return i.accounts.Load(ctx) }

// load reads the accounts from the database.
func (i *Identity) load(ctx context.Context) (*accounts, error) {
	all, err := i.store.load(ctx, i.now().Add(-i.cfg.AccessTTL-time.Minute).UnixMicro())
	if err != nil {
		return nil, err
	}
	s := &accounts{
		keys:  make(map[digest]keyEntry, len(all.keys)),
		users: make(map[string]userEntry, len(all.users)), tenants: make(map[string]tenantRow, len(all.tenants)),
		organisations: make(map[string]organisationRow, len(all.organisations)), projects: make(map[projectID]projectRow, len(all.projects)),
		above: make(map[string][]Level, len(all.tenants)), ended: make(map[string]struct{}, len(all.revoked)), duties: all.duties,
		services: make(map[string]serviceEntry, len(all.services)), demanded: time.UnixMicro(all.demanded),
		emergencies: make(map[string]useRow, len(all.emergencies)),
	}
	for _, use := range all.emergencies {
		s.emergencies[use.ID] = use
	}
	for _, t := range all.tenants {
		s.tenants[t.ID] = t
		if t.IsOperator != 0 {
			s.operator = t.ID
		}
	}
	s.addLevels(all.organisations, all.projects)
	for _, family := range all.revoked {
		s.ended[family] = struct{}{}
	}
	factors := map[string]bool{}
	for _, user := range all.factors {
		factors[user] = true
	}
	bindings := make(map[string]bindingRow, len(all.bindings))
	for _, b := range all.bindings {
		bindings[b.UserID] = b
	}
	// A row that cannot be read locks out its owner, not everybody.
	for _, row := range all.users {
		p, err := row.principal(s)
		if err != nil {
			i.log.Error("user row ignored", slog.String("user", row.ID), slog.Any("error", err))
			continue
		}
		s.users[row.ID] = userEntry{
			principal: p, epoch: row.Epoch, disabled: row.DisabledAt != 0, passwordSet: cmp.Or(row.PasswordSetAt, row.CreatedAt),
			factor: factors[row.ID], issuer: bindings[row.ID].Issuer, confirmedAt: bindings[row.ID].ConfirmedAt, confirmedWith: bindings[row.ID].Factor,
		}
	}
	for _, row := range all.keys {
		if err := s.addKey(row); err != nil {
			i.log.Error("key row ignored", slog.String("key", row.ID), slog.Any("error", err))
		}
	}
	keys := byAccount(all.serviceKeys)
	for _, row := range all.services {
		if err := s.addService(row, keys[row.ID]); err != nil {
			i.log.Error("service account row ignored", slog.String("account", row.ID), slog.Any("error", err))
		}
	}
	return s, nil
}

// addKey adds a key under each of its secrets.
func (s *accounts) addKey(row keyRow) error {
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
	entry := keyEntry{principal: p, networks: networks, expires: row.ExpiresAt, revokedAt: row.RevokedAt, maker: row.CreatedBy}
	if row.Owner != "" {
		// What the owner loses his keys lose, too.
		entry.suspended = !s.mayOwn(row.Owner, row.Tenant)
		entry.principal.Labels = slices.DeleteFunc(p.Labels, func(l string) bool { return !slices.Contains(s.users[row.Owner].principal.Labels, l) })
	}
	entry.principal.proof = row.Digest
	if err := s.addSecret(row.Digest, entry); err != nil || row.FormerDigest == "" {
		return err
	}
	entry.former, entry.expires, entry.principal.proof = true, min(row.ExpiresAt, row.FormerExpiresAt), row.FormerDigest
	return s.addSecret(row.FormerDigest, entry)
}

func (s *accounts) addSecret(stored string, entry keyEntry) error {
	d, err := parseDigest(stored)
	if err == nil {
		s.keys[d] = entry
	}
	return err
}

// parseDigest reads a digest as it is stored.
func parseDigest(stored string) (d digest, err error) {
	if len(stored) != hex.EncodedLen(len(d)) {
		return d, errors.New("unreadable digest")
	}
	if _, err = hex.Decode(d[:], []byte(stored)); err != nil {
		err = fmt.Errorf("unreadable digest: %w", err)
	}
	return d, err
}

// mayOwn reports whether a person can have keys of his own that work: he is there, and may have some, and has not got a password of somebody
// else's, with which he may do nothing but change it.
func (s *accounts) mayOwn(user, tenant string) bool {
	u, ok := s.users[user]
	return ok && !u.disabled && !u.principal.MustChange && u.principal.Tenant == tenant && OwnsKeys(u.principal.Roles)
}

// Run keeps the accounts fresh and writes last uses until ctx ends.
func (i *Identity) Run(ctx context.Context) error {
	var fresh sync.WaitGroup
	fresh.Go(func() { i.accounts.Run(ctx) })
	defer fresh.Wait()
	i.demand(ctx)
	const flushEvery = 15 // polls
	tick := time.NewTicker(flushEvery * i.cfg.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			// What was seen last is still written, with a deadline of its own.
			flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			if err := i.flushUses(flush); err != nil {
				i.log.Warn("the last uses of some keys were not written", slog.Any("error", err))
			}
			return nil
		case <-tick.C:
		}
		i.demand(ctx)
		if err := i.flushUses(ctx); err != nil && ctx.Err() == nil {
			i.log.Warn("the last uses of some keys were not written; the next turn repeats it", slog.Any("error", err))
		}
	}
}

func (i *Identity) flushUses(ctx context.Context) error {
	seen := i.used.unwritten()
	if len(seen) == 0 {
		return nil
	}
	if err := i.store.touchKeys(ctx, seen); err != nil {
		return err
	}
	i.used.wrote(seen)
	return nil
}

// reload makes a write of this replica visible to it at once; if that fails the poll will do it.
func (i *Identity) reload(ctx context.Context) {
	if err := i.Load(ctx); err != nil {
		i.log.Error("reload after a change failed; the poll repeats it", slog.Any("error", err))
	}
}

// fresh returns the accounts unless they are missing or too old to be trusted.
func (i *Identity) fresh() (*accounts, error) {
	s, err := i.accounts.Get()
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeIdentityUnavailable)
	}
	return s, nil
}

// Authenticate returns the principal a credential stands for on a plane. source is where the caller is: keys can be bound to networks. It
// runs no SQL. Errors: CodeIdentityUnavailable; of a key CodeInvalidKey, CodeExpiredKey, CodeSuspendedKey; of a service account CodeInvalidToken;
// CodeInvalidSession on the admin plane. Beside the principal, for the record: CodeTenantSuspended, CodeOrganisationSuspended, of a key
// CodeProjectSuspended, of a key or service account CodeKeyNetwork, and on the admin plane CodeKeyScope. None of them holds the credential.
func (i *Identity) Authenticate(_ context.Context, plane Plane, credential, source string) (Principal, error) {
	s, err := i.fresh()
	if err != nil {
		return Principal{}, err
	}
	switch {
	case isAccessToken(credential) && (plane == DataPlane || plane == AdminPlane):
		return i.authenticateService(s, plane, credential, source)
	case plane == DataPlane:
		return i.authenticateKey(s, credential, source)
	case plane == AdminPlane && strings.HasPrefix(credential, keyHead):
		return i.authenticateReader(s, credential, source)
	case plane == AdminPlane:
		return i.authenticateSession(s, credential)
	}
	return Principal{}, fault.New(fault.CodeInvalidKey)
}

func (i *Identity) authenticateKey(s *accounts, credential, source string) (Principal, error) {
	entry, err := i.findKey(s, credential, source)
	return entry.principal, err
}

// findKey returns the key of a credential. A caller from elsewhere learns that it is elsewhere, and nothing else about the key.
func (i *Identity) findKey(s *accounts, credential, source string) (keyEntry, error) {
	if len(credential) > maxCredential {
		return keyEntry{}, fault.New(fault.CodeInvalidKey)
	}
	// The digest is computed for malformed credentials too: all refusals take the same work.
	sum := i.keys.sum(credential)
	id, wellFormed := parseCredential(credential)
	entry, found := s.keys[sum]
	if !wellFormed || !found || entry.principal.ID != id {
		return keyEntry{}, fault.New(fault.CodeInvalidKey)
	}
	return i.openKey(s, entry, source)
}

// openKey returns a key that may be used now from where the caller is. Errors: as of Authenticate.
func (i *Identity) openKey(s *accounts, entry keyEntry, source string) (keyEntry, error) {
	from := address(source)
	if !within(entry.networks, from) {
		return entry, fault.New(fault.CodeKeyNetwork)
	}
	switch err := i.refusesKey(s, entry); {
	case fault.Is(err, fault.CodeExpiredKey) || fault.Is(err, fault.CodeSuspendedKey):
		return keyEntry{}, err
	case err != nil: // for the record
		return entry, err
	}
	i.used.note(entry.principal.ID, entry.former, from, i.now().UnixMicro())
	return entry, nil
}

// refusesKey returns what refuses a key wherever its caller is.
func (i *Identity) refusesKey(s *accounts, entry keyEntry) error {
	if entry.revokedAt != 0 || i.now().UnixMicro() >= entry.expires {
		return fault.New(fault.CodeExpiredKey)
	}
	if err := s.refusal(entry.principal.Tenant, entry.principal.Project); err != nil {
		return err
	}
	if owner, own := s.users[entry.principal.Owner]; entry.suspended || own && (i.mustEnrol(s, owner) || i.confirmed(s, owner) != nil) {
		return fault.New(fault.CodeSuspendedKey)
	}
	return nil
}

// authenticateReader lets a key with ScopeAdminRead read the management API of its tenant. It reads what whoever made it may read there at
// this moment: so nobody gets to see through a key what he may not see himself, and what he loses the key loses.
func (i *Identity) authenticateReader(s *accounts, credential, source string) (Principal, error) {
	entry, err := i.findKey(s, credential, source)
	if err != nil {
		return entry.principal, err
	}
	return i.reader(s, entry)
}

// reader returns who reads the management API with a key. Error: CodeKeyScope.
func (i *Identity) reader(s *accounts, entry keyEntry) (Principal, error) {
	p := entry.principal
	if !slices.Contains(p.Scopes, ScopeAdminRead) {
		return p, fault.New(fault.CodeKeyScope)
	}
	p.Roles, p.Scopes, p.Operator = i.readingRoles(s, entry), []string{ScopeAdminRead}, false
	return p, nil
}

// readingRoles returns the roles that whoever made a key has in its tenant: all of them at home, elsewhere that of a platform administrator only.
func (i *Identity) readingRoles(s *accounts, k keyEntry) []string {
	maker, ok := s.users[k.maker]
	switch {
	case !ok || maker.disabled || maker.principal.MustChange || i.mustEnrol(s, maker) || i.confirmed(s, maker) != nil || s.refusal(maker.principal.Tenant, "") != nil:
		return nil
	case maker.principal.Tenant == k.principal.Tenant:
		return maker.principal.Roles
	case slices.Contains(maker.principal.Roles, RolePlatformAdmin):
		return []string{RolePlatformAdmin}
	}
	return nil
}

func (r userRow) principal(s *accounts) (Principal, error) {
	roles, err1 := unpack(r.Roles)
	labels, err2 := unpack(r.Labels)
	if err := errors.Join(err1, err2); err != nil {
		return Principal{}, err
	}
	of := s.tenants[r.Tenant]
	return Principal{
		Tenant: r.Tenant, Organisation: of.Organisation, Kind: "user", ID: r.ID, Name: r.Name, Roles: roles, Labels: labels, Operator: of.IsOperator != 0,
		MustChange: r.MustChange != 0, Above: s.levels(r.Tenant, ""),
	}, nil
}

func (r keyRow) principal(s *accounts) (Principal, error) {
	labels, err1 := unpack(r.Labels)
	scopes, err2 := unpack(r.Scopes)
	models, err3 := unpack(r.Models)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Principal{}, err
	}
	of := s.tenants[r.Tenant]
	return Principal{
		Tenant: r.Tenant, Organisation: of.Organisation, Project: r.Project, Kind: "key", ID: r.ID, Name: r.Name, Owner: r.Owner, Roles: []string{RoleApplication},
		Labels: labels, LabelMode: r.LabelMode, Scopes: scopes, Models: models, Operator: of.IsOperator != 0, Above: s.levels(r.Tenant, r.Project),
		Limits: Limits{RequestsPerMinute: r.RequestsPerMinute, TokensPerMinute: r.TokensPerMinute, Concurrent: r.Concurrent},
	}, nil
}

func hasRole(packed, role string) bool {
	roles, err := unpack(packed)
	return err == nil && slices.Contains(roles, role)
}
