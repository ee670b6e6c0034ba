// Package scan finds and masks sensitive values in files of texts, without a server, a policy or a key, so that people learn what is in their data.
//
// A [Scanner] reads JSON Lines {"id", "text"} or plain text and writes one line of JSON for each text, in the order of the input. It scans some
// megabytes of text at a time, side by side on all processors; memory stays bounded whatever the length of the input. What cannot be read is left out,
// counted and named by its place. Masked values cannot be restored.
package scan

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluice-project/sluice/governance/classify"
)

const (
	// LargestText bounds the bytes of a text, and so the memory that it takes.
	LargestText = 64 << 20
	// batchBytes is how much text is scanned at a time.
	batchBytes = 4 << 20
	// unreadShown is how many places that could not be read are named.
	unreadShown = 20
)

// Format says how input is read.
type Format string

// The formats. Auto reads names that end in .jsonl or .ndjson as JSON Lines, names without an ending by their first character, all others as text.
const (
	Auto      Format = "auto"
	JSONLines Format = "jsonl"
	PlainText Format = "text"
)

// Config says what to look for, and what to write.
type Config struct {
	Set      *classify.Set
	Format   Format
	Explain  bool             // say why each value was found
	Out      io.Writer        // gets a line for each text; nil: texts are only counted
	Progress func(read int64) // gets the bytes read so far, after every batch; may be nil
	limit    int              // bytes of a text; 0: LargestText
}

// Counts are what a scan found. In counts the texts that hold a value of a class.
type Counts struct {
	Texts        int
	Findings, In map[classify.Class]int

	Unread      []Unread // the first places that could not be read
	UnreadTotal int
}

// Unread is a place that could not be read: the name of the input, and a line behind a colon unless it is the whole input.
type Unread struct {
	Place string
	Why   Problem
}

// Problem says why a place could not be read.
type Problem int

// The problems.
const (
	TextTooLong Problem = iota // a text of more than LargestText bytes
	LineTooLong                // a line of plain text of more than LargestText bytes
	NoObject                   // not a JSON object with a "text"
	NoUTF8
)

// Scanner is one scan over inputs that are read one after the other. One goroutine uses it.
type Scanner struct {
	cfg    Config
	out    *bufio.Writer // nil: only counted
	counts Counts
	read   int64 // bytes

	batch   []waiting
	batched int // bytes of it
}

// New returns a scanner.
func New(c Config) *Scanner {
	if c.limit == 0 {
		c.limit = LargestText
	}
	s := &Scanner{cfg: c, counts: Counts{Findings: map[classify.Class]int{}, In: map[classify.Class]int{}}}
	if c.Out != nil {
		s.out = bufio.NewWriterSize(c.Out, 1<<16)
	}
	return s
}

// File scans a file.
func (s *Scanner) File(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	err = s.Read(ctx, path, file)
	_ = file.Close()
	return err
}

// Close scans what was read and not yet scanned, and writes it. It must be called also after an error, for what was found before.
func (s *Scanner) Close() error {
	err := s.flush()
	if s.out != nil {
		err = errors.Join(err, s.out.Flush())
	}
	return err
}

// Counts returns what was found. It is complete after [Scanner.Close].
func (s *Scanner) Counts() Counts { return s.counts }

// unread notes what could not be read. The text itself is not kept.
func (s *Scanner) unread(place string, why Problem) {
	if s.counts.UnreadTotal++; s.counts.UnreadTotal <= unreadShown {
		s.counts.Unread = append(s.counts.Unread, Unread{place, why})
	}
}

// waiting is a text that was read and not yet scanned.
type waiting struct {
	id   json.RawMessage
	text string
}

// text takes a text to scan.
func (s *Scanner) text(id json.RawMessage, text string) error {
	s.batch = append(s.batch, waiting{id, text})
	if s.batched += len(text); s.batched < batchBytes {
		return nil
	}
	return s.flush()
}

// flush scans the texts that wait and writes what was found, in their order.
func (s *Scanner) flush() error {
	found := make([][]classify.Finding, len(s.batch))
	lines := make([][]byte, len(s.batch))
	errs := make([]error, len(s.batch))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(s.batch)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(s.batch) {
					return
				}
				found[i] = s.cfg.Set.Find(s.batch[i].text)
				if s.out != nil {
					lines[i], errs[i] = s.batch[i].line(found[i], s.cfg.Explain)
				}
			}
		})
	}
	workers.Wait()
	for i := range s.batch {
		s.count(found[i])
		if errs[i] != nil {
			return errs[i]
		}
		if s.out == nil {
			continue
		}
		if _, err := s.out.Write(lines[i]); err != nil {
			return err
		}
	}
	s.batch, s.batched = s.batch[:0], 0
	if s.cfg.Progress != nil {
		s.cfg.Progress(s.read)
	}
	return nil
}

func (s *Scanner) count(found []classify.Finding) {
	s.counts.Texts++
	here := map[classify.Class]bool{}
	for _, f := range found {
		s.counts.Findings[f.Class]++
		if !here[f.Class] {
			here[f.Class] = true
			s.counts.In[f.Class]++
		}
	}
}
