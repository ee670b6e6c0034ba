package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// SecondFactors says who shows a second factor beside the password.
type SecondFactors string

// The choices.
const (
	SecondFactorsOff            SecondFactors = "off"            // who has enrolled one; nobody can enrol another but who has to since another replica demands it
	SecondFactorsOptional       SecondFactors = "optional"       // who has enrolled one
	SecondFactorsAdministrators SecondFactors = "administrators" // they as well, and before they have enrolled one the management API lets them do nothing else
)

// The kinds of what a sign-in shows beside the password.
const (
	factorTOTP     = "totp"
	factorRecovery = "recovery_code"
)

const (
	totpPeriod    = 30 // seconds; with 6 digits and SHA-1 what every authenticator app takes
	totpSkew      = 1  // time steps that a clock may go wrong
	enrolTime     = 15 * time.Minute
	recoveryCodes = 10
	recoverySize  = 12 // characters of base32: 60 bits
)

// TOTP is a secret that an authenticator app makes codes of.
type TOTP struct {
	Secret string // base32
	URI    string // otpauth://, to be shown as a QR code
}

// factorSecrets encrypts the secrets of second factors at rest.
type factorSecrets struct {
	suite seal.Suite // of what is stored from now on
	keys  *wrapkey.Keys
}

func newFactorSecrets(ring *keyring.Ring, suite seal.Suite) (factorSecrets, error) {
	suite = cmp.Or(suite, seal.Intl)
	if !suite.Known() {
		return factorSecrets{}, fmt.Errorf("encrypt second factors: suite %q is unknown to this release", suite)
	}
	return factorSecrets{suite, factorKeys(ring)}, nil
}

func factorKeys(ring *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(ring, "identity/second-factor/v1", "identity/second-factor/sm4/v1")
}

// Wrapped are the secrets of second factors as a rotation of the wrapping keys sees them.
func Wrapped(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[factorRow]{
		Kind: "second_factors", Keys: factorKeys(ring), Table: factorRow{}.TableName(), Sealed: "sealed", Limit: 200,
		Columns: []string{"id", "user_id", "kind", "suite", "epoch", "sealed"},
		Label:   factorRow.label,
		Row:     func(f factorRow) (string, wrapkey.Envelope) { return f.ID, f.envelope() },
	}
}

// label binds a secret to its account: in the row of another one it does not open.
func (f factorRow) label() []byte { return seal.Label("identity factor", f.UserID, f.ID, f.Kind) }

func (f factorRow) suite() seal.Suite { return seal.Suite(f.Suite) }

// sealing returns what encrypts a secret into its row.
func (s factorSecrets) sealing(secret []byte) sealing {
	return func(tx *gorm.DB, row *factorRow) error {
		e, err := s.keys.Seal(tx, s.suite, secret, row.label())
		if err != nil {
			return fmt.Errorf("encrypt a second factor: %w", err)
		}
		row.Suite, row.Epoch, row.Sealed = string(e.Suite), e.Epoch, e.Sealed
		return nil
	}
}

func (s factorSecrets) open(db *gorm.DB, f factorRow) (string, error) {
	secret, err := s.keys.Open(db, f.envelope(), f.label())
	if err != nil {
		return "", fmt.Errorf("open a second factor: %w", err)
	}
	return string(secret), nil
}

// Administers reports whether one of the roles is a duty of administrators.
func Administers(roles []string) bool {
	return slices.ContainsFunc(administrators(), func(role string) bool { return slices.Contains(roles, role) })
}

// HasSecondFactor reports whether a person's account has a second factor that is asked for.
func (i *Identity) HasSecondFactor(user string) bool {
	s, loaded := i.accounts.Last()
	return loaded && s.users[user].factor
}

// ShowsSecondFactor reports whether a person shows a second factor when he signs in: one of the account, or the one that his provider vouched for when it
// confirmed the account last.
func (i *Identity) ShowsSecondFactor(user string) bool {
	s, loaded := i.accounts.Last()
	return loaded && (s.users[user].factor || s.users[user].confirmedWith != "")
}

// MayEnrol reports whether this replica lets somebody enrol a second factor. Where they are off it lets whom another replica has enrol one: he could do
// nothing else. Whoever signs in at a provider shows his there.
func (i *Identity) MayEnrol(p Principal) bool {
	return p.Provider == "" && (i.cfg.SecondFactor != SecondFactorsOff || p.MustEnrol)
}

