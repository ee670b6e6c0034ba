package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

type hostile struct {
	name string
	data []byte
	want string
}

func hostileCases() []hostile {
	data := manyTensorsData()
	var out []hostile
	for name, c := range map[string]struct{ old, new, want string }{
		"more data than file":  {`[18,26]`, `[18,34]`, "do not fit"},
		"overlap":              {`[12,18]`, `[8,14]`, "overlap"},
		"gap":                  {`[8,12]`, `[9,13]`, "gap"},
		"negative offset":      {`[0,8]`, `[-8,0]`, "not an integer"},
		"reversed":             {`[0,8]`, `[8,0]`, "do not fit"},
		"reversed, any type":   {`[32,33]`, `[33,32]`, "do not fit"},
		"offset of 2^63":       {`[32,33]`, `[32,9223372036854775808]`, "not an integer"},
		"offset of 2^63-1":     {`[32,33]`, `[32,9223372036854775807]`, "the file is truncated"},
		"huge shape":           {`[1,2]`, `[4611686018427387904,4]`, "out of range"},
		"overflowing shape":    {`[1,2]`, `[2147483647,2147483647,2147483647,2147483647]`, "out of range"},
		"shape past 2^64":      {`[1,2]`, `[36893488147419103232]`, "not an integer"},
		"negative shape":       {`[1,2]`, `[-1,-2]`, "not an integer"},
		"fraction":             {`[1,2]`, `[1.0,2]`, "not an integer"},
		"exponent":             {`[1,2]`, `[1e0,2]`, "not an integer"},
		"leading zero":         {`[1,2]`, `[01,2]`, "not an integer"},
		"text for a number":    {`[1,2]`, `["1",2]`, "not an integer"},
		"nested shape":         {`[1,2]`, `[[1,2]]`, "not an integer"},
		"nine dimensions":      {`[1,2]`, `[1,1,1,1,1,1,1,1,2]`, "more than 8"},
		"a million dimensions": {`[1,2]`, `[1` + strings.Repeat(",1", 1<<20) + `]`, "more than 8"},
		"shape is null":        {`[1,2]`, `null`, "missing"},
		"empty type":           {`"F32"`, `""`, "not one of the format"},
		"long type":            {`"F32"`, `"` + strings.Repeat("F", 1<<20) + `"`, "not one of the format"},
		"twice":                {`"b":`, `"a":`, `"a" occurs twice`},
		"twice, escaped":       {`"b":`, `"\u0061":`, `"a" occurs twice`},
		"metadata twice":       {`"b":`, `"__metadata__":{},"__metadata__":{},"b":`, "__metadata__ occurs twice"},
		"key twice":            {`"dtype":"F32"`, `"dtype":"F32","dtype":"F32"`, "each once"},
		"unknown key":          {`"dtype":"F32"`, `"dtype":"F32","x":{"y":[[[[]]]]}`, `"x" is unknown`},
		"no type":              {`"dtype":"F32",`, ``, "needs dtype"},
		"one offset":           {`[8,12]`, `[8]`, "two data_offsets"},
		"three offsets":        {`[8,12]`, `[8,12,12]`, "more than 2"},
		"no object":            {`{"__meta`, `["__meta`, "missing"},
		"tensor is null":       {`{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}`, `null`, "missing"},
		"metadata not text":    {`{"format":"pt"}`, `{"format":1}`, "__metadata__"},
		"text after":           {`}   `, `} x `, "after"},
		"NUL after":            {`}   `, "} \x00 ", "after"},
		"comma at the end":     {`}}   `, `},}  `, "a text is missing"},
		"name not UTF-8":       {`"b":`, "\"\xff\":", "not valid UTF-8"},
		"control character":    {`"b":`, "\"\n\":", "control character"},
		"wrong escape":         {`"b":`, `"\q":`, "wrong escape"},
		"empty name":           {`"b":`, `"":`, "0 bytes"},
		"long name":            {`"b":`, `"` + strings.Repeat("b", 1<<20) + `":`, "1048576 bytes"},
		"deep":                 {`"b":`, `"x":` + strings.Repeat(`{"x":`, 1<<18) + `1` + strings.Repeat("}", 1<<18) + `,"b":`, `"x" is unknown`},
		"deep arrays":          {`{"format":"pt"}`, strings.Repeat("[", 1<<20), "missing"},
	} {
		header := strings.Replace(manyTensors, c.old, c.new, 1)
		if header == manyTensors {
			panic(name + " changes nothing")
		}
		out = append(out, hostile{name, file(header, data), c.want})
	}
	slices.SortFunc(out, func(a, b hostile) int { return strings.Compare(a.name, b.name) })
	length := func(n uint64, rest int) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, n), make([]byte, rest)...)
	}
	return append(out,
		hostile{"empty", nil, "0 bytes"},
		hostile{"header of 2^64-1", length(math.MaxUint64, 64), "claims 18446744073709551615 bytes"},
		hostile{"header of 2^63", length(1<<63, 64), "claims 9223372036854775808 bytes"},
		hostile{"header longer than the file", length(65, 64), "claims 65 bytes, the file has 64"},
		hostile{"header of nothing", length(0, 0), "missing"},
		hostile{"header of zeros", length(64, 64), "missing"},
		hostile{"gap at the start", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, make([]byte, 8)), "gap"},
		hostile{"a web page", []byte("<!DOCTYPE html><html>not found</html>"), "the header claims"},
	)
}

