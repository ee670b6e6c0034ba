package identity

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
)

const (
	adminAudience = "sluice-admin"
	refreshHead   = "sr-sluice-"
	refreshSize   = 43
)

// Session is what a person holds after signing in. Access opens the admin plane until ExpiresAt; Refresh is spent to get the
// next pair.
type Session struct {
	Access, Refresh string
	ExpiresAt       time.Time
	Principal       Principal
}

type claims struct {
	jwt.RegisteredClaims
	Family   string `json:"sid"`
	Epoch    int64  `json:"ep"`
	SignedIn int64  `json:"auth_time"` // when the password was given, unix seconds; a renewal does not move it

	Methods  []string `json:"amr,omitempty"`         // RFC 8176
	Factor   string   `json:"factor,omitempty"`      // shown beside the password
	FactorAt int64    `json:"factor_time,omitempty"` // when it was shown last, unix seconds; a renewal does not move it
}

// Login checks a password, and a code of the account's second factor if it has one. source is where the caller is, such as its address: failures are counted per user and source.
// Errors: CodeInvalidLogin, the same for an unknown, a disabled and a mistyped user; CodeLoginThrottled with a wait; CodeSecondFactor for the right
// password of an account with a second factor without a code, caused by [FactorsWanted], and CodeWrongCode with a wrong one;
// CodeOneTimeExpired for the right password that somebody else has set too long ago; CodeTenantSuspended and CodeOrganisationSuspended for the right password of a tenant
// that is suspended; CodeIdentityUnavailable; CodeDatabaseUnavailable.
func (i *Identity) Login(ctx context.Context, user, password, code, source string) (Session, error) {
	return i.login(ctx, user, password, proof{code: code}, source)
}

// LoginWithKey is [Identity.Login] with the AuthenticationResponseJSON of a security key, for what [FactorsWanted] has asked for. Errors: as there, with
// CodeWrongAssertion and CodeClonedKey in place of CodeWrongCode.
func (i *Identity) LoginWithKey(ctx context.Context, user, password string, assertion []byte, source string) (Session, error) {
	return i.login(ctx, user, password, proof{assertion: assertion}, source)
}

func (i *Identity) login(ctx context.Context, user, password string, shown proof, source string) (Session, error) {
	name, origin := canonicalName(user), network(source)
	if len(name) > 512 || len(password) > maxPassword {
		return Session{}, fault.New(fault.CodeInvalidLogin)
	}
	attempt, wait := i.throttle.begin(name, origin, i.now())
	if wait > 0 {
		return Session{}, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait)
	}
	row, ok, err := i.checkLogin(ctx, name, password)
	if err != nil {
		attempt.cancel()
		return Session{}, err
	}
	if !ok {
		return Session{}, fault.New(fault.CodeInvalidLogin)
	}
	// The right password without a code is no success: it must not take back the wrong codes before it.
	kind, err := i.spendProof(ctx, row.ID, purposeSignIn, "", shown)
	if err != nil {
		if !wrongProof(err) {
			attempt.cancel()
		}
		return Session{}, err
	}
	attempt.succeeded(i.now())
	if s, err := i.fresh(); err != nil {
		return Session{}, err
	} else if err := s.refusal(row.Tenant, ""); err != nil {
		return Session{}, err
	}
	now := i.now()
	if row.outdated(now) {
		return Session{}, fault.New(fault.CodeOneTimeExpired)
	}
	refresh, sum := i.newRefresh()
	session := i.signIn(row, sum, source, now)
	if kind != "" {
		session.Factor, session.FactorAt = kind, now.UnixMicro()
	}
	// Spent and ended rows are kept a while: a stolen token shown late is still recognised.
	if err := i.store.startSession(ctx, session, row.Epoch, now.Add(-i.cfg.SessionTTL).UnixMicro()); err != nil {
		return Session{}, err
	}
	return i.issue(ctx, row, session, refresh, now)
}

