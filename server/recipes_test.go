package server_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ofEveryPackage are files that a recipe names without a folder: those of the package that it is followed in.
var ofEveryPackage = []string{"metrics.go", "store.go"}

// recipeFaults returns what is wrong with a recipe: that it is long, and which of the files it names exists reports missing. A name without a
// folder is that of a file in a folder that the recipe names, or beside another file of it.
func recipeFaults(recipe string, exists func(name string) bool) (faults []string) {
	if lines := strings.Split(strings.TrimSpace(recipe), "\n"); len(lines) > 8 {
		faults = append(faults, "more than eight lines")
	}
	var folders, files []string
	for _, m := range regexp.MustCompile("`([\\w./-]+)`").FindAllStringSubmatch(recipe, -1) {
		name := m[1]
		switch {
		case strings.Contains(name, "/") && !exists(name) && !slices.ContainsFunc(folders, func(f string) bool { return exists(path.Join(f, name)) }):
			faults = append(faults, name+" does not exist")
		case strings.Contains(name, "/") && path.Ext(name) == "":
			folders = append(folders, name)
		case strings.Contains(name, "/"):
			folders = append(folders, path.Dir(name))
		case slices.Contains([]string{".go", ".md", ".yaml", ".json", ".sql", ".tsx", ".txt"}, path.Ext(name)) && !slices.Contains(ofEveryPackage, name):
			files = append(files, name)
		}
	}
	for _, name := range files {
		if !exists(name) && !slices.ContainsFunc(folders, func(f string) bool { return exists(path.Join(f, name)) }) {
			faults = append(faults, name+" is in none of its folders")
		}
	}
	return faults
}

// TestRecipesOfContributing: a recipe that is short and names files that exist is one that somebody can follow.
func TestRecipesOfContributing(t *testing.T) {
	source, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(source), "\n## Recipes\n")
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join("..", name))
		return err == nil
	}
	recipes := 0
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		title, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(paragraph), "**"), "**")
		if !ok || !strings.HasPrefix(strings.TrimSpace(paragraph), "**") {
			continue
		}
		recipes++
		for _, f := range recipeFaults(paragraph, exists) {
			t.Errorf("%s %s", title, f)
		}
	}
	if recipes < 12 {
		t.Errorf("%d recipes, want one for each of the twelve most frequent changes", recipes)
	}
}

func TestRecipeFaultsAreFound(t *testing.T) {
	exists := func(name string) bool {
		return slices.Contains([]string{"a/b.go", "a/c.go", "a", "e/f", "e/f/g.go"}, name)
	}
	for recipe, want := range map[string]string{
		"**A.** `a/b.go`, `c.go`, `x.y`, `metrics.go`": "", "**B.** `a/d.go`": "a/d.go does not exist", "**C.** `a/b.go` `d.go`": "d.go is in none of its folders",
		"**D.** `e/f` `g.go`": "", "**E.**" + strings.Repeat("\nx", 8): "more than eight lines",
	} {
		if got := strings.Join(recipeFaults(recipe, exists), "; "); got != want {
			t.Errorf("%q: %q, want %q", recipe, got, want)
		}
	}
}
