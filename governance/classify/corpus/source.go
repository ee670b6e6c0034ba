package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// frame is a line of a frames or negatives file.
type frame struct {
	family, line string
	number       int // in its family, from 0
	parts        []part
}

// Source is what people wrote for one set.
type Source struct {
	set               string
	frames, negatives []frame
	lines             []Document
	documents         []Document // ready-made, from JSON Lines
}

// Read reads the files of a set: frames/<set>/<family>.txt, negatives/<set>.txt, lines/<set>.txt, and *.jsonl with documents. Any
// of them may be missing, but not all.
func Read(files fs.FS, set string) (*Source, error) {
	s := &Source{set: set}
	names, err := fs.Glob(files, path.Join("frames", set, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		frames, err := readFrames(files, name, strings.TrimSuffix(path.Base(name), ".txt"), true)
		if err != nil {
			return nil, err
		}
		s.frames = append(s.frames, frames...)
	}
	if s.negatives, err = readFrames(files, path.Join("negatives", set+".txt"), Negatives, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if s.lines, err = readMarked(files, path.Join("lines", set+".txt"), set); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if names, err = fs.Glob(files, "*.jsonl"); err != nil {
		return nil, err
	}
	for _, name := range names {
		documents, err := readJSONLines(files, name)
		if err != nil {
			return nil, err
		}
		s.documents = append(s.documents, documents...)
	}
	if len(s.frames)+len(s.negatives)+len(s.lines)+len(s.documents) == 0 {
		return nil, fmt.Errorf("nothing found: a corpus has frames/%s/*.txt, negatives/%s.txt, lines/%s.txt or *.jsonl", set, set, set)
	}
	return s, nil
}

// eachLine calls fn with the lines of a file that are not empty and no comments. Errors name the file and the line.
func eachLine(files fs.FS, name string, fn func(line string) error) error {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	if !utf8.Valid(content) {
		return fmt.Errorf("%s: not UTF-8; save it as UTF-8", name)
	}
	sc := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
	sc.Buffer(nil, len(content)+1)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := fn(line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return sc.Err()
}

func readFrames(files fs.FS, name, family string, sensitive bool) ([]frame, error) {
	var out []frame
	seen := map[string]bool{}
	err := eachLine(files, name, func(line string) error {
		if seen[line] {
			return errors.New("the line is there twice; take one away")
		}
		seen[line] = true
		parts, err := parseFrame(line)
		if err != nil {
			return err
		}
		if !sensitive && slices.ContainsFunc(parts, func(p part) bool { return p.class != "" && !p.filler }) {
			return errors.New("a hard negative holds fillers only, nothing sensitive")
		}
		out = append(out, frame{family: family, line: line, number: len(out), parts: parts})
		return nil
	})
	return out, err
}

func readMarked(files fs.FS, name, set string) ([]Document, error) {
	var out []Document
	err := eachLine(files, name, func(line string) error {
		text, spans, err := parseMarked(line)
		if err != nil {
			return err
		}
		out = append(out, Document{ID: fmt.Sprintf("%s/%s/%05d/clean", set, Lines, len(out)), Text: text, Spans: spans})
		return nil
	})
	return out, err
}

func readJSONLines(files fs.FS, name string) ([]Document, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out, err := ReadDocuments(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// ReadDocuments reads documents from JSON Lines and checks that their spans are in order, apart and inside the text.
func ReadDocuments(r io.Reader) ([]Document, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var out []Document
	for n := 1; ; n++ {
		var d Document
		if err := dec.Decode(&d); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("document %d: %w; want {\"id\", \"text\", \"spans\": [{\"start\", \"end\", \"type\", \"wellformed\"}]}", n, err)
		}
		if err := d.check(); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		out = append(out, d)
	}
}

func (d Document) check() error {
	length, last := utf8.RuneCountInString(d.Text), 0
	for i, s := range d.Spans {
		if s.Start < last || s.End <= s.Start || s.End > length {
			return fmt.Errorf("span %d is [%d, %d): spans are in order, apart and inside the %d characters of the text", i+1, s.Start, s.End, length)
		}
		if !slices.Contains(allClasses(), s.Type) {
			return fmt.Errorf("span %d is of type %q, which does not exist", i+1, s.Type)
		}
		last = s.End
	}
	return nil
}
