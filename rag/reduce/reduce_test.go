package reduce

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// random is a map of random rows.
func random(from, to int, rng *rand.Rand) (rows [][]float64) {
	for range to {
		row := make([]float64, from)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		rows = append(rows, row)
	}
	return rows
}

// TestApplyIsTheMap compares with the product in float64: sixteen bits of a weight keep the direction to a hundred-thousandth.
func TestApplyIsTheMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rows := random(48, 16, rng)
	file := Encode([32]byte{7}, rows)
	r, err := Parse(file)
	if err != nil || r.From() != 48 || r.To() != 16 {
		t.Fatalf("%+v, %v", r, err)
	}
	for range 100 {
		v := make([]float32, 48)
		for j := range v {
			v[j] = float32(rng.NormFloat64())
		}
		kept := slices.Clone(v)
		got, err := r.Apply(v)
		if err != nil || !slices.Equal(v, kept) {
			t.Fatal(err)
		}
		want := make([]float64, 16)
		var ab, aa, bb float64
		for i := range want {
			for j, x := range v {
				want[i] += rows[i][j] * float64(x)
			}
			ab, aa, bb = ab+want[i]*float64(got[i]), aa+want[i]*want[i], bb+float64(got[i])*float64(got[i])
		}
		if c := ab / math.Sqrt(aa*bb); c < 1-1e-5 || math.Abs(bb-1) > 1e-5 {
			t.Fatalf("cosine %.7f to the map, length %.7f", c, math.Sqrt(bb))
		}
	}
	// The length of a vector does not count: those of long texts are means of their parts', shorter than one.
	v := make([]float32, 48)
	v[3], v[4] = 0.5, -0.25
	half, _ := r.Apply(v)
	for j := range v {
		v[j] *= 2
	}
	if whole, _ := r.Apply(v); !slices.Equal(half, whole) {
		t.Error("the same direction becomes another")
	}
	if _, err := r.Apply(make([]float32, 47)); err == nil {
		t.Error("a vector of another length is taken")
	}
}

// TestNothingLeft: a vector of which nothing is left has no direction, and no component that is not a number.
func TestNothingLeft(t *testing.T) {
	r, err := Parse(Encode([32]byte{}, [][]float64{{1, 0}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range [][]float32{{0, 0}, {0, 5}, {float32(math.Inf(1)), 0}, {float32(math.NaN()), 0}} {
		if got, err := r.Apply(v); err != nil || got[0] != 0 {
			t.Errorf("%v becomes %v, %v", v, got, err)
		}
	}
}

// TestAnotherFileIsAnotherMap: the name changes with any bit, since vectors by different maps must not be compared.
func TestAnotherFileIsAnotherMap(t *testing.T) {
	rows := random(8, 4, rand.New(rand.NewPCG(3, 4)))
	one, err := Parse(Encode([32]byte{}, rows))
	if err != nil {
		t.Fatal(err)
	}
	rows[2][3] = -rows[2][3]
	other, err := Parse(Encode([32]byte{}, rows))
	if err != nil || one.ID() == other.ID() {
		t.Errorf("both are %s: %v", one.ID(), err)
	}
}

// TestShipped: the map for the default model can be read, is small, and is for no other model.
func TestShipped(t *testing.T) {
	const model = "sha256:1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
	r, err := For(model)
	if err != nil || r == nil || r.From() != 384 || r.To() != 256 || len(e5) > 200_000 {
		t.Fatalf("%+v of %d bytes", r, len(e5))
	}
	if other, err := For("sha256:53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"); other != nil || err != nil {
		t.Errorf("for another model: %+v, %v", other, err)
	}
	if got, err := r.Apply(make([]float32, 384)); err != nil || len(got) != 256 {
		t.Errorf("%d components, %v", len(got), err)
	}
}

// TestADamagedMapIsAnError: an empty or a cut file never means that vectors stay as long as they are.
func TestADamagedMapIsAnError(t *testing.T) {
	const model = "sha256:1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
	for _, file := range [][]byte{nil, e5[:header], e5[:len(e5)-1]} {
		if r, err := from(file, model); r != nil || err == nil {
			t.Errorf("%d bytes: %+v, %v", len(file), r, err)
		}
	}
}

// TestThePapersAreOfTheMap: README.md has the figures of the map that is shipped, not of one before.
func TestThePapersAreOfTheMap(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	r, err := For("sha256:1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f")
	if err != nil || !strings.Contains(string(text), r.ID()) {
		t.Errorf("README.md does not name the map: %v", err)
	}
}

// FuzzParse: no file crashes or makes more room than it has bytes for, and what is accepted can be applied.
func FuzzParse(f *testing.F) {
	f.Add(Encode([32]byte{1}, random(6, 3, rand.New(rand.NewPCG(5, 6)))))
	f.Add([]byte(magic))
	f.Add(e5[:min(len(e5), 200)])
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Parse(file)
		if err != nil {
			return
		}
		out, err := r.Apply(make([]float32, r.From()))
		if err != nil || len(out) != r.To() {
			t.Fatal(len(out), err)
		}
		for _, x := range out {
			if !finite(x) {
				t.Fatal("not finite")
			}
		}
	})
}
