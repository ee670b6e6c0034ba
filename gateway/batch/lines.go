package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// Problem is why a batch failed: a line that nobody could ask, or the whole file.
type Problem struct {
	Code  string `json:"code"`
	Line  int64  `json:"line,omitempty"` // counted from 1; 0: the file
	Param string `json:"param,omitempty"`
	Bound int64  `json:"bound,omitempty"` // what was exceeded
	About string `json:"about,omitempty"` // the endpoint that the batch asks
}

// The codes of problems.
const (
	problemJSON      = "invalid_json_line"
	problemMissing   = "missing_custom_id"
	problemID        = "invalid_custom_id"
	problemDuplicate = "duplicate_custom_id"
	problemMethod    = "invalid_method"
	problemURL       = "mismatched_url"
	problemBody      = "invalid_body"
	problemStream    = "streaming_not_supported"
	problemLong      = "line_too_long"
	problemMany      = "too_many_lines"
	problemEmpty     = "empty_file"
	problemInput     = "unreadable_input"
)

const (
	maxCustomID = 512
	// maxProblems bounds what is told of one file.
	maxProblems = 100
)

// Message says the problem to people.
func (p Problem) Message() fault.Phrase {
	switch p.Code {
	case problemJSON:
		return fault.Say("batch.invalid_json_line")
	case problemMissing:
		return fault.Say("batch.missing_custom_id")
	case problemID:
		return fault.Say("batch.invalid_custom_id", p.Bound)
	case problemDuplicate:
		return fault.Say("batch.duplicate_custom_id")
	case problemMethod:
		return fault.Say("batch.invalid_method")
	case problemURL:
		return fault.Say("batch.mismatched_url", p.About)
	case problemBody:
		return fault.Say("batch.invalid_body")
	case problemStream:
		return fault.Say("batch.streaming")
	case problemLong:
		return fault.Say("batch.line_too_long", p.Bound)
	case problemMany:
		return fault.Say("batch.too_many_lines", p.Bound)
	case problemEmpty:
		return fault.Say("batch.empty_file")
	default:
		return fault.Say("batch.unreadable_input")
	}
}

// line is one of the input.
type line struct {
	number   int64
	customID string
	body     []byte
}

// lines reads the lines of an input one by one. Empty ones are passed over, and count.
type lines struct {
	in     *bufio.Scanner
	number int64
}

// errLong is a line that nobody reads to its end.
var errLong = bufio.ErrTooLong

func newLines(r io.Reader, maxLine int64) *lines {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, min(64<<10, maxLine)), int(maxLine)+1) // the end of a line beside it
	return &lines{in: in}
}

// next returns the next line that is not empty, until the next call; nil at the end. Errors: errLong; those of the reader.
func (l *lines) next() ([]byte, error) {
	for l.in.Scan() {
		l.number++
		if raw := bytes.TrimSpace(l.in.Bytes()); len(raw) > 0 {
			return raw, nil
		}
	}
	return nil, l.in.Err()
}

// parse returns what a line asks, or what is wrong with it.
func parse(raw []byte, number int64, endpoint string) (line, *Problem) {
	wrong := func(code, param string) (line, *Problem) {
		return line{}, &Problem{Code: code, Line: number, Param: param}
	}
	var in struct {
		CustomID *string         `json:"custom_id"`
		Method   string          `json:"method"`
		URL      string          `json:"url"`
		Body     json.RawMessage `json:"body"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return wrong(problemJSON, "")
	}
	switch {
	case in.CustomID == nil:
		return wrong(problemMissing, "custom_id")
	case *in.CustomID == "" || len(*in.CustomID) > maxCustomID:
		_, p := wrong(problemID, "custom_id")
		p.Bound = maxCustomID
		return line{}, p
	case in.Method != "POST":
		return wrong(problemMethod, "method")
	case in.URL != endpoint:
		_, p := wrong(problemURL, "url")
		p.About = endpoint
		return line{}, p
	}
	body, object := rawjson.Object(string(in.Body))
	if !object {
		return wrong(problemBody, "body")
	}
	if stream, _ := body.Get("stream"); stream == "true" { // by its exact name, as the data plane reads it
		return wrong(problemStream, "body.stream")
	}
	return line{number, *in.CustomID, in.Body}, nil
}

// checker looks at the lines of one input, one after the other.
type checker struct {
	endpoint      string
	maxLine, most int64
	total         int64
	seen          map[[16]byte]bool // digests of ids
}

func newChecker(endpoint string, maxLine, most int64) *checker {
	return &checker{endpoint: endpoint, maxLine: maxLine, most: most, seen: map[[16]byte]bool{}}
}

// take returns what is wrong with the next line, nil if it can be asked. last: no other line matters.
func (c *checker) take(raw []byte, number int64) (p *Problem, last bool) {
	if c.total++; c.total > c.most {
		return &Problem{Code: problemMany, Bound: c.most}, true
	}
	if int64(len(raw)) > c.maxLine {
		return &Problem{Code: problemLong, Line: number, Bound: c.maxLine}, true
	}
	l, p := parse(raw, number, c.endpoint)
	if p != nil {
		return p, false
	}
	sum := sha256.Sum256([]byte(l.customID))
	id := [16]byte(sum[:16])
	if c.seen[id] {
		return &Problem{Code: problemDuplicate, Line: number, Param: "custom_id"}, false
	}
	c.seen[id] = true
	return nil, false
}

// check reads an input and returns how many lines it has, or what is wrong with it. Errors: of the reader.
func check(r io.Reader, endpoint string, maxLine, most int64) (total int64, problems []Problem, err error) {
	in, c := newLines(r, maxLine), newChecker(endpoint, maxLine, most)
	for len(problems) < maxProblems {
		raw, err := in.next()
		if errors.Is(err, errLong) {
			return c.total, append(problems, Problem{Code: problemLong, Line: in.number + 1, Bound: maxLine}), nil
		}
		if err != nil {
			return c.total, nil, err
		}
		if raw == nil {
			break
		}
		p, last := c.take(raw, in.number)
		if p != nil {
			problems = append(problems, *p)
		}
		if last {
			break
		}
	}
	if c.total == 0 {
		problems = append(problems, Problem{Code: problemEmpty})
	}
	return c.total, problems, nil
}
