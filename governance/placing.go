package governance

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
	"github.com/sluice-project/sluice/internal/fault"
)

// DataGrade says how sensitive the data of a request is, from 1 to 4, which people write as L1 to L4; 0 is not graded.
type DataGrade uint8

const maxDataGrade DataGrade = 4

// String returns L1 to L4; "" of data that is not graded.
func (g DataGrade) String() string {
	if g == 0 {
		return ""
	}
	return "L" + strconv.Itoa(int(g))
}

// ParseDataGrade reads L1 to L4. ok is false for everything else.
func ParseDataGrade(s string) (g DataGrade, ok bool) {
	i := slices.Index(dataGrades(), s)
	return DataGrade(i + 1), i >= 0
}

// DataGradeHeader is the header in which callers state the grade of their data.
const DataGradeHeader = "X-Sluice-Data-Grade"

// StatedDataGrade returns the highest of the grades that the headers of a request state, also where a proxy has added one; 0 where none does. What it does
// not know it refuses: the caller means something by it. Error: CodeInvalidValue.
func StatedDataGrade(headers []string) (highest DataGrade, err error) {
	for _, s := range headers {
		g, ok := ParseDataGrade(s)
		if !ok && s != "" {
			return 0, fault.New(fault.CodeInvalidValue, DataGradeHeader, fault.Say("value.data_grade")).WithParam(DataGradeHeader)
		}
		highest = max(highest, g)
	}
	return highest, nil
}

func dataGrades() []string { return []string{"L1", "L2", "L3", "L4"} }

// Places are those where engines run: on a device, at the edge, in a centre of one's own, and in a cloud, which is anywhere outside.
func Places() []string { return []string{"device", "edge", "centre", "cloud"} }

// Placing says where the texts of a request may go at one moment. The zero value lets them go nowhere.
type Placing struct {
	Grade DataGrade

	anywhere bool
	places   [4]bool // in the order of Places
}

// Anywhere places no bound.
func Anywhere() Placing { return Placing{anywhere: true} }

// PlacingAt returns that of data of a grade that may go to these of [Places].
func PlacingAt(g DataGrade, places ...string) Placing {
	out := Placing{Grade: g}
	for i, place := range Places() {
		out.places[i] = slices.Contains(places, place)
	}
	return out
}

// Allows reports whether the texts may go to an engine at a place. Where anything is ruled, a place that is none of [Places] is nowhere.
func (p Placing) Allows(place string) bool {
	if p.anywhere {
		return true
	}
	i := slices.Index(Places(), place)
	return i >= 0 && p.places[i]
}

// Allowed returns the places, in their order.
func (p Placing) Allowed() []string {
	return slices.DeleteFunc(Places(), func(place string) bool { return !p.Allows(place) })
}

// dataRules are what a policy says of the grade of its traffic, and of where each grade may go. All is as it was when the policy was published.
type dataRules struct {
	Grade  DataGrade            `json:"grade"`
	Raise  map[string]DataGrade `json:"raise,omitempty"`  // by the grade of a class that was found, 1 to 5
	Masked string               `json:"masked,omitempty"` // maskedSpared: what is hidden whole from engines raises nothing
	Places map[string][]string  `json:"places"`           // by grade
}

const (
	maskedCounts = "counts"
	maskedSpared = "spared"
)

// readData reads the rules. Each grade has its places, and a higher one has no place that a lower one has not: else data could go further by being raised.
func (p *policy) readData(n *yaml.Node, path string) error {
	d := dataRules{Raise: map[string]DataGrade{}, Places: map[string][]string{}}
	grade := func(to *DataGrade) func(*yaml.Node, string) error {
		return func(n *yaml.Node, path string) error {
			var s string
			err := choice(&s, dataGrades()...)(n, path)
			*to, _ = ParseDataGrade(s)
			return err
		}
	}
	var raise, places []field
	for g := 1; g <= maxGrade; g++ {
		name := strconv.Itoa(g)
		raise = append(raise, field{name, false, func(n *yaml.Node, path string) error {
			var to DataGrade
			err := grade(&to)(n, path)
			d.Raise[name] = to
			return err
		}})
	}
	for _, name := range dataGrades() {
		places = append(places, field{name, true, func(n *yaml.Node, path string) error {
			to := []string{}
			err := list(&to)(n, path)
			for i, place := range to {
				if err == nil && !slices.Contains(Places(), place) {
					err = errorAt(n.Content[i], path+"["+strconv.Itoa(i)+"]", fault.Say("value.one_of", strings.Join(Places(), ", ")))
				}
			}
			d.Places[name] = to
			return err
		}})
	}
	err := object(n, path, []field{
		{"grade", true, grade(&d.Grade)},
		{"raise", false, func(n *yaml.Node, path string) error { return object(n, path, raise) }},
		{"masked", false, choice(&d.Masked, maskedCounts, maskedSpared)},
		{"places", true, func(n *yaml.Node, path string) error { return object(n, path, places) }},
	})
	if err != nil {
		return err
	}
	for g := DataGrade(2); g <= maxDataGrade; g++ {
		for _, place := range d.Places[g.String()] {
			if !slices.Contains(d.Places[(g-1).String()], place) {
				return errorAt(fieldNode(n, "places"), path+".places."+g.String(), fault.Say("governance.places_wider", g.String(), place, (g-1).String()))
			}
		}
	}
	p.Data = &d
	return nil
}

