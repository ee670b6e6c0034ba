package egress

// Release applies the rules to one text. It belongs to one goroutine.
type Release interface {
	Write(s string) (string, error)
	// Close returns the rest. Of a text that was cut off it is told what may have come next, so that no part of a pseudonym leaves: the
	// stop strings, or "" for anything.
	Close(unsaid ...string) (string, error)
	Held() int      // characters that wait for what follows
	Masked() string // what the last Write or Close returned, before values were put back
}

// namer is a Release that is told a name which stands before a value, and is shown itself already: the value is looked at behind it, the name not again.
type namer interface {
	WriteName(name string) (string, error)
}

// WriteName passes the name before a value. What is returned, and Masked, have it.
func WriteName(r Release, name string) (string, error) {
	if n, ok := r.(namer); ok {
		return n.WriteName(name)
	}
	return r.Write(name)
}

// Kind says what a text is.
type Kind string

// The kinds.
const (
	Content   Kind = "content"
	Reasoning Kind = "reasoning"
	Refusal   Kind = "refusal"
	Arguments Kind = "arguments" // a string of JSON in the arguments of a call
	Word      Kind = "word"      // a name, an id or a token that was not chosen: whole, and looked at by itself
)

// ReleaseWhole releases a whole text.
func ReleaseWhole(r Release, s string) (shown, masked string, err error) {
	return releasePart(r, s, true)
}

// releasePart passes a piece of a text, and all that is left at its end, where unsaid is what may have come next.
func releasePart(r Release, piece string, last bool, unsaid ...string) (shown, masked string, err error) {
	if piece != "" {
		if shown, err = r.Write(piece); err != nil {
			return "", "", err
		}
		masked = r.Masked()
	}
	if last {
		rest, err := r.Close(unsaid...)
		if err != nil {
			return "", "", err
		}
		shown, masked = shown+rest, masked+r.Masked()
	}
	return shown, masked, nil
}
