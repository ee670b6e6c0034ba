package grammar

// horn finds the least set of nodes that holds a leaf where leaf says so, a sequence with all of its members, alternatives with any,
// a repetition with its body or without one, and a rule with its body. With "matches something" at the leaves these are the nodes
// whose texts can end; with "matches the empty text", those that can be empty. Every edge is looked at once.
func (s *source) horn(m *meter, leaf func(t *tree) bool) []bool {
	holds := make([]bool, len(s.nodes))
	missing := make([]int32, len(s.nodes)) // members of a sequence that are not in yet
	users := make([][]int32, len(s.nodes)) // by member
	bodies := make(map[int32][]int32)      // by body: the nodes of its rule
	m.keep(40 * len(s.nodes))
	var todo []int32
	for i := range s.nodes {
		id, n := int32(i), &s.nodes[i]
		m.spend(1 + len(n.sub))
		for _, c := range n.sub {
			users[c] = append(users[c], id)
		}
		now := false
		switch n.kind {
		case nodeLexeme:
			now = leaf(n.re)
		case nodeSeq:
			missing[id] = int32(len(n.sub))
			now = len(n.sub) == 0
		case nodeRepeat:
			now = n.min == 0
		case nodeRule:
			body := s.rules[n.rule].body
			bodies[body] = append(bodies[body], id)
		default: // alternatives wait for a member
		}
		if now {
			holds[id] = true
			todo = append(todo, id)
		}
	}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		m.spend(1 + len(users[id]) + len(bodies[id]))
		for _, u := range users[id] {
			if s.nodes[u].kind == nodeSeq {
				if missing[u]--; missing[u] > 0 {
					continue
				}
			}
			if !holds[u] {
				holds[u] = true
				todo = append(todo, u)
			}
		}
		for _, u := range bodies[id] {
			if !holds[u] {
				holds[u] = true
				todo = append(todo, u)
			}
		}
	}
	return holds
}
