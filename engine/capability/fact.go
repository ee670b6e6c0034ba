package capability

import (
	"encoding/json"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/internal/strictjson"
)

// full is the long form of a fact.
type full[T any] struct {
	Value    T `json:"value" yaml:"value"`
	Evidence `yaml:",inline"`
}

// IsZero reports whether the fact is not known.
func (f Fact[T]) IsZero() bool { return !f.Known }

func (e Evidence) empty() bool {
	return e.Grade == nil && e.Owner == "" && e.When.IsZero() && e.Source == ""
}

// MarshalJSON implements json.Marshaler.
func (f Fact[T]) MarshalJSON() ([]byte, error) {
	switch {
	case !f.Known:
		return []byte("null"), nil
	case f.empty():
		return json.Marshal(f.Value)
	}
	return json.Marshal(full[T]{f.Value, f.Evidence})
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Fact[T]) UnmarshalJSON(b []byte) error {
	*f = Fact[T]{}
	if string(b) == "null" {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) == nil {
		l, err := strictjson.Decode[full[T]](b)
		if err != nil {
			return err
		}
		*f = Fact[T]{l.Value, l.Evidence, true}
		return nil
	}
	f.Known = true
	return json.Unmarshal(b, &f.Value)
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (f *Fact[T]) UnmarshalYAML(n *yaml.Node) error {
	*f = Fact[T]{}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if err := knownMember(n.Content[i], "value", "grade", "owner", "when", "source"); err != nil {
				return err
			}
		}
		var l full[T]
		if err := n.Decode(&l); err != nil {
			return err
		}
		*f = Fact[T]{l.Value, l.Evidence, true}
		return nil
	}
	f.Known = true
	return n.Decode(&f.Value)
}

// MarshalYAML implements yaml.Marshaler.
func (f Fact[T]) MarshalYAML() (any, error) {
	switch {
	case !f.Known:
		return nil, nil
	case f.empty():
		return f.Value, nil
	}
	return full[T]{f.Value, f.Evidence}, nil
}

// UnmarshalYAML implements yaml.Unmarshaler. A cell may be its status alone: then its grade is E1, or E0 on a roadmap, and the rest is that of the
// contract.
func (c *Cell) UnmarshalYAML(n *yaml.Node) error {
	*c = Cell{}
	if n.Kind == yaml.ScalarNode {
		if err := n.Decode(&c.Status); err != nil {
			return err
		}
		if c.Status != Roadmap {
			c.Grade = E1
		}
		return nil
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if err := knownMember(n.Content[i], "status", "grade", "owner", "when", "fallback", "source", "note"); err != nil {
			return err
		}
	}
	type plain Cell
	return n.Decode((*plain)(c))
}
