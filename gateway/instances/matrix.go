package instances

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/pool"
)

// Usable says whether the router would send a request that needs a feature to an instance, as far as that feature decides.
type Usable string

// The answers.
const (
	UsableYes     Usable = "yes"
	UsableDepends Usable = "depends" // on what the request is or what the instance has to do: its condition says on what
	UsableNo      Usable = "no"
)

// StatusListed is the status of a feature of which nothing is known but that the engine lists it. StatusMissing is that of one that nobody claims.
const (
	StatusListed  capability.Status = "listed"
	StatusMissing capability.Status = "missing"
)

// WhyListing is the reason where a contract has a feature and the engine's list of models does not.
const WhyListing capability.Why = "listing"

// MatrixRow is what is known of a model of an instance.
type MatrixRow struct {
	Pool, Instance string
	Kind           pool.Kind
	Profile        string
	State          pool.State
	Model          engine.ModelID // as the instance lists it
	EngineModel    string         // as the engine knows it
	Contract       bool           // false: nothing is known but what the engine lists

	Engine, Version, Licence   string // "" is not known
	Vendor, Family, Generation string // of the device
	Roles                      []capability.Role
	ContextTokens              int // prompt and completion; 0: not known
	Demanded                   []capability.Feature
	Modes                      []MatrixMode
	Cells                      []MatrixCell // one for each feature, in the order of capability.Features
}

// MatrixMode is a form of execution with what is known of it.
type MatrixMode struct {
	Mode capability.Mode
	capability.Cell
}

// MatrixCell is a feature with what is known of it. Its status is what its grade bears out.
type MatrixCell struct {
	Feature capability.Feature
	capability.Cell

	Usable Usable
	Why    capability.Why // "" where it may be used
}

// Matrix returns what each instance of every pool can do, by pool, instance and model, as it is for this replica. It asks nobody.
func (r *Registry) Matrix() []MatrixRow {
	var out []MatrixRow
	for _, name := range r.deps.Pools.Names() {
		for _, i := range r.deps.Pools.Instances(name) {
			s := i.Status()
			for n := range s.Models {
				row := MatrixRow{Pool: name, Instance: i.Name, Kind: i.Kind, Profile: i.Profile, State: s.State, Model: s.Models[n].ID}
				row.listed(&s.Models[n])
				if known := i.Capabilities(row.Model); known != nil {
					row.known(known, &s.Models[n])
				}
				out = append(out, row)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b MatrixRow) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Model, b.Model))
	})
	return out
}

// listed fills in what the engine lists, which is all that the router goes by where there is no contract.
func (row *MatrixRow) listed(m *engine.Model) {
	row.EngineModel, row.Version, row.ContextTokens = string(m.ID), m.EngineVersion, m.ContextTokens
	for _, f := range capability.Features() {
		cell := MatrixCell{Feature: f, Cell: capability.Cell{Status: StatusMissing}, Usable: UsableNo, Why: capability.WhyMissing}
		if has, _ := lists(m, f); has {
			cell.Status, cell.Owner, cell.Usable, cell.Why = StatusListed, capability.OwnerEngine, UsableYes, ""
		}
		row.Cells = append(row.Cells, cell)
	}
}

// known fills in what a contract says. What the engine's list denies stays denied: the router asks both.
func (row *MatrixRow) known(v *capability.Verdicts, m *engine.Model) {
	c := v.Contract()
	row.Contract, row.EngineModel = true, v.Model()
	row.Engine, row.Version, row.Licence = c.Engine.Name.Value, cmp.Or(c.Engine.Version.Value, row.Version), c.Engine.Licence.Value
	row.Vendor, row.Family, row.Generation = c.Hardware.Vendor.Value, c.Hardware.Family.Value, c.Hardware.Generation.Value
	row.Roles, row.Demanded = c.Roles.Value, v.Demanded()
	if most, ok := v.MaxTokens(); ok && (row.ContextTokens == 0 || most < row.ContextTokens) {
		row.ContextTokens = most
	}
	for _, mode := range slices.Sorted(maps.Keys(c.Exec.Modes)) {
		row.Modes = append(row.Modes, MatrixMode{mode, shown(c, c.Exec.Modes[mode])})
	}
	state := v.State()
	for i := range row.Cells {
		cell := &row.Cells[i]
		at, ok := v.Cell(cell.Feature)
		if !ok {
			*cell = MatrixCell{Feature: cell.Feature, Cell: capability.Cell{Status: StatusMissing}, Usable: UsableNo, Why: capability.WhyMissing}
			continue
		}
		cell.Usable, cell.Why = usable(at, state)
		if has, told := lists(m, cell.Feature); told && !has && cell.Usable != UsableNo {
			cell.Usable, cell.Why = UsableNo, WhyListing
		}
		cell.Cell = shown(c, at)
	}
}

// shown returns a cell as people see it: with the status that its grade bears out, and with the evidence that the contract says for all.
func shown(c *capability.Contract, cell capability.Cell) capability.Cell {
	cell.Status = cell.Proven()
	cell.Owner, cell.Source = cmp.Or(cell.Owner, c.Defaults.Owner), cmp.Or(cell.Source, c.Defaults.Source)
	return cell
}

// usable returns what the router decides of a cell while nothing is known of the request. More facts never turn what holds or fails already.
func usable(cell capability.Cell, s capability.State) (Usable, capability.Why) {
	why, ok := cell.Holds(capability.E1, s)
	switch {
	case ok:
		return UsableYes, ""
	case why == capability.WhyUnknown && slices.ContainsFunc(cell.When.Names(), ofRequests):
		return UsableDepends, why
	}
	return UsableNo, why
}

// ofRequests reports whether a fact is known once there is a request. What else is not known now will not be then.
func ofRequests(name string) bool {
	return slices.Contains([]string{"batch", "prompt_tokens", "output_tokens", "total_tokens", "images"}, name)
}

// lists reports whether an engine lists a feature of a model; told is false where no member of its list speaks of the feature, and has then says
// whether the router sends such requests to a model of which nothing else is known.
func lists(m *engine.Model, f capability.Feature) (has, told bool) {
	switch f {
	case capability.Chat:
		return m.CanGenerate && !m.PromptOnly, true
	case capability.Completions:
		return m.CanGenerate, true
	case capability.Embeddings:
		return m.CanEmbed, true
	case capability.Rerank:
		return m.CanScore, true
	case capability.Tools, capability.ToolsRequired, capability.ToolsNamed, capability.ToolsParallel:
		return m.HasTools, true
	case capability.FormatObject, capability.FormatSchema, capability.FormatRegex, capability.FormatGrammar, capability.FormatChoice:
		return m.HasFormats, true
	case capability.Logprobs, capability.TopLogprobs:
		return m.HasLogprobs, true
	case capability.TopK, capability.MinP, capability.MinTokens, capability.RepetitionPenalty, capability.FrequencyPenalty, capability.PresencePenalty,
		capability.LogitBias, capability.Echo:
		return m.HasSampling, true
	case capability.Hook:
		return m.HasHooks, true
	case capability.Classes:
		return m.HasClasses, true
	case capability.Stream, capability.Stop, capability.Choices, capability.Seed:
		return m.CanGenerate, false
	default:
		return false, false
	}
}
