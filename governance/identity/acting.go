package identity

import (
	"context"
	"errors"

	"github.com/sluice-project/sluice/internal/fault"
)

// Acting names the caller in whose name the installation asks later what he has left it to ask, such as the lines of a batch.
type Acting struct {
	Kind, ID string   // of the principal
	Scopes   []string // what its token was narrowed to, beside what the account is narrowed to now; of service accounts
}

// ActingFor returns what a caller is found again by.
func ActingFor(p Principal) Acting {
	a := Acting{Kind: p.Kind, ID: p.ID}
	if p.Kind == "service" {
		a.Scopes = p.Scopes
	}
	return a
}

// Act returns the principal on the data plane in whose name something is asked, as it is now. source is where it was left to be asked from. What
// would refuse a request with the credential of the principal refuses this one, with the same errors as [Identity.Authenticate]: nobody keeps through
// it what he has lost since. It runs no SQL.
func (i *Identity) Act(_ context.Context, a Acting, source string) (Principal, error) {
	s, err := i.fresh()
	if err != nil {
		return Principal{}, err
	}
	switch a.Kind {
	case "key":
		entry, found := s.keyIDs[a.ID]
		if !found {
			return Principal{}, fault.New(fault.CodeInvalidKey)
		}
		entry, err := i.openKey(s, entry, source)
		return entry.principal, err
	case "service":
		return i.actService(s, a, source)
	}
	return Principal{}, fault.New(fault.CodeInvalidKey)
}

func (i *Identity) actService(s *accounts, a Acting, source string) (Principal, error) {
	entry, found := s.services[a.ID]
	if !found || planeOf(entry.principal.Roles) != DataPlane {
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
	if p.Scopes, found = intersection(p.Scopes, a.Scopes); !found {
		return p, fault.New(fault.CodeKeyScope)
	}
	i.used.note(p.ID, false, address(source), now.UnixMicro())
	return p, nil
}

// intersection returns what two lists of scopes both open; an empty list opens everything. ok is false if that is nothing.
func intersection(a, b []string) (both []string, ok bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	for _, x := range a {
		for _, y := range b {
			if x == y {
				both = append(both, x)
			}
		}
	}
	return both, len(both) > 0
}