// ChangePassword replaces the signed-in person's own password. Every other sign-in of his ends, and this one begins anew with the session
// that is returned. Guesses of the current password count as failed sign-ins. Errors: CodeWrongPassword, CodeLoginThrottled with a wait,
// CodeInvalidValue, CodeInvalidSession when the account changed meanwhile, CodeDatabaseUnavailable.
func (i *Identity) ChangePassword(ctx context.Context, p Principal, current, password, source string) (Session, error) {
	if p.Kind != "user" {
		return Session{}, fault.New(fault.CodeInvalidSession)
	}
	if err := checkPassword("new_password", password, p.Name, p.Tenant); err != nil {
		return Session{}, err
	}
	name, origin := canonicalName(p.Name), network(source)
	attempt, wait := i.throttle.begin(name, origin, i.now())
	if wait > 0 {
		return Session{}, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait)
	}
	row, ok := userRow{}, false
	var err error
	if len(current) <= maxPassword {
		if row, ok, err = i.checkLogin(ctx, name, current); err != nil {
			attempt.cancel()
			return Session{}, err
		}
	}
	if !ok || row.ID != p.ID {
		return Session{}, fault.New(fault.CodeWrongPassword).WithParam("current_password")
	}
	if p.SecondFactor { // as at a sign-in, the right password alone takes back no guess
		attempt.cancel()
	} else {
		attempt.succeeded(i.now())
	}
	if current == password {
		return Session{}, invalid("new_password", fault.Say("identity.same_password"))
	}
	if err := i.checkFormer(ctx, row.ID, password); err != nil {
		return Session{}, err
	}
	now := i.now()
	if row.outdated(now) {
		return Session{}, fault.New(fault.CodeOneTimeExpired)
	}
	refresh, sum := i.newRefresh()
	next := i.signIn(row, sum, source, now)
	if p.Factor != "" {
		next.Factor, next.FactorAt = p.Factor, p.FactorAt.UnixMicro()
	}
	if err := i.store.renewPassword(ctx, row, i.cfg.PasswordCost.hash(password), i.cfg.PasswordHistory, next, now.UnixMicro()); err != nil {
		return Session{}, err
	}
	i.reload(ctx)
	row.Epoch++
	return i.issue(ctx, row, next, refresh, now)
}

// outdated reports whether the password was set by somebody else too long ago to be used.
func (r userRow) outdated(now time.Time) bool {
	return r.MustChange != 0 && r.OneTimeUntil != 0 && now.UnixMicro() >= r.OneTimeUntil
}

// checkFormer refuses a password that the person had before.
func (i *Identity) checkFormer(ctx context.Context, user, password string) error {
	hashes, err := i.store.formerPasswords(ctx, user, i.cfg.PasswordHistory)
	for _, h := range hashes {
		same, cerr := i.matches(ctx, h, password)
		if cerr != nil {
			return cerr
		}
		if same {
			return invalid("new_password", fault.Say("identity.former_password", i.cfg.PasswordHistory))
		}
	}
	return err
}

// matches compares a password with a hash. Few comparisons at a time bound the memory that they take.
func (i *Identity) matches(ctx context.Context, hash, password string) (bool, error) {
	select {
	case i.hashing <- struct{}{}:
		defer func() { <-i.hashing }()
	case <-ctx.Done():
		return false, fmt.Errorf("login: %w", ctx.Err())
	}
	return verifyPassword(hash, password), nil
}

func (i *Identity) signIn(row userRow, sum, source string, now time.Time) sessionRow {
	return sessionRow{
		Digest: sum, Family: uuid.Must(uuid.NewV7()).String(), UserID: row.ID, Source: source, StartedAt: now.UnixMicro(),
		ExpiresAt: now.Add(min(i.cfg.RefreshTTL, i.cfg.SessionTTL)).UnixMicro(),
	}
}

// LoginWait returns how long Login would make this user and source wait, without counting an attempt: what is refused anyway need
// not be recorded each time.
func (i *Identity) LoginWait(user, source string) time.Duration {
	return i.throttle.wait(canonicalName(user), network(source), i.now())
}

// Claimed returns the account of a name that somebody wants to sign in with, for the audit record. A name that nobody has is not
// repeated, since people type passwords into the wrong field: the principal then has no id, and the tenant is the operator's.
func (i *Identity) Claimed(user string) Principal {
	s, loaded := i.accounts.Last()
	if !loaded {
		return Principal{Kind: "user"}
	}
	name := canonicalName(user)
	for _, u := range s.users {
		if u.principal.Name == name {
			return u.principal
		}
	}
	return Principal{Kind: "user", Tenant: s.operator}
}

// Holder returns whose sign-in a refresh token belongs to; found is false for an unknown token. It spends nothing.
func (i *Identity) Holder(ctx context.Context, refresh string) (p Principal, found bool, err error) {
	if !wellFormedRefresh(refresh) {
		return Principal{}, false, nil
	}
	row, found, err := i.store.session(ctx, i.refreshDigest(refresh))
	if err != nil || !found {
		return Principal{}, false, err
	}
	p = Principal{Kind: "user", ID: row.UserID}
	if s, loaded := i.accounts.Last(); loaded && s.users[row.UserID].principal.ID != "" {
		p = s.users[row.UserID].principal
	}
	p.Session = row.Family
	return p, true, nil
}

