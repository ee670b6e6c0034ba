package identity

import (
	"context"
	"errors"

	"github.com/sluice-project/sluice/internal/fault"
)

// Acting names the caller in whose name the installation asks later what he has left it to ask, such as the lines of a batch.
type Acting struct {
	Kind, ID string   // of the principal
	Scopes   []string // what its token was narrowed to; of service accounts
	// Proof is what its credential was compared with: the digest of the secret of a key, the epoch of a service account, and of a person when the password
	// was set. It signs nobody in.
	Proof string
}

// ActingFor returns what a caller is found again by. p is of [Identity.Authenticate] or [Identity.Act].
func ActingFor(p Principal) Acting {
	a := Acting{Kind: p.Kind, ID: p.ID, Proof: p.proof}
	if p.Kind == "service" {
		a.Scopes = p.Scopes
	}
	return a
}

// Act returns the principal on the data plane in whose name something is asked, as it is now. source is where it was left to be asked from. What
// would refuse a request with the credential of the principal refuses this one, with the same errors as [Identity.Authenticate]: nobody keeps through
// it what he has lost since. A secret of a key acts until its overlap with the next one is over; what ends the tokens of a service account ends what
// it has left to be asked. A person acts with the rights that his account has now, whether he is signed in or not, and never as somebody who has shown a
// second factor; a new password ends what was left before it, as it ends sign-ins, and what he has to do before anything else he has to do before this. One
// who signs in at a provider acts for as long as his keys would work. It runs no SQL.
func (i *Identity) Act(_ context.Context, a Acting, source string) (Principal, error) {
	s, err := i.fresh()
	if err != nil {
		return Principal{}, err
	}
	switch a.Kind {
	case "key":
		entry, found := s.keyOf(a.Proof)
		if !found || entry.principal.ID != a.ID {
			return Principal{}, fault.New(fault.CodeInvalidKey)
		}
		entry, err := i.openKey(s, entry, source)
		return entry.principal, err
	case "service":
		return i.actService(s, a, source)
	case "user":
		return i.actPerson(s, a)
	}
	return Principal{}, fault.New(fault.CodeInvalidKey)
}

// keyOf returns the key whose secret has this digest.
func (s *accounts) keyOf(stored string) (keyEntry, bool) {
	d, err := parseDigest(stored)
	entry, found := s.keys[d]
	return entry, found && err == nil
}

func (i *Identity) actPerson(s *accounts, a Acting) (Principal, error) {
	user, found := s.users[a.ID]
	if !found || user.disabled || a.Proof == "" || user.proof() != a.Proof {
		return Principal{}, fault.Wrap(errors.New("account unknown, disabled, or with another password since"), fault.CodeInvalidSession)
	}
	if err := s.refusal(user.principal.Tenant, ""); err != nil {
		return user.principal, err
	}
	if err := i.confirmed(s, user); err != nil {
		return Principal{}, fault.Wrap(err, fault.CodeInvalidSession)
	}
	p := i.signedIn(s, user)
	switch {
	case p.MustChange:
		return p, fault.New(fault.CodeChangePassword)
	case p.MustEnrol:
		return p, fault.New(fault.CodeEnrolFactor)
	}
	return p, nil
}

func (i *Identity) actService(s *accounts, a Acting, source string) (Principal, error) {
	entry, found := s.services[a.ID]
	if !found || entry.principal.proof != a.Proof || planeOf(entry.principal.Roles) != DataPlane {
		return Principal{}, fault.Wrap(errors.New("account unknown or changed since"), fault.CodeInvalidToken)
	}
	now := i.now()
	err := s.refuses(entry, source, now)
	if fault.KindOf(err) == fault.Denied { // for the record
		return entry.principal, err
	}
	if err != nil {
		return Principal{}, fault.Wrap(err, fault.CodeInvalidToken)
	}
	p := entry.principal
	if len(a.Scopes) > 0 { // which the account still has: it has not changed
		p.Scopes = a.Scopes
	}
	i.used.note(p.ID, false, address(source), now.UnixMicro())
	return p, nil
}
