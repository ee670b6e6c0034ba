package record

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scan reads a payload of version 2 or 3 that is written exactly as Encode writes: each field at most once and in its place, no spaces.
// Nearly every payload that is ever read is one, and reading records is most of what verifying, shipping and searching cost; the general
// decoder takes several times as long. Its texts are parts of one copy of the payload. Where scan is in any doubt it returns false, and the general decoder says what is to be made of it.
func scan(payload []byte) (Event, bool) {
	var e Event
	s := scanner{b: string(payload)}
	s.event(&e)
	return e, !s.bad && s.at == len(payload)
}

// scanner stands at a place of a payload.
type scanner struct {
	b   string
	at  int
	bad bool // something is not as expected; what was read does not count
}

func (s *scanner) event(e *Event) {
	s.expect('{')
	number(s, "schema", &e.Schema)
	s.text("id", &e.ID)
	s.text("salt", &e.Salt)
	s.text("request", &e.Request)
	s.text("stage", (*string)(&e.Stage))
	number(s, "time", &e.Time)
	s.text("tenant", &e.Tenant)
	s.text("project", &e.Project)
	s.text("region", &e.Region)
	s.object("actor", func() {
		s.text("kind", &e.Actor.Kind)
		s.text("id", &e.Actor.ID)
		s.text("name", &e.Actor.Name)
		s.text("on_behalf_of", &e.Actor.OnBehalfOf)
	})
	s.text("session", &e.Session)
	s.text("source", &e.Source)
	s.text("action", &e.Action)
	s.text("resource", &e.Resource)
	s.text("route", &e.Route)
	s.text("dialect", &e.Dialect)
	s.object("model", func() { s.model(&e.Model) })
	s.text("policy", &e.Policy)
	s.text("policy_digest", &e.PolicyDigest)
	s.text("price_book", &e.PriceBook)
	s.text("rollout", &e.Rollout)
	s.text("arm", &e.Arm)
	list(s, "findings", &e.Findings, func(f *Finding) {
		s.expect('{')
		s.text("direction", &f.Direction)
		s.text("class", &f.Class)
		s.text("detector", &f.Detector)
		s.text("action", &f.Action)
		number(s, "count", &f.Count)
		s.end()
	})
	list(s, "safety", &e.Safety, func(r *Rule) {
		s.expect('{')
		s.text("direction", &r.Direction)
		s.text("id", &r.ID)
		s.text("action", &r.Action)
		s.end()
	})
	s.text("decision", &e.Decision)
	list(s, "documents", &e.Documents, func(d *string) { *d = s.quoted() })
	s.object("usage", func() { s.usage(&e.Usage) })
	s.text("label", &e.Label)
	s.text("watermark", &e.Watermark)
	s.text("prompt_digest", &e.PromptDigest)
	s.text("answer_digest", &e.AnswerDigest)
	list(s, "contents", &e.Contents, func(c *Content) {
		s.expect('{')
		s.text("direction", &c.Direction)
		s.text("form", &c.Form)
		s.text("key", &c.Key)
		s.text("digest", &c.Digest)
		number(s, "bytes", &c.Bytes)
		s.end()
	})
	s.text("outcome", &e.Outcome)
	s.text("error_kind", &e.ErrorKind)
	s.text("error_code", &e.ErrorCode)
	number(s, "status", &e.Status)
	s.object("latency", func() {
		number(s, "admit", &e.Latency.Admit)
		number(s, "queue", &e.Latency.Queue)
		number(s, "first_token", &e.Latency.FirstToken)
		number(s, "total", &e.Latency.Total)
	})
	s.detail(&e.Detail)
	if e.Schema == schemaV3 {
		s.text("label_key", &e.LabelKey)
		s.object("steps", func() { s.steps(&e.Steps) })
	}
	s.end()
}

func (s *scanner) model(m *Model) {
	s.text("asked", &m.Asked)
	s.text("routed", &m.Routed)
	s.text("reported", &m.Reported)
	s.text("version", &m.Version)
	s.text("digest", &m.Digest)
	s.text("precision", &m.Precision)
	s.text("template", &m.Template)
	s.text("engine", &m.Engine)
	s.text("adapter", &m.Adapter)
	s.text("replay", &m.Replay)
}

func (s *scanner) usage(u *Usage) {
	number(s, "prompt_tokens", &u.PromptTokens)
	number(s, "cached_tokens", &u.CachedTokens)
	number(s, "completion_tokens", &u.CompletionTokens)
	if s.key("estimated") {
		s.word("true") // it is left out when false
		u.Estimated = true
	}
	number(s, "cost", &u.Cost)
	s.text("currency", &u.Currency)
	number(s, "energy", &u.Energy)
	s.text("energy_method", &u.EnergyMethod)
}

