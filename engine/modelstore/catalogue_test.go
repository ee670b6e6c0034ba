package modelstore

import (
	"slices"
	"strings"
	"testing"
)

func TestCatalogue(t *testing.T) {
	list, err := parseCatalogue(catalogueYAML)
	if err != nil || len(list) != len(Catalogue()) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{SmolLM2, E5, Temporal, MiniLM}) {
		t.Errorf("artefacts %v", names)
	}
	for _, e := range list {
		if e.Kind != "program" && !strings.HasPrefix(e.Path, Models+"/") {
			t.Errorf("%s lies at %s", e.Name, e.Path)
		}
		if !slices.ContainsFunc(e.Sources, func(s string) bool { return strings.HasPrefix(s, "pypi:") }) {
			t.Errorf("%s cannot be had from a package mirror", e.Name)
		}
	}
	// Changing one of these changes what every installation runs.
	if f := list[0].Files[0]; f.Size != 98_362_432 || f.SHA256 != "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53" {
		t.Errorf("SmolLM2: %+v", f)
	}
	if f := list[2].Files[0]; f.SHA256 != "712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0" || !f.Executable {
		t.Errorf("Temporal: %+v", f)
	}
	if f := list[1].Files[0]; f.Size != 71_622_400 || f.SHA256 != "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f" {
		t.Errorf("E5: %+v", f)
	}
	if n := list[3].Size(); n != 91_335_478 {
		t.Errorf("MiniLM has %d bytes", n)
	}
}

func TestBrokenCataloguesAreRefused(t *testing.T) {
	const good = `artefacts:
  - name: a
    kind: llama
    licence: MIT
    path: models/a
    files: [{path: models/a/f, remote: f, size: 5, sha256: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53}]
    sources: ["hf:a/b"]
`
	if _, err := parseCatalogue([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for old, change := range map[string]string{
		"size: 5": "size: 0", "sha256: b179": "sha256: x179", "path: models/a/f": "path: models/b/f", "remote: f": "remote: ../f",
		"path: models/a\n": "path: /models/a\n", "hf:a/b": "oci:a/b", "licence: MIT": "licence: ''", "kind: llama": "sort: llama",
		"size: 5,": "size: 99999999999999,", `["hf:a/b"]`: "[]", "- name: a": "- name: ''", "path: models/a/f,": "path: models/a/../../f,",
	} {
		if _, err := parseCatalogue([]byte(strings.Replace(good, old, change, 1))); err == nil {
			t.Errorf("%s → %s was accepted", old, change)
		}
	}
	if _, err := parseCatalogue([]byte(good + strings.TrimPrefix(good, "artefacts:\n"))); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("an artefact listed twice: %v", err)
	}
}

func FuzzParseSource(f *testing.F) {
	for _, e := range Catalogue() {
		for _, s := range e.Sources {
			f.Add(s)
		}
	}
	f.Add("file:/a#b")
	f.Add("http://x#y!z")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSource(text)
		if err == nil && (s.ref == "" || s.scheme == "" || (s.scheme == "pypi" && s.ref[0] == '-')) {
			t.Fatalf("%q: %+v", text, s)
		}
	})
}
