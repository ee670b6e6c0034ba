package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(100, 0)
	l := New(&out, "records", "left", func() time.Time { return now })
	shown := func() string {
		defer out.Reset()
		return out.String()
	}
	l.Clear()
	if l.End(); shown() != "" {
		t.Error("a line that was never drawn was taken away")
	}
	now = now.Add(10 * time.Second)
	l.Update(250, 1000)
	if got := shown(); got != "\r██████░░░░░░░░░░░░░░░░░░  25%  250/1000 records  25/s  0:30 left" {
		t.Errorf("%q", got)
	}
	now = now.Add(redraw - 1)
	if l.Update(251, 1000); shown() != "" {
		t.Error("drawn again at once")
	}
	l.Update(1000, 1000) // the end is always drawn, over all of the text before
	if got := shown(); !strings.HasPrefix(got, "\r████████████████████████ 100%  1000/1000 records  99/s") || !strings.HasSuffix(got, " ") {
		t.Errorf("%q", got)
	}
	l.End()
	if got := shown(); got != "\n" {
		t.Errorf("%q", got)
	}
	l.Clear()
	if got := shown(); strings.TrimSpace(got) != "" || !strings.HasSuffix(got, "\r") {
		t.Errorf("%q", got)
	}
	for _, hostile := range [][2]int64{{1 << 62, -1}, {-5, 10}, {1 << 62, 1 << 62}, {5, 0}} {
		l.Update(hostile[0], hostile[1])
	}
}
