package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/sluice-project/sluice/engine"
)

// Answers are frames: a byte that says what it is, the length as a uvarint, and so many bytes.
const (
	frameEvent  = 'E'
	frameFault  = 'F' // the JSON of a refusal; the last frame
	frameResult = 'R' // of Embed and Score
)

// maxFrame bounds one frame: an event that holds the log-probabilities of a long answer whose reader was away is some ten mebibytes long.
const maxFrame = 256 << 20

// The fields of an event that are there; the order is that in which they are written.
const (
	hasText = 1 << iota
	hasReasoning
	hasRefusal
	hasCalls
	hasLogprobs
	hasFinish
	hasUsage
	hasUsed
	hasMore
	hasStoppedBy
	hasAll // the first bit that means nothing
)

// appendFrame appends a frame around a body.
func appendFrame(b []byte, kind byte, body []byte) []byte {
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...)
}

// appendEvent appends the body of an event's frame.
func appendEvent(b []byte, ev *engine.Event) []byte {
	fields := uint64(0)
	for bit, has := range [...]bool{
		ev.Text != "", ev.Reasoning != "", ev.Refusal != "", ev.Calls != nil, ev.Logprobs != nil, ev.Finish != "", ev.Usage != nil, ev.Used != nil, ev.More,
		ev.StoppedBy != 0,
	} {
		if has {
			fields |= 1 << bit
		}
	}
	b = binary.AppendUvarint(b, fields)
	b = binary.AppendVarint(b, int64(ev.Choice))
	for bit, text := range [...]string{ev.Text, ev.Reasoning, ev.Refusal} {
		if fields&(1<<bit) != 0 {
			b = appendText(b, text)
		}
	}
	if ev.Calls != nil {
		b = binary.AppendUvarint(b, uint64(len(ev.Calls)))
		for _, c := range ev.Calls {
			b = appendText(appendText(appendText(binary.AppendVarint(b, int64(c.Index)), c.ID), c.Name), c.Arguments)
		}
	}
	if ev.Logprobs != nil {
		b = appendLogprobs(b, ev.Logprobs)
	}
	if ev.Finish != "" {
		b = appendText(b, string(ev.Finish))
	}
	for _, u := range [...]*engine.Usage{ev.Usage, ev.Used} {
		if u != nil {
			b = appendUsage(b, u)
		}
	}
	if ev.StoppedBy != 0 {
		b = binary.AppendVarint(b, int64(ev.StoppedBy))
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendLogprobs writes the length of a list, or of bytes, plus one: 0 is one that is nil.
func appendLogprobs(b []byte, list []engine.TokenLogprob) []byte {
	if list == nil {
		return binary.AppendUvarint(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(list))+1)
	for i := range list {
		lp := &list[i]
		b = appendText(b, lp.Token)
		if lp.Bytes == nil {
			b = binary.AppendUvarint(b, 0)
		} else {
			b = append(binary.AppendUvarint(b, uint64(len(lp.Bytes))+1), lp.Bytes...)
		}
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(lp.Logprob))
		b = appendLogprobs(b, lp.Top)
	}
	return b
}

func appendUsage(b []byte, u *engine.Usage) []byte {
	b = appendText(appendText(b, string(u.Model)), u.Replay)
	estimated := int64(0)
	if u.Estimated {
		estimated = 1
	}
	for _, n := range [...]int64{
		int64(u.PromptTokens), int64(u.CachedTokens), int64(u.CompletionTokens), estimated, int64(u.Queue), int64(u.Prefill), int64(u.Decode),
	} {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func appendEmbeddings(b []byte, e *engine.Embeddings) []byte {
	b = binary.AppendVarint(appendText(b, string(e.Model)), int64(e.PromptTokens))
	b = binary.AppendUvarint(b, uint64(len(e.Vectors)))
	for _, v := range e.Vectors {
		b = binary.AppendUvarint(b, uint64(len(v)))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b
}

func appendScores(b []byte, s *engine.Scores) []byte {
	b = binary.AppendVarint(appendText(b, string(s.Model)), int64(s.PromptTokens))
	b = binary.AppendUvarint(b, uint64(len(s.Scores)))
	for _, x := range s.Scores {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// errFrame says nothing of what stands in a frame, which may be somebody's text.
var errFrame = errors.New("a frame is not what it should be")

// frames reads the frames of an answer.
type frames struct {
	r   *bufio.Reader
	buf []byte // of the latest frame, used again
}

// next returns the next frame; its body is valid until the one after. The memory that it takes grows with what arrives, not with what is announced.
func (f *frames) next() (kind byte, body []byte, err error) {
	if kind, err = f.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n, err := binary.ReadUvarint(f.r)
	if err != nil {
		return 0, nil, cutOff(err)
	}
	if n > maxFrame {
		return 0, nil, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	f.buf = f.buf[:0]
	for rest := int(n); rest > 0; {
		step := min(rest, 64<<10)
		begin := len(f.buf)
		f.buf = append(f.buf, make([]byte, step)...)
		if _, err := io.ReadFull(f.r, f.buf[begin:]); err != nil {
			return 0, nil, cutOff(err)
		}
		rest -= step
	}
	return kind, f.buf, nil
}

// more reports whether the whole of another frame has come already.
func (f *frames) more() bool {
	n := f.r.Buffered()
	if n < 2 {
		return false
	}
	head, err := f.r.Peek(min(n, 1+binary.MaxVarintLen32))
	if err != nil {
		return false
	}
	length, width := binary.Uvarint(head[1:])
	return width > 0 && length <= uint64(n-1-width)
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parser takes values off the front of a body. All texts are parts of one string, so a body takes one allocation, however many they are.
type parser struct {
	s   string
	bad bool
}

func (p *parser) uvarint() uint64 {
	v, shift := uint64(0), uint(0)
	for i := range len(p.s) {
		c := p.s[i]
		if shift == 63 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			p.s = p.s[i+1:]
			return v
		}
		if shift += 7; shift > 63 {
			break
		}
	}
	p.fail()
	return 0
}

func (p *parser) fail() { p.s, p.bad = "", true }

func (p *parser) varint() int64 {
	u := p.uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

// count reads the length of a list whose items take at least size bytes each.
func (p *parser) count(size int) int {
	n := p.uvarint()
	if n > uint64(len(p.s)/size) {
		p.fail()
		return 0
	}
	return int(n)
}

func (p *parser) text() string {
	n := p.count(1)
	out := p.s[:n]
	p.s = p.s[n:]
	return out
}

func (p *parser) bits(size int) uint64 {
	if len(p.s) < size {
		p.fail()
		return 0
	}
	v := uint64(0)
	for i := range size {
		v |= uint64(p.s[i]) << (8 * i)
	}
	p.s = p.s[size:]
	return v
}

// optional reads the length of a list that may be nil, written plus one.
func (p *parser) optional(size int) (n int, has bool) {
	u := p.uvarint()
	if u == 0 {
		return 0, false
	}
	if u-1 > uint64(len(p.s)/size) {
		p.fail()
		return 0, false
	}
	return int(u - 1), true
}

func (p *parser) end() error {
	if p.bad || p.s != "" {
		return errFrame
	}
	return nil
}

// parseEvent reads the body of an event's frame.
func parseEvent(body []byte) (engine.Event, error) {
	p := &parser{s: string(body)}
	fields := p.uvarint()
	if fields >= hasAll {
		return engine.Event{}, errFrame
	}
	ev := engine.Event{Choice: int(p.varint()), More: fields&hasMore != 0}
	for bit, text := range [...]*string{&ev.Text, &ev.Reasoning, &ev.Refusal} {
		if fields&(1<<bit) != 0 {
			*text = p.text()
		}
	}
	if fields&hasCalls != 0 {
		ev.Calls = make([]engine.ToolDelta, p.count(4))
		for i := range ev.Calls {
			ev.Calls[i] = engine.ToolDelta{Index: int(p.varint()), ID: p.text(), Name: p.text(), Arguments: p.text()}
		}
	}
	if fields&hasLogprobs != 0 {
		ev.Logprobs = p.logprobs(2)
	}
	if fields&hasFinish != 0 {
		ev.Finish = engine.Finish(p.text())
	}
	if fields&hasUsage != 0 {
		ev.Usage = p.usage()
	}
	if fields&hasUsed != 0 {
		ev.Used = p.usage()
	}
	if fields&hasStoppedBy != 0 {
		ev.StoppedBy = int(p.varint())
	}
	if err := p.end(); err != nil {
		return engine.Event{}, err
	}
	return ev, nil
}

// logprobs reads a list that is nested at most depth deep: tokens and their alternatives.
func (p *parser) logprobs(depth int) []engine.TokenLogprob {
	n, has := p.optional(11)
	if !has {
		return nil
	}
	if depth == 0 {
		p.fail()
		return nil
	}
	out := make([]engine.TokenLogprob, n)
	for i := range out {
		out[i].Token = p.text()
		if size, has := p.optional(1); has {
			out[i].Bytes = []byte(p.s[:size])
			p.s = p.s[size:]
		}
		out[i].Logprob = math.Float64frombits(p.bits(8))
		out[i].Top = p.logprobs(depth - 1)
		if p.bad {
			return nil
		}
	}
	return out
}

func (p *parser) usage() *engine.Usage {
	u := &engine.Usage{Model: engine.ReportedModel(p.text()), Replay: p.text()}
	u.PromptTokens, u.CachedTokens, u.CompletionTokens = int(p.varint()), int(p.varint()), int(p.varint())
	u.Estimated = p.varint() != 0
	u.Queue, u.Prefill, u.Decode = time.Duration(p.varint()), time.Duration(p.varint()), time.Duration(p.varint())
	return u
}

func parseEmbeddings(body []byte) (*engine.Embeddings, error) {
	p := &parser{s: string(body)}
	out := &engine.Embeddings{Model: engine.ReportedModel(p.text()), PromptTokens: int(p.varint())}
	out.Vectors = make([][]float32, p.count(1))
	for i := range out.Vectors {
		v := make([]float32, p.count(4))
		for k := range v {
			v[k] = math.Float32frombits(uint32(p.bits(4)))
		}
		out.Vectors[i] = v
	}
	return out, p.end()
}

func parseScores(body []byte) (*engine.Scores, error) {
	p := &parser{s: string(body)}
	out := &engine.Scores{Model: engine.ReportedModel(p.text()), PromptTokens: int(p.varint())}
	out.Scores = make([]float64, p.count(8))
	for i := range out.Scores {
		out.Scores[i] = math.Float64frombits(p.bits(8))
	}
	return out, p.end()
}