// lookedFor is the action for a class where its values are looked for in texts of a direction. One that is allowed is observed in what engines are given, if it
// raises the grade: else what a policy hides from engines would bind a request, and what it gives them would not. Optional classes that it names nowhere raise
// nothing.
func (p *policy) lookedFor(channel string, c classify.Class, d Direction) mask.Action {
	a := p.action(channel, c, d)
	if a != mask.ActionAllow || d == DirectionAnswer || p.Data == nil || p.raisedBy(c, a) <= p.Data.Grade {
		return a
	}
	if t, _ := classify.TypeOf(c); t.Optional {
		_, treated := p.Entities[string(c)]
		_, here := p.Channels[channel][string(c)]
		_, graded := p.Grades[string(c)]
		if !treated && !here && !graded {
			return a
		}
	}
	return mask.ActionObserve
}

// raisedBy returns the grade to which a value of a class raises a request; 0 where it raises nothing.
func (p *policy) raisedBy(c classify.Class, a mask.Action) DataGrade {
	d := p.Data
	if d == nil || d.Masked == maskedSpared && !a.Leaves() && a != mask.ActionPartial {
		return 0
	}
	to := DataGrade(0)
	for g := 1; g <= p.grade(c); g++ {
		to = max(to, d.Raise[strconv.Itoa(g)])
	}
	return to
}

// placing returns where data of a grade may go. A policy that has no rules lets a request go anywhere that states no grade, and one that states L3 or L4
// anywhere but outside. A grade that nobody knows goes nowhere.
func (p *policy) placing(g DataGrade) Placing {
	switch {
	case p.Data == nil && g == 0:
		return Anywhere()
	case g < 1 || g > maxDataGrade:
		return PlacingAt(g)
	case p.Data != nil:
		return PlacingAt(g, p.Data.Places[g.String()]...)
	case g <= 2:
		return PlacingAt(g, Places()...)
	default:
		return PlacingAt(g, "device", "edge", "centre")
	}
}

// placings are where data may go, by its grade: every choice of an instance asks for it.
type placings [maxDataGrade + 1]Placing

func (p *policy) placings() (all placings) {
	for g := range all {
		all[g] = p.placing(DataGrade(g))
	}
	return all
}

// at returns where data of a grade may go. One that nobody knows goes nowhere.
func (all *placings) at(g DataGrade) Placing {
	if g > maxDataGrade {
		return Placing{Grade: g}
	}
	return all[g]
}

// grade is that of the data as it is known now: the policy's, what the request states, and what was found in texts for engines. It only rises. The caller
// holds mu, or nobody else has the admission.
func (a *Admission) grade() DataGrade {
	g := max(a.asked, a.raised)
	if d := a.active.policy.Data; d != nil {
		g = max(g, d.Grade)
	}
	return g
}

// raise raises the grade for a value that was found in a text for an engine.
func (a *Admission) raise(s mask.Span) {
	if a.active.policy.Data == nil {
		return
	}
	to := a.active.policy.raisedBy(s.Class, s.Action)
	for _, c := range s.Also {
		to = max(to, a.active.policy.raisedBy(c, s.Action))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raised = max(a.raised, to)
}

// Placing returns where the texts may go, by all that was found until now. It only becomes narrower.
func (a *Admission) Placing() Placing {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active.placings.at(a.grade())
}

// PlacingOf returns where data of a grade may go by the policy in force for a tenant, or for a project of it; the policy's own grade holds if it is higher. Error:
// CodePolicyUnavailable.
func (g *Guard) PlacingOf(tenant, project string, grade DataGrade) (Placing, error) {
	active, err := g.policy(tenant, project)
	if err != nil {
		return Placing{}, err
	}
	return active.placings.at((&Admission{active: active, asked: grade}).grade()), nil
}
