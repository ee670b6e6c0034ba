package strictjson_test

import (
	"testing"

	"github.com/sluice-project/sluice/internal/strictjson"
)

func TestDecode(t *testing.T) {
	type pair struct{ A, B int }
	for text, ok := range map[string]bool{
		`{"A":1,"B":2}`: true, " {\"A\":1,\n\"B\":2}\n": true,
		`{"A":1,"B":2}{}`: false, `{"A":1,"B":2} x`: false, `{"A":1,"B":2}]`: false, `{"A":1,"B":2,"C":3}`: false, `{"A":1.5}`: false, ``: false, `{"A":1`: false,
	} {
		v, err := strictjson.Decode[pair]([]byte(text))
		if ok != (err == nil) || ok && v != (pair{1, 2}) || !ok && v != (pair{}) {
			t.Errorf("%q: %+v, %v", text, v, err)
		}
	}
}
