package identity

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
)

// WebAuthn says where security keys and passkeys can be second factors: browsers bind each to a domain, and use it on pages of it alone.
type WebAuthn struct {
	RPID    string   `koanf:"rp_id"`   // the domain; the host of the first origin
	Origins []string `koanf:"origins"` // of the console's pages, such as https://sluice.example; that of Address

	Address string `koanf:"-"` // how browsers reach the console; "" if nobody knows
}

const factorWebAuthn = "webauthn"

const (
	challengeTime = 5 * time.Minute
	maxChallenges = 10 // that wait at a time for the keys of an account; the oldest goes
	maxOwnKeys    = 20 // security keys of an account
	maxKeyName    = 64 // characters
)

// What a challenge is for. One of one purpose is good for no other.
const (
	purposeEnrol  = "enrol"
	purposeSignIn = "sign-in"
	purposeShow   = "show"
)

// origins returns the relying party's id and origins, or why there are none: without a configured one, an address that browsers take no key on
// switches security keys off, and is no error.
func (w WebAuthn) origins() (id string, origins []string, why fault.Phrase, err error) {
	configured := w.RPID != "" || len(w.Origins) > 0
	origins = w.Origins
	if len(origins) == 0 {
		u, err := url.Parse(w.Address)
		switch {
		case w.Address == "" || err != nil || !secure(u):
			why = fault.Say("identity.keys_no_address")
		case protocol.ValidateRPID(u.Hostname()) != nil:
			why = fault.Say("identity.keys_no_name", u.Hostname())
		default:
			origins = []string{u.Scheme + "://" + u.Host}
		}
	}
	if len(origins) == 0 {
		if configured {
			err = errors.New("origins: must be set, since browsers reach the console under no address that security keys work on")
		}
		return "", nil, why, err
	}
	id = w.RPID
	for n, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || !secure(u) || strings.TrimSuffix(origin, "/") != u.Scheme+"://"+u.Host {
			return "", nil, why, fmt.Errorf("origins[%d]: must be https:// with a host name, or http://localhost, and nothing behind it", n)
		}
		if id == "" {
			id = u.Hostname()
		}
		if host := u.Hostname(); host != id && !strings.HasSuffix(host, "."+id) {
			return "", nil, why, fmt.Errorf("rp_id: must be %s or a domain that it is in", host)
		}
	}
	if protocol.ValidateRPID(id) != nil {
		return "", nil, why, errors.New("rp_id: must be a domain, and no IP address")
	}
	return id, origins, why, nil
}

// secure reports whether browsers let pages of an address use security keys.
func secure(u *url.URL) bool {
	host := u.Hostname()
	return host != "" && (u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || strings.HasSuffix(host, ".localhost")))
}

// relyingParty checks what security keys answer.
type relyingParty struct {
	web *webauthn.WebAuthn // nil: security keys are off
	why fault.Phrase       // then
}

func newRelyingParty(cfg WebAuthn, name string) (relyingParty, error) {
	id, origins, why, err := cfg.origins()
	if err != nil || id == "" {
		return relyingParty{why: why}, err
	}
	web, err := webauthn.New(&webauthn.Config{
		RPID: id, RPDisplayName: name, RPOrigins: origins, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationRequired},
	})
	return relyingParty{web: web}, err
}

// SecurityKeys says where somebody can enrol security keys: the origins of the pages, or why he cannot at all.
func (i *Identity) SecurityKeys(p Principal) (origins []string, off *fault.Phrase) {
	switch {
	case p.Provider != "":
		why := fault.Say("identity.federated")
		return nil, &why
	case !i.MayEnrol(p):
		why := fault.Say("identity.factors_off")
		return nil, &why
	case i.party.web == nil:
		return nil, &i.party.why
	}
	return slices.Clone(i.party.web.Config.RPOrigins), nil
}

// FactorsWanted is the cause of CodeSecondFactor: what the account can show. Only a right password brings one about.
type FactorsWanted struct {
	Kinds []string        // "totp", "webauthn"; recovery codes stand in for both
	Key   json.RawMessage // PublicKeyCredentialRequestOptionsJSON of W3C Web Authentication, for a security key; nil without one
}

func (FactorsWanted) Error() string { return "no second factor was shown" }

// Factor is a second factor of an account, without what is secret.
type Factor struct {
	ID, Kind, Name    string // a TOTP factor has no name
	Created, LastUsed time.Time
	SignCount         int64     // of a security key; 0: it counts none
	BackedUp          bool      // its private key is copied to other devices
	Suspect           time.Time // when its count went backwards, as that of a copy does: it is not accepted since; zero: it did not
}

