package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// declaredTests are the tests and fuzz targets of the repository.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil || len(tests) < 1000 {
		t.Fatalf("%d tests were found, %v", len(tests), err)
	}
	return tests
}

// TestFeaturesNameTestsThatExist: the page of features says of each how far it is, and names only tests that there are.
func TestFeaturesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := declaredTests(t)
	seen := map[string]bool{}
	row := regexp.MustCompile(`^\| ([A-Z]{3}-\d\d|[A-Z]{2}-\d\d) \| (.+) \| (\w+) \| (.*) \| (.*) \|$`)
	for line := range strings.Lines(read(t, "../docs/features.md")) {
		line = strings.TrimSpace(line)
		if !regexp.MustCompile(`^\| [A-Z]+-`).MatchString(line) {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a row of five columns: %s", line)
			continue
		}
		id, state, names, missing := m[1], m[3], regexp.MustCompile("`[^`]+`").FindAllString(m[4], -1), m[5]
		if seen[id] {
			t.Errorf("%s stands twice", id)
		}
		seen[id] = true
		switch state {
		case "done":
			if len(names) == 0 {
				t.Errorf("%s is called done, and no test holds it", id)
			}
		case "gaps", "begun":
			if missing == "" {
				t.Errorf("%s does not say what is missing", id)
			}
		case "no":
		default:
			t.Errorf("%s: %q is no state", id, state)
		}
		for _, name := range names {
			if !tests[strings.Trim(name, "`")] {
				t.Errorf("%s names the test %s, which does not exist", id, name)
			}
		}
	}
	if len(seen) != 120 {
		t.Errorf("%d features, want 120", len(seen))
	}
}

// TestComplianceMatrixNamesWhatExists: the tests that hold its controls, and the pages of the console that have their evidence.
func TestComplianceMatrixNamesWhatExists(t *testing.T) {
	t.Parallel()
	var m struct {
		Controls []struct {
			ID    string
			Tests []string
			Page  string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../server/compliance/matrix.yaml")), &m); err != nil || len(m.Controls) < 20 {
		t.Fatalf("%d controls, %v", len(m.Controls), err)
	}
	tests, pages := declaredTests(t), read(t, "../web/src/App.tsx")
	for _, c := range m.Controls {
		for _, name := range c.Tests {
			if !tests[name] {
				t.Errorf("%s is held by %s, which is none", c.ID, name)
			}
		}
		if !strings.Contains(pages, "path: '"+c.Page+"'") {
			t.Errorf("%s has its evidence at %s, which is no page", c.ID, c.Page)
		}
	}
}
