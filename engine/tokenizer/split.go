package tokenizer

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitter cuts a text into words.
type splitter func(text string) iter.Seq[string]

// preTokenizer cuts a text into words that are encoded one by one; merges never cross words.
type preTokenizer struct {
	words      splitter
	wholeWords bool // a word that is a token is taken whole, before any merge
	addBOS     bool // files that do not say want BOS
}

// preTokenizers returns the pre-tokenizers by the names GGUF files give them. They are scanners by hand, since the originals need
// look-ahead, which package regexp does not have.
//
// An empty name is that of old GPT-2 files.
func preTokenizers() map[string]preTokenizer {
	gpt2 := preTokenizer{words: sequence(wordGPT2)}
	llama3 := preTokenizer{words: sequence(func(s string) int { return wordLlama3(s, 3) }), wholeWords: true, addBOS: true}
	qwen2 := preTokenizer{words: sequence(func(s string) int { return wordLlama3(s, 1) })}
	return map[string]preTokenizer{
		"": gpt2, "gpt-2": gpt2,
		"default":   {words: refine(refine(isolate(punctuation), sequence(wordGPT2)), refine(isolate(numberRun), isolate(threeDigits)))},
		"smollm":    {words: splitSmolLM},
		"llama-bpe": llama3, "llama3": llama3, "llama-v3": llama3,
		"qwen2": qwen2, "deepseek-r1-qwen": qwen2,
		"tekken":      {words: sequence(wordTekken), wholeWords: true, addBOS: true},
		"deepseek-v3": {words: refine(refine(isolate(threeNumbers), isolate(cjkRun)), isolate(wordDeepSeek))},
	}
}

// preNames lists the supported pre-tokenizers for people.
func preNames() []string {
	names := slices.Sorted(maps.Keys(preTokenizers()))
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// refine cuts the words of one splitter with another.
func refine(first, then splitter) splitter {
	return func(text string) iter.Seq[string] {
		return func(yield func(string) bool) {
			for piece := range first(text) {
				for word := range then(piece) {
					if !yield(word) {
						return
					}
				}
			}
		}
	}
}

// isolate turns a function that measures a match at the beginning of a text, 0 if there is none, into a splitter: the matches are
// words, and what lies between them.
func isolate(match func(text string) int) splitter {
	return func(text string) iter.Seq[string] {
		return func(yield func(string) bool) {
			gap := 0
			for i := 0; i < len(text); {
				n := match(text[i:])
				if n == 0 {
					_, size := utf8.DecodeRuneInString(text[i:])
					i += size
					continue
				}
				if gap < i && !yield(text[gap:i]) || !yield(text[i:i+n]) {
					return
				}
				i += n
				gap = i
			}
			if gap < len(text) {
				yield(text[gap:])
			}
		}
	}
}

// sequence turns a function that measures the first word of a text into a splitter.
func sequence(first func(text string) int) splitter {
	return func(text string) iter.Seq[string] {
		return func(yield func(string) bool) {
			for text := text; text != ""; {
				n := first(text)
				if !yield(text[:n]) {
					return
				}
				text = text[n:]
			}
		}
	}
}

// splitSmolLM cuts out every number character first; what lies between is cut as GPT-2 does, without seeing its neighbours.
func splitSmolLM(text string) iter.Seq[string] {
	between := sequence(wordGPT2)
	return func(yield func(string) bool) {
		start := 0
		for i, r := range text {
			if kindOf(r) != number {
				continue
			}
			for word := range between(text[start:i]) {
				if !yield(word) {
					return
				}
			}
			start = i + utf8.RuneLen(r)
			if !yield(text[i:start]) {
				return
			}
		}
		for word := range between(text[start:]) {
			if !yield(word) {
				return
			}
		}
	}
}

// kind is the class of a character in the patterns below: \p{L}, \p{N}, \s or none of them.
type kind uint8

const (
	other kind = iota
	letter
	number
	space
)

func kindOf(r rune) kind {
	switch {
	case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
		return letter
	case '0' <= r && r <= '9':
		return number
	case r == ' ' || '\t' <= r && r <= '\r':
		return space
	case r < 0x80:
		return other
	case unicode.IsLetter(r):
		return letter
	case unicode.Is(unicode.N, r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// run returns the length of the longest prefix of text whose characters are all of kind k.
func run(text string, k kind) int {
	for i, r := range text {
		if kindOf(r) != k {
			return i
		}
	}
	return len(text)
}

// wordGPT2 measures the first match of
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func wordGPT2(text string) int {
	if n := contraction(text, false); n > 0 {
		return n
	}
	prefix := 0
	if text[0] == ' ' {
		prefix = 1
	}
	if prefix < len(text) {
		r, _ := utf8.DecodeRuneInString(text[prefix:])
		if k := kindOf(r); k != space {
			return prefix + run(text[prefix:], k)
		}
	}
	return spaces(text)
}

// wordLlama3 measures the first match of
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func wordLlama3(text string, digits int) int {
	if n := contraction(text, true); n > 0 {
		return n
	}
	r, size := utf8.DecodeRuneInString(text)
	k := kindOf(r)
	switch {
	case k == letter:
		return run(text, letter)
	case k == number:
		return numbers(text, digits)
	case r != '\r' && r != '\n':
		if n := run(text[size:], letter); n > 0 {
			return size + n
		}
	}
	if n := marks(text, "\r\n"); n > 0 {
		return n
	}
	if n := lines(text); n > 0 {
		return n
	}
	return spaces(text)
}

// contraction measures an English contraction such as 's or 're.
func contraction(text string, anyCase bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	lower := func(c byte) byte {
		if anyCase && 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}
	first := lower(text[1])
	switch first {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) < 3 {
		return 0
	}
	switch string([]byte{first, lower(text[2])}) {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}

// numbers measures \p{N}{1,limit}.
func numbers(text string, limit int) int {
	n := 0
	for i, r := range text {
		if n == limit || kindOf(r) != number {
			return i
		}
		n++
	}
	return len(text)
}

// marks measures  ?[^\s\p{L}\p{N}]+ and what follows of the characters after.
func marks(text, after string) int {
	prefix := 0
	if text[0] == ' ' {
		prefix = 1
	}
	n := run(text[prefix:], other)
	if n == 0 {
		return 0
	}
	n += prefix
	for n < len(text) && strings.IndexByte(after, text[n]) >= 0 {
		n++
	}
	return n
}

// lines measures \s*[\r\n]+: white space up to and with its last line break.
func lines(text string) int {
	last := 0
	for i, r := range text {
		if kindOf(r) != space {
			break
		}
		if r == '\r' || r == '\n' {
			last = i + 1
		}
	}
	return last
}

// spaces measures \s+(?!\S)|\s+: white space, less its last character when a word follows, to which that character then belongs.
func spaces(text string) int {
	last := 0
	for i, r := range text {
		if kindOf(r) != space {
			if last == 0 {
				return i
			}
			return last
		}
		last = i
	}
	return len(text)
}
