package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(t testing.TB, r io.Reader, limit int) ([]string, error) {
	t.Helper()
	er := NewEventReader(r, limit)
	var out []string
	for {
		ev, err := er.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, ev.Name+"|"+string(ev.Data))
	}
}

func TestEventReader(t *testing.T) {
	cases := []struct {
		name, in string
		want     []string
	}{
		{"one", "data: {\"a\":1}\n\n", []string{`|{"a":1}`}},
		{"no space", "data:x\n\n", []string{"|x"}},
		{"two spaces keep one", "data:  x\n\n", []string{"| x"}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"cr", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"multi line", "data: a\ndata: b\n\n", []string{"|a\nb"}},
		{"comments", ": hi\n\n: x\ndata: a\n\n", []string{"|a"}},
		{"named", "event: ping\ndata: {}\n\nevent: lost\n\ndata: 1\n\n", []string{"ping|{}", "|1"}},
		{"unknown field", "id: 7\nretry: 1\ndata: a\n\n", []string{"|a"}},
		{"bom", "\xEF\xBB\xBFdata: a\n\n", []string{"|a"}},
		{"cut at end", "data: a\n\ndata: [DONE]", []string{"|a", "|[DONE]"}},
		{"empty data", "data\n\ndata:\n\n", []string{"|", "|"}},
		{"nothing", "\n\n\n", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
				got, err := readAll(t, r, 1<<20)
				if err != nil || strings.Join(got, "¦") != strings.Join(c.want, "¦") {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
			}
		})
	}
}

func TestEventReaderBounds(t *testing.T) {
	long := "data: " + strings.Repeat("x", 100_000) + "\n\n"
	if got, err := readAll(t, strings.NewReader(long), 100_000); err != nil || len(got) != 1 {
		t.Errorf("event of exactly the limit: %d events, %v", len(got), err)
	}
	if _, err := readAll(t, strings.NewReader(long), 99_999); !errors.Is(err, ErrEventTooLong) {
		t.Errorf("one byte more: %v", err)
	}
	many := strings.Repeat("data: xxxxxxxxxx\n", 100)
	if _, err := readAll(t, strings.NewReader(many), 500); !errors.Is(err, ErrEventTooLong) {
		t.Errorf("many lines: %v", err)
	}
	if _, err := readAll(t, io.MultiReader(strings.NewReader("data: a\n\nda"), iotest.ErrReader(io.ErrClosedPipe)), 500); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("read error: %v", err)
	}
}

// FuzzEventReader: any split of the bytes gives the same events, and no event exceeds the limit.
func FuzzEventReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "data: a\r\ndata: b\r\r", ": c\n\nevent: e\rdata:{}\n\n", "\xEF\xBB\xBFdata: [DONE]", "data\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 64
		whole, err1 := readAll(t, bytes.NewReader(in), limit)
		single, err2 := readAll(t, iotest.OneByteReader(bytes.NewReader(in)), limit)
		if strings.Join(whole, "\x00") != strings.Join(single, "\x00") || !errors.Is(err1, err2) {
			t.Fatalf("whole %q %v, byte by byte %q %v", whole, err1, single, err2)
		}
		for _, ev := range whole {
			if _, data, _ := strings.Cut(ev, "|"); len(data) > limit+len(ev)-len(data) {
				t.Fatalf("event of %d bytes", len(data))
			}
		}
	})
}

// TestWriteReadRoundTrip: what AppendEvent and AppendComment write, EventReader reads back.
func TestWriteReadRoundTrip(t *testing.T) {
	chunk := ChatChunk{ID: "c", Object: ObjectChatChunk, Choices: []ChatChunkChoice{}}
	j, err := json.Marshal(chunk)
	if err != nil {
		t.Fatal(err)
	}
	b := AppendEvent(AppendComment(AppendEvent(nil, j), "keep-alive"), []byte(Done))
	got, err := readAll(t, bytes.NewReader(b), 1<<20)
	if err != nil || len(got) != 2 || got[0] != "|"+string(j) || got[1] != "|[DONE]" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestByteList(t *testing.T) {
	for _, c := range []struct {
		in   ByteList
		want string
	}{{nil, "null"}, {ByteList{}, "[]"}, {ByteList{0, 255}, "[0,255]"}} {
		j, err := json.Marshal(c.in)
		if err != nil || string(j) != c.want {
			t.Errorf("%v: %s, %v", c.in, j, err)
		}
		var back ByteList
		if err := json.Unmarshal(j, &back); err != nil || !bytes.Equal(back, c.in) || (back == nil) != (c.in == nil) {
			t.Errorf("%s: back %v, %v", j, back, err)
		}
	}
	var b ByteList
	if json.Unmarshal([]byte("[256]"), &b) == nil || json.Unmarshal([]byte(`"x"`), &b) == nil {
		t.Error("values that are no bytes must fail")
	}
}

// TestMore: more is promised only where Next does not wait.
func TestMore(t *testing.T) {
	for text, want := range map[string][]bool{
		"data: a\n\ndata: b\n\n":                   {true, false},
		"data: a\n\ndata: b\n":                     {false},
		"data: a\n\n: comment\n\n":                 {false},
		"data: a\n\nevent: x\n\ndata: b\n\n":       {false, false},
		"data: a\r\n\r\ndata: b\n\n":               {false, false},
		"data: a\n\ndata: b\ndata: c\n\ndata: [D":  {true, false},
		"data: a\n\n\n\ndata: b\n\n":               {false, false},
		"data: a\n\ndata: b\ndata: c\r\n\r\ndata:": {false},
	} {
		from, into := io.Pipe()
		go func() { _, _ = into.Write([]byte(text)) }()
		events := NewEventReader(from, 1<<10)
		for i, more := range want {
			if _, err := events.Next(); err != nil {
				t.Fatal(err)
			}
			if got := events.More(); got != more {
				t.Errorf("%q: after event %d more is %v", text, i, got)
			}
		}
		_ = from.Close()
	}
}
