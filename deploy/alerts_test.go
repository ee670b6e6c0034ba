package deploy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestAlertsNameMetrics: every alert is of a metric that the server has, says what to do, and says it in both languages.
func TestAlertsNameMetrics(t *testing.T) {
	raw, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile("../server/testdata/metrics.golden")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			names := regexp.MustCompile(`sluice_[a-z_]+`).FindAllString(r.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: %q names no metric", r.Alert, r.Expr)
			}
			for _, name := range names {
				if !strings.Contains("\n"+string(metrics), "\n"+name+" ") {
					t.Errorf("%s: the server has no metric %s", r.Alert, name)
				}
			}
			han := regexp.MustCompile(`\p{Han}`)
			if r.Labels["severity"] == "" || !han.MatchString(r.Annotations["summary"]) || !han.MatchString(r.Annotations["description"]) {
				t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
	if n < 4 {
		t.Errorf("only %d alerts", n)
	}
}
