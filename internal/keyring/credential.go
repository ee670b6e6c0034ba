package keyring

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Credential is a secret of the configuration: its text, or a reference to where that is kept: "file:/path" or "env:NAME". What a reference
// leads to is read with [Credential.Read] and takes effect with [Credential.Set], for all copies. Every formatting path prints the reference,
// or the length of a text; Reveal is the one way to the text. The zero value is none.
type Credential struct{ held *held }

type held struct {
	from string // the reference; "" if the text was written out
	text atomic.Pointer[string]
}

// The kinds of references.
const (
	fromFile = "file:"
	fromEnv  = "env:"
)

// maxCredential bounds a file: whoever names a disk image by mistake is told so.
const maxCredential = 64 << 10

// Inline returns a credential whose text is written out.
func Inline(text string) Credential {
	if text == "" {
		return Credential{}
	}
	h := &held{}
	h.text.Store(&text)
	return Credential{h}
}

// IsReference reports whether text, as it stands in a configuration, says where a secret is kept.
func IsReference(text string) bool {
	return strings.HasPrefix(text, fromFile) || strings.HasPrefix(text, fromEnv)
}

// UnmarshalText implements encoding.TextUnmarshaler. A reference has no text before it is read and set.
func (c *Credential) UnmarshalText(b []byte) error {
	text := string(b)
	if !IsReference(text) {
		*c = Inline(text)
		return nil
	}
	if path, ok := strings.CutPrefix(text, fromFile); ok && !filepath.IsAbs(path) {
		return errors.New("a secret in a file is named by its absolute path, as in file:/run/secrets/key")
	}
	*c = Credential{&held{from: text}}
	return nil
}

// Reference says where the secret is kept; "" if it is written out, or none.
func (c Credential) Reference() string {
	if c.held == nil {
		return ""
	}
	return c.held.from
}

// Read returns the text that the reference leads to now, without the line end behind it; environment looks a variable up. The error names the
// reference and never the text. A text that is written out is what it is.
func (c Credential) Read(environment func(name string) (string, bool)) (string, error) {
	switch {
	case c.Reference() == "":
		return c.Reveal(), nil
	case strings.HasPrefix(c.held.from, fromEnv):
		text, ok := environment(strings.TrimPrefix(c.held.from, fromEnv))
		if !ok || text == "" {
			return "", fmt.Errorf("%s: the variable is not set", c.held.from)
		}
		return text, nil
	}
	f, err := os.Open(strings.TrimPrefix(c.held.from, fromFile))
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	raw, err := io.ReadAll(io.LimitReader(f, maxCredential+1))
	text := strings.TrimRight(string(raw), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("read the secret: %w", err)
	case len(raw) > maxCredential:
		return "", fmt.Errorf("%s: the file is larger than %d KiB", c.held.from, maxCredential>>10)
	case text == "":
		return "", fmt.Errorf("%s: the file is empty", c.held.from)
	}
	return text, nil
}

// Set makes text what the reference leads to, and returns what it led to before. A credential that is none stays none.
func (c Credential) Set(text string) (before string) {
	if c.held == nil {
		return ""
	}
	if p := c.held.text.Swap(&text); p != nil {
		return *p
	}
	return ""
}

// Reveal returns the text. It changes when what it refers to does: whoever keeps a copy keeps an old one.
func (c Credential) Reveal() string {
	if c.held == nil {
		return ""
	}
	if p := c.held.text.Load(); p != nil {
		return *p
	}
	return ""
}

// Empty reports whether there is no text.
func (c Credential) Empty() bool { return c.Reveal() == "" }

// String implements fmt.Stringer.
func (c Credential) String() string {
	if from := c.Reference(); from != "" {
		return from
	}
	return Secret(c.Reveal()).String()
}

// GoString implements fmt.GoStringer.
func (c Credential) GoString() string { return c.String() }

// LogValue implements slog.LogValuer.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText implements encoding.TextMarshaler; configuration printed back to people is redacted by it.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
