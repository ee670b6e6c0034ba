package classify

import (
	"github.com/sluice-project/sluice/governance/classify/address"
	"github.com/sluice-project/sluice/governance/classify/company"
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/number"
	"github.com/sluice-project/sluice/governance/classify/online"
	"github.com/sluice-project/sluice/governance/classify/person"
	"github.com/sluice-project/sluice/governance/classify/secret"
)

// detector finds values of some kinds: it gives its candidates at place i, each with the evidence for it and a verdict, to the decision on that place.
type detector interface {
	Detect(d *finding.Decision, i int)
}

// step is a detector that is asked where something of its kinds may begin.
type step struct {
	triggers finding.Triggers
	detector
}

// detectors are those of all kinds, with what they remember of the text.
type detectors struct {
	numbers   number.Detector
	hosts     online.Hosts
	accounts  online.Accounts
	people    person.Detector
	companies company.Detector
	addresses address.Detector
	secrets   secret.Detector

	prefilter *triggerTable // set when first asked for

	ascii [6]step // in the order in which they are asked where a character of ASCII stands
	han   [5]step // a Chinese one
	signs [1]step // another one
}

// reset makes the detectors forget a text.
func (s *detectors) reset() {
	s.accounts, s.numbers, s.hosts = online.Accounts{}, number.New(&s.accounts), online.Hosts{}
	s.people, s.companies, s.addresses, s.secrets = person.Detector{}, company.Detector{}, address.Detector{}, secret.Detector{}
}

// show shows the detectors what has arrived of the text.
func (s *detectors) show(w finding.Window) {
	s.numbers.Window, s.hosts.Window, s.accounts.Window, s.people.Window, s.companies.Window, s.addresses.Window, s.secrets.Window = w, w, w, w, w, w, w
}

// link puts the detectors into the order in which they are asked.
func (s *detectors) link() {
	codes, names, addresses := step{finding.TriggerCode, &s.numbers}, step{finding.TriggerName, &s.people}, step{finding.TriggerAddress, &s.addresses}
	s.ascii = [...]step{codes, {finding.TriggerIPv4 | finding.TriggerIPv6, &s.hosts}, addresses, {finding.TriggerEmail | finding.TriggerCrypto | finding.TriggerWeChat, &s.accounts}, names, {finding.TriggerKey | finding.TriggerSecret | finding.TriggerLogin, &s.secrets}}
	s.han = [...]step{names, {finding.TriggerCompany, &s.companies}, codes, addresses, {finding.TriggerSecret, &s.secrets}}
	s.signs = [...]step{codes}
}

// triggers returns the table of what characters begin.
func (s *detectors) triggers() *triggerTable {
	if s.prefilter == nil {
		s.prefilter = triggerTables()
	}
	return s.prefilter
}
