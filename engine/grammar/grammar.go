package grammar

// Grammar is a language of texts. It is immutable to its users and safe for concurrent use.
type Grammar struct {
	src *source
}

// source is what a grammar is made of.
type source struct {
	limits Limits
	nodes  []node
	rules  []rule
	start  int32
}

func newGrammar(src *source, strict bool) (*Grammar, error) {
	return &Grammar{src: src}, nil
}

// Vocabulary is the byte trie of a tokenizer's tokens.
type Vocabulary struct{}

// NewVocabulary lays out the tokens 0 to size-1 of a tokenizer. bytes returns what a token adds to a text, nothing for control
// tokens; eog are the tokens that end a text. Make it once per model: it is immutable and safe for concurrent use.
func NewVocabulary(bytes func(id int32) []byte, size int, eog []int32) *Vocabulary { return nil }

// Matcher follows one text through a grammar. It serves one goroutine at a time.
type Matcher struct{}

// Matcher returns a matcher at the beginning of a text.
func (g *Grammar) Matcher(v *Vocabulary) *Matcher { return nil }

// Mask sets dst, with a bit for each token of the vocabulary, to the tokens that may come next. Tokens that end the text are allowed
// where it may end.
func (m *Matcher) Mask(dst []uint64) error { return nil }

// Allows reports whether token may come next; it is much cheaper than Mask.
func (m *Matcher) Allows(token int32) bool { return false }

// Accept moves on by token, which must be allowed.
func (m *Matcher) Accept(token int32) error { return nil }

// Forced appends to dst tokens for the bytes that are the only way on.
func (m *Matcher) Forced(dst []int32) []int32 { return dst }

// Clone returns a matcher at the same place that moves on by itself.
func (m *Matcher) Clone() *Matcher { return nil }

// Done reports whether the text is complete and nothing may follow.
func (m *Matcher) Done() bool { return false }
