package jsonschema

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"github.com/sluice-project/sluice/engine/grammar"
)

func long() bool { return os.Getenv("SLUICE_TEST_LONG") != "" }

// TestSet walks through every schema's grammar at random and checks each text with an independent validator; and it checks that
// the grammar takes the instances that the set calls valid and refuses the others.
func TestSet(t *testing.T) {
	records := testSet(t)
	if len(records) < 500 {
		t.Fatalf("the set has %d schemas", len(records))
	}
	v, text, end := smallVocabulary()
	walks := 3
	if long() {
		walks = 60
	}
	var ended, total atomic.Int64
	t.Run("schemas", func(t *testing.T) {
		for _, r := range records {
			t.Run(r.file+"/"+r.Name, func(t *testing.T) {
				t.Parallel()
				g, err := Parse(r.Schema, Options{}, grammar.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				valid := validate(t, r.Schema)
				instances(t, r, g, v, end, valid)
				h := fnv.New64a()
				h.Write([]byte(r.Name))
				random := rand.New(rand.NewPCG(h.Sum64(), 1))
				some := false
				for range walks {
					total.Add(1)
					if out, ok := walk(t, g.Matcher(v), text, end, random, 600); ok {
						ended.Add(1)
						some = true
						check(t, r, valid, out)
					}
				}
				if !some {
					t.Error("no walk ended")
				}
			})
		}
	})
	if ended.Load()*10 < total.Load()*9 {
		t.Errorf("only %d of %d walks ended", ended.Load(), total.Load())
	}
	t.Logf("%d schemas, %d of %d walks ended", len(records), ended.Load(), total.Load())
}

func instances(t *testing.T, r record, g *grammar.Grammar, v *grammar.Vocabulary, end int32, valid func(string) error) {
	for _, text := range r.Valid {
		s := compact(t, text)
		if err := valid(s); err != nil {
			t.Errorf("the set is wrong, %s is invalid: %v", s, err)
		}
		if !accepts(g, v, end, s) {
			t.Errorf("valid, and refused: %s", s)
		}
	}
	for _, text := range r.Invalid {
		s := compact(t, text)
		if valid(s) == nil {
			t.Errorf("the set is wrong, %s is valid", s)
		}
		if accepts(g, v, end, s) {
			t.Errorf("invalid, and accepted: %s", s)
		}
	}
}

func compact(t *testing.T, text json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Error(err)
	}
	return b.String()
}
