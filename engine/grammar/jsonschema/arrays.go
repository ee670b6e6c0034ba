package jsonschema

// mergeArrays adds the array of an alternative.
func (c *compiler) mergeArrays(s *shape, a alternative) error {
	x := &arrayShape{max: -1}
	at, longest := s.at, 0
	var wanted []contains
	for _, n := range a.nodes {
		r := &n.arrays
		if r.own() {
			at = n.at
		}
		x.min = max(x.min, r.min)
		x.max = least(x.max, r.max)
		longest = max(longest, len(r.prefix))
		if r.unique != "" {
			x.unique = r.unique
		}
		wanted = append(wanted, r.contains...)
	}
	for i := range longest {
		item, err := c.shapeOf(at+"/prefixItems", itemDemands(a.nodes, i))
		if err != nil {
			return err
		}
		x.prefix = append(x.prefix, item)
	}
	rest := itemDemands(a.nodes, longest)
	var err error
	if x.rest, err = c.shapeOf(at+"/items", rest); err != nil {
		return err
	}
	for _, k := range wanted {
		if err := c.mergeContains(x, rest, k); err != nil {
			return err
		}
	}
	s.arrays = append(s.arrays, x)
	return nil
}

// itemDemands returns what the nodes demand of the item with index i.
func itemDemands(nodes []*node, i int) []ref {
	var out []ref
	for _, n := range nodes {
		switch {
		case i < len(n.arrays.prefix):
			out = append(out, n.arrays.prefix[i])
		case n.arrays.items != nil:
			out = append(out, *n.arrays.items)
		}
	}
	return out
}

// mergeContains adds the shapes of the items that count and of those that do not.
func (c *compiler) mergeContains(x *arrayShape, rest []ref, k contains) error {
	s := containsShape{contains: k}
	var err error
	if s.yes, err = c.shapeOf(k.at, append(rest[:len(rest):len(rest)], k.ref)); err != nil {
		return err
	}
	if k.max >= 0 { // only then it matters that an item does not count
		if s.no, err = c.shapeOf(k.at, append(rest[:len(rest):len(rest)], k.ref.negated())); err != nil {
			return err
		}
	}
	x.contains = append(x.contains, s)
	return nil
}
