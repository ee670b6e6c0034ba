package httpapi

import (
	"strconv"
	"unicode/utf8"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// The bounds of what a caller may know.
const (
	maxKnown      = 200
	minKnownRunes = 2
	maxKnownRunes = 128
)

// sluiceOptions decodes the member "sluice" of a request: what is asked beyond the dialect. Errors name places and never quote a value.
func sluiceOptions(f *fields, c *gateway.Call) {
	o, ok := f.object("sluice")
	if !ok {
		return
	}
	for _, member := range o.m.All() { // a word that is not understood must not pass for one that was obeyed
		if member.Name != "known" {
			f.invalid("sluice", fault.Say("httpapi.sluice_members"))
		}
	}
	items, _ := o.list("known")
	if len(items) > maxKnown {
		o.invalid("known", fault.Say("value.item_count", maxKnown))
	}
	for i, raw := range items {
		if o.err != nil {
			break
		}
		c.Known = append(c.Known, known(o, i, raw))
	}
	f.join(o)
}

// known decodes a value that must be masked: a text, which is a person, or an object that names its class.
func known(o *fields, i int, raw string) classify.Known {
	k := classify.Known{Class: classify.Person}
	item := &fields{path: o.name("known") + "[" + strconv.Itoa(i) + "]", m: rawjson.One("value", raw)}
	if raw[0] != '"' {
		item = o.item("known", i, raw)
	}
	k.Value = item.needText("value")
	if n := utf8.RuneCountInString(k.Value); n < minKnownRunes || n > maxKnownRunes {
		item.invalid("value", fault.Say("value.characters", minKnownRunes, maxKnownRunes))
	}
	if class, ok := item.text("class"); ok {
		k.Class = classify.Class(class)
	}
	if _, ok := classify.TypeOf(k.Class); !ok {
		item.invalid("class", fault.Say("value.class"))
	}
	o.join(item)
	return k
}
