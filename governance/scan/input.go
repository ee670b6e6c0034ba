package scan

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Read scans an input. Its name says how it is read and where its texts are found.
func (s *Scanner) Read(ctx context.Context, name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	lines := s.cfg.Format == JSONLines
	if s.cfg.Format == Auto {
		switch strings.ToLower(filepath.Ext(name)) {
		case ".jsonl", ".ndjson":
			lines = true
		case "":
			lines = beginsObject(in)
		}
	}
	if lines {
		return s.jsonLines(ctx, name, in)
	}
	return s.plainText(ctx, name, in)
}

// beginsObject reports whether what comes looks like JSON Lines.
func beginsObject(in *bufio.Reader) bool {
	head, _ := in.Peek(512) // shorter inputs give what they have
	return strings.HasPrefix(strings.TrimLeft(string(head), "\ufeff \t\r\n"), "{")
}

// readLine returns the next line with its end; whether it was too long, and was then skipped; and whether the input ends with it.
func (s *Scanner) readLine(in *bufio.Reader) (line []byte, tooLong, end bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		s.read += int64(len(part))
		if tooLong = tooLong || len(line)+len(part) > s.cfg.limit; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return line, tooLong, true, nil
		}
		return line, tooLong, false, err
	}
}

func (s *Scanner) jsonLines(ctx context.Context, name string, in *bufio.Reader) error {
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, tooLong, end, err := s.readLine(in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		line := strings.Trim(strings.TrimPrefix(string(raw), "\ufeff"), " \t\r\n")
		place := fmt.Sprintf("%s:%d", name, n)
		switch {
		case tooLong:
			s.unread(place, TextTooLong)
		case line != "":
			if err := s.jsonLine(place, n, line); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
	}
}

func (s *Scanner) jsonLine(place string, n int, line string) error {
	var in struct {
		ID   json.RawMessage `json:"id"`
		Text *string         `json:"text"`
	}
	if object := json.Unmarshal([]byte(line), &in) == nil; !object || in.Text == nil {
		s.unread(place, NoObject)
		return nil
	}
	if in.ID == nil {
		in.ID = json.RawMessage(fmt.Sprint(n))
	}
	return s.text(in.ID, *in.Text)
}

// plainText takes an input as one text, or where it is longer than a text may be as several, cut at line ends.
func (s *Scanner) plainText(ctx context.Context, name string, in *bufio.Reader) error {
	var text []byte
	first, id := 1, name // the line that text begins with
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, tooLong, end, err := s.readLine(in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if tooLong {
			s.unread(fmt.Sprintf("%s:%d", name, n), LineTooLong)
		}
		if len(text)+len(line) > s.cfg.limit {
			if err := s.plain(fmt.Sprintf("%s:%d", name, first), text); err != nil {
				return err
			}
			text, first = text[:0], n
			id = fmt.Sprintf("%s:%d", name, first)
		}
		text = append(text, line...)
		if end {
			if len(text) == 0 {
				return nil
			}
			return s.plain(id, text)
		}
	}
}

func (s *Scanner) plain(id string, text []byte) error {
	if !utf8.Valid(text) {
		s.unread(id, NoUTF8)
		return nil
	}
	raw, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return s.text(raw, string(text))
}
