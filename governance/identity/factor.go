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

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// SecondFactors says who shows a second factor beside the password.
type SecondFactors string

// The choices.
const (
	SecondFactorsOff            SecondFactors = "off"            // nobody: none can be enrolled, and none is asked for
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
	keys  map[seal.Suite]seal.Key
}

func newFactorSecrets(ring *keyring.Ring, suite seal.Suite) (factorSecrets, error) {
	s := factorSecrets{suite: cmp.Or(suite, seal.Intl), keys: map[seal.Suite]seal.Key{}}
	for suite, key := range map[seal.Suite][]byte{
		seal.Intl: ring.Derive("identity/second-factor/v1"), seal.GM: ring.Derive("identity/second-factor/sm4/v1")[:seal.GM.KeySize()],
	} {
		k, err := seal.NewKey(suite, key)
		if err != nil {
			return factorSecrets{}, fmt.Errorf("encrypt second factors: %w", err)
		}
		s.keys[suite] = k
	}
	if _, known := s.keys[s.suite]; !known {
		return factorSecrets{}, fmt.Errorf("encrypt second factors: suite %q is unknown to this release", suite)
	}
	return s, nil
}

// label binds a secret to its account: in the row of another one it does not open.
func (f factorRow) label() []byte { return seal.Label("identity factor", f.UserID, f.ID, f.Kind) }

func (s factorSecrets) open(f factorRow) (string, error) {
	key, known := s.keys[seal.Suite(f.Suite)]
	if !known {
		return "", fmt.Errorf("suite %q of a second factor is unknown to this release", f.Suite)
	}
	secret, err := key.Open(f.Sealed, f.label())
	if err != nil {
		return "", fmt.Errorf("open a second factor: %w", err)
	}
	return string(secret), nil
}

// administers reports whether one of the roles is a duty of administrators.
func administers(roles []string) bool {
	return slices.ContainsFunc(administrators(), func(role string) bool { return slices.Contains(roles, role) })
}

// HasSecondFactor reports whether a person's account has a second factor that is asked for.
func (i *Identity) HasSecondFactor(user string) bool {
	s, loaded := i.accounts.Last()
	return loaded && s.users[user].factor
}

// SecondFactors returns who shows a second factor.
func (i *Identity) SecondFactors() SecondFactors { return i.cfg.SecondFactor }

// StartTOTP returns a new secret for the person's own account, this once. It is not asked for before [Identity.ConfirmTOTP]; a factor that the
// account has goes on until then. Errors: CodeConflict where second factors are off; CodeInvalidSession; CodeDatabaseUnavailable.
func (i *Identity) StartTOTP(ctx context.Context, p Principal) (TOTP, error) {
	if p.Kind != "user" {
		return TOTP{}, fault.New(fault.CodeInvalidSession)
	}
	if i.cfg.SecondFactor == SecondFactorsOff {
		return TOTP{}, fault.New(fault.CodeConflict, fault.Say("identity.factors_off"))
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: i.cfg.Issuer, AccountName: p.Name, Period: totpPeriod})
	if err != nil {
		return TOTP{}, fmt.Errorf("make a second factor: %w", err)
	}
	row := factorRow{ID: uuid.Must(uuid.NewV7()).String(), UserID: p.ID, Kind: factorTOTP, Suite: string(i.factors.suite), CreatedAt: i.now().UnixMicro()}
	row.Sealed = i.factors.keys[i.factors.suite].Seal([]byte(key.Secret()), row.label())
	if err := i.store.startFactor(ctx, row); err != nil {
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
	step, ok, err := i.matchTOTP(row, code)
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

// ShowFactor takes a code of the person's second factor during a sign-in and returns a session token that says so: for what wants it shown a short
// time ago. Errors: CodeWrongCode and CodeLoginThrottled, as Login counts them; CodeConflict for an account without a factor; CodeInvalidSession;
// CodeDatabaseUnavailable.
func (i *Identity) ShowFactor(ctx context.Context, p Principal, code, source string) (Session, error) {
	if p.Kind != "user" {
		return Session{}, fault.New(fault.CodeInvalidSession)
	}
	attempt, wait := i.throttle.begin(canonicalName(p.Name), network(source), i.now())
	if wait > 0 {
		return Session{}, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait)
	}
	kind, err := i.spendCode(ctx, p.ID, code)
	switch {
	case fault.Is(err, fault.CodeWrongCode):
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
	return i.sign(user, sessionRow{Family: p.Session, StartedAt: p.SignedIn.UnixMicro(), Factor: kind, FactorAt: now.UnixMicro()}, "", now)
}

// spendCode takes a code of the account's second factor, once, and returns what it was: "" for an account that has none, whatever the code. Errors:
// CodeSecondFactor without a code; CodeWrongCode for one that is wrong or was used; CodeDatabaseUnavailable.
func (i *Identity) spendCode(ctx context.Context, user, code string) (kind string, err error) {
	if i.cfg.SecondFactor == SecondFactorsOff {
		return "", nil
	}
	row, found, err := i.store.activeFactor(ctx, user)
	if err != nil || !found {
		return "", err
	}
	code = canonicalCode(code)
	if code == "" {
		return "", fault.New(fault.CodeSecondFactor)
	}
	var ok bool
	if len(code) == recoverySize {
		kind = factorRecovery
		if ok, err = i.store.spendRecoveryCode(ctx, user, i.recoveryDigest(user, code)); ok {
			i.log.Warn("a recovery code was used in place of a second factor", slog.String("user", user))
		}
	} else {
		kind = factorTOTP
		var step int64
		if step, ok, err = i.matchTOTP(row, code); ok {
			ok, err = i.store.takeStep(ctx, row.ID, step)
		}
	}
	if err == nil && !ok {
		err = fault.New(fault.CodeWrongCode).WithParam("code")
	}
	if err != nil {
		return "", err
	}
	return kind, nil
}

// matchTOTP returns the time step that a code is of, now or as far away as clocks may differ.
func (i *Identity) matchTOTP(row factorRow, code string) (step int64, ok bool, err error) {
	secret, err := i.factors.open(row)
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
