package profile

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/engine/capability"
)

//go:embed profiles/*.yaml
var files embed.FS

// Set is a set of profiles by name: those of the program, and further ones from files.
type Set struct {
	more map[string][]byte
}

// New returns the profiles of the program, and those of further files, which must not bear a name that is taken. A path may be a folder, of which
// every *.yaml counts. Each further file is linted: one that has faults is refused.
func New(paths ...string) (*Set, error) {
	s := &Set{more: map[string][]byte{}}
	for _, p := range paths {
		if err := s.add(p); err != nil {
			return nil, err
		}
	}
	for name := range s.more {
		if errs := s.Lint(name); len(errs) > 0 {
			return nil, fmt.Errorf("profile %s: %w", name, errors.Join(errs...))
		}
	}
	return s, nil
}

func (s *Set) add(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	all := []string{path}
	if info.IsDir() {
		if all, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return fmt.Errorf("profiles: %w", err)
		}
	}
	for _, file := range all {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("profiles: %w", err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if _, err := s.data(name); err == nil {
			return fmt.Errorf("profiles: %s: there is a profile %q already", file, name)
		}
		s.more[name] = data
	}
	return nil
}

func (s *Set) data(name string) ([]byte, error) {
	if b, ok := s.more[name]; ok {
		return b, nil
	}
	b, err := fs.ReadFile(files, "profiles/"+name+".yaml")
	if err != nil || !validName(name) {
		return nil, fmt.Errorf("there is no profile %q", name)
	}
	return b, nil
}

func validName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && !strings.Contains(s, "..")
}

// Names returns the names of all profiles, ordered.
func (s *Set) Names() []string {
	entries, _ := fs.ReadDir(files, "profiles") // it is there
	out := slices.Collect(maps.Keys(s.more))
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(out)
	return out
}

// Has reports whether there is a profile of this name.
func (s *Set) Has(name string) bool {
	_, err := s.data(name)
	return err == nil
}

// Get returns a profile with what it inherits.
func (s *Set) Get(name string) (*Profile, error) {
	data, err := s.data(name)
	if err != nil {
		return nil, err
	}
	p, err := s.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	if p.Name != name {
		return nil, fmt.Errorf("profile %s: its file calls it %q", name, p.Name)
	}
	return p, nil
}

// Parse reads a profile, strictly: a member that is not known, or comes twice, is an error. What it extends is looked for in the set.
func (s *Set) Parse(data []byte) (*Profile, error) {
	node, err := s.resolve(data, nil)
	if err != nil {
		return nil, err
	}
	merged, err := yaml.Marshal(node)
	if err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(merged))
	dec.KnownFields(true)
	p := &Profile{}
	if err := dec.Decode(p); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(merged)
	p.digest = "sha256:" + hex.EncodeToString(sum[:])
	return p, nil
}

// Digest is that of the profile as it is used, with all that it inherits: "sha256:<hex>".
func (p *Profile) Digest() string { return p.digest }

// Contract is what may be believed of an engine by its profile alone: what its documents claim, and nothing at all where the dialect is assumed. No
// grade in it is above E1: what was run is in the reports of runs.
func (p *Profile) Contract() capability.Contract {
	if p.Basis == Assumed {
		return p.Claimed.Limit(capability.E0)
	}
	return p.Claimed.Limit(capability.E1)
}

// own are the members that are not inherited.
func own() []string {
	return []string{"profile", "title", "extends", "basis", "systems", "about", "ran", "not_run"}
}

// resolve reads a document and puts it over what it extends. below are the names under which the documents were found that led here: what a document calls
// itself may be wrong.
func (s *Set) resolve(data []byte, below []string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is no mapping")
	}
	node := doc.Content[0]
	if err := plain(node); err != nil {
		return nil, err
	}
	// Strict before it is merged: the line of an error is that of the file.
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var alone Profile
	if err := dec.Decode(&alone); err != nil {
		return nil, err
	}
	if alone.Extends == "" {
		return node, nil
	}
	if slices.Contains(below, alone.Extends) || alone.Extends == alone.Name {
		return nil, fmt.Errorf("extends: %s extends itself", alone.Extends)
	}
	parent, err := s.data(alone.Extends)
	if err != nil {
		return nil, fmt.Errorf("extends: %w", err)
	}
	base, err := s.resolve(parent, append(below, alone.Extends))
	if err != nil {
		return nil, fmt.Errorf("extends %s: %w", alone.Extends, err)
	}
	for _, name := range own() {
		remove(base, name)
	}
	merge(base, node)
	return base, nil
}

// plain refuses what makes YAML hard to read for people and merging.
func plain(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: no anchors and aliases", n.Line)
	}
	for _, c := range n.Content {
		if err := plain(c); err != nil {
			return err
		}
	}
	return nil
}

func member(n *yaml.Node, name string) int {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

func remove(n *yaml.Node, name string) {
	if i := member(n, name); i >= 0 {
		n.Content = slices.Delete(n.Content, i, i+2)
	}
}

// merge puts a mapping over another. Quirks add up; null takes a member away.
func merge(base, over *yaml.Node) {
	for i := 0; i < len(over.Content); i += 2 {
		key, value := over.Content[i], over.Content[i+1]
		at := member(base, key.Value)
		switch {
		case value.Tag == "!!null":
			remove(base, key.Value)
		case at < 0:
			base.Content = append(base.Content, key, value)
		case value.Kind == yaml.MappingNode && base.Content[at+1].Kind == yaml.MappingNode:
			merge(base.Content[at+1], value)
		case key.Value == "quirks":
			base.Content[at+1].Content = append(base.Content[at+1].Content, value.Content...)
		default:
			base.Content[at+1] = value
		}
	}
}

// Grade is how well the profile is known: E0 where it is assumed, E1 where documents were read, E2 where its simulator, which a test holds to the cases,
// speaks it, and that of the best run of real software.
func (p *Profile) Grade() capability.Grade {
	g := capability.E0
	if p.Basis != Assumed {
		g = capability.E2
	}
	for _, r := range p.Ran {
		g = max(g, r.Grade)
	}
	return g
}