// publicKey is what the server knows of a security key. It is stored encrypted.
type publicKey struct {
	ID             []byte   `json:"id"`
	Key            []byte   `json:"key"` // COSE
	AAGUID         []byte   `json:"aaguid,omitempty"`
	Transports     []string `json:"transports,omitempty"`
	BackupEligible bool     `json:"backup_eligible,omitempty"`
}

// keyHolder is an account as the library sees it.
type keyHolder struct {
	id, name string
	keys     []webauthn.Credential
}

func (h keyHolder) WebAuthnID() []byte                         { return []byte(h.id) }
func (h keyHolder) WebAuthnName() string                       { return h.name }
func (h keyHolder) WebAuthnDisplayName() string                { return h.name }
func (h keyHolder) WebAuthnCredentials() []webauthn.Credential { return h.keys }

func (k publicKey) credential(row factorRow) webauthn.Credential {
	out := webauthn.Credential{
		ID: k.ID, PublicKey: k.Key, Flags: webauthn.CredentialFlags{UserPresent: true, UserVerified: true, BackupEligible: k.BackupEligible, BackupState: row.BackedUp != 0},
		Authenticator: webauthn.Authenticator{AAGUID: k.AAGUID, SignCount: uint32(row.LastStep)},
	}
	for _, t := range k.Transports {
		out.Transport = append(out.Transport, protocol.AuthenticatorTransport(t))
	}
	return out
}

// holder opens the security keys among the factors of an account.
func (i *Identity) holder(ctx context.Context, id, name string, rows []factorRow) (keyHolder, error) {
	h := keyHolder{id: id, name: name}
	for _, row := range rows {
		if row.Kind != factorWebAuthn {
			continue
		}
		plain, err := i.factors.open(i.store.db.WithContext(ctx), row)
		if err != nil {
			return keyHolder{}, err
		}
		var k publicKey
		if err := json.Unmarshal([]byte(plain), &k); err != nil {
			return keyHolder{}, errors.New("a security key of the database is not ours") // the error of the decoder would quote it
		}
		h.keys = append(h.keys, k.credential(row))
	}
	return h, nil
}

// challenge returns something new to be signed, once and soon, by a security key of the account, for one purpose and, if it has begun, one sign-in.
func (i *Identity) challenge(ctx context.Context, user, purpose, session string) (protocol.URLEncodedBase64, error) {
	raw := seal.Random(32)
	row := challengeRow{Digest: i.challengeDigest(user, purpose, session, base64.RawURLEncoding.EncodeToString(raw)), UserID: user, ExpiresAt: i.now().Add(challengeTime).UnixMicro()}
	return raw, i.store.addChallenge(ctx, row, i.now().UnixMicro())
}

func (i *Identity) challengeDigest(user, purpose, session, challenge string) string {
	sum := i.challenges.sum(strings.Join([]string{purpose, user, session, challenge}, " "))
	return hex.EncodeToString(sum[:])
}

// StartKey returns what a browser needs to make a security key or passkey for the person's own account (PublicKeyCredentialCreationOptionsJSON of W3C
// Web Authentication). Errors: CodeConflict where security keys are off, and for more than 20; CodeInvalidSession; CodeDatabaseUnavailable.
func (i *Identity) StartKey(ctx context.Context, p Principal) (json.RawMessage, error) {
	if p.Kind != "user" {
		return nil, fault.New(fault.CodeInvalidSession)
	}
	if _, off := i.SecurityKeys(p); off != nil {
		return nil, fault.New(fault.CodeConflict, *off)
	}
	rows, err := i.store.activeFactors(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	h, err := i.holder(ctx, p.ID, p.Name, rows)
	if err != nil {
		return nil, err
	}
	if len(h.keys) >= maxOwnKeys {
		return nil, fault.New(fault.CodeConflict, fault.Say("identity.many_keys", maxOwnKeys))
	}
	known := webauthn.Credentials(h.keys).CredentialDescriptors()
	made, _, err := i.party.web.BeginRegistration(h, webauthn.WithExclusions(known), webauthn.WithCredentialParameters(webauthn.CredentialParametersRecommendedL3()))
	if err != nil {
		return nil, fmt.Errorf("ask for a security key: %w", err)
	}
	if made.Response.Challenge, err = i.challenge(ctx, p.ID, purposeEnrol, p.Session); err != nil {
		return nil, err
	}
	out, err := json.Marshal(made.Response)
	if err != nil {
		return nil, fmt.Errorf("ask for a security key: %w", err)
	}
	return out, nil
}

// ConfirmKey puts a security key in force that a browser has made for [Identity.StartKey]; attestation is its RegistrationResponseJSON. It returns a
// session token for the sign-in, which has shown a factor by this, and, if it is the account's first factor, the recovery codes, this once; every other
// sign-in ends. Errors: CodeInvalidValue for the name; CodeWrongAssertion; CodeExists for a key that is enrolled; CodeConflict where security keys are
// off; CodeInvalidSession; CodeDatabaseUnavailable.
func (i *Identity) ConfirmKey(ctx context.Context, p Principal, name string, attestation []byte) ([]string, Session, error) {
	name = strings.TrimSpace(name)
	if name == "" || utf8.RuneCountInString(name) > maxKeyName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, Session{}, invalid("name", fault.Say("identity.key_name", maxKeyName))
	}
	if p.Kind != "user" {
		return nil, Session{}, fault.New(fault.CodeInvalidSession)
	}
	if _, off := i.SecurityKeys(p); off != nil {
		return nil, Session{}, fault.New(fault.CodeConflict, *off)
	}
	made, err := i.verifyNew(ctx, p, attestation)
	if err != nil {
		return nil, Session{}, err
	}
	now := i.now()
	row, plain, err := i.keyRow(p.ID, name, made, now)
	if err != nil {
		return nil, Session{}, err
	}
	codes, digests := i.newRecoveryCodes(p.ID)
	first, err := i.store.addKey(ctx, row, i.factors.sealing(plain), digests, p.Session)
	if err != nil {
		return nil, Session{}, err
	}
	if !first {
		codes = nil
	}
	i.reload(ctx)
	session, err := i.shown(p, factorWebAuthn, now)
	return codes, session, err
}

