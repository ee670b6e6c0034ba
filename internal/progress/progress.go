// Package progress keeps one line of a terminal up to date: how much is done, how fast, and how long the rest will take.
package progress

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	redraw = 100 * time.Millisecond
	cells  = 24
)

// Line shows how far a job is. It is for one goroutine.
type Line struct {
	w            io.Writer
	unit, left   string
	now          func() time.Time
	begun, drawn time.Time
	width        int // of the longest text so far
}

// New returns a line for a job that begins now. unit names what is counted, left follows the remaining time.
func New(w io.Writer, unit, left string, now func() time.Time) *Line {
	return &Line{w: w, unit: unit, left: left, now: now, begun: now()}
}

// Update draws the line, but not more often than eyes follow.
func (l *Line) Update(done, total int64) {
	now := l.now()
	if now.Sub(l.drawn) < redraw && done < total {
		return
	}
	l.drawn = now
	l.draw(l.text(done, total, now.Sub(l.begun)))
}

// Clear takes the line away.
func (l *Line) Clear() {
	if l.width > 0 {
		l.draw("")
		fmt.Fprint(l.w, "\r")
	}
}

// End leaves the line as it is and goes to the next.
func (l *Line) End() {
	if l.width > 0 {
		fmt.Fprintln(l.w)
	}
}

func (l *Line) draw(text string) {
	n := len([]rune(text))
	fmt.Fprintf(l.w, "\r%s%s", text, strings.Repeat(" ", max(0, l.width-n)))
	l.width = max(l.width, n)
}

func (l *Line) text(done, total int64, spent time.Duration) string {
	share := int64(100)
	if total > 0 {
		share = int64(float64(min(max(done, 0), total)) / float64(total) * 100)
	}
	full := int(share * cells / 100)
	text := fmt.Sprintf("%s%s %3d%%  %d/%d %s", strings.Repeat("█", full), strings.Repeat("░", cells-full), share, done, total, l.unit)
	if s := spent.Seconds(); s > 0 && done > 0 {
		rate := float64(done) / s
		text += fmt.Sprintf("  %.0f/s", rate)
		if total > done {
			seconds := int64(float64(total-done)/rate + 0.5)
			text += fmt.Sprintf("  %d:%02d %s", seconds/60, seconds%60, l.left)
		}
	}
	return text
}
