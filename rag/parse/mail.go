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
// rather than HTML where both say the same. What was quoted stays. An attachment that cannot be read is named in what is left out.
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
	return d, err
}

type letter struct {
	r     *reading
	b     *builder
	words *mime.WordDecoder
	parts int
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
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		kind, params = Text, nil
	}
	disposition, dp, err := mime.ParseMediaType(h.Get("Content-Disposition"))
	if err != nil {
		disposition, dp = "", nil
	}
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
	if disposition == "attachment" || name != "" || kind != Text && kind != HTML {
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
	l.b.include(d, 0)
	l.left = append(l.left, d.Left...)
	return nil
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

// several reads the parts of a multipart. Of alternatives it takes plain text if there is some, else HTML.
func (l *letter) several(kind, boundary string, in io.Reader, depth int) error {
	if boundary == "" {
		return refuse(fault.Say("parse.mail"))
	}
	type part struct {
		h    textproto.MIMEHeader
		body []byte
	}
	var all []part
	parts := multipart.NewReader(in, boundary)
	for {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if len(all) > 0 {
				break // the end was cut off; what came is read
			}
			return refuse(fault.Say("parse.mail"))
		}
		if len(all) >= maxParts {
			return errDeep
		}
		body, _ := io.ReadAll(p)
		all = append(all, part{p.Header, body})
	}
	if kind == "multipart/alternative" && len(all) > 0 {
		best := 0
		for i, p := range all {
			if t, _, _ := mime.ParseMediaType(p.h.Get("Content-Type")); t == Text {
				best = i
				break
			}
			best = i // the last is the richest
		}
		all = all[best : best+1]
	}
	for _, p := range all {
		if err := l.part(p.h, bytes.NewReader(p.body), depth+1); err != nil {
			return err
		}
	}
	return nil
}

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
