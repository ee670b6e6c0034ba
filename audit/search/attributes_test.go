package search

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/audit/record"
)

func TestAttributeSetsDifferInEveryvalue(t *testing.T) {
	seen := map[string]bool{}
	var a attributes
	for i, v := range a.values() {
		*v = "x"
		if id := string(a.id()); seen[id] {
			t.Errorf("value %d is not part of the id", i)
		} else {
			seen[id] = true
		}
		*v = ""
	}
	if bytes.Equal(attributes{Tenant: "ab", Project: "c"}.id(), attributes{Tenant: "a", Project: "bc"}.id()) {
		t.Error("values run into each other")
	}
}

func TestTermsAreDocumentsAndResources(t *testing.T) {
	got := termsOf("t", "Key-1", map[string]string{record.LabelAgreement: "Agreement", record.VisibleLabel: "missing", "other": "x"}, []string{"kb/A@1#3", "kb/A@1#4", "kb/B@2", ""})
	if want := []term{{"t", "key-1"}, {"t", "label_agreement/agreement"}, {"t", "visible_label/missing"}, {"t", "kb/a@1"}, {"t", "kb/b@2"}}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if termsOf("t", "", nil, nil) != nil {
		t.Error("nothing has terms")
	}
}

// FuzzClasses holds that a class is found among classes exactly when it is one, whatever it is called.
func FuzzClasses(f *testing.F) {
	f.Add("email", "mobile", "mail")
	f.Add("a\nb", "", "b")
	f.Add("x\x00", strings.Repeat("长", 300), "x")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		all := classList([]string{a, b, a})
		for _, s := range []string{a, b} {
			if !strings.Contains(all, class(s)) && strings.Trim(s, "\n ") != "" {
				t.Errorf("%q is not found in %q", s, all)
			}
		}
		if strings.Contains(all, class(c)) && class(c) != class(a) && class(c) != class(b) && class(c) != "\n\n" {
			t.Errorf("%q is found in %q", c, all)
		}
		if v := value(a); len(v) > maxValue || strings.Contains(v, "\x00") || utf8.ValidString(a) && !utf8.ValidString(v) {
			t.Errorf("%q is stored as %q", a, v)
		}
	})
}
