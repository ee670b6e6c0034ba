package jsonschema

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// annotations say nothing about which values are valid.
//
//nolint:gochecknoglobals // a constant table
var annotations = []string{
	"$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "$vocabulary", "title", "description", "default", "examples",
	"example", "discriminator", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema", "externalDocs", "xml",
	"markdownDescription", "enumNames", "enumDescriptions", "propertyOrdering", "strict",
}

// read elsewhere, because they concern one another.
//
//nolint:gochecknoglobals // a constant table
var related = []string{
	"if", "then", "else", "prefixItems", "items", "additionalItems", "contains", "minContains", "maxContains",
	"exclusiveMinimum", "exclusiveMaximum",
}

// keyword reads one member of a schema into n.
func (p *parser) keyword(n *node, schema *value, name string, v *value) error {
	switch {
	case slices.Contains(annotations, name), strings.HasPrefix(name, "x-"):
		if (name == "$id" || name == "id") && schema != p.root && v.kind == kindString {
			return refuse(v.at(), fault.Say("jsonschema.inner_identifier"))
		}
		return nil
	case slices.Contains(related, name):
		return nil
	}
	switch name {
	case "type", "enum", "const", "nullable":
		return p.general(n, name, v)
	case "allOf", "anyOf", "oneOf", "not", "$ref":
		return p.applicator(n, name, v)
	case "minLength", "maxLength", "pattern", "format":
		return p.text(n, name, v)
	case "minimum", "maximum", "multipleOf":
		return p.number(n, name, v)
	case "properties", "patternProperties", "additionalProperties", "propertyNames", "required", "minProperties", "maxProperties":
		return p.object(n, name, v)
	case "dependentRequired", "dependentSchemas", "dependencies":
		return p.dependent(n, v)
	case "minItems", "maxItems", "uniqueItems":
		return p.array(n, name, v)
	case "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor":
		return refuse(v.at(), fault.Say("jsonschema.dynamic_reference"))
	case "unevaluatedProperties":
		return refuse(v.at(), fault.Say("jsonschema.unevaluated_properties"))
	case "unevaluatedItems":
		return refuse(v.at(), fault.Say("jsonschema.unevaluated_items"))
	}
	return refuse(v.at(), fault.Say("jsonschema.unknown_keyword"))
}

func (p *parser) general(n *node, name string, v *value) error {
	switch name {
	case "type":
		return p.types(n, v)
	case "nullable":
		if v.kind != kindBool {
			return wrongType(v, fault.Say("jsonschema.type_boolean"))
		}
		return nil
	}
	list := []*value{v}
	if name == "enum" {
		if v.kind != kindArray {
			return wrongType(v, fault.Say("jsonschema.type_list"))
		}
		list = v.items
	}
	if p.values += len(list); p.values > p.lim.Values {
		return refuse(v.at(), fault.Say("jsonschema.too_many_values", p.lim.Values))
	}
	if n.enum != nil { // enum and const side by side
		list = slices.DeleteFunc(slices.Clone(list), func(e *value) bool {
			return !slices.ContainsFunc(n.enum, e.same)
		})
	}
	n.enum = append([]*value{}, list...)
	return nil
}

func (p *parser) types(n *node, v *value) error {
	list := []*value{v}
	if v.kind == kindArray {
		list = v.items
	}
	n.types = 0
	for _, t := range list {
		bits, ok := typeNames[t.text]
		if t.kind != kindString || !ok {
			return refuse(v.at(), fault.Say("jsonschema.types"))
		}
		n.types |= bits
	}
	return nil
}

func (p *parser) applicator(n *node, name string, v *value) error {
	switch name {
	case "$ref":
		place, err := p.resolve(v)
		if err != nil {
			return err
		}
		r, err := p.ref(place)
		n.all = append(n.all, r)
		return err
	case "not":
		r, err := p.ref(v)
		n.all = append(n.all, r.negated())
		return err
	}
	list, err := p.refs(v)
	if err != nil {
		return err
	}
	switch name {
	case "allOf":
		n.all = append(n.all, list...)
	case "anyOf":
		n.any = append(n.any, list)
	default:
		n.one = append(n.one, oneOf{v.at(), list})
	}
	return nil
}

