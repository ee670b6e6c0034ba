package identity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
)

const (
	dataAudience    = "sluice-data"
	accessTokenType = "at+jwt" // RFC 9068
	maxTextID       = 128      // bytes of a client id
)

// TokenRequest is how a program asks for a token (RFC 6749, section 4.4).
type TokenRequest struct {
	Client, Secret string   // Client may be "" beside an assertion, which names it
	Assertion      string   // in place of a secret
	Scope          string   // separated by spaces; "": all that the account may
	Planes         []Plane  // that the endpoint gives tokens for
	Audiences      []string // that an assertion may be addressed to
	Source         string   // where the caller is
}

// ServiceToken opens one plane until ExpiresIn is over.
type ServiceToken struct {
	Access, Scope string
	ExpiresIn     time.Duration
	Principal     Principal
}

// serviceClaims are those of an access token (RFC 9068).
type serviceClaims struct {
	jwt.RegisteredClaims

	Client string `json:"client_id"`
	Scope  string `json:"scope,omitempty"`
	Epoch  int64  `json:"ep"`
}

// client returns who asks, as far as he says.
func (r TokenRequest) client() string {
	if r.Client == "" && r.Assertion != "" {
		return assertedClient(r.Assertion)
	}
	return r.Client
}

// attemptName is what guesses at a client are counted under: people have other names.
func (r TokenRequest) attemptName() string {
	return "\x00service/" + r.client()[:min(len(r.client()), maxTextID)]
}

// TokenWait returns how long IssueToken would make somebody wait, without counting an attempt.
func (i *Identity) TokenWait(r TokenRequest) time.Duration {
	return i.throttle.wait(r.attemptName(), network(r.Source), i.now())
}

// ClaimedClient returns the account that a request for a token is about, for the audit record. What is no account's id is not repeated: the
// principal then has no id, and the tenant is the operator's.
func (i *Identity) ClaimedClient(r TokenRequest) Principal {
	s, loaded := i.accounts.Last()
	if !loaded {
		return Principal{Kind: "service"}
	}
	if e, ok := s.services[r.client()]; ok {
		return e.principal
	}
	return Principal{Kind: "service", Tenant: s.operator}
}

// IssueToken gives a program a token for the plane that its roles are for, once it has proved who it is. Guesses are counted and slowed as those
// at passwords are. Errors: CodeInvalidClient, the same for an unknown, disabled, expired and suspended account, a wrong credential, an assertion
// that was shown before, another network and a plane that the endpoint is not for; CodeInvalidValue of the scope; CodeLoginThrottled with a wait;
// CodeIdentityUnavailable; CodeDatabaseUnavailable.
func (i *Identity) IssueToken(ctx context.Context, r TokenRequest) (ServiceToken, error) {
	s, err := i.fresh()
	if err != nil {
		return ServiceToken{}, err
	}
	now := i.now()
	attempt, wait := i.throttle.begin(r.attemptName(), network(r.Source), now)
	if wait > 0 {
		return ServiceToken{}, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait)
	}
	entry, found := s.services[r.client()]
	shown, err := i.proved(entry, r)
	if err != nil || !found {
		return ServiceToken{}, fault.Wrap(err, fault.CodeInvalidClient)
	}
	attempt.succeeded(now)
	if err := i.mayEnter(s, entry, r, now); err != nil {
		return ServiceToken{}, fault.Wrap(err, fault.CodeInvalidClient)
	}
	scopes, err := narrowed(entry.principal, r.Scope)
	if err != nil {
		return ServiceToken{}, err
	}
	if r.Assertion != "" {
		fresh, err := i.store.spendAssertion(ctx, i.assertionRow(entry.principal.ID, shown), now.UnixMicro())
		if err != nil {
			return ServiceToken{}, err
		}
		if !fresh {
			return ServiceToken{}, fault.Wrap(errors.New("an assertion was shown before"), fault.CodeInvalidClient)
		}
	}
	return i.signService(entry, scopes, now)
}

// proved checks the credential of a request.
func (i *Identity) proved(entry serviceEntry, r TokenRequest) (assertion, error) {
	if r.Assertion != "" {
		return checkAssertion(r.Assertion, entry.principal.ID, entry.keys, r.Audiences, i.now)
	}
	// The digest is computed for unknown accounts and malformed secrets, too: all refusals take the same work.
	if digest := i.serviceDigest(r.Secret[:min(len(r.Secret), maxCredential)]); !entry.secretIs(digest, i.now().UnixMicro()) {
		return assertion{}, errors.New("wrong secret")
	}
	return assertion{}, nil
}

// mayEnter says why an account that has proved who it is gets no token.
func (i *Identity) mayEnter(s *accounts, entry serviceEntry, r TokenRequest, now time.Time) error {
	if err := s.refuses(entry, r.Source, now); err != nil {
		return err
	}
	if !slices.Contains(r.Planes, planeOf(entry.principal.Roles)) {
		return errors.New("for another plane")
	}
	return nil
}

