package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-project/sluice/audit/record"
)

const (
	shipBatch      = 500
	shipBatchBytes = 1 << 20
	readBytes      = shipBatchBytes + frameHead + record.MaxPayload
)

// Room is the memory that records are read into. What was read is valid until the next use.
type Room struct {
	bytes   []byte
	records []Record
}

// sized returns n bytes of the room. More than an ordinary read takes is not kept.
func (r *Room) sized(n int64) []byte {
	switch {
	case n > readBytes:
		return make([]byte, n)
	case int64(cap(r.bytes)) < n:
		r.bytes = make([]byte, n)
	}
	return r.bytes[:n]
}

// Read reads records into room, from where the shipping of s stands up to its durable end. It returns the offset behind them.
func (s Segment) Read(room *Room) ([]Record, int64, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, 0, fmt.Errorf("read audit segment: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	at := max(s.Shipped, headerSize)
	for size := int64(readBytes); ; size *= 4 { // until the first record fits, whatever it keeps
		buf := room.sized(min(s.Size-at, size))
		if _, err := f.ReadAt(buf, at); err != nil {
			return nil, 0, fmt.Errorf("read audit segment %s: %w", s.Path, err)
		}
		frames, n, damaged := framesIn(buf, room.records[:0])
		room.records = frames
		if damaged && at+int64(len(buf)) < s.Size && len(frames) == 0 {
			continue
		}
		if damaged && (len(frames) == 0 || at+int64(len(buf)) == s.Size) {
			return nil, 0, fmt.Errorf("audit segment %s is damaged at byte %d: stop the server and run `sluice audit verify`", s.Path, at+n)
		}
		return frames, at + n, nil // what did not fit the buffer comes with the next one
	}
}

// framesIn appends to frames the records at the start of buf, at most as many as are shipped at once, and returns where they end. damaged says
// that what follows there is not a whole and sound record.
func framesIn(buf []byte, frames []Record) (_ []Record, n int64, damaged bool) {
	for n < int64(len(buf)) && len(frames) < shipBatch && n < shipBatchBytes {
		f, _, ok := readRecord(buf[n:])
		if !ok {
			return frames, n, true
		}
		frames, n = append(frames, f), n+f.size()
	}
	return frames, n, false
}

// Writers returns the writers that have segments under dir.
func Writers(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read write-ahead log: %w", err)
	}
	var out []string
	for _, e := range entries {
		if m := segmentName.FindStringSubmatch(e.Name()); m != nil && !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	return out, nil
}

// Records reads the records of a segment again; none if the running process has retired it.
func (s Stored) Records() ([]Record, error) {
	b, err := os.ReadFile(s.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read write-ahead log: %w", err)
	}
	frames := Parse(filepath.Base(s.Path), b).Records
	return frames[:min(len(frames), len(s.ends))], nil
}
