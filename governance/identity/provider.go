package identity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Provider is an OpenID provider whose people sign in here. What a person may do follows from his groups there, at every sign-in anew.
type Provider struct {
	Name   string `koanf:"name"`   // in addresses, in names of accounts and in the audit log
	Label  string `koanf:"label"`  // on the button of the sign-in page; the name
	Issuer string `koanf:"issuer"` // exactly as the provider writes it

	ClientID     string             `koanf:"client_id"`
	ClientSecret keyring.Credential `koanf:"client_secret"`
	// Scopes are asked for beside openid; none: profile.
	Scopes []string `koanf:"scopes"`
	// UserInfo reads claims that the ID token lacks from the userinfo endpoint.
	UserInfo bool `koanf:"userinfo"`

	Tenant      string       `koanf:"tenant"`       // that its people belong to
	NameClaim   string       `koanf:"name_claim"`   // what an account is called after; preferred_username
	GroupsClaim string       `koanf:"groups_claim"` // a claim, or a path such as realm_access.roles; groups
	Groups      []GroupGrant `koanf:"groups"`

	SecondFactor ProviderFactor `koanf:"second_factor"`

	// ClockSkew is how far the clock of the provider may differ; 30s, at most 5m.
	ClockSkew time.Duration `koanf:"clock_skew"`
	// SessionTTL is how long after he has proved at the provider who he is somebody has to do it again; 12h, at most 168h.
	SessionTTL time.Duration `koanf:"session_ttl"`
	// ConfirmedFor is how long after the last sign-in a person's own keys work: whoever has left the provider signs in no more; 720h.
	ConfirmedFor time.Duration `koanf:"confirmed_for"`
}

// GroupGrant is what the members of a group of the provider get here.
type GroupGrant struct {
	Group  string   `koanf:"group"`
	Roles  []string `koanf:"roles"`
	Labels []string `koanf:"labels"` // access labels for documents
}

// ProviderFactor says by which values of the claims amr and acr the provider tells that somebody has shown a second factor there.
type ProviderFactor struct {
	AMR []string `koanf:"amr"`
	ACR []string `koanf:"acr"` // they are asked for, too
	// Required refuses whoever has not shown one. Where identity.second_factor is administrators, administrators need it in any case.
	Required bool `koanf:"required"`
}

// MaxSubject is the most bytes of a person's name at his provider: OpenID Connect Core, section 2.
const MaxSubject = 255

const (
	maxSkew            = 5 * time.Minute
	maxProviderSession = 7 * 24 * time.Hour
	// providerFactor is the second factor of a sign-in that the provider has vouched for.
	providerFactor = "provider"
)

// federatedRoles are the roles that a provider may give. A platform administrator is nobody's to make from outside, a witness is a machine.
func federatedRoles() []string {
	return []string{RoleSystemAdmin, RoleSecurityAdmin, RoleAuditor, RoleCompliance, RoleDeveloper}
}

// WithDefaults fills the zero values.
func (p Provider) WithDefaults() Provider {
	p.Label = cmp.Or(p.Label, p.Name)
	p.NameClaim = cmp.Or(p.NameClaim, "preferred_username")
	p.GroupsClaim = cmp.Or(p.GroupsClaim, "groups")
	p.ClockSkew = cmp.Or(p.ClockSkew, 30*time.Second)
	p.SessionTTL = cmp.Or(p.SessionTTL, 12*time.Hour)
	p.ConfirmedFor = cmp.Or(p.ConfirmedFor, 30*24*time.Hour)
	if len(p.Scopes) == 0 {
		p.Scopes = []string{"profile"}
	}
	return p
}

