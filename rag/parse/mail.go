package parse

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// Bounds of a message: parts inside parts, documents inside documents, and parts of all.
const (
	maxNesting  = 10
	maxAttached = 2
	maxParts    = 500
)

// mail reads a message: who wrote it to whom, when and about what, then its text, then what is attached, each under its name. Text is taken
// rather than HTML where both say the same. What was quoted stays. What cannot be read, or is cut off, is named in what is left out.
func (r *reading) mail(body []byte) (Document, error) {
	m, err := mail.ReadMessage(bytes.NewReader(body))
	if err != nil {
		return Document{}, refuse(fault.Say("parse.mail"))
	}
	l := &letter{r: r, b: r.builder()}
	words := &mime.WordDecoder{CharsetReader: func(label string, in io.Reader) (io.Reader, error) {
		e, err := named(label)
		if err != nil {
			return nil, err
		}
		return e.NewDecoder().Reader(in), nil
	}}
	title := ""
	var head []string
	for _, key := range []string{"From", "To", "Cc", "Date", "Subject"} {
		value := strings.Join(m.Header[key], ", ")
		if decoded, err := words.DecodeHeader(value); err == nil {
			value = decoded
		}
		if value = oneLine(strings.ToValidUTF8(value, "\ufffd")); value != "" {
			head = append(head, key+": "+value)
		}
		if key == "Subject" {
			title = value
		}
	}
	if len(head) == 0 {
		return Document{}, refuse(fault.Say("parse.mail"))
	}
	l.b.paragraph(strings.Join(head, "\n"))
	l.words = words
	if err := l.part(textproto.MIMEHeader(m.Header), m.Body, 0); err != nil {
		return Document{}, err
	}
	d, err := l.b.document(title)
	d.Left = append(d.Left, l.left...)
	if l.cut {
		d.Left = append(d.Left, fault.Say("parse.left.cut"))
	}
	return d, err
}

type letter struct {
	r     *reading
	b     *builder
	words *mime.WordDecoder
	parts int
	said  int  // texts that were written, without attachments
	other bool // the text stands in another form already: only attachments are taken
	cut   bool // the message ends before its parts do
	left  []fault.Phrase
}

// part reads a part of the message, and those inside it.
func (l *letter) part(h textproto.MIMEHeader, in io.Reader, depth int) error {
	if l.parts++; l.parts > maxParts || depth > maxNesting {
		return errDeep
	}
	if err := ended(l.r.ctx); err != nil {
		return err
	}
	kind, params := parameters(h.Get("Content-Type"))
	if !strings.Contains(kind, "/") {
		kind = Text
	}
	disposition, dp := parameters(h.Get("Content-Disposition"))
	name := dp["filename"]
	if name == "" {
		name = params["name"]
	}
	if decoded, err := l.words.DecodeHeader(name); err == nil {
		name = decoded
	}
	name = oneLine(strings.ToValidUTF8(name, "\ufffd"))
	switch {
	case kind == "multipart/encrypted", kind == "application/pkcs7-mime" && params["smime-type"] != "signed-data", kind == "application/x-pkcs7-mime" && params["smime-type"] != "signed-data":
		return errLocked
	case strings.HasPrefix(kind, "multipart/"):
		return l.several(kind, params["boundary"], in, depth)
	}
	switch strings.ToLower(strings.TrimSpace(h.Get("Content-Transfer-Encoding"))) {
	case "base64":
		in = base64.NewDecoder(base64.StdEncoding, &base64Text{in})
	case "quoted-printable":
		in = quotedprintable.NewReader(in)
	}
	body, err := io.ReadAll(in)
	if err != nil && len(body) == 0 {
		l.left = append(l.left, fault.Say("parse.left.attachment", shown(name, kind), fault.Say("parse.damaged")))
		return nil
	}
	attached := disposition == "attachment" || name != "" || kind != Text && kind != HTML
	if !attached && l.other {
		return nil
	}
	if err != nil {
		l.left = append(l.left, fault.Say("parse.left.damaged", shown(name, kind)))
	}
	if attached {
		return l.attached(name, kind, params["charset"], body)
	}
	d, err := l.r.within(kind, params["charset"], body)
	var refused *Error
	if errors.As(err, &refused) {
		if emptyText(refused) {
			return nil
		}
		l.left = append(l.left, fault.Say("parse.left.attachment", kind, refused.Reason))
		return nil
	}
	if err != nil {
		return err
	}
	l.said++
	l.b.include(d, 0)
	l.left = append(l.left, d.Left...)
	return nil
}

