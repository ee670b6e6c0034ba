package meter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// maxReplay bounds the rows of a recording.
const maxReplay = 1_000_000

// row is one line of a recording.
type row struct {
	at     time.Duration
	energy uint64
}

// parseReplay reads a recording: lines "milliseconds,microjoules", the time since its begin and the energy since then, neither ever going
// back; lines that begin with # say something. The first is at 0,0.
func parseReplay(r io.Reader) ([]row, error) {
	in := bufio.NewScanner(r)
	var out []row
	for line := 1; in.Scan(); line++ {
		text := strings.TrimSpace(in.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		a, b, ok := strings.Cut(text, ",")
		ms, err1 := number(a)
		uj, err2 := number(b)
		if !ok || err1 != nil || err2 != nil || ms > 1<<40 || uj > 1<<60 {
			return nil, fmt.Errorf("line %d: want milliseconds,microjoules", line)
		}
		next := row{time.Duration(ms) * time.Millisecond, uj}
		switch {
		case len(out) == 0 && next != row{}:
			return nil, fmt.Errorf("line %d: the first must be 0,0", line)
		case len(out) > 0 && (next.at <= out[len(out)-1].at || next.energy < out[len(out)-1].energy):
			return nil, fmt.Errorf("line %d: it goes back", line)
		case len(out) == maxReplay:
			return nil, fmt.Errorf("more than %d lines", maxReplay)
		}
		out = append(out, next)
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(out) < 2 {
		return nil, errors.New("a recording needs two lines")
	}
	return out, nil
}

// replay plays a recording once, from the first reading on. Between two lines the power is even. After its end it cannot be read.
type replay struct {
	source Source
	rows   []row

	mu    sync.Mutex
	begin *Moment
	told  uint64
	next  int // the row at or after the time told
}

func openReplay(path string) (*replay, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := parseReplay(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &replay{rows: rows, source: Source{Name: path}}, nil
}

func (r *replay) Source() Source { return r.source }

// Refresh implements Meter: there is nothing to read.
func (*replay) Refresh(context.Context) error { return nil }

// Advance implements Meter.
func (r *replay) Advance(now Moment) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begin == nil {
		r.begin = &now
		return 0, nil
	}
	at := now.Mono - r.begin.Mono
	for r.next < len(r.rows) && r.rows[r.next].at < at {
		r.next++
	}
	if r.next == len(r.rows) {
		return 0, fmt.Errorf("%s: the recording has ended", r.source.Name)
	}
	energy := r.rows[r.next].energy
	if r.next > 0 && r.rows[r.next].at > at {
		a, b := r.rows[r.next-1], r.rows[r.next]
		part := float64(at-a.at) / float64(b.at-a.at)
		energy = a.energy + uint64(part*float64(b.energy-a.energy))
	}
	e := energy - min(energy, r.told)
	r.told = max(r.told, energy)
	return int64(e), nil
}
