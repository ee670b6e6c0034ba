package prefix

// Stats is what the tree holds and has done so far.
type Stats struct {
	Namespaces   int    `json:"namespaces"`
	Pages        int    `json:"pages"`       // in memory
	SpillPages   int    `json:"spill_pages"` // in the spill file
	SpillRoom    int    `json:"spill_room"`  // pages that the spill file has room for; 0 without one
	Lookups      uint64 `json:"lookups"`
	Hits         uint64 `json:"hits"`         // look-ups that found something
	AskedTokens  uint64 `json:"asked_tokens"` // of all look-ups
	HitTokens    uint64 `json:"hit_tokens"`   // found
	TailTokens   uint64 `json:"tail_tokens"`  // those of them within a page that is not shared to its end
	HitPages     uint64 `json:"hit_pages"`
	Inserted     uint64 `json:"inserted"`      // pages that came in
	Present      uint64 `json:"present"`       // pages offered that were there already
	Refused      uint64 `json:"refused"`       // pages offered for which no room could be made
	Evicted      uint64 `json:"evicted"`       // pages that left the memory
	Spilled      uint64 `json:"spilled"`       // those of them that went to the spill file
	Promoted     uint64 `json:"promoted"`      // pages that came back from there
	SpillDropped uint64 `json:"spill_dropped"` // pages dropped from there for newer ones
	SpillDamaged uint64 `json:"spill_damaged"` // pages there that did not pass the check
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