// parameters reads a media type or disposition with its parameters. Those that break the rules, such as names with blanks and no quotes, are read up to
// the next semicolon.
func parameters(header string) (kind string, params map[string]string) {
	kind, params, err := mime.ParseMediaType(header)
	if err == nil {
		return kind, params
	}
	kind, rest, _ := strings.Cut(header, ";")
	kind, params = strings.ToLower(strings.TrimSpace(kind)), map[string]string{}
	for p := range strings.SplitSeq(rest, ";") {
		name, value, _ := strings.Cut(p, "=")
		if name = strings.ToLower(strings.TrimSpace(name)); params[name] == "" {
			params[name] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return kind, params
}

// base64Text leaves out what is no sign of base64: mail programs add blanks and dots.
type base64Text struct{ in io.Reader }

func (r *base64Text) Read(p []byte) (int, error) {
	for {
		n, err := r.in.Read(p)
		kept := p[:0]
		for _, c := range p[:n] {
			if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '=' {
				kept = append(kept, c)
			}
		}
		if len(kept) > 0 || err != nil {
			return len(kept), err
		}
	}
}

// several reads the parts of a multipart. Of alternatives it takes the text of one: plain text if that says something, else the last, which is the
// richest, that does; and what is attached to any of them.
func (l *letter) several(kind, boundary string, in io.Reader, depth int) error {
	if boundary == "" {
		return refuse(fault.Say("parse.mail"))
	}
	type part struct {
		h    textproto.MIMEHeader
		body []byte
	}
	var all, texts []part
	parts := multipart.NewReader(in, boundary)
	for {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if len(all)+len(texts) > 0 {
				l.cut = true // what came is read
				break
			}
			return refuse(fault.Say("parse.mail"))
		}
		if len(all)+len(texts) >= maxParts {
			return errDeep
		}
		body, err := io.ReadAll(p)
		l.cut = l.cut || err != nil
		if t, _ := parameters(p.Header.Get("Content-Type")); kind == alternative && (t == Text || t == "") {
			texts = append(texts, part{p.Header, body})
		} else {
			all = append(all, part{p.Header, body})
		}
	}
	if kind == alternative {
		slices.Reverse(all)
	}
	before, other := l.said, l.other
	defer func() { l.other = other }()
	for _, p := range append(texts, all...) {
		l.other = other || kind == alternative && l.said > before
		if err := l.part(p.h, bytes.NewReader(p.body), depth+1); err != nil {
			return err
		}
	}
	return nil
}

const alternative = "multipart/alternative"

// attached reads an attachment as a document of its own, under its name.
func (l *letter) attached(name, kind, charset string, body []byte) error {
	if strings.HasPrefix(kind, "application/pkcs7-sig") || kind == "application/pgp-signature" || kind == "application/x-pkcs7-signature" {
		return nil
	}
	d, err := l.r.inside(name, kind, charset, body)
	var refused *Error
	if errors.As(err, &refused) {
		l.left = append(l.left, fault.Say("parse.left.attachment", shown(name, kind), refused.Reason))
		return nil
	}
	if err != nil {
		return err
	}
	l.b.heading(1, shown(name, kind))
	l.b.include(d, 1)
	l.left = append(l.left, d.Left...)
	return nil
}

// shown is how an attachment is named: by its name without characters that are not shown, else by its type.
func shown(name, kind string) string {
	if name == "" {
		name = oneLine(kind)
	}
	if r := []rune(name); len(r) > 100 {
		name = string(r[:100]) + "…"
	}
	return name
}