func (s *scanner) steps(t *Steps) {
	number(s, "authenticate", &t.Authenticate)
	number(s, "limit", &t.Limit)
	number(s, "policy", &t.Policy)
	number(s, "route", &t.Route)
	number(s, "reserve", &t.Reserve)
	number(s, "retrieve", &t.Retrieve)
	number(s, "record", &t.Record)
	number(s, "prefill", &t.Prefill)
	number(s, "decode", &t.Decode)
}

func (s *scanner) detail(m *map[string]string) {
	if !s.key("detail") {
		return
	}
	s.expect('{')
	*m = map[string]string{}
	for !s.bad {
		k := s.quoted()
		s.expect(':')
		if _, ok := (*m)[k]; ok {
			s.bad = true
		}
		(*m)[k] = s.quoted()
		if !s.take(',') {
			break
		}
	}
	s.expect('}')
}

// key says whether the next field is called name, and then steps over its name and what separates it from the one before.
func (s *scanner) key(name string) bool {
	at := s.at
	if s.bad || at >= len(s.b) {
		s.bad = true
		return false
	}
	if s.b[at-1] != '{' { // there is a byte before: the brace of the object at least
		if s.b[at] != ',' {
			return false
		}
		at++
	}
	end := at + 1 + len(name)
	if end+2 > len(s.b) || s.b[at] != '"' || s.b[at+1:end] != name || s.b[end] != '"' || s.b[end+1] != ':' {
		return false
	}
	s.at = end + 2
	return true
}

// end closes an object. One without fields is nothing that Encode writes, but for an element of a list, which may stay to the general
// decoder.
func (s *scanner) end() {
	if !s.bad && s.b[s.at-1] == '{' {
		s.bad = true
	}
	s.expect('}')
}

func (s *scanner) object(name string, fields func()) {
	if s.key(name) {
		s.expect('{')
		fields()
		s.end()
	}
}

// list reads an array that is not empty.
func list[T any](s *scanner, name string, p *[]T, item func(*T)) {
	if !s.key(name) {
		return
	}
	s.expect('[')
	for !s.bad {
		var x T
		item(&x)
		*p = append(*p, x)
		if !s.take(',') {
			break
		}
	}
	s.expect(']')
}

func (s *scanner) text(name string, p *string) {
	if s.key(name) {
		*p = s.quoted()
	}
}

// number reads an integer of at most 18 digits, which fits every type that a record has.
func number[T int | int64](s *scanner, name string, p *T) {
	if !s.key(name) {
		return
	}
	from := s.at
	s.take('-')
	first := s.at
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' {
		s.at++
	}
	n, err := strconv.ParseInt(s.b[from:s.at], 10, strconv.IntSize)
	if err != nil || s.at-first > 18 || s.b[first] == '0' && s.at-first > 1 {
		s.bad = true
	}
	*p = T(n)
}

// quoted reads a string.
func (s *scanner) quoted() string {
	s.expect('"')
	from, escapes, ascii, marks := s.at, 0, true, true
	for s.at < len(s.b) && s.b[s.at] != '"' {
		switch c := s.b[s.at]; {
		case c == '\\':
			escapes++
			s.at++ // what follows is escaped, a quote too
			marks = marks && s.at < len(s.b) && (s.b[s.at] == '"' || s.b[s.at] == '\\')
		case c < ' ':
			s.bad = true
		case c >= utf8.RuneSelf:
			ascii = false
		}
		s.at++
	}
	to := s.at
	s.expect('"')
	if s.bad {
		return ""
	}
	if !ascii && !utf8.ValidString(s.b[from:to]) {
		s.bad = true
		return ""
	}
	switch {
	case escapes == 0:
		return s.b[from:to]
	case marks: // JSON in a text, as the label is
		return unmarked(s.b[from:to], escapes)
	}
	var out string
	if json.Unmarshal([]byte(s.b[from-1:to+1]), &out) != nil {
		s.bad = true
	}
	return out
}

// unmarked returns a text in which quotes and backslashes are escaped, and nothing else is.
func unmarked(b string, escapes int) string {
	var out strings.Builder
	out.Grow(len(b) - escapes)
	for escapes > 0 {
		at := strings.IndexByte(b, '\\')
		out.WriteString(b[:at])
		out.WriteByte(b[at+1])
		b, escapes = b[at+2:], escapes-1
	}
	out.WriteString(b)
	return out.String()
}

func (s *scanner) word(w string) {
	if len(s.b)-s.at < len(w) || s.b[s.at:s.at+len(w)] != w {
		s.bad = true
		return
	}
	s.at += len(w)
}

func (s *scanner) expect(c byte) {
	if !s.take(c) {
		s.bad = true
	}
}

// take steps over c if it comes next.
func (s *scanner) take(c byte) bool {
	if s.bad || s.at >= len(s.b) || s.b[s.at] != c {
		return false
	}
	s.at++
	return true
}
