package capability

import (
	"fmt"
	"slices"
	"strings"
)

// Grade is how well something is known: the layers of evidence.
type Grade uint8

// The grades.
const (
	E0 Grade = iota // named only
	E1              // documented by its owner
	E2              // replayed: a simulator speaks the documented dialect
	E3              // real software ran here
	E4              // ran on the target hardware
)

// ParseGrade reads "E0" to "E4".
func ParseGrade(s string) (Grade, error) {
	if len(s) == 2 && s[0] == 'E' && s[1] >= '0' && s[1] <= '4' {
		return Grade(s[1] - '0'), nil
	}
	return E0, fmt.Errorf("%q is no grade: E0, E1, E2, E3 or E4", s)
}

// String returns "E0" to "E4".
func (g Grade) String() string { return fmt.Sprintf("E%d", min(g, E4)) }

// MarshalText implements encoding.TextMarshaler.
func (g Grade) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *Grade) UnmarshalText(b []byte) (err error) {
	*g, err = ParseGrade(string(b))
	return err
}

// Status is what is claimed of a feature.
type Status string

// The statuses, in the order of how much they claim.
const (
	Roadmap      Status = "roadmap"      // announced, or switched off
	Claimed      Status = "claimed"      // its owner says so
	Validated    Status = "validated"    // somebody else has seen it work
	Reproducible Status = "reproducible" // and can show it again
)

// Owner is who guarantees something.
type Owner string

// The owners.
const (
	OwnerPlatform Owner = "platform"      // the chip, its driver and libraries
	OwnerEngine   Owner = "engine"        // the engine
	OwnerControl  Owner = "control-plane" // who runs it: an operator's configuration, or this product
)

// Mode is a form of execution.
type Mode string

// The modes.
const (
	Eager     Mode = "eager"
	Graph     Mode = "graph"
	Piecewise Mode = "piecewise"
)

// Role is the part of a request that an instance works on.
type Role string

// The roles.
const (
	RoleJoint       Role = "joint" // all of it
	RolePrefill     Role = "prefill"
	RoleDecode      Role = "decode"
	RoleEncode      Role = "encode"
	RoleAttention   Role = "attention"
	RoleFeedForward Role = "feed-forward"
)

// oneOf returns what is wrong with a word of a closed list; "" is no word yet.
func oneOf[T ~string](field string, v T, allowed ...T) error {
	if v == "" || slices.Contains(allowed, v) {
		return nil
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	return fmt.Errorf("%s: %q must be one of %s", field, string(v), strings.Join(words, ", "))
}
