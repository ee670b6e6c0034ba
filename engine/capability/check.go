package capability

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

func knownMember(n *yaml.Node, allowed ...string) error {
	if slices.Contains(allowed, n.Value) {
		return nil
	}
	return fmt.Errorf("line %d: unknown member %q; a fact is a value, or has the members %s", n.Line, n.Value, strings.Join(allowed, ", "))
}

// Routes and bearers of complexity, and carriers: closed lists.
func routes() []string {
	return []string{"plug-in", "platform", "independent", "tool-chain", "compiler", "hybrid"}
}

func bearers() []string {
	return []string{"backend", "runtime", "state-machine", "tool-chain", "control-plane", "compiler"}
}

func carriers() []string { return []string{"image", "one-box", "cloud", "chart", "package"} }

func interfaces() []string {
	return []string{"openai", "vllm", "triton", "tgi", "ollama", "sglang", "anthropic", "batch", "embedded"}
}

// checker collects what is wrong.
type checker struct {
	defaults Evidence
	errs     []error
}

func (k *checker) add(err error) {
	if err != nil {
		k.errs = append(k.errs, err)
	}
}

func (c *Contract) check() []error {
	k := &checker{defaults: c.Defaults}
	k.add(oneOf("contract.defaults.owner", c.Defaults.Owner, OwnerPlatform, OwnerEngine, OwnerControl))
	k.walk("contract", reflect.ValueOf(c).Elem())
	k.add(oneOf("contract.engine.route", c.Engine.Route.Value, routes()...))
	k.add(oneOf("contract.engine.complexity_bearer", c.Engine.Bearer.Value, bearers()...))
	k.add(oneOf("contract.carrier", c.Carrier.Value, carriers()...))
	for _, i := range c.Interfaces.Value {
		k.add(oneOf("contract.interfaces", i, interfaces()...))
	}
	for _, r := range c.Roles.Value {
		k.add(oneOf("contract.roles", r, RoleJoint, RolePrefill, RoleDecode, RoleEncode, RoleAttention, RoleFeedForward))
	}
	for _, m := range slices.Sorted(maps.Keys(c.Exec.Modes)) {
		k.add(oneOf("contract.exec.modes", m, Eager, Graph, Piecewise))
	}
	for _, f := range slices.Sorted(maps.Keys(c.Features)) {
		k.feature("contract.features", f)
	}
	for i, m := range c.Models {
		k.pattern(fmt.Sprintf("contract.models[%d].match", i), m.Match)
		for _, f := range slices.Sorted(maps.Keys(m.Features)) {
			k.feature(fmt.Sprintf("contract.models[%d].features", i), f)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(c.Demands)) {
		k.pattern("contract.model_demands", p)
		for _, f := range c.Demands[p] {
			k.feature("contract.model_demands", f)
		}
	}
	return k.errs
}

func (k *checker) feature(where string, f Feature) {
	if !slices.Contains(Features(), f) {
		k.add(fmt.Errorf("%s: there is no feature %q", where, string(f)))
	}
}

func (k *checker) pattern(where, p string) {
	if _, err := path.Match(p, ""); err != nil || p == "" {
		k.add(fmt.Errorf("%s: %q is no pattern", where, p))
	}
}

// evidenced is what a Fact of any kind tells of itself.
type evidenced interface {
	IsZero() bool
	evidence() Evidence
	value() any
}

func (f Fact[T]) evidence() Evidence { return f.Evidence }
func (f Fact[T]) value() any         { return f.Value }

// walk looks at every fact and cell below v.
func (k *checker) walk(where string, v reflect.Value) {
	if v.CanInterface() {
		switch x := v.Interface().(type) {
		case Cell:
			if x != (Cell{}) {
				k.cell(where, x)
			}
			return
		case evidenced:
			if !x.IsZero() {
				k.fact(where, x)
			}
			return
		case Evidence:
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			k.walk(where+"."+memberName(v.Type().Field(i)), v.Field(i))
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			k.walk(where+"."+key.String(), v.MapIndex(key))
		}
	case reflect.Slice:
		for i := range v.Len() {
			k.walk(fmt.Sprintf("%s[%d]", where, i), v.Index(i))
		}
	default:
	}
}

func memberName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func (k *checker) cell(where string, c Cell) {
	k.add(oneOf(where+".owner", c.Owner, OwnerPlatform, OwnerEngine, OwnerControl))
	k.add(oneOf(where+".status", c.Status, Roadmap, Claimed, Validated, Reproducible))
	k.add(oneOf(where+".fallback", c.Fallback, FallbackRefused, FallbackIgnored, FallbackDiffers, FallbackSame))
	switch {
	case c.Status == "":
		k.add(errors.New(where + ".status: must be set"))
	case c.Owner == "" && k.defaults.Owner == "":
		k.add(errors.New(where + ".owner: nobody guarantees it"))
	case c.Status != Roadmap && c.Proven() != c.Status:
		k.add(fmt.Errorf("%s: %s bears out no more than %q", where, c.Grade, string(c.Proven())))
	case c.Grade >= E1 && c.Source == "" && k.defaults.Source == "":
		k.add(fmt.Errorf("%s.source: %s needs one", where, c.Grade))
	}
}

func (k *checker) fact(where string, f evidenced) {
	e := f.evidence()
	k.add(oneOf(where+".owner", e.Owner, OwnerPlatform, OwnerEngine, OwnerControl))
	if e.Owner == "" && k.defaults.Owner == "" {
		k.add(errors.New(where + ".owner: nobody guarantees it"))
	}
	grade := e.Grade
	if grade == nil {
		grade = k.defaults.Grade
	}
	if grade != nil && *grade >= E1 && e.Source == "" && k.defaults.Source == "" {
		k.add(fmt.Errorf("%s.source: %s needs one", where, grade))
	}
	switch v := f.value().(type) {
	case int:
		if v < 0 {
			k.add(fmt.Errorf("%s: %d is negative", where, v))
		}
	case float64:
		if v < 0 || v != v {
			k.add(fmt.Errorf("%s: %g is no amount", where, v))
		}
	}
}
