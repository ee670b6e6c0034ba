package prefix

// Stats is what the tree holds and has done so far.
type Stats struct {
	Namespaces   int
	Pages        int // in memory
	SpillPages   int // in the spill file
	SpillRoom    int // pages that the spill file has room for; 0 without one
	Lookups      uint64
	Hits         uint64 // look-ups that found something
	AskedTokens  uint64 // of all look-ups
	HitTokens    uint64 // found
	TailTokens   uint64 // those of them within a page that is not shared to its end
	HitPages     uint64
	Inserted     uint64 // pages that came in
	Present      uint64 // pages offered that were there already
	Refused      uint64 // pages offered for which no room could be made
	Evicted      uint64 // pages that left the memory
	Spilled      uint64 // those of them that went to the spill file
	Promoted     uint64 // pages that came back from there
	SpillDropped uint64 // pages dropped from there for newer ones
	SpillDamaged uint64 // pages there that did not pass the check
}

// Stats returns what the tree holds and has done so far.
func (t *Tree) Stats() Stats {
	s := t.stats
	s.Namespaces, s.Pages, s.SpillPages = len(t.spaces), t.resident.len, t.spilled.len
	if t.spill != nil {
		s.SpillRoom = t.spill.slots
	}
	return s
}
