package draft

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func random(r *rand.Rand, n, words int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(r.IntN(words))
	}
	return out
}

// loops is a text of a few sentences over and over, with a word changed now and then.
func loops(r *rand.Rand, n, words int) []int32 {
	sentences := [][]int32{random(r, 12, words), random(r, 7, words), random(r, 20, words)}
	var out []int32
	for len(out) < n {
		out = append(out, sentences[r.IntN(len(sentences))]...)
		if r.IntN(4) == 0 {
			out[len(out)-1] = int32(r.IntN(words))
		}
	}
	return out[:n]
}

// Find gives what a search through the whole text gives: the newest place with enough in common, else the one with most.
func TestFindEqualsAFullSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	found := 0
	for _, limit := range []int{smallest, 1 << 12} {
		for _, gram := range []int{2, 3} {
			for _, words := range []int{12, 40, 300} {
				w, text := newWindow(gram, limit), loops(r, 2000, words)
				for n := range text {
					w.add(text[n])
					sofar := text[:n+1]
					want, crowd := search(w, sofar, gram, 5)
					if crowd >= maxProbes {
						continue
					}
					if got := w.find(sofar, 5); got != want {
						t.Fatalf("after %d tokens: %+v, want %+v", n+1, got, want)
					}
					if want.length > 0 {
						found++
					}
				}
			}
		}
	}
	w := newWindow(2, smallest) // matches do not reach past the oldest token
	for range 1000 {
		w.add(7)
	}
	if got := w.find(slices.Repeat([]int32{7}, 1000), 300); got != (match{999, smallest - 1}) {
		t.Errorf("%+v", got)
	}
	if found < 10_000 {
		t.Errorf("only %d matches were compared", found)
	}
}

// search is the definition. crowd counts the places that share the bucket.
func search(w *window, text []int32, gram, enough int) (best match, crowd int) {
	of := func(end int) int {
		h := uint32(0)
		for _, t := range text[end-gram : end] {
			h = hash(h, t)
		}
		return w.bucket(h)
	}
	if len(text) < gram {
		return best, 0
	}
	mine := of(len(text))
	for place := len(text) - 1; place-gram >= max(0, len(text)-len(w.ring)); place-- {
		if of(place) == mine {
			crowd++
		}
		n := 0
		for n < enough && place-1-n >= max(0, len(text)-len(w.ring)) && text[place-1-n] == text[len(text)-1-n] {
			n++
		}
		if n >= gram && n > best.length {
			best = match{place, n}
		}
		if best.length >= enough {
			break
		}
	}
	return best, crowd
}

// occurs reports whether part stands in one of the texts.
func occurs(texts [][]int32, part []int32) bool {
	for _, text := range texts {
		for i := 0; i+len(part) <= len(text); i++ {
			if slices.Equal(text[i:i+len(part)], part) {
				return true
			}
		}
	}
	return false
}

// continues reports whether guess goes on as an earlier place of the sequence did, its own beginning included.
func continues(sequence, guess []int32) bool {
	whole := slices.Concat(sequence, guess)
	for place := ownGram; place < len(sequence); place++ {
		back := len(sequence) - place
		if slices.Equal(whole[len(sequence)-ownGram:], whole[place-ownGram:len(whole)-back]) {
			return true
		}
	}
	return false
}

// Every guess is what followed the same words before: in the sequence, or within one text of its own namespace.
func TestGuessesAreVerbatim(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	x := NewIndex(Config{Tokens: 1 << 12, Namespaces: 2})
	texts := map[string][][]int32{}
	own, shared := 0, 0
	for range 60 {
		tenant := fmt.Sprint("tenant-", r.IntN(2))
		text := loops(r, 200, 60)
		d := NewDrafter(x, tenant)
		for n := 1; n <= len(text); n++ {
			most := r.IntN(9)
			guess := d.Propose(nil, text[:n], most)
			if len(guess) > most {
				t.Fatalf("%d tokens of at most %d", len(guess), most)
			}
			d.Accept(len(guess), agree(guess, text[n:]))
			if len(guess) == 0 {
				continue
			}
			switch {
			case continues(text[:n], guess):
				own++
			case n >= sharedGram && occurs(texts[tenant], slices.Concat(text[n-sharedGram:n], guess)):
				shared++
			default:
				t.Fatalf("%v after %v was never seen", guess, text[max(0, n-5):n])
			}
		}
		x.Add(tenant, text)
		texts[tenant] = append(texts[tenant], text)
	}
	if own < 100 || shared < 10 {
		t.Errorf("%d guesses from the sequence, %d from earlier texts", own, shared)
	}
}

