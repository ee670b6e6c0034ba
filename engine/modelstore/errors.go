package modelstore

import (
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// PullError says that no source gave an artefact.
type PullError struct {
	Artefact string
	File     string
	Attempts []Attempt
}

// Attempt is what became of one source.
type Attempt struct {
	Source string
	Err    error
}

// Error implements error: every source with its reason, and what to do.
func (e *PullError) Error() string { return e.Message(fault.English) }

// Unwrap returns the reasons.
func (e *PullError) Unwrap() []error {
	out := make([]error, len(e.Attempts))
	for i, a := range e.Attempts {
		out[i] = a.Err
	}
	return out
}

// Message returns the text in the given language; the reasons themselves are English.
func (e *PullError) Message(l fault.Lang) string {
	var tried strings.Builder
	for _, a := range e.Attempts {
		fmt.Fprintf(&tried, "\n  %s: %v", a.Source, a.Err)
	}
	return fault.Say("modelstore.pull_failed", e.Artefact, e.File, tried.String()).In(l)
}

// DigestError says that a file is not the one the catalogue names.
type DigestError struct {
	Artefact, File string
	Want, Got      string // hexadecimal SHA-256
	WantSize, Size int64
}

// Error implements error.
func (e *DigestError) Error() string { return e.Message(fault.English) }

// Message returns the text in the given language.
func (e *DigestError) Message(l fault.Lang) string {
	return fault.Say("modelstore.wrong_digest", e.File, e.Artefact, e.WantSize, e.Want, e.Size, e.Got).In(l)
}

// MissingError says that an artefact has not been pulled, or that a file of it is gone or incomplete.
type MissingError struct{ Artefact, Path string }

// Error implements error.
func (e *MissingError) Error() string { return e.Message(fault.English) }

// Message returns the text in the given language.
func (e *MissingError) Message(l fault.Lang) string {
	return fault.Say("modelstore.missing", e.Artefact, e.Path).In(l)
}