// verifyNew spends the challenge of an enrolment and checks what was made for it.
func (i *Identity) verifyNew(ctx context.Context, p Principal, attestation []byte) (*webauthn.Credential, error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes(attestation)
	if err != nil {
		return nil, refusedKey(err)
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	if err := i.spendChallenge(ctx, p.ID, purposeEnrol, p.Session, challenge); err != nil {
		return nil, err
	}
	made, err := i.party.web.CreateCredential(keyHolder{id: p.ID, name: p.Name}, webauthn.SessionData{
		Challenge: challenge, RelyingPartyID: i.party.web.Config.RPID, UserID: []byte(p.ID), UserVerification: protocol.VerificationRequired,
		CredParams: webauthn.CredentialParametersRecommendedL3(),
	}, parsed)
	if err != nil {
		return nil, refusedKey(err)
	}
	return made, nil
}

// keyRow returns the row of a new security key, and what is to be sealed in it.
func (i *Identity) keyRow(user, name string, made *webauthn.Credential, now time.Time) (factorRow, []byte, error) {
	k := publicKey{ID: made.ID, Key: made.PublicKey, AAGUID: made.Authenticator.AAGUID, BackupEligible: made.Flags.BackupEligible}
	for _, t := range made.Transport {
		k.Transports = append(k.Transports, string(t))
	}
	plain, err := json.Marshal(k)
	if err != nil {
		return factorRow{}, nil, fmt.Errorf("store a security key: %w", err)
	}
	sum := i.credentials.sum(string(made.ID))
	return factorRow{
		ID: uuid.Must(uuid.NewV7()).String(), UserID: user, Kind: factorWebAuthn, Name: name, Credential: hex.EncodeToString(sum[:]),
		CreatedAt: now.UnixMicro(), ConfirmedAt: now.UnixMicro(), LastStep: int64(made.Authenticator.SignCount), BackedUp: flag(made.Flags.BackupState),
	}, plain, nil
}

// spendChallenge takes a challenge once. Error: CodeWrongAssertion for one that was not made for this, is too old, or was taken before.
func (i *Identity) spendChallenge(ctx context.Context, user, purpose, session, challenge string) error {
	ok, err := i.store.spendChallenge(ctx, i.challengeDigest(user, purpose, session, challenge), i.now().UnixMicro())
	if err == nil && !ok {
		err = fault.New(fault.CodeWrongAssertion, fault.Say("identity.key_challenge"))
	}
	return err
}

// refusedKey is the refusal of what a security key has answered. The library's text says which check failed.
func refusedKey(cause error) error {
	return fault.Wrap(cause, fault.CodeWrongAssertion, fault.Say("identity.key_answer"))
}

// AskKey returns what a browser needs to have a security key shown during a sign-in (PublicKeyCredentialRequestOptionsJSON), for [Identity.ShowKey].
// Errors: CodeConflict where they are off, and for an account without one; CodeInvalidSession; CodeDatabaseUnavailable.
func (i *Identity) AskKey(ctx context.Context, p Principal) (json.RawMessage, error) {
	if p.Kind != "user" {
		return nil, fault.New(fault.CodeInvalidSession)
	}
	if i.party.web == nil {
		return nil, fault.New(fault.CodeConflict, i.party.why)
	}
	rows, err := i.store.activeFactors(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	out, err := i.askKey(ctx, p.ID, purposeShow, p.Session, rows)
	if err == nil && out == nil {
		err = fault.New(fault.CodeConflict, fault.Say("identity.no_key"))
	}
	return out, err
}

// askKey returns nil for an account without security keys.
func (i *Identity) askKey(ctx context.Context, user, purpose, session string, rows []factorRow) (json.RawMessage, error) {
	h, err := i.holder(ctx, user, "", rows)
	if err != nil || len(h.keys) == 0 {
		return nil, err
	}
	challenge, err := i.challenge(ctx, user, purpose, session)
	if err != nil {
		return nil, err
	}
	ask, _, err := i.party.web.BeginLogin(h, webauthn.WithChallenge(challenge))
	if err != nil {
		return nil, fmt.Errorf("ask for a security key: %w", err)
	}
	out, err := json.Marshal(ask.Response)
	if err != nil {
		return nil, fmt.Errorf("ask for a security key: %w", err)
	}
	return out, nil
}

// spendAssertion takes what a security key has signed, once. Errors: CodeWrongAssertion; CodeClonedKey for a key whose count went backwards, then or
// before; CodeDatabaseUnavailable.
func (i *Identity) spendAssertion(ctx context.Context, user, purpose, session string, rows []factorRow, assertion []byte) error {
	if i.party.web == nil {
		return fault.New(fault.CodeWrongAssertion, i.party.why)
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(assertion)
	if err != nil {
		return refusedKey(err)
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	if err := i.spendChallenge(ctx, user, purpose, session, challenge); err != nil {
		return err
	}
	h, err := i.holder(ctx, user, "", rows)
	if err != nil {
		return err
	}
	if len(h.keys) == 0 { // without a list of what is allowed the library would allow any
		return refusedKey(errors.New("the account has no security key"))
	}
	known := make([][]byte, len(h.keys))
	for n, k := range h.keys {
		known[n] = k.ID
	}
	got, err := i.party.web.ValidateLogin(h, webauthn.SessionData{
		Challenge: challenge, RelyingPartyID: i.party.web.Config.RPID, UserID: []byte(user), AllowedCredentialIDs: known, UserVerification: protocol.VerificationRequired,
	}, parsed)
	if err != nil {
		return refusedKey(err)
	}
	return i.takeCount(ctx, rows, h, got)
}

// takeCount accepts the count of a key that has signed.
func (i *Identity) takeCount(ctx context.Context, rows []factorRow, h keyHolder, got *webauthn.Credential) error {
	keys := slices.DeleteFunc(slices.Clone(rows), func(r factorRow) bool { return r.Kind != factorWebAuthn })
	row := keys[slices.IndexFunc(h.keys, func(k webauthn.Credential) bool { return bytes.Equal(k.ID, got.ID) })]
	now := i.now().UnixMicro()
	if got.Authenticator.CloneWarning && row.SuspectAt == 0 {
		i.log.Error("the signature count of a security key went backwards; it may have been copied, and is not accepted any more",
			slog.String("user", row.UserID), slog.String("factor", row.ID))
		if err := i.store.suspectKey(ctx, row.ID, now); err != nil {
			return err
		}
	}
	if got.Authenticator.CloneWarning || row.SuspectAt != 0 {
		return fault.New(fault.CodeClonedKey)
	}
	ok, err := i.store.takeCount(ctx, row.ID, int64(got.Authenticator.SignCount), flag(got.Flags.BackupState), now)
	if err == nil && !ok { // another replica has accepted a later one meanwhile, or it was removed
		err = refusedKey(errors.New("the key was used or removed meanwhile"))
	}
	return err
}

// Factors lists the person's own second factors, oldest first.
func (i *Identity) Factors(ctx context.Context, p Principal) ([]Factor, error) {
	rows, err := i.store.activeFactors(ctx, p.ID)
	out := make([]Factor, 0, len(rows))
	for _, r := range rows {
		f := Factor{ID: r.ID, Kind: r.Kind, Name: r.Name, Created: time.UnixMicro(r.ConfirmedAt).UTC(), LastUsed: at(r.UsedAt), BackedUp: r.BackedUp != 0, Suspect: at(r.SuspectAt)}
		if r.Kind == factorWebAuthn {
			f.SignCount = r.LastStep
		}
		out = append(out, f)
	}
	return out, err
}

// RemoveOneFactor removes one of the person's own second factors; the recovery codes go with the last. Errors: CodeNotFound; CodeDatabaseUnavailable.
func (i *Identity) RemoveOneFactor(ctx context.Context, p Principal, id string) error {
	defer i.reload(ctx)
	return i.store.removeOneFactor(ctx, p.ID, id)
}

// Suspect is a security key that is not accepted any more, since its count went backwards.
type Suspect struct {
	Factor, Tenant, User string // ids
	Since                time.Time
}

// Suspects lists them, of all tenants.
func (i *Identity) Suspects(ctx context.Context) ([]Suspect, error) { return i.store.suspects(ctx) }