// StartTOTP returns a new secret for the person's own account, this once. It is not asked for before [Identity.ConfirmTOTP]; a factor that the
// account has goes on until then. Errors: CodeConflict where second factors are off, unless [Principal.MustEnrol]; CodeInvalidSession; CodeDatabaseUnavailable.
func (i *Identity) StartTOTP(ctx context.Context, p Principal) (TOTP, error) {
	if p.Kind != "user" {
		return TOTP{}, fault.New(fault.CodeInvalidSession)
	}
	if p.Provider != "" {
		return TOTP{}, fault.New(fault.CodeConflict, fault.Say("identity.federated"))
	}
	if !i.MayEnrol(p) {
		return TOTP{}, fault.New(fault.CodeConflict, fault.Say("identity.factors_off"))
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: i.cfg.Issuer, AccountName: p.Name, Period: totpPeriod})
	if err != nil {
		return TOTP{}, fmt.Errorf("make a second factor: %w", err)
	}
	row := factorRow{ID: uuid.Must(uuid.NewV7()).String(), UserID: p.ID, Kind: factorTOTP, CreatedAt: i.now().UnixMicro()}
	if err := i.store.startFactor(ctx, row, i.factors.sealing([]byte(key.Secret()))); err != nil {
		return TOTP{}, err
	}
	return TOTP{Secret: key.Secret(), URI: key.URL()}, nil
}

// ConfirmTOTP puts the secret of the last [Identity.StartTOTP] in force, in place of one before, if code is one of its codes. It returns the recovery
// codes this once and a session token for the sign-in, which has shown the factor by this; every other sign-in ends. Errors: CodeConflict where
// nothing was started, or too long ago; CodeWrongCode and CodeLoginThrottled; CodeInvalidSession; CodeDatabaseUnavailable.
func (i *Identity) ConfirmTOTP(ctx context.Context, p Principal, code, source string) ([]string, Session, error) {
	now := i.now()
	row, found, err := i.store.pendingFactor(ctx, p.ID, now.Add(-enrolTime).UnixMicro())
	if err != nil {
		return nil, Session{}, err
	}
	if p.Kind != "user" || !found {
		return nil, Session{}, fault.New(fault.CodeConflict, fault.Say("identity.no_enrolment"))
	}
	attempt, wait := i.throttle.begin(canonicalName(p.Name), network(source), now)
	if wait > 0 {
		return nil, Session{}, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait)
	}
	step, ok, err := i.matchTOTP(ctx, row, code)
	if err != nil {
		attempt.cancel()
		return nil, Session{}, err
	}
	if !ok {
		return nil, Session{}, fault.New(fault.CodeWrongCode).WithParam("code")
	}
	attempt.succeeded(now)
	codes, digests := i.newRecoveryCodes(p.ID)
	row.ConfirmedAt, row.LastStep = now.UnixMicro(), step
	if err := i.store.activateFactor(ctx, row, digests, p.Session); err != nil {
		return nil, Session{}, err
	}
	i.reload(ctx)
	session, err := i.shown(p, factorTOTP, now)
	return codes, session, err
}

// proof is what somebody shows beside the password: a code, or what a security key has signed; neither to be told what is wanted.
type proof struct {
	code      string
	assertion []byte
}

// ShowFactor takes a code of the person's second factor during a sign-in and returns a session token that says so: for what wants it shown a short
// time ago. Errors: CodeWrongCode and CodeLoginThrottled, as Login counts them; CodeConflict for an account without a factor; CodeInvalidSession;
// CodeDatabaseUnavailable.
func (i *Identity) ShowFactor(ctx context.Context, p Principal, code, source string) (Session, error) {
	return i.show(ctx, p, proof{code: code}, source)
}

// ShowKey is [Identity.ShowFactor] with the AuthenticationResponseJSON of a security key that [Identity.AskKey] has asked for. Errors: as there, with
// CodeWrongAssertion and CodeClonedKey in place of CodeWrongCode.
func (i *Identity) ShowKey(ctx context.Context, p Principal, assertion []byte, source string) (Session, error) {
	return i.show(ctx, p, proof{assertion: assertion}, source)
}

func (i *Identity) show(ctx context.Context, p Principal, shown proof, source string) (Session, error) {
	if p.Kind != "user" {
		return Session{}, fault.New(fault.CodeInvalidSession)
	}
	attempt, wait := i.throttle.begin(canonicalName(p.Name), network(source), i.now())
	if wait > 0 {
		return Session{}, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait)
	}
	kind, err := i.spendProof(ctx, p.ID, purposeShow, p.Session, shown)
	switch {
	case wrongProof(err):
		return Session{}, err
	case err != nil:
		attempt.cancel()
		return Session{}, err
	case kind == "":
		attempt.cancel()
		return Session{}, fault.New(fault.CodeConflict, fault.Say("identity.no_factor"))
	}
	now := i.now()
	attempt.succeeded(now)
	if err := i.store.showFactor(ctx, p.Session, kind, now.UnixMicro()); err != nil {
		return Session{}, err
	}
	return i.shown(p, kind, now)
}

// wrongProof reports whether err says that what was shown is not good: that counts as a wrong password does.
func wrongProof(err error) bool {
	return fault.Is(err, fault.CodeWrongCode) || fault.Is(err, fault.CodeWrongAssertion) || fault.Is(err, fault.CodeClonedKey)
}

// RemoveFactor removes the person's own second factor and its recovery codes. Errors: CodeConflict for an account without one;
// CodeDatabaseUnavailable.
func (i *Identity) RemoveFactor(ctx context.Context, p Principal) error {
	defer i.reload(ctx)
	return i.store.removeFactor(ctx, p.ID)
}

