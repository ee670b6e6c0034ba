package identity

import (
	"cmp"
	"errors"

	"github.com/sluice-project/sluice/internal/fault"
)

// Account is a person, key or service account as it would call now.
type Account struct {
	Principal Principal
	Networks  []string // that a key or service account may call from; empty: anywhere
	// Refusal is what would refuse its credential, wherever it calls from: nil, or an error of [Identity.Authenticate] or [Identity.Login]; or what a person
	// has to do before anything else, CodeChangePassword or CodeEnrolFactor.
	Refusal error
}

// Account returns who calls with the id of a person, key or service account at a door, for whoever asks what that caller may do: nobody is signed in, and no
// use is noted. Of a tenant's key at the management API it has the roles that whoever made the key has there. It runs no SQL. Errors: CodeNotFound;
// CodeIdentityUnavailable.
func (i *Identity) Account(id string, plane Plane) (Account, error) {
	s, err := i.fresh()
	if err != nil {
		return Account{}, err
	}
	if u, found := s.users[id]; found {
		p := i.signedIn(s, u)
		p.Factor = u.confirmedWith // at the provider of whoever has one
		return Account{Principal: p, Refusal: i.refusesPerson(s, u)}, nil
	}
	if e, found := s.services[id]; found {
		networks := texts(e.networks)
		e.networks = nil // who asks is elsewhere
		err := s.refuses(e, "", i.now())
		if plane != planeOf(e.principal.Roles) {
			err = fault.Wrap(errors.New("a token for the other plane"), fault.CodeInvalidToken)
		} else if err != nil && fault.KindOf(err) != fault.Denied {
			err = fault.Wrap(err, fault.CodeInvalidToken)
		}
		return Account{Principal: e.principal, Networks: networks, Refusal: err}, nil
	}
	for _, e := range s.keys {
		if e.principal.ID != id || e.former {
			continue
		}
		a := Account{Principal: e.principal, Networks: texts(e.networks), Refusal: i.refusesKey(s, e)}
		if plane == AdminPlane {
			p, err := i.reader(s, e)
			a.Principal, a.Refusal = p, cmp.Or(a.Refusal, err)
		}
		return a, nil
	}
	return Account{}, fault.New(fault.CodeNotFound, fault.Say("thing.user"), id)
}

// refusesPerson returns what refuses a person who shows the second factor that he has.
func (i *Identity) refusesPerson(s *accounts, u userEntry) error {
	if u.disabled {
		return fault.Wrap(errors.New("account disabled"), fault.CodeInvalidSession)
	}
	if err := s.refusal(u.principal.Tenant, ""); err != nil {
		return err
	}
	switch p := i.signedIn(s, u); {
	case p.MustChange:
		return fault.New(fault.CodeChangePassword)
	case p.MustEnrol:
		return fault.New(fault.CodeEnrolFactor)
	}
	if err := i.mayFederated(s, u, "shown"); err != nil {
		return fault.Wrap(err, fault.CodeInvalidSession)
	}
	return nil
}
