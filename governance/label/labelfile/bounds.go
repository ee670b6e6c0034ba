package labelfile

import (
	"bytes"
	"compress/zlib"
	"io"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// The bounds of what is read of one file. A file of MaxBytes unpacks to thousands of times as much, and a piece of a few bytes costs more than its size.
const (
	maxUnpacked = 64 << 20 // bytes, of all that is unpacked
	maxPart     = 32 << 20 // of one part of an archive, or of one stream
	maxPacket   = 1 << 20  // of an XMP packet
	maxTokens   = 4 << 20  // of XML
	maxPieces   = 64 << 10 // chunks of a PNG, segments of a JPEG, attributes of a tag, keys of a dictionary
	maxValue    = 8 << 10  // of a label's JSON
	maxMarks    = 64       // labels; one is the rule, and more are not told apart
)

// room is what may still be read of a file.
type room struct{ bytes, tokens int }

func newRoom() *room { return &room{bytes: maxUnpacked, tokens: maxTokens} }

// read reads all of what is unpacked, at most so many bytes.
func (r *room) read(from io.Reader, most int, damaged fault.Phrase) ([]byte, error) {
	most = min(most, r.bytes)
	out, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	if err != nil {
		return nil, refuse(damaged)
	}
	if len(out) > most {
		return nil, refuse(fault.Say("labelfile.unpacked"))
	}
	r.bytes -= len(out)
	return out, nil
}

// token counts a token of XML.
func (r *room) token() error {
	if r.tokens--; r.tokens < 0 {
		return refuse(fault.Say("labelfile.unpacked"))
	}
	return nil
}

// manyAttributes reports whether a tag of XML has more attributes than are read: all those of one are held at a time. The text behind a tag counts with it.
func manyAttributes(b []byte) bool {
	for len(b) > 0 {
		next := 1 + bytes.IndexByte(b[1:], '<')
		if next == 0 {
			next = len(b)
		}
		if bytes.Count(b[:next], []byte("=")) > maxPieces {
			return true
		}
		b = b[next:]
	}
	return false
}

// unpack inflates at most so many bytes; the result is never nil.
func unpack(b []byte, most int, r *room) ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, refuse(fault.Say("labelfile.compressed"))
	}
	return r.read(z, most, fault.Say("labelfile.compressed"))
}

// text collects what comes in pieces, as far as a label can be long. What is longer is no whole label.
type text struct{ b []byte }

func (t *text) add(piece string) {
	t.b = append(t.b, piece[:min(len(piece), maxValue+1-len(t.b))]...)
}

func (t *text) mark(place string) Mark {
	if len(t.b) > maxValue {
		return Mark{Place: place}
	}
	return mark(place, strings.TrimSpace(string(t.b)))
}

// namesLabel reports whether a field or keyword is one of a label: it contains AIGC (GB 45438-2025), in capitals or not.
func namesLabel(name string) bool { return strings.Contains(strings.ToUpper(name), "AIGC") }

// speaksOfLabel reports whether bytes contain AIGC, in ASCII or in UTF-16.
func speaksOfLabel(b []byte) bool {
	return bytes.Contains(b, []byte("AIGC")) || bytes.Contains(b, []byte("A\x00I\x00G\x00C"))
}