// checkLogin does the same work whether or not the user exists.
func (i *Identity) checkLogin(ctx context.Context, name, password string) (userRow, bool, error) {
	row, found, err := i.store.userByName(ctx, name)
	if err != nil {
		return userRow{}, false, err
	}
	hash := i.nobody
	if found {
		hash = row.PasswordHash
	}
	match, err := i.matches(ctx, hash, password)
	return row, match && found && row.DisabledAt == 0, err
}

// Refresh spends a refresh token for a new pair. Showing a spent one again ends the whole sign-in. Errors: CodeInvalidSession;
// CodeTenantSuspended and CodeOrganisationSuspended for a sign-in that another replica let begin while the tenant was suspended.
func (i *Identity) Refresh(ctx context.Context, refresh string) (Session, error) {
	if !wellFormedRefresh(refresh) {
		return Session{}, fault.New(fault.CodeInvalidSession)
	}
	now := i.now()
	next, sum := i.newRefresh()
	row, ok, err := i.store.rotate(ctx, i.refreshDigest(refresh), sessionRow{
		Digest: sum, ExpiresAt: now.Add(i.cfg.RefreshTTL).UnixMicro(),
	}, now.UnixMicro(), i.cfg.SessionTTL.Microseconds())
	if err != nil {
		return Session{}, err
	}
	if !ok {
		if row.UsedAt != 0 {
			i.log.Warn("a spent refresh token was shown again; the sign-in was ended",
				slog.String("user", row.UserID), slog.String("session", row.Family))
			i.reload(ctx)
		}
		return Session{}, fault.New(fault.CodeInvalidSession)
	}
	s, err := i.fresh()
	if err != nil {
		return Session{}, err
	}
	user, found := s.users[row.UserID]
	if !found || user.disabled {
		return Session{}, fault.New(fault.CodeInvalidSession)
	}
	if err := s.refusal(user.principal.Tenant, ""); err != nil {
		return Session{}, err
	}
	if user.factor && row.Factor == "" { // it began before the account had one
		return Session{}, fault.New(fault.CodeInvalidSession)
	}
	if err := i.mayFederated(s, user, row.Factor); err != nil {
		return Session{}, fault.Wrap(err, fault.CodeInvalidSession)
	}
	return i.sign(s, user, row, next, now)
}

// Logout ends the sign-in a refresh token belongs to; session tokens of it are refused at once here, within two polls elsewhere.
// An unknown token is no error: the session is over either way.
func (i *Identity) Logout(ctx context.Context, refresh string) error {
	if !wellFormedRefresh(refresh) {
		return nil
	}
	row, found, err := i.store.session(ctx, i.refreshDigest(refresh))
	if err != nil || !found {
		return err
	}
	defer i.reload(ctx)
	return i.store.endFamily(ctx, row.Family, i.now().UnixMicro())
}

func (i *Identity) newRefresh() (token, sum string) {
	token = refreshHead + randomText(refreshSize)
	return token, i.refreshDigest(token)
}

func (i *Identity) refreshDigest(token string) string {
	sum := i.refresh.sum(token)
	return hex.EncodeToString(sum[:])
}

func wellFormedRefresh(token string) bool {
	return len(token) == len(refreshHead)+refreshSize && token[:len(refreshHead)] == refreshHead && isBase62(token[len(refreshHead):])
}

func (i *Identity) issue(ctx context.Context, row userRow, started sessionRow, refresh string, now time.Time) (Session, error) {
	s, err := i.fresh()
	if err != nil {
		return Session{}, err
	}
	user, ok := s.users[row.ID]
	if !ok || user.epoch != row.Epoch {
		// The account changed on another replica within the last poll, or while the password was checked: only what the password
		// was checked against may sign in.
		if err := i.Load(ctx); err != nil {
			return Session{}, err
		}
		if s, err = i.fresh(); err != nil {
			return Session{}, err
		}
		if user, ok = s.users[row.ID]; !ok || user.disabled || user.epoch != row.Epoch {
			return Session{}, fault.New(fault.CodeInvalidLogin)
		}
	}
	return i.sign(s, user, started, refresh, now)
}

