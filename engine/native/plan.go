package native

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine/graph"
)

// Precision plans: how weights, activations, and keys and values are stored.
const (
	// Weights as the file has them; where those are in blocks, activations in eight bits per 32, in two such terms before attention
	// and the head, where rounding costs most.
	PlanNative     = "native"
	PlanNativeKV8  = "native-kv8"  // the same, keys and values in eight bits
	PlanNativeWide = "native-wide" // all activations in two terms: next to exact; prompts take half as long again
	PlanInt8       = "int8"        // attention and feed-forward in eight bits, one scale per row, in their last matrix one per 32; embedding and head in half precision
	PlanInt8KV8    = "int8-kv8"    // the same, keys and values in eight bits
	PlanF16        = "f16"         // weights in half precision, activations in float32
	PlanF32        = "f32"         // all but keys and values in float32: exact and slow, for comparisons
)

// Plans lists the names of the precision plans.
func Plans() []string {
	return []string{PlanNative, PlanNativeKV8, PlanNativeWide, PlanInt8, PlanInt8KV8, PlanF16, PlanF32}
}

// Precision returns what a plan asks of the compiler.
func Precision(name string) (graph.Precision, error) {
	p, err := parsePlan(name)
	return p.policy, err
}

// plan is a precision plan.
type plan struct {
	name   string
	packed string // name of what the weights are packed for: plans that differ in keys and values alone share a file
	policy graph.Precision
	kv8    bool
}

// parsePlan reads a plan: one of the names, "" for native, and behind it, separated by commas, other formats for single classes of
// weights, as in "int8,head=i8", and the classes that read activations in two terms of eight bits, as in "native,wide=head+attention",
// "wide=all" or "wide=none".
func parsePlan(text string) (plan, error) {
	name, rest, _ := strings.Cut(text, ",")
	if name == "" {
		name = PlanNative
	}
	base, kv8 := strings.CutSuffix(name, "-kv8")
	if strings.HasSuffix(base, "-kv8") || base == "" {
		return plan{}, fmt.Errorf("the precision plan %q is none of %s", text, strings.Join(Plans(), ", "))
	}
	overrides := map[string]string{}
	var wide map[graph.Class]bool
	if base == PlanNativeWide {
		base, wide = PlanNative, map[graph.Class]bool{graph.ClassHead: true, graph.ClassAttention: true, graph.ClassFFN: true, graph.ClassDown: true}
	}
	items := strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' })
	seen := map[string]bool{}
	for _, item := range items {
		class, format, ok := strings.Cut(item, "=")
		if !ok || seen[class] {
			return plan{}, fmt.Errorf("the precision plan %q: %q is not of the form class=format, or its class occurs twice", text, item)
		}
		seen[class] = true
		if class == "wide" {
			var err error
			if wide, err = parseWide(format); err != nil {
				return plan{}, fmt.Errorf("the precision plan %q: %w", text, err)
			}
			continue
		}
		overrides[class] = format
	}
	policy, err := graph.NewPrecision(base, overrides)
	if err != nil {
		return plan{}, fmt.Errorf("the precision plan %q (use one of %s): %w", text, strings.Join(Plans(), ", "), err)
	}
	if wide != nil {
		policy.Wide = wide
	}
	slices.Sort(items)
	p := plan{name: strings.Join(append([]string{name}, items...), ","), policy: policy, kv8: kv8}
	p.packed = strings.Replace(p.name, "-kv8", "", 1)
	return p, nil
}

// parseWide reads classes of weights, joined by plus signs.
func parseWide(text string) (map[graph.Class]bool, error) {
	all := []graph.Class{graph.ClassHead, graph.ClassAttention, graph.ClassFFN, graph.ClassDown}
	wide := map[graph.Class]bool{}
	for _, name := range strings.Split(text, "+") {
		switch class := graph.Class(name); {
		case name == "none":
		case name == "all":
			for _, c := range all {
				wide[c] = true
			}
		case slices.Contains(all, class):
			wide[class] = true
		default:
			return nil, fmt.Errorf("%q reads no activations in two terms; use head, attention, ffn, down, all or none", name)
		}
	}
	return wide, nil
}
