package cli

import (
	"context"
	"errors"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/keysource"
)

// ErrFindings ends a command that worked and has bad news.
var ErrFindings = errors.New("problems were found")

// ErrInterrupted ends a command that a signal stopped.
var ErrInterrupted = errors.New("interrupted")

// Error is an error with a text of the catalogues.
type Error struct {
	id     message.ID
	args   []any
	misuse bool
}

// Failed returns an error with the text id. An argument that is an error is its cause.
func Failed(id message.ID, args ...any) error { return &Error{id: id, args: args} }

// Misuse returns the error of a command that was called in a wrong way.
func Misuse(id message.ID, args ...any) error { return &Error{id: id, args: args, misuse: true} }

// IsMisuse reports whether the command was called in a wrong way.
func IsMisuse(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.misuse
}

// Error implements error in English.
func (e *Error) Error() string { return e.in(message.English) }

// Unwrap returns the causes.
func (e *Error) Unwrap() []error {
	var causes []error
	for _, arg := range e.args {
		if err, ok := arg.(error); ok {
			causes = append(causes, err)
		}
	}
	return causes
}

func (e *Error) in(l message.Lang) string {
	args := make([]any, len(e.args))
	for i, arg := range e.args {
		if err, ok := arg.(error); ok {
			arg = Text(err, l)
		}
		args[i] = arg
	}
	id := e.id
	return message.Say(id, args...).In(l)
}

// Text says what went wrong, in the reader's language where the error has one.
func Text(err error, l message.Lang) string {
	switch e := err.(type) { //nolint:errorlint // what wraps an error with a text says more than the text
	case interface{ in(l message.Lang) string }:
		return e.in(l)
	case *keysource.Error:
		return e.In(l)
	case *fault.Error:
		if l == message.English {
			return e.Error()
		}
		if cause := e.Unwrap(); cause != nil {
			return message.Say("cli.shared.cause", e.Message(l), cause).In(l)
		}
		return e.Message(l)
	case interface{ Unwrap() []error }:
		if causes := e.Unwrap(); len(causes) == 1 { // joined with nothing
			return Text(causes[0], l)
		}
	}
	if errors.Is(err, ErrInterrupted) {
		return message.Say("cli.shared.interrupted").In(l)
	}
	return err.Error()
}

// Interrupted names the end by a signal as other commands do.
func Interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return ErrInterrupted
	}
	return err
}