func (i *Identity) sign(s *accounts, user userEntry, started sessionRow, refresh string, now time.Time) (Session, error) {
	expires := now.Add(i.cfg.AccessTTL)
	if started.EndsAt != 0 && expires.UnixMicro() > started.EndsAt {
		expires = time.UnixMicro(started.EndsAt)
	}
	proved := started.StartedAt
	if started.Issuer != "" { // when it was at the provider; whoever comes back from there without a question has proved nothing now
		proved = started.ProvedAt
	}
	key := i.sessions.current(now)
	methods, shownAt := []string{"pwd"}, int64(0)
	if started.Factor != "" {
		methods, shownAt = []string{"pwd", "otp", "mfa"}, time.UnixMicro(started.FactorAt).Unix()
		if started.Factor == factorWebAuthn {
			methods[1] = "pop"
		}
	}
	if started.Issuer != "" {
		if methods = nil; started.Factor != "" {
			methods = []string{"mfa"}
		}
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.cfg.Issuer, Audience: jwt.ClaimStrings{adminAudience}, Subject: user.principal.ID,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires), ID: uuid.NewString(),
		},
		Family: started.Family, Epoch: user.epoch, SignedIn: time.UnixMicro(proved).Unix(),
		Methods: methods, Factor: started.Factor, FactorAt: shownAt,
	})
	token.Header["kid"] = key.id
	access, err := token.SignedString(key.private)
	if err != nil {
		return Session{}, fmt.Errorf("sign session: %w", err)
	}
	p := i.signedIn(s, user)
	p.Session = started.Family
	p.SignedIn = time.UnixMicro(proved).Truncate(time.Second)
	if p.Factor = started.Factor; p.Factor != "" {
		p.FactorAt = time.Unix(shownAt, 0)
	}
	return Session{Access: access, Refresh: refresh, ExpiresAt: expires, Principal: p}, nil
}

func (i *Identity) authenticateSession(s *accounts, token string) (Principal, error) {
	refuse := func(cause error) (Principal, error) { return Principal{}, fault.Wrap(cause, fault.CodeInvalidSession) }
	if len(token) > maxCredential {
		return refuse(errors.New("token too long"))
	}
	var c claims
	// Method, issuer, audience and expiry are all demanded: a token for another purpose under the same key opens nothing.
	_, err := jwt.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		key, known := i.sessions.public(id, i.now())
		if typ := t.Header["typ"]; !known || typ != nil && typ != "JWT" { // another typ says that it is for something else
			return nil, jwt.ErrTokenSignatureInvalid
		}
		return key, nil
	},
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(i.cfg.Issuer), jwt.WithAudience(adminAudience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(2*time.Second), jwt.WithTimeFunc(i.now), jwt.WithStrictDecoding())
	if err != nil {
		// The library's text may quote parts of the token: only its class is kept.
		return refuse(sessionCause(err))
	}
	if id, emergency := strings.CutPrefix(c.Subject, emergencySubject); emergency {
		return i.emergencyOf(s, id, c)
	}
	if c.ID == "" || c.IssuedAt == nil || c.ExpiresAt.Sub(c.IssuedAt.Time) > maxAccessTTL {
		return refuse(errors.New("token lacks an id or lives too long"))
	}
	user, ok := s.users[c.Subject]
	if !ok || user.disabled || user.epoch != c.Epoch {
		return refuse(errors.New("account unknown, disabled or changed since"))
	}
	if err := s.refusal(user.principal.Tenant, ""); err != nil { // before what has ended, which a suspension has, too
		return user.principal, err
	}
	if _, ended := s.ended[c.Family]; ended || c.Family == "" {
		return refuse(errors.New("sign-in ended"))
	}
	if user.factor && c.Factor == "" {
		return refuse(errors.New("sign-in from before the account had a second factor"))
	}
	if err := i.mayFederated(s, user, c.Factor); err != nil {
		return refuse(err)
	}
	p := i.signedIn(s, user)
	if p.Session, p.Factor = c.Family, c.Factor; p.Factor != "" {
		p.FactorAt = time.Unix(c.FactorAt, 0)
	}
	if c.SignedIn > 0 { // tokens of the release before do not say
		p.SignedIn = time.Unix(c.SignedIn, 0)
	}
	return p, nil
}

func sessionCause(err error) error {
	for _, known := range []error{
		jwt.ErrTokenExpired, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenInvalidAudience, jwt.ErrTokenInvalidIssuer,
		jwt.ErrTokenUsedBeforeIssued, jwt.ErrTokenRequiredClaimMissing,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return jwt.ErrTokenMalformed
}
