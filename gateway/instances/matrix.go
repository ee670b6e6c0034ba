package instances

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/pool"
)

// StatusListed is the status of a feature of which nothing is known but that the engine lists it. StatusMissing is that of one that nobody claims.
const (
	StatusListed  capability.Status = "listed"
	StatusMissing capability.Status = "missing"
)

// WhyDemanded is the reason where every request is refused for want of what the model's maker demands of whoever runs it.
const WhyDemanded capability.Why = "demanded"

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

	Usable pool.Use       // what the router decides of a request that needs this feature and no other
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
				offer := i.Offer(&s.Models[n])
				row.listed(offer)
				if offer.Known != nil {
					row.known(offer.Known)
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

// listed fills in what the engine lists, and what the router decides of each feature.
func (row *MatrixRow) listed(o pool.Offer) {
	row.EngineModel, row.Version, row.ContextTokens = string(o.Model.ID), o.Model.EngineVersion, o.ContextTokens()
	for _, f := range capability.Features() {
		use, why := o.Use(f)
		cell := MatrixCell{Feature: f, Cell: capability.Cell{Status: StatusMissing}, Usable: use, Why: why.Why}
		if has, _ := capability.Listed(o.Model, f); has {
			cell.Status, cell.Owner = StatusListed, capability.OwnerEngine
		} else if o.Known == nil {
			cell.Why = capability.WhyMissing
		}
		if why.Feature != "" && why.Feature != f {
			cell.Why = WhyDemanded
		}
		row.Cells = append(row.Cells, cell)
	}
}

// known fills in what a contract says.
func (row *MatrixRow) known(v *capability.Verdicts) {
	c := v.Contract()
	row.Contract, row.EngineModel = true, v.Model()
	row.Engine, row.Version, row.Licence = c.Engine.Name.Value, cmp.Or(c.Engine.Version.Value, row.Version), c.Engine.Licence.Value
	row.Vendor, row.Family, row.Generation = c.Hardware.Vendor.Value, c.Hardware.Family.Value, c.Hardware.Generation.Value
	row.Roles, row.Demanded = c.Roles.Value, v.Demanded()
	for _, mode := range slices.Sorted(maps.Keys(c.Exec.Modes)) {
		row.Modes = append(row.Modes, MatrixMode{mode, shown(c, c.Exec.Modes[mode])})
	}
	for i := range row.Cells {
		cell := &row.Cells[i]
		if at, ok := v.Cell(cell.Feature); ok {
			cell.Cell = shown(c, at)
		} else {
			cell.Cell, cell.Why = capability.Cell{Status: StatusMissing}, capability.WhyMissing
		}
	}
}

// shown returns a cell as people see it: with the status that its grade bears out, and with the evidence that the contract says for all.
func shown(c *capability.Contract, cell capability.Cell) capability.Cell {
	cell.Status = cell.Proven()
	cell.Owner, cell.Source = cmp.Or(cell.Owner, c.Defaults.Owner), cmp.Or(cell.Source, c.Defaults.Source)
	return cell
}
