package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"gopkg.in/yaml.v3"
)

// loadFile puts what the file at path says into k, and returns where it says it. An empty path is no file.
func loadFile(k *koanf.Koanf, path string, known []string) (places, error) {
	at := places{}
	if path == "" {
		return at, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("configuration file %s does not exist; write one with: sluice config example > %s", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	var root yaml.Node
	values := map[string]any{}
	if err := yaml.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	if err := root.Decode(&values); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	at.add(path, "", &root)
	keys := koanf.New(".")
	if err := keys.Load(confmap.Provider(values, ""), nil); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	var unknown []error
	for _, key := range keys.Keys() {
		if err := checkKnown(key, known); err != nil {
			unknown = append(unknown, fmt.Errorf("configuration file %s%w", at.of(key), err))
		}
		if keys.Get(key) == nil {
			keys.Delete(key) // null keeps the default
		}
	}
	if len(unknown) > 0 {
		return nil, errors.Join(unknown...)
	}
	if err := k.Merge(keys); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return at, nil
}

// places says where the file sets a dotted key, such as engines.remote[0].name, as file:line:column.
type places map[string]string

// add notes the keys below n. It follows aliases and merged mappings, which the decoder has bounded.
func (p places) add(file, key string, n *yaml.Node) {
	switch n.Kind {
	case yaml.DocumentNode:
		p.add(file, key, n.Content[0])
	case yaml.AliasNode:
		p.add(file, key, n.Alias)
	case yaml.SequenceNode:
		for i, item := range n.Content {
			below := key + "[" + strconv.Itoa(i) + "]"
			p.note(file, below, item)
			p.add(file, below, item)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			if name.Tag == "!!merge" {
				p.add(file, key, value)
				continue
			}
			below := strings.TrimPrefix(key+"."+name.Value, ".")
			p.note(file, below, name)
			p.add(file, below, value)
		}
	case yaml.ScalarNode:
	}
}

func (p places) note(file, key string, n *yaml.Node) {
	p[key] = fmt.Sprintf("%s:%d:%d", file, n.Line, n.Column)
}

// hide forgets a key that the environment or a flag sets, so that the file does not count.
func (p places) hide(key string) { p[key] = "" }

// of returns the place of a key and ": ", or that of the closest one around it: where a missing key belongs. It returns "" for what the file
// does not say.
func (p places) of(key string) string {
	for key != "" {
		if place, ok := p[key]; ok {
			if place == "" {
				return ""
			}
			return place + ": "
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return ""
}

// validation gives every problem of [Config.Validate] its place. A problem begins with its key.
func (p places) validation(err error) error {
	all := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		all = several.Unwrap()
	}
	for i, err := range all {
		key, _, _ := strings.Cut(err.Error(), ":")
		all[i] = fmt.Errorf("%s%w", p.of(key), err)
	}
	return errors.Join(all...)
}

var (
	fieldName   = regexp.MustCompile(`'[A-Za-z0-9_.\[\]]+'`) // such as 'HTTP.MaxBodyBytes'
	invalidKeys = regexp.MustCompile(`^'(.+)' has invalid keys: ([^,]+)`)
)

// decoding says in the words of the file what the decoder says in those of Go: people wrote keys, not fields.
func (p places) decoding(err error) string {
	lines := strings.Split(fieldName.ReplaceAllStringFunc(err.Error(), snakePath), "\n")
	for i, line := range lines {
		if name := fieldName.FindString(line); name != "" {
			key := strings.Trim(name, "'")
			if m := invalidKeys.FindStringSubmatch(line); m != nil {
				key = m[1] + "." + m[2]
			}
			lines[i] = p.of(key) + line
		}
	}
	return strings.Join(lines, "\n")
}

func snakePath(quoted string) string {
	parts := strings.Split(strings.Trim(quoted, "'"), ".")
	for i, p := range parts {
		parts[i] = snake(p)
	}
	return "'" + strings.Join(parts, ".") + "'"
}
