package egress

import "errors"

// jsonRelease lets an answer out that was asked to be JSON: value by value like the arguments of a call, so that it is JSON with what
// is put back and without what is hidden. What turns out to be no JSON leaves as text from there on. It is a Release.
type jsonRelease struct {
	args   arguments
	plain  Release // for what is no JSON
	masked string  // of what was returned last, before values were put back
}

func newJSONRelease(open func() Release) *jsonRelease {
	return &jsonRelease{args: arguments{open: open, state: argValue}}
}

// Write implements Release.
func (j *jsonRelease) Write(s string) (string, error) {
	if j.plain != nil {
		return j.asText("", "", s)
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
		return j.asText(out, a.masked, rest)
	}
	if a.state == argString {
		if err := a.flush(false); err != nil {
			return "", err
		}
	}
	out := a.take()
	j.masked = a.masked
	return out, nil
}

// asText lets out what was JSON until now, and what follows as text.
func (j *jsonRelease) asText(out, masked, rest string) (string, error) {
	text, err := j.plain.Write(rest)
	j.masked = masked + j.plain.Masked()
	return out + text, err
}

// Close implements Release. A string that is open has been cut off, whatever ended the answer.
func (j *jsonRelease) Close(unsaid ...string) (string, error) {
	if j.plain != nil {
		out, err := j.plain.Close(unsaid...)
		j.masked = j.plain.Masked()
		return out, err
	}
	a := &j.args
	word, shown := a.state == argWord, len(a.out)
	out, err := a.close(true)
	if err == nil && word && len(out) == shown { // it was cut
		out, j.masked, err = ReleaseWhole(a.open(), string(a.word))
		return out, err
	}
	j.masked = a.masked
	return out, err
}

// Held implements Release.
func (j *jsonRelease) Held() int {
	switch {
	case j.plain != nil:
		return j.plain.Held()
	case j.args.state == argString:
		return j.args.release.Held()
	}
	return len(j.args.word)
}

// Masked implements Release.
func (j *jsonRelease) Masked() string { return j.masked }
