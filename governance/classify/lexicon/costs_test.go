package lexicon

import "testing"

func TestWordCosts(t *testing.T) {
	var w [4]WordCost
	Costs().Words([]rune("高兴地看"), &w)
	if w[0].Part == 0 || w[1].Part == 0 || w[2].Part != 0 || w[3].Part != 0 {
		t.Errorf("高兴地看: %v", w)
	}
	happy := w[1].Cost
	Costs().Words([]rune("高脚杯"), &w)
	if w[2].Part != 'n' || w[2].Cost <= happy {
		t.Errorf("高脚杯 is rarer than 高兴: %v", w)
	}
	Costs().Words([]rune("王建国"), &w)
	if w[2].Part != 0 {
		t.Errorf("a name is no word: %v", w)
	}
	Costs().Words([]rune("龘"), &w)
	if w[0].Part == 0 || w[0].Cost < 30 {
		t.Errorf("every character has a cost: %v", w)
	}
	for _, text := range []string{"", "A", "高"} {
		Costs().Words([]rune(text), &w)
	}
}

func TestNameCost(t *testing.T) {
	for _, c := range []struct {
		usual, rare rune
		at          NamePlace
	}{{'王', '亓', AsSurname}, {'伟', '酷', AsSingle}, {'建', '脚', AsFirst}, {'华', '脚', AsSecond}} {
		if Costs().Name(c.usual, c.at) >= Costs().Name(c.rare, c.at) {
			t.Errorf("%c costs %d, %c %d", c.usual, Costs().Name(c.usual, c.at), c.rare, Costs().Name(c.rare, c.at))
		}
	}
	if Costs().Name('x', AsSurname) != rarest || Costs().Name('们', AsSurname) != rarest {
		t.Error("what is no surname costs most")
	}
}
