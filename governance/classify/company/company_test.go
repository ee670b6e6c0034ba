package company

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// TestCompaniesAreRemembered: what is remembered of where companies end, and where none begins, changes nothing that is found.
func TestCompaniesAreRemembered(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	parts := []string{"华东机电", "甲", "有限公司", "股份有限公司", "集团", "有 限公司", "与", "在", "，", " ", "  ", "分公司", "有", "集", "北京", "Ab", "(", "一二三四五六七八九十", "。", "苏州分公司"}
	found := 0
	for range 3000 {
		var b strings.Builder
		for range 1 + r.IntN(30) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		w := new(finding.Buffer)
		w.Read(b.String(), 0, r.IntN(2) == 0)
		remembers := Detector{Window: w.View()}
		for i := range w.End() {
			fresh := Detector{Window: w.View()}
			if !fresh.Begins(i) {
				continue
			}
			want, answer := company(&fresh, i)
			got, v := finding.Candidate{}, text.No
			if remembers.Begins(i) {
				got, v = company(&remembers, i)
			}
			if v != answer || v == text.Yes && got != want {
				t.Fatalf("%q at %d: %+v %d, a window that remembers nothing: %+v %d", b.String(), i, got, v, want, answer)
			}
			if v == text.Yes {
				found++
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d companies", found)
	}
}
