package secret

import "strings"

// Form is what a kind of credential begins with, and how many characters follow at least.
type Form struct {
	Head  string
	Least int
}

// Forms returns those that are known.
func Forms() (out []Form) {
	for _, f := range forms {
		if f.caps {
			f.head = strings.ToUpper(f.head)
		}
		out = append(out, Form{f.head, f.min})
	}
	return out
}

// URLs returns the places of the internet whose address is the secret.
func URLs() []string { return urls }
