package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// papers returns the Markdown files of the project by their path from its root, with their text.
func papers(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "deploy/*.md", "bench/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			rel, err := filepath.Rel("..", path)
			if err != nil {
				t.Fatal(err)
			}
			out[rel] = read(t, path)
		}
	}
	if len(out) < 15 {
		t.Fatalf("only %d papers were found", len(out))
	}
	return out
}

var (
	fence  = regexp.MustCompile("(?s)```.*?```")
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inline = regexp.MustCompile("`([^`\n]+)`")
)

func TestPapersLinkToWhatExists(t *testing.T) {
	t.Parallel()
	for paper, text := range papers(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if anchor != "" {
				t.Errorf("%s: the anchor of %s is not checked; link to the file", paper, m[1])
			}
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(paper), target)); err != nil {
				t.Errorf("%s: %s leads nowhere", paper, m[1])
			}
		}
	}
}

// TestPapersForUsersHaveAChineseTwin: those who use or run Sluice read either language; papers for its programmers are English.
func TestPapersForUsersHaveAChineseTwin(t *testing.T) {
	t.Parallel()
	all := papers(t)
	heading := regexp.MustCompile(`(?m)^##+ `)
	for paper, text := range all {
		if strings.HasSuffix(paper, ".zh-CN.md") || !regexp.MustCompile(`^(README|deploy/README|docs/guides/.*)\.md$`).MatchString(paper) {
			continue
		}
		name := strings.TrimSuffix(paper, ".md") + ".zh-CN.md"
		twin, ok := all[name]
		if !ok {
			t.Errorf("%s has no Chinese twin", paper)
			continue
		}
		if !strings.Contains(text, "]("+filepath.Base(name)+")") || !strings.Contains(twin, "]("+filepath.Base(paper)+")") {
			t.Errorf("%s and its twin do not link to each other", paper)
		}
		if en, zh := len(heading.FindAllString(text, -1)), len(heading.FindAllString(twin, -1)); en != zh {
			t.Errorf("%s has %d headings, its twin %d", paper, en, zh)
		}
		if en, zh := commandLines(text), commandLines(twin); strings.Join(en, "\n") != strings.Join(zh, "\n") {
			t.Errorf("%s and its twin show different commands:\n%s\n--\n%s", paper, strings.Join(en, "\n"), strings.Join(zh, "\n"))
		}
	}
}

// commandLines returns the shell lines of a paper without their comments.
func commandLines(text string) []string {
	var out []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, "#")
			line = regexp.MustCompile(`"\$[^"]*"`).ReplaceAllString(line, "…") // names of variables are translated
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
	}
	return out
}

// TestPapersNameFilesThatExist looks at every inline path that begins with a folder of the project.
func TestPapersNameFilesThatExist(t *testing.T) {
	t.Parallel()
	path := regexp.MustCompile(`^(\.ci|audit|bench|billing|deploy|docs|engine|gateway|governance|internal|migrations|rag|server|web|workflows)/[\w./-]*$`)
	for paper, text := range papers(t) {
		for _, m := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if !path.MatchString(m[1]) || m[1] == "web/dist" {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s: there is no %s", paper, m[1])
			}
		}
	}
}

func TestPapersNameMakeTargetsThatExist(t *testing.T) {
	t.Parallel()
	makefile := read(t, "../Makefile")
	use := regexp.MustCompile("(?:`|\n)make ([a-z][a-z0-9-]*)")
	n := 0
	for paper, text := range papers(t) {
		for _, m := range use.FindAllStringSubmatch(text, -1) {
			n++
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no target %s", paper, m[1])
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d uses of make were found", n)
	}
}

// TestArchitectureExplainsEveryDirectDependency holds the table and go.mod together.
func TestArchitectureExplainsEveryDirectDependency(t *testing.T) {
	t.Parallel()
	text := read(t, "../ARCHITECTURE.md")
	_, table, ok := strings.Cut(text, "## Direct dependencies")
	if !ok {
		t.Fatal("the table is gone")
	}
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, "../go.mod"), -1)
	if len(direct) < 20 {
		t.Fatalf("only %d direct requirements were read", len(direct))
	}
	for _, m := range direct {
		if !strings.Contains(table, "`"+m[1]+"`") {
			t.Errorf("%s is not explained", m[1])
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^|]+)` \\|").FindAllStringSubmatch(table, -1) {
		for _, module := range strings.Split(m[1], "`, `") {
			if !strings.Contains(read(t, "../go.mod"), "\t"+module+" v") {
				t.Errorf("%s is explained but not required", module)
			}
		}
	}
}

// TestPapersShowShellThatParses: the shell lines of the papers are complete commands, as far as a shell can tell.
func TestPapersShowShellThatParses(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	for paper, text := range papers(t) {
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
			cmd := exec.Command(sh, "-n")
			cmd.Stdin = strings.NewReader(block[1])
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", paper, err, out)
			}
		}
	}
}
