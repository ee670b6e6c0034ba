package record

import (
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// payloadRoom is more than most payloads take.
const payloadRoom = 2048

// write returns e as version 3, as package encoding/json would write [eventV3] without escapes for HTML: fields in their order, absent when
// zero, and ill-formed UTF-8 as an escape. Two records are written for each request, and looking the fields up by reflection costs several times as much. Beside
// it stands scan, which reads what it writes.
func write(e *Event) []byte {
	w := writer{b: make([]byte, 0, payloadRoom)}
	w.event(e)
	return w.b
}

// writer appends to a payload.
type writer struct{ b []byte }

func (w *writer) event(e *Event) {
	w.open()
	w.key("schema")
	w.b = strconv.AppendInt(w.b, schemaV3, 10)
	w.key("id")
	w.quoted(e.ID)
	w.text("salt", e.Salt)
	w.text("request", e.Request)
	w.key("stage")
	w.quoted(string(e.Stage))
	w.key("time")
	w.b = strconv.AppendInt(w.b, e.Time, 10)
	w.text("tenant", e.Tenant)
	w.text("project", e.Project)
	w.text("region", e.Region)
	if e.Actor != (Actor{}) {
		w.object("actor")
		w.text("kind", e.Actor.Kind)
		w.text("id", e.Actor.ID)
		w.text("name", e.Actor.Name)
		w.text("on_behalf_of", e.Actor.OnBehalfOf)
		w.end()
	}
	w.text("session", e.Session)
	w.text("source", e.Source)
	w.text("action", e.Action)
	w.text("resource", e.Resource)
	w.text("route", e.Route)
	w.text("dialect", e.Dialect)
	w.model(&e.Model)
	w.text("policy", e.Policy)
	w.text("policy_digest", e.PolicyDigest)
	w.text("price_book", e.PriceBook)
	w.text("rollout", e.Rollout)
	w.text("arm", e.Arm)
	writeList(w, "findings", e.Findings, func(f *Finding) {
		w.open()
		w.text("direction", f.Direction)
		w.text("class", f.Class)
		w.text("detector", f.Detector)
		w.text("action", f.Action)
		w.number("count", int64(f.Count))
		w.end()
	})
	writeList(w, "safety", e.Safety, func(r *Rule) {
		w.open()
		w.text("direction", r.Direction)
		w.text("id", r.ID)
		w.text("action", r.Action)
		w.end()
	})
	w.text("decision", e.Decision)
	writeList(w, "documents", e.Documents, func(d *string) { w.quoted(*d) })
	w.usage(&e.Usage)
	w.text("label", e.Label)
	w.text("watermark", e.Watermark)
	w.text("prompt_digest", e.PromptDigest)
	w.text("answer_digest", e.AnswerDigest)
	writeList(w, "contents", e.Contents, func(c *Content) {
		w.open()
		w.text("direction", c.Direction)
		w.text("form", c.Form)
		w.text("key", c.Key)
		w.text("digest", c.Digest)
		w.number("bytes", c.Bytes)
		w.end()
	})
	w.text("outcome", e.Outcome)
	w.text("error_kind", e.ErrorKind)
	w.text("error_code", e.ErrorCode)
	w.number("status", int64(e.Status))
	if e.Latency != (Latency{}) {
		w.object("latency")
		w.number("admit", e.Latency.Admit)
		w.number("queue", e.Latency.Queue)
		w.number("first_token", e.Latency.FirstToken)
		w.number("total", e.Latency.Total)
		w.end()
	}
	w.detail(e.Detail)
	w.text("label_key", e.LabelKey)
	w.steps(&e.Steps)
	w.end()
}

func (w *writer) model(m *Model) {
	if *m == (Model{}) {
		return
	}
	w.object("model")
	w.text("asked", m.Asked)
	w.text("routed", m.Routed)
	w.text("reported", m.Reported)
	w.text("version", m.Version)
	w.text("digest", m.Digest)
	w.text("precision", m.Precision)
	w.text("template", m.Template)
	w.text("engine", m.Engine)
	w.text("adapter", m.Adapter)
	w.text("replay", m.Replay)
	w.end()
}

func (w *writer) usage(u *Usage) {
	if *u == (Usage{}) {
		return
	}
	w.object("usage")
	w.number("prompt_tokens", u.PromptTokens)
	w.number("cached_tokens", u.CachedTokens)
	w.number("completion_tokens", u.CompletionTokens)
	if u.Estimated {
		w.key("estimated")
		w.b = append(w.b, "true"...)
	}
	w.number("cost", u.Cost)
	w.text("currency", u.Currency)
	w.number("energy", u.Energy)
	w.text("energy_method", u.EnergyMethod)
	w.end()
}

func (w *writer) steps(t *Steps) {
	if *t == (Steps{}) {
		return
	}
	w.object("steps")
	w.number("authenticate", t.Authenticate)
	w.number("limit", t.Limit)
	w.number("policy", t.Policy)
	w.number("route", t.Route)
	w.number("reserve", t.Reserve)
	w.number("retrieve", t.Retrieve)
	w.number("record", t.Record)
	w.number("prefill", t.Prefill)
	w.number("decode", t.Decode)
	w.end()
}

func (w *writer) detail(m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.object("detail")
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.separate()
		w.quoted(k)
		w.b = append(w.b, ':')
		w.quoted(m[k])
	}
	w.end()
}

// separate ends the field or the element before.
func (w *writer) separate() {
	if last := w.b[len(w.b)-1]; last != '{' && last != '[' {
		w.b = append(w.b, ',')
	}
}

// key begins a field, whose name needs no escapes.
func (w *writer) key(name string) {
	w.separate()
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *writer) open() { w.b = append(w.b, '{') }

func (w *writer) object(name string) {
	w.key(name)
	w.open()
}

func (w *writer) end() { w.b = append(w.b, '}') }

func writeList[T any](w *writer, name string, list []T, item func(*T)) {
	if len(list) == 0 {
		return
	}
	w.key(name)
	w.b = append(w.b, '[')
	for i := range list {
		w.separate()
		item(&list[i])
	}
	w.b = append(w.b, ']')
}

func (w *writer) text(name, s string) {
	if s != "" {
		w.key(name)
		w.quoted(s)
	}
}

func (w *writer) number(name string, n int64) {
	if n != 0 {
		w.key(name)
		w.b = strconv.AppendInt(w.b, n, 10)
	}
}

// quoted writes a string.
func (w *writer) quoted(s string) {
	const digits = "0123456789abcdef"
	b, from := append(w.b, '"'), 0 // what lies before from is written
	for i := 0; i < len(s); {
		c := s[i]
		if ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + size
			case r == '\u2028' || r == '\u2029':
				b = append(append(b, s[from:i]...), '\\', 'u', '2', '0', '2', digits[r&0xF])
				from = i + size
			}
			i += size
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xF])
		}
		i++
		from = i
	}
	w.b = append(append(b, s[from:]...), '"')
}
