package eval

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the built-in text
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

//go:embed data/zh-en.txt
var zhEn string

// maxData bounds a file: its tokens stay in memory.
const maxData = 64 << 20

// Data is what a measurement reads.
type Data struct {
	Name      string   // of the file
	Digest    string   // "sha256:<hex>" of the file
	Documents []string // no window reaches from one into the next
}

// Builtin returns the text that comes with the program: Chinese and English, of many registers.
func Builtin() Data {
	return Data{Name: "built-in zh-en", Digest: digest([]byte(zhEn)), Documents: []string{zhEn}}
}

// Load reads a file. Of a text, all of it is one document. If field is set, or the name ends in .jsonl or .ndjson, each line is a JSON
// object whose string of that name ("text" if field is empty) is a document.
func Load(path, field string) (Data, error) {
	raw, err := read(path)
	if err != nil {
		return Data{}, fmt.Errorf("evaluation data: %w", err)
	}
	d := Data{Name: filepath.Base(path), Digest: digest(raw)}
	ext := strings.ToLower(filepath.Ext(path))
	if field == "" && ext != ".jsonl" && ext != ".ndjson" {
		if !utf8.Valid(raw) {
			return Data{}, fmt.Errorf("evaluation data: %s is not UTF-8; convert it, for example with iconv", path)
		}
		d.Documents = []string{string(raw)}
	} else if d.Documents, err = lines(raw, field); err != nil {
		return Data{}, fmt.Errorf("evaluation data: %s: %w", path, err)
	}
	if strings.TrimSpace(strings.Join(d.Documents, "")) == "" {
		return Data{}, fmt.Errorf("evaluation data: %s holds no text", path)
	}
	return d, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	raw, err := io.ReadAll(io.LimitReader(f, maxData+1))
	if err == nil && len(raw) > maxData {
		err = fmt.Errorf("%s is larger than %d MiB; measure on a part of it", path, maxData>>20)
	}
	return raw, err
}

// lines returns the field's string of every line that is not empty.
func lines(raw []byte, field string) ([]string, error) {
	if field == "" {
		field = "text"
	}
	var out []string
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return nil, fmt.Errorf("line %d is not UTF-8", n)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(line, &object); err != nil {
			return nil, fmt.Errorf("line %d is not a JSON object: %w", n, err)
		}
		value, ok := object[field]
		if !ok {
			return nil, fmt.Errorf("line %d has no field %q; name the one that holds the text with --field", n, field)
		}
		var text *string
		if err := json.Unmarshal(value, &text); err != nil || text == nil {
			return nil, fmt.Errorf("line %d: the field %q is no string", n, field)
		}
		out = append(out, *text)
	}
	return out, nil
}

func digest(raw []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(raw)) }

// Passages returns the paragraphs of the documents, for models that turn a text into one vector. A document of a JSONL file that has no
// empty line stays whole.
func (d Data) Passages() []string {
	var out []string
	for _, doc := range d.Documents {
		for _, p := range strings.Split(strings.ReplaceAll(doc, "\r\n", "\n"), "\n\n") {
			if p = strings.TrimSpace(p); p != "" {
				out = append(out, p)
			}
		}
	}
	return out
}
