package modelstore

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func TestMeter(t *testing.T) {
	c := &clock{t: time.Unix(1000, 0)}
	var got []Progress
	m := newMeter(func(p Progress) { got = append(got, p) }, c.now, Progress{Artefact: "a", File: "f", Source: "s"})
	for i := range 101 { // 1 MB every 50 ms: 20 MB/s
		m.set(int64(i)*1e6, 200e6)
		c.t = c.t.Add(50 * time.Millisecond)
	}
	if n := len(got); n < 50 || n > 52 {
		t.Errorf("%d reports in five seconds", n)
	}
	p := got[len(got)-1]
	if p.Rate < 19e6 || p.Rate > 21e6 || p.Remaining < 4900*time.Millisecond || p.Remaining > 5100*time.Millisecond || p.Done != 100e6 || p.Total != 200e6 {
		t.Errorf("%+v", p)
	}
	for range 100 { // the rate follows a change within seconds
		m.set(m.state.Done+1e5, 200e6)
		c.t = c.t.Add(100 * time.Millisecond)
	}
	if p = got[len(got)-1]; p.Rate < 0.9e6 || p.Rate > 1.1e6 {
		t.Errorf("after the change: %+v", p)
	}
	m.set(0, 200e6) // a server that begins again
	c.t = c.t.Add(time.Second)
	m.set(1e6, 200e6)
	if p = got[len(got)-1]; p.Rate < 0 || p.Done != 1e6 {
		t.Errorf("after a restart: %+v", p)
	}
	m.finish(200e6)
	if p = got[len(got)-1]; !p.Finished || p.Done != 200e6 || p.Remaining != 0 {
		t.Errorf("at the end: %+v", p)
	}
	newMeter(nil, c.now, Progress{}).set(1, 2) // nobody listens
}

func progresses() []Progress {
	return []Progress{
		{File: "m.gguf", Source: "hf:a/b", Done: 0, Total: 98_362_432},
		{File: "m.gguf", Source: "hf:a/b", Done: 24_590_608, Total: 98_362_432, Rate: 12.3e6, Remaining: 66 * time.Second},
		{File: "m.gguf", Source: "hf:a/b", Done: 98_362_432, Total: 98_362_432, Rate: 12.3e6, Finished: true},
		{File: "w", Source: "pypi:x==1", Done: 50_000},
	}
}

func TestBarWritesLinesToALog(t *testing.T) {
	var out bytes.Buffer
	c := &clock{t: time.Unix(0, 0)}
	b := NewBar(&out)
	b.now = c.now
	for _, p := range progresses() {
		b.Update(p)
		c.t = c.t.Add(time.Second)
	}
	want := "m.gguf    0%  0.0 kB/98.4 MB  hf:a/b\nm.gguf  100%  98.4 MB/98.4 MB  hf:a/b\nw  50.0 kB  pypi:x==1\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestBarMovesOnATerminal(t *testing.T) {
	var out bytes.Buffer
	b := NewBar(&out)
	b.terminal = true
	for _, p := range progresses() {
		b.Update(p)
	}
	lines := strings.Split(out.String(), "\r")
	if len(lines) != 5 || !strings.HasPrefix(lines[2], "m.gguf ██████░░░░░░░░░░░░░░░░░░  25%  24.6 MB/98.4 MB  12.3 MB/s  1:06  hf:a/b") || !strings.HasSuffix(lines[3], "\n") {
		t.Errorf("got %q", lines)
	}
	for _, l := range lines {
		if n := len([]rune(strings.TrimRight(l, "\n"))); n > 79 {
			t.Errorf("a line of %d characters: %q", n, l)
		}
	}
}
