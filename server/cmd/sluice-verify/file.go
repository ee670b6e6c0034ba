package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/label/labelfile"
)

// fileResult is the report on the content credentials of a file.
type fileResult struct {
	OK     bool           `json:"ok"` // they are of a signer whose certificate was given, and fit the file
	State  c2pa.State     `json:"state"`
	Code   c2pa.Code      `json:"code,omitempty"`
	Signer string         `json:"signer,omitempty"` // whom the certificate names
	Label  map[string]any `json:"label,omitempty"`  // the seven fields, where the signature is proven
}

// checkFile checks the content credentials of a PNG, JPEG or PDF against the certificates of trusted signers.
func checkFile(f io.Reader, o options) (outcome, error) {
	data, err := io.ReadAll(io.LimitReader(f, labelfile.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(o.certificate)
	if err != nil {
		return nil, err
	}
	anchors, err := c2pa.ParseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.certificate, err)
	}
	kind, err := labelfile.Detect(filepath.Base(o.file), data)
	if err != nil {
		return nil, err
	}
	carried, err := labelfile.FindCredentials(kind, data)
	if err != nil {
		return nil, err
	}
	if carried == nil {
		return nil, errors.New("the file has no content credentials / 文件没有内容凭证")
	}
	found := c2pa.Check(data, *carried, anchors)
	r := fileResult{OK: found.State == c2pa.Trusted, State: found.State, Code: found.Code, Signer: found.Signer}
	if r.OK && found.Label != nil {
		r.Label = map[string]any{}
		for _, field := range found.Label.Fields() {
			r.Label[field.Name] = field.Value
		}
	}
	return r, nil
}

func (r fileResult) code() int { return exitCode(r.OK, true) }

func (r fileResult) print(w io.Writer, asJSON bool) error { return show(w, asJSON, r, r.text) }

// text is the report for people.
func (r fileResult) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch r.State {
	case c2pa.Trusted:
		line("OK: the signer signed exactly this file; not one byte has changed since. What is in it was compared with nothing.\n通过：签署者签署的正是这一文件，此后未有任何字节改动。文件内容未与任何内容比对。")
	case c2pa.UnknownSigner:
		line("FAILED: the content credentials hold, and by none of the certificates that were given\n未通过：内容凭证成立，但所给证书均不能证明签署者")
	case c2pa.Unjudged:
		line("FAILED: this release cannot check these content credentials: %s\n未通过：本版本无法校验这些内容凭证", r.Code)
	case c2pa.Broken:
		line("FAILED: the content credentials do not hold: %s\n未通过：内容凭证不成立", r.Code)
	}
	if r.Signer != "" {
		line("signer / 签署者: %s", clean(r.Signer))
	}
	for _, name := range []string{"ContentProducer", "ProduceID", "ContentPropagator", "PropagateID"} {
		if value, _ := r.Label[name].(string); value != "" {
			line("%s: %s", name, clean(value))
		}
	}
	return b.String()
}
