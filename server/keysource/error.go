package keysource

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/internal/message"
)

// Error says why the master key could not be had, and what to do. It never holds a key, a share or a token, and its causes are in its sentence only:
// a missing file of a source must not pass for a missing master key.
type Error struct {
	ID message.ID // of the sentence; it names the cause

	args []any
}

func failed(id message.ID, args ...any) error { return &Error{ID: id, args: args} }

// Error implements error in English.
func (e *Error) Error() string { return e.In(message.English) }

// In returns the sentence in a language.
func (e *Error) In(l message.Lang) string {
	args := make([]any, len(e.args))
	for i, arg := range e.args {
		switch cause := arg.(type) {
		case *Error:
			arg = cause.In(l)
		case error:
			arg = cause.Error()
		case fmt.Stringer:
			arg = cause.String()
		}
		args[i] = arg
	}
	id := e.ID
	return message.Say(id, args...).In(l)
}

// Is reports whether err is an [Error] with the sentence id.
func Is(err error, id message.ID) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.ID == id
}

// foreign makes a text of somebody else fit to be shown: short, on one line, and without the secret, should it be echoed.
func foreign(text, secret string) string {
	if secret != "" {
		text = strings.ReplaceAll(text, secret, "***")
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '�' }), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}
