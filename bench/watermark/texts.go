package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/corpus"
)

// A textSet is a set of texts that nobody marked.
type textSet struct {
	language string // en or zh
	kind     string // human, model or template
	name     string
	texts    []string
	short    string    // answers that are not long enough yet
	digest   hash.Hash // of the texts, in order
	seen     map[[32]byte]bool
}

// longest is how much of a document is taken.
const longest = 400_000

// enough is how many bytes answers of models must have: shorter ones are joined with those that follow them.
const enough = 2000

// readSet reads what LANGUAGE/KIND/NAME=DIRECTORY names: files .txt, .md and .rst, each a document, and in .json and .jsonl the strings named output, answer
// or content, joined until they are long enough. "=templates" are those of this folder, filled n times each, and "=corpus" the texts on which detectors of sensitive values are measured, ten
// to a document. Texts that are there twice, or in another language, are left out.
func readSet(spec string, n int) (*textSet, error) {
	what, dir, _ := strings.Cut(spec, "=")
	parts := strings.Split(what, "/")
	if len(parts) != 3 || dir == "" || parts[0] != "en" && parts[0] != "zh" {
		return nil, fmt.Errorf("-set %q: want LANGUAGE/KIND/NAME=DIRECTORY, the language en or zh", spec)
	}
	s := &textSet{language: parts[0], kind: parts[1], name: parts[2], digest: sha256.New(), seen: map[[32]byte]bool{}}
	var err error
	switch dir {
	case "templates":
		err = s.fill(n)
	case "corpus":
		err = s.join()
	default:
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			return s.read(path)
		})
	}
	if err == nil && len(s.texts) == 0 {
		err = errors.New("no texts")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", spec, err)
	}
	return s, nil
}

func (s *textSet) String() string { return s.language + " " + s.kind + " " + s.name }

// sum names the texts.
func (s *textSet) sum() string { return hex.EncodeToString(s.digest.Sum(nil))[:16] }

func (s *textSet) read(path string) error {
	kind := filepath.Ext(path)
	switch kind {
	case ".txt", ".md", ".rst", ".json", ".jsonl":
	default:
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if kind != ".json" && kind != ".jsonl" {
		s.add(string(data))
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	for {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		s.strings(v)
	}
}

// strings adds what a model said.
func (s *textSet) strings(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.strings(e)
		}
	case map[string]any:
		for _, name := range []string{"output", "answer", "content"} {
			text, ok := v[name].(string)
			if !ok {
				continue
			}
			if s.short += text; len(s.short) >= enough {
				s.add(s.short)
				s.short = ""
			} else {
				s.short += "\n\n"
			}
		}
	}
}

func (s *textSet) add(text string) {
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	}
	if !utf8.ValidString(text) || !s.written(text) {
		return
	}
	sum := sha256.Sum256([]byte(text))
	if s.seen[sum] {
		return
	}
	s.seen[sum] = true
	s.digest.Write(sum[:])
	s.texts = append(s.texts, text)
}

// written reports whether a text is in the language of its set: of the letters, a quarter are Chinese, or none to speak of are.
func (s *textSet) written(text string) bool {
	han, letters := 0, 0
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
			if unicode.Is(unicode.Han, r) {
				han++
			}
		}
	}
	if s.language == "zh" {
		return 4*han > letters
	}
	return letters > 0 && 50*han < letters
}

// join takes the texts on which detectors of sensitive values are measured.
func (s *textSet) join() error {
	set, err := corpus.Open("gate")
	if err != nil {
		return err
	}
	var page []string
	for _, d := range set.Documents {
		if page = append(page, d.Text); len(page) == 10 {
			s.add(strings.Join(page, "\n"))
			page = page[:0]
		}
	}
	return nil
}
