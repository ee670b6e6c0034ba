package jsonschema

import (
	"math/big"
	"strconv"
)

// types is a set of JSON types; numbers are parted into integers and others.
type types uint8

const (
	typeNull types = 1 << iota
	typeBool
	typeInteger
	typeFraction // a number that is no integer
	typeString
	typeArray
	typeObject

	typeNumber = typeInteger | typeFraction
	typeAny    = typeNull | typeBool | typeNumber | typeString | typeArray | typeObject
)

//nolint:gochecknoglobals // a constant table
var typeNames = map[string]types{
	"null": typeNull, "boolean": typeBool, "integer": typeInteger, "number": typeNumber, "string": typeString, "array": typeArray,
	"object": typeObject,
}

// typeOf returns the one type of a value.
func typeOf(v *value) types {
	switch v.kind {
	case kindNull:
		return typeNull
	case kindBool:
		return typeBool
	case kindString:
		return typeString
	case kindArray:
		return typeArray
	case kindObject:
		return typeObject
	default:
		if v.num.IsInt() {
			return typeInteger
		}
		return typeFraction
	}
}

// node is one subschema: its own demands, all of which must hold, and what it says of other subschemas at the same place. Demands
// about a type hold for values of other types.
type node struct {
	id    int
	at    string // JSON pointer
	never bool   // nothing is valid

	types   types
	enum    []*value // nil: any
	listed  map[string]bool
	exclude []*value // none of these

	all   []ref   // all of them
	any   [][]ref // of each list one at least
	one   []oneOf
	conds []cond

	texts   texts
	numbers numbers
	objects objects
	arrays  arrays
}

// lists reports whether v is one of the node's enum.
func (n *node) lists(v *value) bool {
	if n.listed == nil {
		n.listed = map[string]bool{}
		for _, e := range n.enum {
			n.listed[e.key()] = true
		}
	}
	return n.listed[v.key()]
}

// ref is a demand: the node's, or that the node's fails.
type ref struct {
	node *node
	not  bool
}

func (r ref) key() string {
	if r.not {
		return "!" + strconv.Itoa(r.node.id)
	}
	return strconv.Itoa(r.node.id)
}

// trivial reports whether the demand holds for every value.
func (r ref) trivial() bool {
	n := r.node
	if r.not {
		return n.never
	}
	return !n.own() && len(n.all)+len(n.any)+len(n.one)+len(n.conds) == 0
}

// own reports whether the node demands anything by itself.
func (n *node) own() bool {
	return n.never || n.types != typeAny || n.enum != nil || n.exclude != nil ||
		n.texts.own() || n.numbers.own() || n.objects.own() || n.arrays.own()
}

func (r ref) negated() ref { return ref{r.node, !r.not} }

type oneOf struct {
	at       string
	branches []ref
}

// cond is if, then, else; the latter two are never nil.
type cond struct{ when, then, otherwise ref }

// texts are the demands about strings.
type texts struct {
	min      int
	max      int // −1: none
	patterns []pattern
	formats  []format
}

type pattern struct {
	at, text string
	not      bool
}

type format struct {
	at, name string
	not      bool
}

// bound is one end of a range of numbers.
type bound struct {
	value *big.Rat // nil: none
	open  bool     // the value itself is outside
}

// numbers are the demands about numbers.
type numbers struct {
	low, high bound
	multiples []multiple
}

type multiple struct {
	at string
	of *big.Rat
}

// objects are the demands about objects.
type objects struct {
	at         string
	properties []property
	patterns   []patternProperty
	additional *ref // of the names that neither properties nor patterns speak of; nil: anything, by silence
	names      *ref // every name, as a string
	required   []string
	min        int
	max        int // −1: none
	minAt      string
}

type property struct {
	name string
	ref  ref
}

type patternProperty struct {
	at, text string
	ref      ref
}

// arrays are the demands about arrays.
type arrays struct {
	at       string
	prefix   []ref
	items    *ref // of those after the prefix; nil: anything
	min      int
	max      int    // −1: none
	unique   string // pointer of uniqueItems, "" if it is not asked for
	contains []contains
}

type contains struct {
	at       string
	ref      ref
	min, max int // max −1: none
}

// own reports whether the node itself demands anything of arrays.
func (a *arrays) own() bool {
	return len(a.prefix) > 0 || a.items != nil || a.min > 0 || a.max >= 0 || a.unique != "" || len(a.contains) > 0
}

// own reports whether the node itself demands anything of objects.
func (o *objects) own() bool {
	return len(o.properties) > 0 || len(o.patterns) > 0 || o.additional != nil || o.names != nil || len(o.required) > 0 || o.min > 0 || o.max >= 0
}

// own reports whether the node itself demands anything of strings.
func (t *texts) own() bool { return t.min > 0 || t.max >= 0 || len(t.patterns)+len(t.formats) > 0 }

// own reports whether the node itself demands anything of numbers.
func (n *numbers) own() bool {
	return n.low.value != nil || n.high.value != nil || len(n.multiples) > 0
}
