package tokenizer

import (
	"fmt"
	"math"
)

// metadata reads typed values and keeps the first error.
type metadata struct {
	lookup func(string) (any, bool)
	err    error
}

func (m *metadata) get(key string) (any, bool) { return m.lookup("tokenizer.ggml." + key) }

func (m *metadata) fail(key, want string, got any) {
	if m.err == nil {
		m.err = fmt.Errorf("tokenizer: the metadata key tokenizer.ggml.%s must be %s, the file has %T", key, want, got)
	}
}

func (m *metadata) text(key string) string {
	v, _ := m.get(key)
	s, ok := v.(string)
	if !ok {
		m.fail(key, "a string", v)
	}
	return s
}

func (m *metadata) textOr(key, otherwise string) string {
	if _, ok := m.get(key); !ok {
		return otherwise
	}
	return m.text(key)
}

func (m *metadata) texts(key string) []string {
	v, _ := m.get(key)
	s, ok := v.([]string)
	if !ok {
		m.fail(key, "an array of strings", v)
	}
	return s
}

func (m *metadata) types(key string) []int32 {
	v, ok := m.get(key)
	if !ok {
		return nil
	}
	switch s := v.(type) {
	case []int32:
		return s
	case []int64:
		out := make([]int32, len(s))
		for i, n := range s {
			if n < math.MinInt32 || n > math.MaxInt32 {
				m.fail(key, "an array of 32-bit integers", v)
				return nil
			}
			out[i] = int32(n)
		}
		return out
	}
	m.fail(key, "an array of 32-bit integers", v)
	return nil
}

func (m *metadata) scores(key string) []float32 {
	v, _ := m.get(key)
	switch s := v.(type) {
	case []float32:
		return s
	case []float64:
		return convert[float32](s)
	case []int64:
		return convert[float32](s)
	case []int32:
		return convert[float32](s)
	}
	m.fail(key, "an array of numbers", v)
	return nil
}

func (m *metadata) blob(key string) []byte {
	v, ok := m.get(key)
	if !ok {
		return nil
	}
	switch s := v.(type) {
	case []byte:
		return s
	case []int64:
		return convert[byte](s) // signed or not, a byte is a byte
	}
	m.fail(key, "an array of bytes", v)
	return nil
}

func convert[To, From int32 | int64 | float32 | float64 | byte](from []From) []To {
	out := make([]To, len(from))
	for i, n := range from {
		out[i] = To(n)
	}
	return out
}

func (m *metadata) flag(key string, otherwise bool) bool {
	v, ok := m.get(key)
	if !ok {
		return otherwise
	}
	b, ok := v.(bool)
	if !ok {
		m.fail(key, "a boolean", v)
	}
	return b
}

func (m *metadata) id(key string) int32 {
	v, ok := m.get(key)
	if !ok {
		return None
	}
	var n int64
	switch v := v.(type) {
	case uint32:
		n = int64(v)
	case int32:
		n = int64(v)
	case uint64:
		n = int64(min(v, math.MaxInt64))
	case int64:
		n = v
	case int:
		n = int64(v)
	case uint16:
		n = int64(v)
	case uint8:
		n = int64(v)
	default:
		m.fail(key, "an integer", v)
		return None
	}
	// Some converters write 2³²−1 or −1 for "none".
	if n == -1 || n == math.MaxUint32 {
		return None
	}
	if n < 0 || n > math.MaxInt32 {
		m.fail(key, "a token id", v)
		return None
	}
	return int32(n)
}
