package gateway

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestStepTable: the table of the package comment is the only one; the code takes its steps in that order and by these names, and the picture
// shows them with its numbers.
func TestStepTable(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]int{} // numbers by name
	var names []string
	for n, m := range regexp.MustCompile(`(?m)^//\t([ \d]\d)  (\w+) `).FindAllStringSubmatch(string(source), -1) {
		table[m[2]] = n + 1
		names = append(names, m[2])
		if want := strings.TrimSpace(m[1]); want != number(n+1) {
			t.Errorf("step %s has the number %s, and is row %d", m[2], want, n+1)
		}
	}
	if len(names) != 14 {
		t.Fatalf("the table has the steps %q", names)
	}
	text, err := os.ReadFile("pipeline.go")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]string{} // names of metrics by name in code
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) += step\{"(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		code[m[1]] = m[2]
	}
	for _, m := range regexp.MustCompile(`runSteps\(ctx, ([\w, ]+)\)`).FindAllStringSubmatch(string(text), -1) {
		at := 0
		for _, s := range strings.Split(m[1], ", ") {
			name := code[s]
			if name == "authorize" { // it is authenticate, taken again, and the end of decode
				name = "decode"
			}
			if table[name] <= at {
				t.Errorf("%q takes %s out of the order of the table", m[1], name)
			}
			at = table[name]
		}
	}
	picture, err := os.ReadFile("../docs/request-path.svg")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`y="27">(\d+)(?:–\d+)? ([^<]+)<`).FindAllStringSubmatch(string(picture), -1)
	if len(shown) != 12 { // 1 and 2 are one, 5 is none
		t.Errorf("the picture shows %q", shown)
	}
	for _, m := range shown {
		words := map[string]string{"identify, decode": "authenticate", "inspect, restore, label": "egress", "settle cost and energy, audit “outcome”": "outcome", "JSON or SSE, receipt": "render"}
		name := words[m[2]]
		if name == "" {
			name, _, _ = strings.Cut(strings.NewReplacer(":", " ", ",", " ").Replace(m[2]), " ")
		}
		if m[1] != number(table[name]) {
			t.Errorf("the picture calls %q step %s, the table has it as %d", m[2], m[1], table[name])
		}
	}
	if chat := regexp.MustCompile(`runSteps\(ctx, ([\w, ]+)\)`).FindStringSubmatch(string(text)); len(strings.Split(chat[1], ", ")) != 8 || !slices.Contains(names, "mask") {
		t.Errorf("a chat takes %q", chat[1])
	}
}

func number(n int) string { return strconv.Itoa(n) }
