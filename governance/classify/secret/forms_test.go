package secret_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/classify/secret"
)

// TestForms finds a made-up credential of every form, whole, and leaves its head alone.
func TestForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	if n := len(secret.Forms()) + len(secret.URLs()); n < 150 {
		t.Errorf("%d rules", n)
	}
	for _, f := range secret.Forms() {
		var b strings.Builder
		b.WriteString(f.Head)
		for n := 0; n < f.Least+2; n++ {
			if n%5 == 4 {
				b.WriteByte('0' + byte(r.IntN(10)))
				continue
			}
			b.WriteByte("abcdef"[r.IntN(6)])
		}
		wantOne(t, "凭证 ", b.String(), "，请勿外传")
		if got := classify.New().Find("前缀 " + f.Head + " 说明"); len(got) != 0 {
			t.Errorf("%q alone: %+v", f.Head, got)
		}
	}
	for _, u := range secret.URLs() {
		wantOne(t, "https://"+u, "a1b2c3d4-e5f6-7890-abcd-ef1234567890", "")
	}
}

// wantOne expects the value to be the only credential, wherever the text is cut.
func wantOne(t *testing.T, before, value, behind string) {
	t.Helper()
	whole := before + value + behind
	for cut := range len(whole) {
		sc := classify.New().Scanner()
		var found []classify.Segment
		for _, segments := range [][]classify.Segment{slices.Clone(sc.Write(whole[:cut])), slices.Clone(sc.Write(whole[cut:])), sc.Close()} {
			for _, s := range segments {
				if s.Class == classify.Secret {
					found = append(found, s)
				}
			}
		}
		if len(found) != 1 || found[0].Start != len(before) || found[0].Text != value {
			t.Fatalf("%s«%s»%s cut at %d: found %+v", before, value, behind, cut, found)
		}
		sc.Done()
	}
}
