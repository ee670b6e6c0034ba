package gateway

import (
	"errors"

	"github.com/sluice-project/sluice/engine"
)

// jsonAnswer lets an answer out that was asked to be JSON: value by value like the arguments of a call, so that it is JSON with what
// is put back and without what is hidden. What turns out to be no JSON leaves as text from there on. It is a Release.
type jsonAnswer struct {
	args  arguments
	plain Release // for what is no JSON
}

func newJSONAnswer(open func() Release) *jsonAnswer {
	return &jsonAnswer{args: arguments{open: open, state: argValue}}
}

// isJSON reports whether answers of the format are JSON.
func isJSON(f *engine.Format) bool { return f != nil && (f.JSONObject || f.JSONSchema != nil) }

// Write implements Release.
func (j *jsonAnswer) Write(s string) (string, error) {
	if j.plain != nil {
		return j.plain.Write(s)
	}
	a := &j.args
	for i := range len(s) {
		word, shown := a.state == argWord, len(a.out)
		err := a.step(s[i])
		if err == nil {
			continue
		}
		if !errors.Is(err, errArguments) || a.state == argString {
			return "", err
		}
		rest := s[i:]
		if word && len(a.out) == shown { // the word itself is wrong
			rest = string(a.word) + rest
		}
		out := a.take()
		j.plain = a.open()
		text, err := j.plain.Write(rest)
		return out + text, err
	}
	if a.state == argString {
		if err := a.flush(false); err != nil {
			return "", err
		}
	}
	return a.take(), nil
}

// Close implements Release.
func (j *jsonAnswer) Close() (string, error) {
	if j.plain != nil {
		return j.plain.Close()
	}
	a := &j.args
	word, shown := a.state == argWord, len(a.out)
	out, err := a.close(true)
	if err == nil && word && len(out) == shown { // it was cut
		return through(a.open(), string(a.word))
	}
	return out, err
}