func (p *parser) text(n *node, name string, v *value) (err error) {
	switch name {
	case "minLength":
		n.texts.min, err = p.count(v)
		return err
	case "maxLength":
		n.texts.max, err = p.count(v)
		return err
	}
	if v.kind != kindString {
		return wrongType(v, fault.Say("jsonschema.type_string"))
	}
	if name == "pattern" {
		n.texts.patterns = append(n.texts.patterns, pattern{at: v.at(), text: v.text})
		return nil
	}
	return p.format(n, v)
}

func (p *parser) number(n *node, name string, v *value) error {
	if v.kind != kindNumber {
		return wrongType(v, fault.Say("jsonschema.type_number"))
	}
	switch name {
	case "minimum":
		n.numbers.low = tighter(n.numbers.low, bound{v.num, false}, true)
	case "maximum":
		n.numbers.high = tighter(n.numbers.high, bound{v.num, false}, false)
	default:
		if v.num.Sign() <= 0 {
			return refuse(v.at(), fault.Say("jsonschema.multiple_of_zero"))
		}
		n.numbers.multiples = append(n.numbers.multiples, multiple{v.at(), v.num})
	}
	return nil
}

func (p *parser) object(n *node, name string, v *value) (err error) {
	o := &n.objects
	o.at = n.at
	switch name {
	case "minProperties":
		o.minAt = v.at()
		o.min, err = p.count(v)
	case "maxProperties":
		o.max, err = p.count(v)
	case "additionalProperties", "propertyNames":
		var r ref
		r, err = p.ref(v)
		if name == "propertyNames" {
			o.names = &r
		} else {
			o.additional = &r
		}
	case "required":
		o.required, err = p.stringList(v)
	default:
		err = p.named(o, name, v)
	}
	return err
}

// named reads properties and patternProperties.
func (p *parser) named(o *objects, name string, v *value) error {
	if v.kind != kindObject {
		return wrongType(v, fault.Say("jsonschema.type_object"))
	}
	if p.properties += len(v.names); p.properties > p.lim.Properties {
		return p.tooMany(v.at())
	}
	for i, key := range v.names {
		r, err := p.ref(v.items[i])
		if err != nil {
			return err
		}
		if name == "properties" {
			o.properties = append(o.properties, property{key, r})
		} else {
			o.patterns = append(o.patterns, patternProperty{v.items[i].at(), key, r})
		}
	}
	return nil
}

// stringList reads a list of strings that are not repeated.
func (p *parser) stringList(v *value) ([]string, error) {
	if v.kind != kindArray {
		return nil, wrongType(v, fault.Say("jsonschema.type_strings"))
	}
	list := make([]string, 0, len(v.items))
	seen := map[string]bool{}
	for _, c := range v.items {
		if c.kind != kindString {
			return nil, wrongType(v, fault.Say("jsonschema.type_strings"))
		}
		if !seen[c.text] {
			list = append(list, c.text)
		}
		seen[c.text] = true
	}
	return list, nil
}

// dependent reads what the presence of a property demands as a choice: the property is absent, or it is there and the demand holds.
// Values that are no objects have no property, so the first holds for them.
func (p *parser) dependent(n *node, v *value) error {
	if v.kind != kindObject {
		return wrongType(v, fault.Say("jsonschema.type_object"))
	}
	for i, name := range v.names {
		c := v.items[i]
		absent, present, never := p.add(c.at()), p.add(c.at()), p.add(c.at())
		never.never = true
		absent.objects = objects{at: c.at(), max: -1, properties: []property{{name, ref{node: never}}}}
		present.types = typeObject
		present.objects = objects{at: c.at(), max: -1, required: []string{name}}
		if c.kind == kindArray {
			list, err := p.stringList(c)
			if err != nil {
				return err
			}
			present.objects.required = append(present.objects.required, list...)
		} else {
			r, err := p.ref(c)
			if err != nil {
				return err
			}
			present.all = []ref{r}
		}
		n.any = append(n.any, []ref{{node: absent}, {node: present}})
	}
	return nil
}

func (p *parser) array(n *node, name string, v *value) (err error) {
	switch name {
	case "minItems":
		n.arrays.min, err = p.count(v)
	case "maxItems":
		n.arrays.max, err = p.count(v)
	default:
		if v.kind != kindBool {
			return wrongType(v, fault.Say("jsonschema.type_boolean"))
		}
		if v.yes {
			n.arrays.unique = v.at()
		}
	}
	return err
}