func agree(guess, text []int32) int {
	n := 0
	for n < min(len(guess), len(text)) && guess[n] == text[n] {
		n++
	}
	return n
}

// decode runs a sequence as the engine does: every step yields one token, and those guessed right before it.
func decode(d *Drafter, text []int32, from, most int) (steps, proposed, accepted int) {
	for n := from; n < len(text); steps++ {
		guess := d.Propose(nil, text[:n], most)
		ok := agree(guess, text[n:])
		d.Accept(len(guess), ok)
		proposed, accepted = proposed+len(guess), accepted+ok
		n += ok + 1
	}
	return steps, proposed, accepted
}

func TestRepetitiveTextIsGuessedAndRandomTextIsNot(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	sentence := random(r, 40, 5000)
	repetitive := slices.Concat(sentence, sentence, sentence, sentence, sentence, sentence, sentence, sentence)
	steps, proposed, accepted := decode(NewDrafter(nil, ""), repetitive, len(sentence), 8)
	t.Logf("repetitive: %d steps for %d tokens, %d of %d right", steps, len(repetitive)-len(sentence), accepted, proposed)
	if float64(accepted) < 0.9*float64(proposed) || steps > len(repetitive)/4 {
		t.Errorf("repetitive text: %d steps, %d of %d", steps, accepted, proposed)
	}
	run := slices.Repeat([]int32{7}, 400)
	if steps, proposed, accepted := decode(NewDrafter(nil, ""), run, 4, 8); accepted < proposed*9/10 || steps > 70 {
		t.Errorf("one word: %d steps, %d of %d", steps, accepted, proposed)
	}

	noise := random(r, 4000, 12) // so few words that pairs repeat all the time, and mean nothing
	d := NewDrafter(nil, "")
	_, early, _ := decode(d, noise[:400], 1, 8)
	_, late, _ := decode(d, noise, 400, 8)
	t.Logf("random: %d guesses in the first 400 tokens, %d in the next 3600", early, late)
	if late > 3600/10 || early == 0 {
		t.Errorf("random text: %d guesses, then %d", early, late)
	}

	// A sequence that turns repetitive is noticed in time.
	turned := slices.Concat(noise, repetitive)
	from := len(noise) + len(sentence)
	if steps, _, _ := decode(d, turned, from, 8); steps > (len(turned)-from)/3 {
		t.Errorf("after the turn: %d steps for %d tokens, rate %v", steps, len(turned)-from, d.Rate())
	}
}

// An answer like an earlier one of the tenant is guessed from it, and only by the same tenant.
func TestEarlierTextsOfTheNamespaceOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	answer := random(r, 300, 1<<15)
	x := NewIndex(Config{})
	x.Add("a", answer)
	steps, proposed, accepted := decode(NewDrafter(x, "a"), answer, sharedGram, 8)
	if steps > 60 || accepted < proposed*9/10 {
		t.Errorf("%d steps, %d of %d", steps, accepted, proposed)
	}
	for _, d := range []*Drafter{NewDrafter(x, "b"), NewDrafter(x, ""), NewDrafter(nil, "a")} {
		if _, proposed, _ := decode(d, answer, sharedGram, 8); proposed != 0 {
			t.Errorf("%d tokens crossed from another namespace", proposed)
		}
	}
	x.Forget("a")
	if _, proposed, _ := decode(NewDrafter(x, "a"), answer, sharedGram, 8); proposed != 0 || x.Stats() != (Stats{}) {
		t.Errorf("%d tokens of a forgotten namespace, %+v", proposed, x.Stats())
	}
	// Guesses end where the text ended, and none begins across two texts.
	x.Add("c", []int32{1, 2, 3, 4})
	x.Add("c", []int32{5, 6, 7, 8})
	if got := NewDrafter(x, "c").Propose(nil, []int32{1, 2, 3}, 8); !slices.Equal(got, []int32{4}) {
		t.Errorf("got %v", got)
	}
	if got := NewDrafter(x, "c").Propose(nil, []int32{2, 3, 4}, 8); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// The longer match wins, and of equals the sequence's own.
