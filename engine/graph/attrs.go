package graph

import (
	"cmp"
	"slices"
)

// Set adds or replaces an attribute.
func (a *Attrs) Set(key string, val any) {
	i, found := slices.BinarySearchFunc(*a, key, func(x Attr, k string) int { return cmp.Compare(x.Key, k) })
	if found {
		(*a)[i].Val = val
		return
	}
	*a = slices.Insert(*a, i, Attr{Key: key, Val: val})
}

// Get returns an attribute, or nil.
func (a Attrs) Get(key string) any {
	i, found := slices.BinarySearchFunc(a, key, func(x Attr, k string) int { return cmp.Compare(x.Key, k) })
	if !found {
		return nil
	}
	return a[i].Val
}

// Int returns an integer attribute, or otherwise.
func (a Attrs) Int(key string, otherwise int) int {
	if v, ok := a.Get(key).(int); ok {
		return v
	}
	return otherwise
}

// Float returns a number, or otherwise. Integers are numbers too.
func (a Attrs) Float(key string, otherwise float64) float64 {
	switch v := a.Get(key).(type) {
	case float64:
		return v
	case int:
		return float64(v)
	}
	return otherwise
}

// Text returns a string attribute; "" if there is none.
func (a Attrs) Text(key string) string {
	v, _ := a.Get(key).(string)
	return v
}

// Flag reports whether a boolean attribute is true.
func (a Attrs) Flag(key string) bool {
	v, _ := a.Get(key).(bool)
	return v
}
