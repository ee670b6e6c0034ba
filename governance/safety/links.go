package safety

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
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
//
// Viewers do not agree where a host ends: what ends it for one is part of a user name or a host for another ("https://ok.example'@evil.example").
// So a link is allowed only where all agree: host and port of plain characters, then a slash, "?", "#", or punctuation and a blank; or the
// bracket or quote that was opened directly before the link. Everything else is refused.
type linkScan struct {
	links  Links
	state  linkState
	token  string // what could become the beginning of a link
	start  int    // of it, or of the link
	prev   rune
	before rune // the character before start

	bare    bool   // it began with slashes, without a scheme
	slashes bool   // slashes stand between the beginning and the host
	size    int    // bytes behind the beginning
	host    []byte // with port, as far as its characters are plain
	rest    []rune // what stands behind it: punctuation, or with odd anything
	odd     bool   // rest has more than punctuation
	loose   bool   // a blank came between quotes: for a browser the host may still follow
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
			s.prev = r
			return linkNothing
		}
		s.state, event = noLink, linkEnded
	case inAuthority:
		switch s.authority(r) {
		case undecided:
			return linkNothing
		case allowed:
			if s.state = noLink; len(s.host) > 0 {
				s.prev = 'a' // two slashes behind a host begin no link
			}
		case refused:
			event = linkRefused
			inside := s.odd && r > ' ' // it is the character because of which it is refused
			if s.state = inRefusedLink; r >= 0 && endsLink(r) && !inside || r < 0 || s.links.Action == Note {
				s.state = noLink // it ends at once
			} else {
				s.prev = r
				return event
			}
		}
	case noLink:
	}
	s.begin(r, at)
	s.prev = r
	return event
}

// begin looks for the beginning of a link. Browsers pass tabs and line ends over.
func (s *linkScan) begin(r rune, at int) {
	if s.token == "" && r >= utf8.RuneSelf { // most of Chinese
		return
	}
	if r < 0 {
		s.token = ""
		return
	}
	if s.token != "" && stripped(r) {
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
		if s.token, s.start, s.before = "", at, s.prev; alnum(s.prev) || !beginsLink(string(c)) {
			return
		}
		next = string(c)
	}
	s.token = next
	if slices.Contains(beginnings(), next) {
		s.state, s.bare, s.slashes, s.size, s.host, s.rest, s.odd, s.loose = inAuthority, next == "//", false, 0, s.host[:0], s.rest[:0], false, false
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

// stripped reports whether browsers pass a character over wherever it stands in a link.
func stripped(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }

// verdict says what is known of where a link leads.
type verdict uint8

const (
	undecided verdict = iota
	allowed
	refused
)

// authority takes a character behind the beginning of a link; r < 0 is the end.
func (s *linkScan) authority(r rune) verdict {
	slash := r == '/' || r == '\\'
	empty := len(s.host) == 0 && len(s.rest) == 0
	quoted := s.before == '"' || s.before == '\'' || s.before == '<'
	switch {
	case empty && !s.loose && slash:
		s.slashes = true
	case stripped(r) && (quoted && (empty || s.bare) || empty && s.slashes): // the host goes on, or comes, behind it
	case r < 0, slash, r == '?', r == '#', r == closerOf(s.before):
		return s.verdict(r >= 0 && r != closerOf(s.before))
	case quoted && stripped(r):
		return refused
	case quoted && r == ' ':
		s.loose = true
	case r == ' ' || stripped(r):
		return s.verdict(false)
	case s.loose:
		if r == '@' || s.odd {
			return refused
		}
	case len(s.rest) == 0 && (alnum(r) || r == '.' || r == '-' || r == ':'):
		s.host = append(s.host, byte(r))
	default:
		if len(s.rest) == 0 && len(s.host) > 0 && s.verdict(false) == refused {
			return refused
		}
		s.odd = s.odd || !strings.ContainsRune(closers, r)
		if s.odd && !s.bare {
			return refused
		}
		s.rest = append(s.rest, r)
	}
	if s.size += max(1, utf8.RuneLen(r)); s.size > maxAuthority {
		return refused
	}
	return undecided
}

// closers may stand between a link and a blank.
const closers = ")]}>\"'`*_~.,;:!，。；：！、）】》」』”’"

// closerOf returns what closes what stands directly before a link, or no character.
func closerOf(before rune) rune {
	if i := strings.IndexRune("(<[\"'`", before); i >= 0 {
		return rune(")>]\"'`"[i])
	}
	return -2
}

// verdict returns what is known where the host ends, joined: directly before what belongs to the link.
func (s *linkScan) verdict(joined bool) verdict {
	host, port, _ := strings.Cut(strings.ToLower(string(s.host)), ":")
	host = strings.TrimRight(host, ".")
	if s.bare && !strings.Contains(host, ".") { // a comment of code, unless it names a host or a number, which is an address
		all := strings.TrimRight(norm.NFKC.String(host+string(s.rest)), closers)
		if all != "" && '0' <= all[0] && all[0] <= '9' || strings.ContainsAny(all, ".@[%。｡") {
			return refused
		}
		return allowed
	}
	switch {
	case host == "" && port == "" && len(s.rest) == 0, host == "" && !s.odd && !joined:
		return allowed // a scheme alone
	case s.odd, joined && len(s.rest) > 0, strings.Trim(port, "0123456789") != "", !s.links.allows(host):
		return refused
	}
	return allowed
}

// endsLink reports whether a character ends a link in text, in Markdown and in HTML.
func endsLink(r rune) bool {
	return r <= ' ' || strings.ContainsRune("()[]<>\"'`{}|^，。；：！？、）】》」』”’\u3000", r)
}

// frontier returns the offset before which no link can begin that is not known, where at is how far the text was read.
func (s *linkScan) frontier(at int) int {
	if s.state == inAuthority || s.token != "" {
		return s.start
	}
	return at
}