func memoryLimit(size int) uint64 { return uint64(size)*10 + 1<<16 }

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileFilesAreRefused(t *testing.T) {
	good := file(manyTensors, manyTensorsData())
	for n := range good {
		if _, err := open(good[:n]); err == nil {
			t.Fatalf("a file cut to %d of %d bytes was accepted", n, len(good))
		}
	}
	if _, err := open(append(good, 0)); err == nil {
		t.Error("a byte too many was accepted")
	}
	for _, c := range hostileCases() {
		var err error
		memory := allocated(func() { _, err = open(c.data) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %.200v, want %q", c.name, err, c.want)
			continue
		}
		if memory > memoryLimit(len(c.data)) {
			t.Errorf("%s: %d bytes of memory for a file of %d", c.name, memory, len(c.data))
		}
		if len(err.Error()) > 400 {
			t.Errorf("%s: an error of %d bytes", c.name, len(err.Error()))
		}
	}
}

// Headers that are valid but made of nothing but small entries must not take much more memory than the file is long.
func TestMemoryIsProportionalToTheFile(t *testing.T) {
	var tensors, metadata strings.Builder
	for i := range 1 << 14 {
		fmt.Fprintf(&tensors, `,"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, i)
		fmt.Fprintf(&metadata, `,"%x":""`, i)
	}
	for name, header := range map[string]string{
		"tensors":  `{` + tensors.String()[1:] + `}`,
		"metadata": `{"__metadata__":{` + metadata.String()[1:] + `}}`,
		"spaces":   `{` + strings.Repeat(" ", 1<<20) + `}`,
		"a string": `{"__metadata__":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`,
		"escapes":  `{"__metadata__":{"x":"` + strings.Repeat(`\u0041`, 1<<18) + `"}}`,
	} {
		data := file(header, nil)
		var err error
		memory := allocated(func() { _, err = open(data) })
		if err != nil || memory > memoryLimit(len(data)) {
			t.Errorf("%s: %d bytes of memory for a file of %d, %v", name, memory, len(data), err)
		}
		t.Logf("%s: %.1f bytes of memory per byte of file", name, float64(memory)/float64(len(data)))
	}
}

// mutants are good files with damage: words of the header replaced, bytes flipped, removed, doubled.
func mutants(yield func([]byte)) {
	good := manyTensors
	words := []string{"0", "-1", "1e99", "9223372036854775807", "18446744073709551616", "null", "[]", "{}", `""`, "[0,0]", `"\ud800"`, "\x00"}
	for at := range good {
		for _, w := range words {
			yield(file(good[:at]+w+good[min(len(good), at+len(w)):], manyTensorsData()))
			yield(file(good[:at]+w+good[at:], manyTensorsData()))
		}
	}
	r := rand.New(rand.NewPCG(4, 2))
	for range 2000 {
		m := file(good, manyTensorsData())
		for range 1 + r.IntN(3) {
			switch at := r.IntN(len(m) - 8); r.IntN(4) {
			case 0:
				m[at] ^= 1 << r.IntN(8)
			case 1:
				m = slices.Delete(m, at, at+1)
			case 2:
				m = slices.Insert(m, at, m[at:at+4]...)
			default:
				m[at] = ' '
			}
		}
		yield(m)
	}
}

func TestMutants(t *testing.T) {
	refused, accepted := 0, 0
	mutants(func(data []byte) {
		if readAll(t, data) {
			accepted++
		} else {
			refused++
		}
	})
	if refused < 1000 || accepted < 100 {
		t.Errorf("%d refused, %d accepted: the mutants do not reach both outcomes", refused, accepted)
	}
}

// readAll uses everything that a file offers and reports whether it was accepted.
func readAll(t *testing.T, data []byte) bool {
	f, err := open(data)
	if err != nil {
		return false
	}
	header := data[8 : 8+binary.LittleEndian.Uint64(data)]
	if !json.Valid(header) {
		t.Fatalf("a header that is no JSON was accepted: %q", header)
	}
	total := 0
	for _, name := range f.Tensors() {
		total += len(f.tensors[name].data)
		x, err := f.Tensor(name)
		if err != nil {
			continue
		}
		values, err := f.float32s(name)
		if err != nil || len(values) != x.Rows()*x.Cols() {
			t.Fatalf("%s %v: %d values, %v", name, x.Shape, len(values), err)
		}
		if rows := x.Rows(); rows > 0 {
			row := make([]float32, x.Cols())
			x.Row(rows-1, row)
			if last := values[len(values)-len(row):]; !bytes.Equal(bitsOf(row), bitsOf(last)) {
				t.Fatalf("%s: the last row is %v and %v", name, row, last)
			}
		}
	}
	if total != len(data)-8-len(header) {
		t.Fatalf("tensors of %d bytes in a file of %d", total, len(data))
	}
	return true
}

func bitsOf(values []float32) (out []byte) {
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

func FuzzOpen(f *testing.F) {
	f.Add(file(manyTensors, manyTensorsData()))
	f.Add(file(`{}`, nil))
	f.Add(file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, nil))
	for _, c := range hostileCases() {
		if len(c.data) < 1<<12 {
			f.Add(c.data)
		}
	}
	n := 0
	mutants(func(data []byte) {
		if n++; n%197 == 0 { // a few of each kind
			f.Add(data)
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) { readAll(t, data) })
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":8,"x":[1,{"y":null}]},"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../m.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"\u0061\\":"m.safetensors"},"x":[[[true,false,-1.5e+3,"\n"]]]}`))
	f.Add([]byte(`{"weight_map":{"a":"m.safetensors"}} {`))
	f.Fuzz(func(t *testing.T, data []byte) {
		places, err := parseIndex(data)
		if err != nil {
			return
		}
		// What was accepted is what a general decoder reads.
		var want struct {
			Map map[string]string `json:"weight_map"`
		}
		if !json.Valid(data) {
			t.Fatalf("an index that is no JSON was accepted: %q", data)
		}
		if err := json.Unmarshal(data, &want); err != nil {
			return // keys that differ in case only are one key to the general decoder
		}
		for tensor, file := range places {
			if got, ok := want.Map[tensor]; ok && got != file || strings.ContainsAny(file, `/\`) || strings.HasPrefix(file, "..") {
				t.Fatalf("%q is in %q, not %q", tensor, file, got)
			}
		}
	})
}
