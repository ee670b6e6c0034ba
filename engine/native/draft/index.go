package draft

import (
	"math/bits"
	"sync"
)

// Config bounds an Index. Memory is at most about 16 bytes × Tokens × Namespaces, and what is used of it grows with the texts.
type Config struct {
	Tokens     int // kept of each namespace, rounded up to a power of two; 0 means 65,536
	Namespaces int // 0 means 64: with the default of tokens, 64 MiB
}

// Index remembers texts by namespace: the newest tokens of each, and of the namespaces those used last. Nothing found in one ever
// reaches another. It is safe for concurrent use.
type Index struct {
	limit, maxTokens int

	mu     sync.Mutex
	clock  uint64
	spaces map[string]*space
}

type space struct {
	used uint64 // the index's clock
	text *window
}

// Stats describes what an Index holds.
type Stats struct {
	Namespaces int `json:"namespaces"`
	Tokens     int `json:"tokens"`
	Bytes      int `json:"bytes"`
}

// A text of another request has to agree in more tokens than the sequence itself, and the longer match is the better one.
const (
	ownGram, minOwnMatch       = 2, 5
	sharedGram, minSharedMatch = 3, 16
)

// NewIndex returns an empty Index.
func NewIndex(cfg Config) *Index {
	if cfg.Tokens <= 0 {
		cfg.Tokens = 1 << 16
	}
	if cfg.Namespaces <= 0 {
		cfg.Namespaces = 64
	}
	return &Index{limit: 1 << bits.Len(uint(max(cfg.Tokens, smallest)-1)), maxTokens: cfg.Namespaces, spaces: map[string]*space{}}
}

// Add remembers a text of the namespace: a completion, or a document given to its prompts.
func (x *Index) Add(namespace string, tokens []int32) {
	if len(tokens) <= sharedGram {
		return // nothing in it follows a gram
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.spaces[namespace]
	if s == nil {
		if len(x.spaces) >= x.maxTokens {
			x.forgetOldest()
		}
		s = &space{text: newWindow(sharedGram, x.limit)}
		x.spaces[namespace] = s
	}
	x.touch(s)
	for _, t := range tokens[max(0, len(tokens)-x.limit+1):] {
		s.text.add(t)
	}
	s.text.add(separator)
}

// Forget drops a namespace, when its tenant is gone.
func (x *Index) Forget(namespace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.spaces, namespace)
}

// Stats returns how much the Index holds.
func (x *Index) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	st := Stats{Namespaces: len(x.spaces)}
	for _, s := range x.spaces {
		st.Tokens += s.text.end - s.text.start()
		st.Bytes += 16 * len(s.text.ring)
	}
	return st
}

// propose appends what followed the longest match of text's end that is longer than longer.
func (x *Index) propose(dst []int32, namespace string, text []int32, longer, most int) []int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.spaces[namespace]
	if s == nil {
		return dst
	}
	x.touch(s)
	if m := s.text.find(text, minSharedMatch); m.length > longer {
		return s.text.follow(dst, m.place, most)
	}
	return dst
}

func (x *Index) touch(s *space) {
	x.clock++
	s.used = x.clock
}

// forgetOldest drops the namespace that was not used for longest.
func (x *Index) forgetOldest() {
	oldest, least := "", x.clock+1
	for name, s := range x.spaces {
		if s.used < least {
			oldest, least = name, s.used
		}
	}
	delete(x.spaces, oldest)
}
