package draft

// separator stands between texts; no token equals it.
const separator = -1

// window holds the newest tokens of a text and finds where its words occurred before: a ring of tokens with chains through the
// places that follow equal grams. Adding a token and finding a match take bounded time.
type window struct {
	gram, limit int // tokens that a match has at least; tokens kept at most, a power of two
	end         int // tokens ever added; the last of them are in the ring
	since       int // the last separator was at since−1
	ring        []int32
	back        []uint32 // how far back the place before this one is in its chain; 0: none
	heads       []int    // by hash of a gram: one more than the newest place that follows such a gram
}

// smallest is the ring's first size.
const smallest = 256

func newWindow(gram, limit int) *window { return &window{gram: gram, limit: limit} }

// add appends a token, or the separator.
func (w *window) add(token int32) {
	if w.end-w.start() == len(w.ring) && len(w.ring) < w.limit {
		w.grow()
	}
	w.put(token)
}

// start returns the place of the oldest token kept.
func (w *window) start() int { return max(0, w.end-len(w.ring)) }

func (w *window) at(place int) int32 { return w.ring[place&(len(w.ring)-1)] }

func (w *window) put(token int32) {
	mask := len(w.ring) - 1
	w.ring[w.end&mask], w.back[w.end&mask] = token, 0
	switch {
	case token == separator:
		w.since = w.end + 1
	case w.end-w.since >= w.gram:
		h := uint32(0)
		for i := w.end - w.gram; i < w.end; i++ {
			h = hash(h, w.at(i))
		}
		head := &w.heads[w.bucket(h)]
		if before := *head - 1; before >= 0 && w.end-before < len(w.ring) {
			w.back[w.end&mask] = uint32(w.end - before)
		}
		*head = w.end + 1
	}
	w.end++
}

// grow doubles the ring and files its tokens anew.
func (w *window) grow() {
	old, start, end := *w, w.start(), w.end
	size := min(max(smallest, 2*len(w.ring)), w.limit)
	w.ring, w.back, w.heads = make([]int32, size), make([]uint32, size), make([]int, size)
	w.end, w.since = start, start
	for place := start; place < end; place++ {
		w.put(old.at(place))
	}
}

func hash(h uint32, token int32) uint32 { return (h ^ uint32(token)) * 0x9e3779b1 }

func (w *window) bucket(h uint32) int { return int((h ^ h>>15) & uint32(len(w.heads)-1)) }

// match is a place with as many tokens before it as the text has at its end.
type match struct{ place, length int }

// tries bounds the places that find looks at.
const maxProbes = 32

// find returns the newest place whose preceding tokens are the last ones of text, up to enough of them; if no place has enough, the
// one that has most. Its length is 0 when no place has a gram of them.
func (w *window) find(text []int32, enough int) match {
	var best match
	if len(text) < w.gram || len(w.ring) == 0 {
		return best
	}
	h := uint32(0)
	for _, t := range text[len(text)-w.gram:] {
		h = hash(h, t)
	}
	place := w.heads[w.bucket(h)] - 1
	for range maxProbes {
		if place < w.start()+w.gram {
			break
		}
		if n := w.common(text, place, enough); n >= w.gram && n > best.length {
			best = match{place, n}
		}
		step := int(w.back[place&(len(w.ring)-1)])
		if best.length >= enough || step == 0 {
			break
		}
		place -= step
	}
	return best
}

// common counts the tokens before place that are the last ones of text, up to enough.
func (w *window) common(text []int32, place, enough int) int {
	n, most := 0, min(enough, len(text), place-w.start())
	for n < most && w.at(place-1-n) == text[len(text)-1-n] {
		n++
	}
	return n
}

// follow appends up to most of the tokens from place on, as far as its text goes.
func (w *window) follow(dst []int32, place, most int) []int32 {
	for ; most > 0 && place < w.end && w.at(place) != separator; most-- {
		dst = append(dst, w.at(place))
		place++
	}
	return dst
}