// refuses says why a service account may do nothing now. The principal of a suspended tenant is known: see authenticateService.
func (s *accounts) refuses(entry serviceEntry, source string, now time.Time) error {
	if err := s.refusal(entry.principal.Tenant, entry.principal.Project); err != nil { // before the owner, who is suspended with it
		return err
	}
	switch {
	case entry.disabled || entry.suspended || now.UnixMicro() >= entry.expires:
		return errors.New("account disabled, suspended or expired")
	case !within(entry.networks, address(source)):
		return fault.New(fault.CodeKeyNetwork)
	}
	return nil
}

// planeOf returns the plane that roles are for: applications, which hold no other role, call the data plane.
func planeOf(roles []string) Plane {
	if slices.Contains(roles, RoleApplication) {
		return DataPlane
	}
	return AdminPlane
}

func audienceOf(p Plane) string {
	if p == DataPlane {
		return dataAudience
	}
	return adminAudience
}

// narrowed returns the scopes of a token: those that were asked for, of those that the account has.
func narrowed(p Principal, scope string) ([]string, error) {
	asked := strings.Fields(scope)
	if len(asked) == 0 {
		return p.Scopes, nil
	}
	can := p.Scopes
	if len(can) == 0 {
		can = serviceScopes(p.Roles)
	}
	for n, s := range asked {
		if !slices.Contains(can, s) || slices.Contains(asked[:n], s) {
			return nil, invalid("scope", fault.Say("value.one_of", strings.Join(can, ", ")))
		}
	}
	return asked, nil
}

func (i *Identity) signService(entry serviceEntry, scopes []string, now time.Time) (ServiceToken, error) {
	p := entry.principal
	p.Scopes = scopes
	expires := now.Add(i.cfg.AccessTTL)
	if last := time.UnixMicro(entry.expires); expires.After(last) {
		expires = last
	}
	key := i.sessions.current(now)
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, serviceClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.cfg.Issuer, Audience: jwt.ClaimStrings{audienceOf(planeOf(p.Roles))}, Subject: p.ID,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires), ID: uuid.NewString(),
		},
		Client: p.ID, Scope: strings.Join(scopes, " "), Epoch: entry.epoch,
	})
	token.Header["kid"], token.Header["typ"] = key.id, accessTokenType
	access, err := token.SignedString(key.private)
	if err != nil {
		return ServiceToken{}, fmt.Errorf("sign access token: %w", err)
	}
	return ServiceToken{Access: access, Scope: strings.Join(scopes, " "), ExpiresIn: expires.Sub(now), Principal: p}, nil
}

// isAccessToken reports whether a credential says of itself that it is an access token. It may say so wrongly, and is refused then.
func isAccessToken(credential string) bool {
	head, _, ok := strings.Cut(credential, ".")
	if !ok || len(credential) > maxCredential || !strings.HasPrefix(head, "ey") {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(head)
	var h struct {
		Type string `json:"typ"`
	}
	return err == nil && json.Unmarshal(text, &h) == nil && strings.EqualFold(h.Type, accessTokenType)
}

// authenticateService returns the service account of a token for a plane. A token tells who it is of and what it was narrowed to; everything else
// is what the account has now.
func (i *Identity) authenticateService(s *accounts, plane Plane, token, source string) (Principal, error) {
	refuse := func(cause error) (Principal, error) { return Principal{}, fault.Wrap(cause, fault.CodeInvalidToken) }
	var c serviceClaims
	_, err := jwt.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		key, known := i.sessions.public(id, i.now())
		if !known || t.Header["typ"] != accessTokenType {
			return nil, jwt.ErrTokenSignatureInvalid
		}
		return key, nil
	},
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(i.cfg.Issuer), jwt.WithAudience(audienceOf(plane)),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(2*time.Second), jwt.WithTimeFunc(i.now), jwt.WithStrictDecoding())
	if err != nil {
		return refuse(sessionCause(err)) // the library's text may quote parts of the token: only its class is kept
	}
	if c.ID == "" || c.IssuedAt == nil || c.ExpiresAt.Sub(c.IssuedAt.Time) > maxAccessTTL || c.Client != c.Subject {
		return refuse(errors.New("token lacks an id, lives too long or is of two"))
	}
	entry, ok := s.services[c.Subject]
	if !ok || entry.epoch != c.Epoch || planeOf(entry.principal.Roles) != plane {
		return refuse(errors.New("account unknown or changed since"))
	}
	now := i.now()
	err = s.refuses(entry, source, now)
	if fault.KindOf(err) == fault.Denied { // for the record
		return entry.principal, err
	}
	if err != nil {
		return refuse(err)
	}
	p := entry.principal
	if asked := strings.Fields(c.Scope); len(asked) > 0 {
		p.Scopes = asked
	}
	i.used.note(p.ID, false, address(source), now.UnixMicro())
	return p, nil
}
