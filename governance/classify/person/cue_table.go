package person

// cueTable maps hashes of words to what the words are: a table with open addressing, since it is asked at most characters of a text.
type cueTable struct {
	slots []cueSlot // a power of two of them, at most half of them taken
	shift uint      // which bits of a hash choose the slot: the highest ones
	taken int
}

type cueSlot struct {
	hash uint64 // 0: empty
	rank rank
}

func newCueTable() *cueTable {
	const bits = 10
	return &cueTable{slots: make([]cueSlot, 1<<bits), shift: 64 - bits}
}

// get returns what the word with a hash is, 0 for nothing.
func (t *cueTable) get(hash uint64) rank {
	for i := hash >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		if s := &t.slots[i]; s.hash == hash || s.hash == 0 {
			return s.rank
		}
	}
}

// add adds to what the word with a hash is.
func (t *cueTable) add(hash uint64, r rank) {
	if 2*t.taken >= len(t.slots) {
		t.grow()
	}
	s := t.slot(hash)
	if s.hash == 0 {
		s.hash = hash
		t.taken++
	}
	s.rank |= r
}

func (t *cueTable) slot(hash uint64) *cueSlot {
	i := hash >> t.shift
	for t.slots[i].hash != 0 && t.slots[i].hash != hash {
		i = (i + 1) & uint64(len(t.slots)-1)
	}
	return &t.slots[i]
}

func (t *cueTable) grow() {
	old := t.slots
	t.slots, t.shift = make([]cueSlot, 2*len(old)), t.shift-1
	for _, s := range old {
		if s.hash != 0 {
			*t.slot(s.hash) = s
		}
	}
}
