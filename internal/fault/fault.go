package fault

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/message"
)

// Kind classifies a failure by what the caller can do about it. It decides the HTTP status and the error type of every dialect.
type Kind uint8

// The kinds, in the order of the rendering table. The zero value is Internal, so an error nobody classified says nothing.
const (
	Internal Kind = iota
	Invalid
	Unauthenticated
	Denied
	Blocked
	NotFound
	Conflict
	TooLarge
	RateLimited
	Quota
	Unavailable
	Timeout
	Method // the path is known, the method is not one of its
)

//nolint:gochecknoglobals // a constant table
var kindNames = [...]string{
	"internal", "invalid", "unauthenticated", "denied", "blocked", "not_found", "conflict", "too_large", "rate_limited",
	"quota", "unavailable", "timeout", "method",
}

// String returns the stable snake-case name used in audit records and metrics.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "internal"
}

//nolint:gochecknoglobals // a constant table
var kindStatus = [...]int{500, 400, 401, 403, 403, 404, 409, 413, 429, 429, 503, 504, 405}

// Status returns the HTTP status of the kind; every dialect uses it, and audit records carry it.
func (k Kind) Status() int {
	if int(k) < len(kindStatus) {
		return kindStatus[k]
	}
	return 500
}

// Lang selects the language of a public sentence.
type Lang = message.Lang

// The languages sentences exist in.
const (
	English = message.English
	Chinese = message.Chinese
)

// Error is a failure with a code. Its Error method gives the private, English form for logs; [Error.Message] gives the public
// sentence. Values are immutable: the With methods return copies.
type Error struct {
	code       Code
	args       []any
	param      string
	retryAfter time.Duration
	cause      error
}

// Phrase is a piece of a sentence: an argument of New and Wrap that says what is wrong, such as "must be positive". A plain
// string argument is for what has no language, such as a name or a number.
type Phrase = message.Phrase

// Say returns the phrase id of the catalogues; args, which may be phrases themselves, fill its verbs.
func Say(id message.ID, args ...any) Phrase { return message.Say(id, args...) }

// Quote returns a phrase whose texts come from elsewhere, such as a stored reason.
func Quote(english, chinese string) Phrase { return message.Quote(english, chinese) }

// New returns an error for code. args fill the verbs of the code's sentences, in order.
func New(code Code, args ...any) *Error { return &Error{code: code, args: args} }

// Wrap returns an error for code that keeps cause for the log and for errors.Is and errors.As.
func Wrap(cause error, code Code, args ...any) *Error {
	return &Error{code: code, args: args, cause: cause}
}

// WithParam returns a copy that names the request field at fault, such as "messages[2].content".
func (e *Error) WithParam(path string) *Error {
	c := *e
	c.param = path
	return &c
}

// About returns a copy that blames the request field param where e blames another one, also in its sentence.
func (e *Error) About(param string) *Error {
	c := *e
	c.args = slices.Clone(e.args)
	for i, a := range c.args {
		if name, ok := a.(string); ok && name == e.param {
			c.args[i] = param
		}
	}
	c.param = param
	return &c
}

// WithRetryAfter returns a copy that tells the caller how long to wait before another attempt.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.retryAfter = d
	return &c
}

// Code returns the stable code.
func (e *Error) Code() Code { return e.code }

// Kind returns the kind the code belongs to.
func (e *Error) Kind() Kind { return kinds[e.code] }

// Param returns the request field at fault, or "".
func (e *Error) Param() string { return e.param }

// RetryAfter returns the wait before another attempt makes sense; zero means the caller should not retry by itself.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// Message returns the sentence a caller may read.
func (e *Error) Message(l Lang) string {
	if _, ok := kinds[e.code]; !ok {
		return message.Say(message.ID(CodeInternal)).In(l)
	}
	return message.Say(message.ID(e.code), e.args...).In(l)
}

// Error implements error with the private form: the English sentence, then the cause.
func (e *Error) Error() string {
	if e.cause == nil {
		return e.Message(English)
	}
	return strings.TrimSuffix(e.Message(English), ".") + ": " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Public returns the outermost Error in err's chain, or an Internal one that says nothing. It is never nil.
func Public(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{code: CodeInternal, cause: err}
}

// KindOf returns the kind of the outermost Error in err's chain, Internal if there is none.
func KindOf(err error) Kind { return Public(err).Kind() }

// Is reports whether the outermost Error in err's chain has code.
func Is(err error, code Code) bool { return err != nil && Public(err).code == code }
