package main

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

// bar shows how far the verification is.
type bar struct {
	w            io.Writer
	now          func() time.Time
	begun, drawn time.Time
	width        int // of the longest line so far
	started      bool
}

// update draws the bar, but not more often than eyes follow.
func (b *bar) update(done, total int64) {
	now := b.now()
	if !b.started {
		b.started, b.begun = true, now
	}
	if now.Sub(b.drawn) < redraw && done < total {
		return
	}
	b.drawn = now
	text := line(done, total, now.Sub(b.begun))
	pad := max(0, b.width-len([]rune(text)))
	fmt.Fprintf(b.w, "\r%s%s", text, strings.Repeat(" ", pad))
	b.width = len([]rune(text))
}

func line(done, total int64, spent time.Duration) string {
	share := int64(100)
	if total > 0 {
		share = min(done, total) * 100 / total
	}
	full := int(share * cells / 100)
	text := fmt.Sprintf("%s%s %3d%%  %d/%d", strings.Repeat("█", full), strings.Repeat("░", cells-full), share, done, total)
	if s := spent.Seconds(); s > 0 && done > 0 {
		rate := float64(done) / s
		text += fmt.Sprintf("  %.0f/s", rate)
		if total > done {
			left := int64(float64(total-done)/rate + 0.5)
			text += fmt.Sprintf("  %d:%02d left / 剩余", left/60, left%60)
		}
	}
	return text
}

// end leaves the line.
func (b *bar) end() {
	if b.started {
		fmt.Fprintln(b.w)
	}
}
