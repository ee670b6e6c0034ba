package modelstore

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress is the state of one file.
type Progress struct {
	Artefact, File, Source string
	Done, Total            int64         // bytes; Total is 0 while it is not known
	Rate                   float64       // bytes per second, over the last seconds
	Remaining              time.Duration // 0 while it is not known
	Finished               bool          // the file is in its place
}

const reportEvery = 100 * time.Millisecond

// meter turns a count of bytes into reports.
type meter struct {
	report   func(Progress)
	now      func() time.Time
	state    Progress
	last     time.Time // of a report
	marks    []mark    // reports of the last seconds
	reported bool
}

type mark struct {
	at   time.Time
	done int64
}

func newMeter(report func(Progress), now func() time.Time, state Progress) *meter {
	if report == nil {
		report = func(Progress) {}
	}
	return &meter{report: report, now: now, state: state}
}

// set says how much is done, and how much there is in total if that has become known.
func (m *meter) set(done, total int64) {
	m.state.Done, m.state.Total = done, total
	now := m.now()
	if m.reported && now.Sub(m.last) < reportEvery {
		return
	}
	m.reported, m.last = true, now
	if n := len(m.marks); n > 0 && done < m.marks[n-1].done { // it began again
		m.marks = nil
	}
	m.marks = append(m.marks, mark{now, done})
	for len(m.marks) > 2 && now.Sub(m.marks[0].at) > 5*time.Second {
		m.marks = m.marks[1:]
	}
	first := m.marks[0]
	m.state.Rate, m.state.Remaining = 0, 0
	if d := now.Sub(first.at).Seconds(); d > 0 {
		m.state.Rate = float64(done-first.done) / d
	}
	if m.state.Rate > 0 && total > done {
		m.state.Remaining = time.Duration(float64(total-done) / m.state.Rate * float64(time.Second))
	}
	m.report(m.state)
}

func (m *meter) finish(size int64) {
	m.state.Done, m.state.Total, m.state.Remaining, m.state.Finished = size, size, 0, true
	m.report(m.state)
}

// Bar shows progress: a moving bar on a terminal, otherwise a line now and then.
type Bar struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	now      func() time.Time
	file     string
	printed  time.Time
	width    int
}

// NewBar returns a bar that writes to w.
func NewBar(w io.Writer) *Bar {
	f, ok := w.(*os.File)
	return &Bar{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), now: time.Now}
}

// Update shows p; pass it to [Store.Pull].
func (b *Bar) Update(p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := p.File+p.Source != b.file
	b.file = p.File + p.Source
	if b.terminal {
		b.line(p)
		return
	}
	// Logs get the beginning, the end and one line in ten seconds; of small files only the end.
	fresh = fresh && (p.Total == 0 || p.Total > 1e6)
	if now := b.now(); fresh || p.Finished || now.Sub(b.printed) >= 10*time.Second {
		b.printed = now
		_, _ = fmt.Fprintf(b.w, "%s  %s  %s\n", p.File, figures(p), p.Source)
	}
}

func (b *Bar) line(p Progress) {
	const cells = 24
	bar := strings.Repeat("░", cells)
	if p.Total > 0 {
		full := int(min(p.Done, p.Total) * cells / p.Total)
		bar = strings.Repeat("█", full) + strings.Repeat("░", cells-full)
	}
	text := fmt.Sprintf("%s %s %s  %s", p.File, bar, figures(p), p.Source)
	if width := 78; len([]rune(text)) > width {
		text = string([]rune(text)[:width])
	}
	n := len([]rune(text))
	_, _ = fmt.Fprintf(b.w, "\r%s%s", text, strings.Repeat(" ", max(0, b.width-n)))
	b.width = n
	if p.Finished {
		_, _ = fmt.Fprintln(b.w)
		b.width = 0
	}
}

func figures(p Progress) string {
	out := megabytes(p.Done)
	if p.Total > 0 {
		out = fmt.Sprintf("%3d%%  %s/%s", p.Done*100/p.Total, megabytes(p.Done), megabytes(p.Total))
	}
	if p.Rate > 0 && !p.Finished {
		out += fmt.Sprintf("  %s/s", megabytes(int64(p.Rate)))
	}
	if p.Remaining > 0 {
		seconds := int(p.Remaining.Seconds() + 0.5)
		out += fmt.Sprintf("  %d:%02d", seconds/60, seconds%60)
	}
	return out
}

func megabytes(n int64) string {
	if n < 1e5 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
