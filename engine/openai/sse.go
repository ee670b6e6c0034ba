package openai

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Done is the data of the event that ends a stream.
const Done = "[DONE]"

// ErrEventTooLong is returned for an event larger than the reader's limit; the stream cannot be read on.
var ErrEventTooLong = errors.New("event stream: event larger than the limit")

// ServerEvent is one server-sent event. Data holds the data lines joined by line feeds, without a final one.
type ServerEvent struct {
	Name string
	Data []byte
}

// EventReader splits a byte stream into server-sent events, by event and never by network read. Lines end with LF, CR or CRLF;
// comments and unknown fields are skipped. It is used by one goroutine.
type EventReader struct {
	r       *bufio.Reader
	max     int
	line    []byte
	data    []byte
	started bool // past an optional byte order mark
	skipLF  bool // the last line ended with CR; an LF right after it belongs to it
}

// NewEventReader returns a reader that accepts events of at most limit bytes of data.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, 4096), max: limit}
}

// Next returns the next event that has data. Its Data is valid until the next call. At the end of the stream it returns io.EOF;
// an event that the end cut off before its blank line is returned first, since some servers end that way, and a cut JSON value
// fails to parse anyway.
func (e *EventReader) Next() (ServerEvent, error) {
	var name string
	e.data = e.data[:0]
	has := false
	for {
		line, err := e.readLine()
		if err != nil {
			if errors.Is(err, io.EOF) && has {
				return ServerEvent{Name: name, Data: e.data}, nil
			}
			return ServerEvent{}, err
		}
		if len(line) == 0 {
			if has {
				return ServerEvent{Name: name, Data: e.data}, nil
			}
			name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if has {
				e.data = append(e.data, '\n')
			}
			has = true
			e.data = append(e.data, value...)
			if len(e.data) > e.max {
				return ServerEvent{}, ErrEventTooLong
			}
		case "event":
			name = string(value)
		}
	}
}

// More reports whether another event is there already, so that Next would not wait. It looks for the common form only and may miss some.
func (e *EventReader) More() bool {
	there, _ := e.r.Peek(e.r.Buffered())
	return !e.skipLF && bytes.HasPrefix(there, []byte("data:")) && bytes.Contains(there, []byte("\n\n"))
}

// readLine returns the next line without its ending. A last line without an ending counts as one.
func (e *EventReader) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		if _, err := e.r.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && len(e.line) > 0 {
				return e.finishLine(), nil
			}
			return nil, err
		}
		chunk, _ := e.r.Peek(e.r.Buffered())
		if e.skipLF {
			e.skipLF = false
			if chunk[0] == '\n' {
				_, _ = e.r.Discard(1)
				continue
			}
		}
		i := bytes.IndexAny(chunk, "\r\n")
		if i < 0 {
			i = len(chunk)
		}
		if len(e.line)+i > e.max+len("data: ") {
			return nil, ErrEventTooLong
		}
		e.line = append(e.line, chunk[:i]...)
		if i == len(chunk) {
			_, _ = e.r.Discard(i)
			continue
		}
		e.skipLF = chunk[i] == '\r'
		_, _ = e.r.Discard(i + 1)
		return e.finishLine(), nil
	}
}

func (e *EventReader) finishLine() []byte {
	if !e.started {
		e.started = true
		return bytes.TrimPrefix(e.line, []byte("\xEF\xBB\xBF"))
	}
	return e.line
}

// AppendEvent appends data, which must hold no line ending (JSON on one line does not), as one event to dst.
func AppendEvent(dst, data []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}

// AppendComment appends a comment, which readers skip; it keeps idle connections open.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = append(dst, text...)
	return append(dst, "\n\n"...)
}
