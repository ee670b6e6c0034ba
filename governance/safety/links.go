package safety

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// Links says to which hosts links of an answer may lead, and what happens to others. The zero value looks for none.
type Links struct {
	Hosts  []string // such as "example.com", and "*.example.com" for all below it
	Action Action   // Block, Replace or Note; "": links are not looked at
}

// CheckHost reports what is wrong with an entry of Hosts.
func CheckHost(s string) error {
	host := strings.TrimPrefix(s, "*.")
	if host == "" || len(host) > 253 || strings.ToLower(host) != host || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || strings.Trim(host, ".") != host {
		return errors.New("must be a host in lower case, such as example.com or *.example.com")
	}
	return nil
}

func (l Links) allows(host string) bool {
	return slices.ContainsFunc(l.Hosts, func(allowed string) bool {
		if below, ok := strings.CutPrefix(allowed, "*."); ok {
			return strings.HasSuffix(host, "."+below)
		}
		return host == allowed
	})
}

// maxAuthority bounds what is between the slashes of a link. What is longer leads to no host that could be allowed.
const maxAuthority = 300

type linkState uint8

const (
	noLink        linkState = iota
	inAuthority             // behind the beginning of a link, before it is known where it leads
	inRefusedLink           // to the end of a link that is not shown
)

// linkScan finds links: what begins with a scheme of the web, with "www.", or with two slashes behind anything but a letter or a digit. What a
// browser takes for a slash is one.
type linkScan struct {
	links Links
	state linkState
	token string // what could become the beginning of a link
	start int    // of it, or of the link
	host  []byte
	bare  bool // it began with slashes, without a scheme
	prev  rune
}

// beginnings are those of links. Two slashes are one, too.
func beginnings() []string { return []string{"http:", "https:", "ftp:", "ws:", "wss:", "www.", "//"} }

// linkEvent says what a character changed.
type linkEvent uint8

const (
	linkNothing linkEvent = iota
	linkRefused           // the link that began at start is not allowed
	linkEnded             // the link that is not shown ends before the character
)

// read takes the next character, which stands at an offset; r < 0 is the end.
func (s *linkScan) read(r rune, at int) linkEvent {
	event := linkNothing
	switch s.state {
	case inRefusedLink:
		if r >= 0 && !endsLink(r) {
			return linkNothing
		}
		s.state, event = noLink, linkEnded
	case inAuthority:
		if r >= 0 && !s.endsAuthority(r) {
			if s.host = utf8.AppendRune(s.host, r); len(s.host) <= maxAuthority {
				return linkNothing
			}
		}
		if !s.refused() {
			s.state = noLink
			break
		}
		event = linkRefused
		if s.state = inRefusedLink; r >= 0 && endsLink(r) || r < 0 || s.links.Action == Note {
			s.state = noLink // it ends at once
		} else {
			return event
		}
	case noLink:
	}
	if s.state == noLink {
		s.begin(r, at)
	}
	s.prev = r
	return event
}

// begin looks for the beginning of a link.
func (s *linkScan) begin(r rune, at int) {
	if s.token == "" && r >= utf8.RuneSelf { // most of Chinese
		return
	}
	if r < 0 {
		s.token = ""
		return
	}
	c := r
	if c == '\\' {
		c = '/'
	} else if c < utf8.RuneSelf && c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	if s.token == "" && !strings.ContainsRune("hfw/", c) {
		return
	}
	next := s.token + string(c)
	if s.token == "" || !beginsLink(next) {
		if s.token, s.start = "", at; alnum(s.prev) || !beginsLink(string(c)) {
			return
		}
		next = string(c)
	}
	s.token = next
	if slices.Contains(beginnings(), next) {
		s.state, s.bare, s.host = inAuthority, next == "//", s.host[:0]
		if next == "www." {
			s.host = append(s.host, next...)
		}
		s.token = ""
	}
}

func beginsLink(s string) bool {
	return slices.ContainsFunc(beginnings(), func(b string) bool { return strings.HasPrefix(b, s) })
}

func alnum(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// endsAuthority reports whether a character ends where the host stands. Slashes before the host do not.
func (s *linkScan) endsAuthority(r rune) bool {
	if r == '/' || r == '\\' {
		return strings.Trim(string(s.host), `/\`) != ""
	}
	return r == '?' || r == '#' || endsLink(r)
}

// endsLink reports whether a character ends a link in text, in Markdown and in HTML.
func endsLink(r rune) bool {
	return r <= ' ' || strings.ContainsRune("()[]<>\"'`{}|^，。；：！？、）】》」』”’\u3000", r)
}

// refused reports whether the link leads to a host that is not allowed.
func (s *linkScan) refused() bool {
	host := strings.Trim(string(s.host), `/\`)
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	host, _, _ = strings.Cut(host, ":")
	host = strings.TrimRight(strings.ToLower(host), ".,;!*_~")
	if s.bare && !strings.Contains(host, ".") || host == "" && len(s.host) <= maxAuthority {
		return false
	}
	return len(s.host) > maxAuthority || !s.links.allows(host)
}

// frontier returns the offset before which no link can begin that is not known, where at is how far the text was read.
func (s *linkScan) frontier(at int) int {
	if s.state == inAuthority || s.token != "" {
		return s.start
	}
	return at
}