func TestLongerMatchWins(t *testing.T) {
	x := NewIndex(Config{})
	x.Add("a", []int32{9, 1, 2, 3, 50})
	for _, c := range []struct{ tokens, want []int32 }{
		{[]int32{2, 3, 60, 1, 2, 3}, []int32{50}},
		{[]int32{1, 2, 3, 60, 1, 2, 3}, []int32{60}},
		{[]int32{5, 1, 2, 3, 60, 5, 1, 2, 3}, []int32{60}},
		{[]int32{1, 2, 3, 60, 9, 1, 2, 3}, []int32{50}},
		{[]int32{2, 3, 60, 2, 3, 61, 2, 3}, []int32{61}},
	} {
		if got := NewDrafter(x, "a").Propose(nil, c.tokens, 1); !slices.Equal(got, c.want) {
			t.Errorf("after %v: %v, want %v", c.tokens, got, c.want)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	x := NewIndex(Config{Tokens: 1000, Namespaces: 3}) // rounded up to 1024
	var last []int32
	for i := range 500 {
		last = random(r, r.IntN(3000), 1<<15)
		x.Add(fmt.Sprint(i%7), last)
		if st := x.Stats(); st.Namespaces > 3 || st.Tokens > 3*1024 || st.Bytes > 3*1024*16 {
			t.Fatalf("%+v", st)
		}
	}
	last = random(r, 2000, 1<<15)
	x.Add("3", last)
	if got := NewDrafter(x, "3").Propose(nil, last[1990:1995], 4); !slices.Equal(got, last[1995:1999]) {
		t.Errorf("the newest text: %v", got)
	}
	if got := NewDrafter(x, "3").Propose(nil, last[100:105], 4); len(got) != 0 {
		t.Errorf("a dropped text: %v", got)
	}
	// Those used last stay.
	y := NewIndex(Config{Namespaces: 2})
	y.Add("a", []int32{1, 2, 3, 4})
	y.Add("b", []int32{1, 2, 3, 4})
	NewDrafter(y, "a").Propose(nil, []int32{1, 2, 3}, 1)
	y.Add("c", []int32{1, 2, 3, 4})
	for namespace, want := range map[string]int{"a": 1, "b": 0, "c": 1} {
		if got := NewDrafter(y, namespace).Propose(nil, []int32{1, 2, 3}, 1); len(got) != want {
			t.Errorf("%s: %v", namespace, got)
		}
	}
	NewDrafter(y, "c").Propose(nil, []int32{1, 2, 3}, 1)
	y.Add("a", []int32{1, 2, 3, 4})
	y.Add("d", []int32{1, 2, 3, 4})
	if got := NewDrafter(y, "a").Propose(nil, []int32{1, 2, 3}, 1); len(got) != 1 {
		t.Error("a namespace that was just added to is gone")
	}
	// A sequence longer than any window.
	w := newWindow(2, smallest)
	for _, id := range random(r, 10_000, 50) {
		w.add(id)
	}
	if len(w.ring) != smallest || len(w.heads) != smallest || len(w.back) != smallest {
		t.Errorf("%d tokens are kept", len(w.ring))
	}
}

func TestGuessesDependOnTokensAndAcceptanceOnly(t *testing.T) {
	text := loops(rand.New(rand.NewPCG(6, 6)), 800, 50)
	trace := func(at []int) string {
		d, out := NewDrafter(nil, ""), strings.Builder{}
		seen := 0
		for _, n := range at { // however the tokens came in
			d.Propose(nil, text[:n], 0)
			seen = n
		}
		for n := seen; n < len(text); n++ {
			guess := d.Propose(nil, text[:n], 6)
			d.Accept(len(guess), agree(guess, text[n:]))
			fmt.Fprint(&out, guess, d.Rate())
		}
		return out.String()
	}
	if trace([]int{300}) != trace([]int{1, 2, 50, 51, 299, 300}) {
		t.Error("the same sequence was guessed differently")
	}
}

func TestAcceptanceKeepsWithinBounds(t *testing.T) {
	d := NewDrafter(nil, "")
	r := rand.New(rand.NewPCG(7, 7))
	text := slices.Repeat([]int32{1, 2}, 50)
	for range 10_000 {
		n := len(d.Propose(nil, text, 8))
		d.Accept(n, []int{0, n, r.IntN(n + 1)}[r.IntN(3)])
		if d.Rate() < 0 || d.Rate() > 1 || d.length() < 1 || d.pausedSteps > lastPace {
			t.Fatalf("%+v", d)
		}
	}
	for range 100 {
		d.Accept(8, 8)
	}
	if got := d.Propose(nil, text, 40); d.pausedSteps == 0 && len(got) != 40 {
		t.Errorf("%d tokens at the rate %v", len(got), d.Rate())
	}
	// Nothing proposed is no evidence, and while nothing may be proposed no pause goes by.
	before := *d
	d.Accept(0, 0)
	d.Propose(nil, text, 0)
	if d.rate != before.rate || d.pausedSteps != before.pausedSteps {
		t.Error("the rate changed")
	}
	// Failing again and again makes attempts rare.
	attempts := 0
	for range 5000 {
		if guess := d.Propose(nil, text, 8); len(guess) > 0 {
			attempts++
			d.Accept(len(guess), 0)
		}
	}
	if attempts < 15 || attempts > 200 {
		t.Errorf("%d attempts in 5000 steps", attempts)
	}
}

func TestProposeAllocatesNothing(t *testing.T) {
	text := loops(rand.New(rand.NewPCG(8, 8)), 5000, 50)
	x := NewIndex(Config{})
	x.Add("a", text)
	d, dst, n := NewDrafter(x, "a"), make([]int32, 0, 16), 4200
	d.Propose(dst, text[:n], 8)
	if allocs := testing.AllocsPerRun(500, func() {
		n++
		d.Accept(8, 4)
		d.Propose(dst[:0], text[:n], 8)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// FuzzDrafter feeds a text through indexes and drafters in any cut: guesses keep to their bounds and to what was seen.
func FuzzDrafter(f *testing.F) {
	f.Add([]byte("the cat sat on the mat and the cat sat on the hat"), uint8(4), uint8(3))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaa"), uint8(9), uint8(0))
	f.Add([]byte("abcabcabcabdabcabcabe"), uint8(1), uint8(200))
	f.Fuzz(func(t *testing.T, data []byte, most, cut uint8) {
		text := make([]int32, min(len(data), 600))
		for i := range text {
			text[i] = int32(data[i])
		}
		before, after := text[:min(int(cut), len(text))], text[min(int(cut), len(text)):]
		x := NewIndex(Config{Tokens: smallest, Namespaces: 1})
		x.Add("a", before)
		d := NewDrafter(x, "a")
		for n := range after {
			guess := d.Propose(nil, after[:n], int(most))
			if len(guess) > int(most) {
				t.Fatalf("%d of %d", len(guess), most)
			}
			if len(guess) > 0 && !continues(after[:n], guess) &&
				!occurs([][]int32{before}, slices.Concat(after[n-sharedGram:n], guess)) {
				t.Fatalf("%v was never seen", guess)
			}
			d.Accept(len(guess), agree(guess, after[n:]))
		}
	})
}

// One step costs the same however long the sequence is.
func BenchmarkPropose(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 13, 1 << 16} {
		for name, text := range map[string][]int32{
			"loops":  loops(rand.New(rand.NewPCG(1, 1)), size, 2000),
			"random": random(rand.New(rand.NewPCG(1, 1)), size, 100),
		} {
			b.Run(fmt.Sprint(name, "/", size), func(b *testing.B) {
				x := NewIndex(Config{})
				x.Add("a", text)
				d, dst := NewDrafter(x, "a"), make([]int32, 0, 16)
				d.Propose(dst, text[:size/2], 8)
				n := size / 2
				b.ReportAllocs()
				for b.Loop() {
					if n++; n == size {
						b.StopTimer()
						n = size / 2
						d = NewDrafter(x, "a")
						d.Propose(dst, text[:n], 8)
						b.StartTimer()
					}
					d.pausedSteps = 0
					d.Propose(dst[:0], text[:n], 8)
				}
			})
		}
	}
}
