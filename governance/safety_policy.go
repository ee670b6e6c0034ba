package governance

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/safety"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	safetyOff     = "off"
	safetyNote    = "note"    // what rules would do is counted and recorded, and not done
	safetyEnforce = "enforce" // it is done

	hiddenRemove = "remove"
	hiddenRefuse = "refuse"
	hiddenNote   = "note"
)

// contentSafety is what a policy says of the safety of contents. nil stands for off.
type contentSafety struct {
	Mode      string            `json:"mode"`
	Libraries []string          `json:"libraries,omitempty"` // name, or name@version, which no other version will do for
	Actions   map[string]string `json:"actions,omitempty"`   // of risks, and of classes of them, in place of those of the rules
	Rules     []safety.Rule     `json:"rules,omitempty"`     // of the policy itself
	Hidden    string            `json:"hidden,omitempty"`
	Links     *safetyLinks      `json:"links,omitempty"`
	Canaries  string            `json:"canaries,omitempty"`
}

type safetyLinks struct {
	Hosts  []string `json:"hosts"`
	Action string   `json:"action"`
}

// readSafety reads a mode, or a mode with what is looked for.
func (p *policy) readSafety(n *yaml.Node, path string) error {
	s := contentSafety{Mode: safetyOff}
	mode := choice(&s.Mode, safetyOff, safetyNote, safetyEnforce)
	if n.Kind != yaml.MappingNode {
		if err := mode(n, path); err != nil {
			return err
		}
		if s.Mode != safetyOff { // of nothing
			return errorAt(n, path, fault.Say("governance.safety_mode"))
		}
		return nil
	}
	if err := object(n, path, []field{
		{"mode", true, mode},
		{"libraries", false, list(&s.Libraries)},
		{"actions", false, s.readActions},
		{"rules", false, s.readRules},
		{"hidden_characters", false, choice(&s.Hidden, hiddenRemove, hiddenRefuse, hiddenNote)},
		{"links", false, s.readLinks},
		{"canaries", false, choice(&s.Canaries, string(safety.Block), string(safety.Replace), string(safety.Note))},
	}); err != nil {
		return err
	}
	if s.Mode != safetyOff {
		p.Safety = &s
	}
	return nil
}

// safetyActions are what policies call the actions of rules; off leaves them out.
func safetyActions() []string {
	out := []string{safetyOff}
	for _, a := range safety.Actions() {
		out = append(out, string(a))
	}
	return out
}

func (s *contentSafety) readActions(n *yaml.Node, path string) error {
	known := []string{string(safety.RiskInjection)}
	for _, r := range safety.Risks() {
		for _, id := range []safety.Risk{r.ID.Group(), r.ID} {
			if !slices.Contains(known, string(id)) {
				known = append(known, string(id))
			}
		}
	}
	s.Actions = map[string]string{}
	fields := make([]field, len(known))
	for i, id := range known {
		fields[i] = field{id, false, func(n *yaml.Node, path string) error {
			var a string
			err := choice(&a, safetyActions()...)(n, path)
			s.Actions[id] = a
			return err
		}}
	}
	return object(n, path, fields)
}

func (s *contentSafety) readRules(n *yaml.Node, path string) error {
	if err := rejectAliases(n, path); err != nil {
		return err
	}
	if n.Kind != yaml.SequenceNode {
		return errorAt(n, path, fault.Say("value.list"))
	}
	var actions, known []string
	for _, a := range safety.Actions() {
		actions = append(actions, string(a))
	}
	for _, r := range safety.Risks() {
		known = append(known, string(r.ID))
	}
	known = append(known, string(safety.RiskInjection))
	seen, letters := map[string]bool{}, 0
	for i, item := range n.Content {
		r, path := safety.Rule{}, path+"["+strconv.Itoa(i)+"]"
		err := object(item, path, []field{
			{"id", true, text(&r.ID)},
			{"risk", true, choice((*string)(&r.Risk), known...)},
			{"level", true, number(&r.Level, 1, 5)},
			{"action", true, choice((*string)(&r.Action), actions...)},
			{"scope", true, choice((*string)(&r.Scope), string(safety.Input), string(safety.Output), string(safety.Both))},
			{"words", true, words(&r.Words)},
			{"except", false, words(&r.Except)},
			{"spread", false, number(&r.Spread, 0, safety.MaxGap)},
			{"from", false, text(&r.From)},
			{"until", false, text(&r.Until)},
		})
		if err != nil {
			return err
		}
		if letters += r.Size(); letters > safety.MaxPolicyLetters { // before they are spelt out
			return errorAt(item, path, fault.Say("governance.safety_size", safety.MaxPolicyLetters))
		}
		if err := r.Validate(); err != nil || seen[r.ID] {
			return errorAt(item, path, fault.Say("governance.safety_rule", safety.MaxWord))
		}
		seen[r.ID] = true
		s.Rules = append(s.Rules, r)
	}
	return nil
}

func (s *contentSafety) readLinks(n *yaml.Node, path string) error {
	l := safetyLinks{Action: string(safety.Replace)}
	err := object(n, path, []field{
		{"hosts", true, list(&l.Hosts)},
		{"action", false, choice(&l.Action, string(safety.Block), string(safety.Replace), string(safety.Note))},
	})
	if err != nil {
		return err
	}
	for i, h := range l.Hosts {
		if safety.CheckHost(h) != nil {
			return errorAt(fieldNode(n, "hosts").Content[i], path+".hosts["+strconv.Itoa(i)+"]", fault.Say("governance.safety_host"))
		}
	}
	s.Links = &l
	return nil
}

// action returns what a rule does under the policy; "" leaves it out.
func (s *contentSafety) action(r *safety.Rule) safety.Action {
	a := r.Action
	for _, id := range []safety.Risk{r.Risk.Group(), r.Risk} { // the narrower one last
		if given, ok := s.Actions[string(id)]; ok {
			a = safety.Action(given)
		}
	}
	if a == safetyOff {
		return ""
	}
	return s.effective(a)
}

// hiddenAction is what happens to a text with hidden characters.
func (s *contentSafety) hiddenAction() safety.Action {
	switch s.Hidden {
	case hiddenRefuse:
		return s.effective(safety.Block)
	case hiddenNote:
		return safety.Note
	default:
		return s.effective(safety.Replace)
	}
}

// effective is what becomes of an action in the mode of the policy.
func (s *contentSafety) effective(a safety.Action) safety.Action {
	if s.Mode == safetyEnforce || a == "" {
		return a
	}
	return safety.Note
}

// libraryName splits a name as policies write it; version is "" where any will do.
func libraryName(s string) (name, version string) {
	name, version, _ = strings.Cut(s, "@")
	return name, version
}