// ResetFactor removes the second factor of somebody else, who has lost it, and ends his sessions. Errors: as of ChangeUser, and CodeConflict for an
// account without one.
func (i *Identity) ResetFactor(ctx context.Context, by Administrator, tenant, id string) (User, error) {
	if by.ID == id {
		return User{}, fault.New(fault.CodeConflict, fault.Say("identity.own_account"))
	}
	defer i.reload(ctx)
	row, err := i.store.resetFactor(ctx, by, tenant, id, i.now().UnixMicro())
	return row.public(), err
}

// shown returns a session token of a sign-in that has shown a factor now.
func (i *Identity) shown(p Principal, kind string, now time.Time) (Session, error) {
	s, err := i.fresh()
	if err != nil {
		return Session{}, err
	}
	user, ok := s.users[p.ID]
	if !ok || user.disabled {
		return Session{}, fault.New(fault.CodeInvalidSession)
	}
	return i.sign(s, user, sessionRow{Family: p.Session, StartedAt: p.SignedIn.UnixMicro(), Factor: kind, FactorAt: now.UnixMicro()}, "", now)
}

// spendProof takes what is shown of the account's second factors, once, and returns what it was: "" for an account that has none, whatever is shown.
// Errors: CodeSecondFactor, with [FactorsWanted], if nothing is; CodeWrongCode, CodeWrongAssertion, CodeClonedKey; CodeDatabaseUnavailable.
func (i *Identity) spendProof(ctx context.Context, user, purpose, session string, shown proof) (kind string, err error) {
	rows, err := i.store.activeFactors(ctx, user)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	code := canonicalCode(shown.code)
	switch {
	case len(shown.assertion) > 0:
		return factorWebAuthn, i.spendAssertion(ctx, user, purpose, session, rows, shown.assertion)
	case code == "":
		return "", i.wanted(ctx, user, purpose, session, rows)
	case len(code) == recoverySize:
		return factorRecovery, i.spendRecoveryCode(ctx, user, code)
	}
	return factorTOTP, i.spendTOTP(ctx, rows, code)
}

// wanted is the error that says what the account can show.
func (i *Identity) wanted(ctx context.Context, user, purpose, session string, rows []factorRow) error {
	var out FactorsWanted
	for _, r := range rows {
		if !slices.Contains(out.Kinds, r.Kind) && (r.Kind != factorWebAuthn || i.party.web != nil) {
			out.Kinds = append(out.Kinds, r.Kind)
		}
	}
	if slices.Contains(out.Kinds, factorWebAuthn) {
		var err error
		if out.Key, err = i.askKey(ctx, user, purpose, session, rows); err != nil {
			return err
		}
	}
	return fault.Wrap(out, fault.CodeSecondFactor)
}

func (i *Identity) spendRecoveryCode(ctx context.Context, user, code string) error {
	ok, err := i.store.spendRecoveryCode(ctx, user, i.recoveryDigest(user, code))
	if ok {
		i.log.Warn("a recovery code was used in place of a second factor", slog.String("user", user))
	}
	return unlessWrong(ok, err)
}

func (i *Identity) spendTOTP(ctx context.Context, rows []factorRow, code string) error {
	n := slices.IndexFunc(rows, func(r factorRow) bool { return r.Kind == factorTOTP })
	if n < 0 {
		return unlessWrong(false, nil)
	}
	step, ok, err := i.matchTOTP(ctx, rows[n], code)
	if ok {
		ok, err = i.store.takeStep(ctx, rows[n].ID, step, i.now().UnixMicro())
	}
	return unlessWrong(ok, err)
}

func unlessWrong(ok bool, err error) error {
	if err == nil && !ok {
		err = fault.New(fault.CodeWrongCode).WithParam("code")
	}
	return err
}

// matchTOTP returns the time step that a code is of, now or as far away as clocks may differ.
func (i *Identity) matchTOTP(ctx context.Context, row factorRow, code string) (step int64, ok bool, err error) {
	secret, err := i.factors.open(i.store.db.WithContext(ctx), row)
	if err != nil {
		return 0, false, err
	}
	code = canonicalCode(code)
	present := i.now().Unix() / totpPeriod
	for _, at := range []int64{present, present - totpSkew, present + totpSkew} {
		want, err := hotp.GenerateCode(secret, uint64(at))
		if err != nil {
			return 0, false, fmt.Errorf("compute a code: %w", err)
		}
		if subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			return at, true, nil
		}
	}
	return 0, false, nil
}

func (i *Identity) newRecoveryCodes(user string) (codes, digests []string) {
	for range recoveryCodes {
		code := rand.Text()[:recoverySize]
		codes = append(codes, code[:4]+"-"+code[4:8]+"-"+code[8:])
		digests = append(digests, i.recoveryDigest(user, code))
	}
	return codes, digests
}

func (i *Identity) recoveryDigest(user, code string) string {
	sum := i.recovery.sum(user + " " + code)
	return hex.EncodeToString(sum[:])
}

// canonicalCode takes away how people write codes down.
func canonicalCode(code string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
}