func (p Provider) validate() []error {
	p = p.WithDefaults()
	var errs []error
	check := func(ok bool, key, message string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", key, message))
		}
	}
	check(checkID("name", p.Name) == nil, "name", "must be lower-case letters, digits, '-', '_' and '.'")
	check(CheckText("label", p.Label) == nil, "label", "must be one line of at most 128 characters")
	check(CheckEndpoint(p.Issuer) == nil, "issuer", "must be an https address without query; http is for this machine only")
	check(p.ClientID != "", "client_id", "is missing")
	check(!p.ClientSecret.Empty(), "client_secret", "is missing")
	check(checkID("tenant", p.Tenant) == nil, "tenant", "must be the id of a tenant")
	check(!slices.ContainsFunc(p.Scopes, func(s string) bool { return s == "" || strings.ContainsAny(s, " \"\\") }), "scopes", "must be scopes, one an entry")
	check(p.ClockSkew >= 0 && p.ClockSkew <= maxSkew, "clock_skew", fmt.Sprintf("must lie between 0 and %s", maxSkew))
	check(p.SessionTTL > 0 && p.SessionTTL <= maxProviderSession, "session_ttl", fmt.Sprintf("must be positive, and at most %s", maxProviderSession))
	check(p.ConfirmedFor >= p.SessionTTL, "confirmed_for", "must be at least session_ttl")
	check(!p.SecondFactor.Required || len(p.SecondFactor.AMR)+len(p.SecondFactor.ACR) > 0, "second_factor.required", "needs amr or acr: else nobody could sign in")
	for n, g := range p.Groups {
		at := fmt.Sprintf("groups[%d].", n)
		check(g.Group != "", at+"group", "is missing")
		check(len(g.Roles) > 0, at+"roles", "is missing")
		check(!slices.ContainsFunc(g.Roles, func(r string) bool { return !slices.Contains(federatedRoles(), r) }), at+"roles", "must be of "+strings.Join(federatedRoles(), ", "))
		check(checkList("labels", g.Labels) == nil, at+"labels", "must be lines of at most 128 characters")
	}
	return errs
}

// CheckEndpoint refuses the address of a provider that a secret or a person must not be sent to: all but https, and http on this machine.
func CheckEndpoint(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("no plain address")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return errors.New("neither https nor on this machine")
}

// validateProviders checks each provider, and that no two have a name or an issuer in common: an account is bound to its issuer.
func validateProviders(all []Provider) []error {
	var errs []error
	for n, p := range all {
		for _, err := range p.validate() {
			errs = append(errs, fmt.Errorf("oidc[%d].%w", n, err))
		}
		for _, other := range all[:n] {
			if p.Name == other.Name {
				errs = append(errs, fmt.Errorf("oidc[%d].name: is taken", n))
			}
			if p.Issuer == other.Issuer {
				errs = append(errs, fmt.Errorf("oidc[%d].issuer: is taken", n))
			}
		}
	}
	return errs
}

// Providers returns the OpenID providers that people sign in at, with their defaults.
func (i *Identity) Providers() []Provider { return slices.Clone(i.cfg.OIDC) }

func (i *Identity) providerOf(issuer string) (Provider, bool) {
	n := slices.IndexFunc(i.cfg.OIDC, func(p Provider) bool { return p.Issuer == issuer })
	if n < 0 {
		return Provider{}, false
	}
	return i.cfg.OIDC[n], true
}

// rights returns what the groups of a person give: nothing for groups that nobody has mapped. Errors: CodeNoRole, CodeConflictingRole.
func (p Provider) rights(groups []string) (roles, labels []string, err error) {
	add := func(to, more []string) []string {
		for _, s := range more {
			if !slices.Contains(to, s) {
				to = append(to, s)
			}
		}
		return to
	}
	for _, g := range p.Groups {
		if slices.Contains(groups, g.Group) {
			roles, labels = add(roles, g.Roles), add(labels, g.Labels)
		}
	}
	if len(roles) == 0 {
		return nil, nil, fault.New(fault.CodeNoRole)
	}
	slices.Sort(roles)
	slices.Sort(labels)
	if err := CheckRoles(roles); err != nil {
		return nil, nil, err
	}
	return roles, labels, nil
}

// factor returns which second factor the provider vouches for, "" for none.
func (f ProviderFactor) factor(amr []string, acr string) string {
	if acr != "" && slices.Contains(f.ACR, acr) || slices.ContainsFunc(amr, func(m string) bool { return slices.Contains(f.AMR, m) }) {
		return providerFactor
	}
	return ""
}

// accountName returns what the account of a new person is called, unless the name is taken: after the provider and the name there, so that it is no local
// account's.
func (p Provider) accountName(name, subject string) string {
	if name = canonicalName(name); CheckText("name", name) != nil || len(name) > 96 {
		name = p.SubjectDigest(subject)
	}
	return p.Name + ":" + name
}

// SubjectDigest returns what a person of the provider is known by in records where he has no account: the start of the SHA-256 of the issuer, a zero
// byte and the subject.
func (p Provider) SubjectDigest(subject string) string {
	sum := sha256.Sum256([]byte(p.Issuer + "\x00" + subject))
	return hex.EncodeToString(sum[:6])
}
