package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/strictjson"
)

// filler sets every field of a value at random, those of later releases too: a field that is forgotten on the wire comes back as zero.
type filler struct{ *rand.Rand }

func (f filler) fill(v reflect.Value, depth int) {
	switch v.Type() {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[engine.Hook](): // told apart below
		return
	case reflect.TypeFor[*engine.Watermark](), reflect.TypeFor[*engine.Marking](): // do not cross
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte([]string{` {"type": "object"} `, `{}`, "not JSON"}[f.IntN(3)]))
		return
	case reflect.TypeFor[engine.TokenLogprob]():
		if depth > 3 {
			return
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.Uint64()) >> (f.IntN(32) + 32))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, -1.5, float64(float32(f.NormFloat64())), math.Inf(-1), math.NaN()}[f.IntN(5)])
	case reflect.String:
		v.SetString([]string{"", "a", "汉字 <&>", "\x00\"\\", strings.Repeat("long ", 60)}[f.IntN(5)])
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), depth+1)
		}
	case reflect.Pointer:
		if f.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth > 4 || f.IntN(4) == 0 {
			return // nil
		}
		v.Set(reflect.MakeSlice(v.Type(), f.IntN(3), 3))
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		if f.IntN(3) > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range f.IntN(3) {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				f.fill(key, depth+1)
				f.fill(value, depth+1)
				v.SetMapIndex(key, value)
			}
		}
	default:
		panic("the filler knows no " + v.Type().String())
	}
}

// same compares bit by bit, so that NaN is NaN.
func same(a, b any) bool {
	return fmt.Sprintf("%#v", flat(reflect.ValueOf(a))) == fmt.Sprintf("%#v", flat(reflect.ValueOf(b)))
}

// flat is a value without pointers, in which nil differs from empty.
func flat(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "nil"
		}
		return []any{flat(v.Elem())}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return "a time"
		}
		var out []any
		for i := range v.NumField() {
			out = append(out, flat(v.Field(i)))
		}
		return out
	case reflect.Slice:
		if v.IsNil() {
			return "nil"
		}
		out := []any{"list"}
		for i := range v.Len() {
			out = append(out, flat(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[fmt.Sprint(k)] = flat(v.MapIndex(k))
		}
		return out
	case reflect.Func:
		return v.IsNil()
	}
	return v.Interface()
}

// TestRequestsCross: whatever an engine can be asked crosses, in every field.
func TestRequestsCross(t *testing.T) {
	f := filler{rand.New(rand.NewPCG(1, 2))}
	now := time.Now()
	for range 2000 {
		for _, w := range []engine.Work{&engine.Request{}, &engine.EmbedRequest{}, &engine.ScoreRequest{}} {
			f.fill(reflect.ValueOf(w).Elem(), 0)
			if r, ok := w.(*engine.Request); ok && f.IntN(2) == 0 {
				r.Deadline = now.Add(time.Duration(f.Int64N(1e12) - 1e11))
			}
			sent, err := workOf(w, now)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := encode(sent)
			if err != nil {
				t.Fatal(err)
			}
			got, err := strictjson.Decode[work](raw)
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			later := now.Add(time.Hour) // another clock
			back, err := got.work(later)
			if err != nil || !same(w, back) {
				t.Fatalf("%#v\nbecame\n%#v, %v", w, back, err)
			}
			if r, ok := w.(*engine.Request); ok && !r.Deadline.IsZero() && back.(*engine.Request).Deadline.Sub(later) != r.Deadline.Sub(now) {
				t.Fatalf("%v left became %v", r.Deadline.Sub(now), back.(*engine.Request).Deadline.Sub(later))
			}
		}
	}
}

// TestModelsCross: what an engine says of its models crosses, in every field.
func TestModelsCross(t *testing.T) {
	f := filler{rand.New(rand.NewPCG(1, 2))}
	for range 500 {
		var m engine.Model
		f.fill(reflect.ValueOf(&m).Elem(), 0)
		m.HasMarks = false // does not cross
		raw, err := encode(modelReply(m))
		if err != nil {
			t.Fatal(err)
		}
		var got modelReply
		if err := json.Unmarshal(raw, &got); err != nil || engine.Model(got) != m {
			t.Fatalf("%+v became %+v, %v", m, got, err)
		}
	}
}

// TestEventsCross: events and results come back as they were, to the bit.
func TestEventsCross(t *testing.T) {
	f := filler{rand.New(rand.NewPCG(3, 4))}
	var wire []byte
	var sent []engine.Event
	for range 5000 {
		var ev engine.Event
		f.fill(reflect.ValueOf(&ev).Elem(), 0)
		if f.IntN(20) == 0 {
			ev = engine.Event{}
		}
		sent = append(sent, ev)
		wire = appendFrame(wire, frameEvent, appendEvent(nil, &ev))
	}
	in := frames{r: bufio.NewReaderSize(bytes.NewReader(wire), 512)}
	for i, want := range sent {
		kind, body, err := in.next()
		if err != nil || kind != frameEvent {
			t.Fatalf("frame %d: %c, %v", i, kind, err)
		}
		if got, err := parseEvent(body); err != nil || !same(got, want) {
			t.Fatalf("%#v\nbecame\n%#v, %v", want, got, err)
		}
	}
	if _, _, err := in.next(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the last frame: %v", err)
	}
	for range 200 {
		var e engine.Embeddings
		var s engine.Scores
		f.fill(reflect.ValueOf(&e).Elem(), 0)
		f.fill(reflect.ValueOf(&s).Elem(), 0)
		gotE, err1 := parseEmbeddings(appendEmbeddings(nil, &e))
		gotS, err2 := parseScores(appendScores(nil, &s))
		if err1 != nil || err2 != nil || fmt.Sprint(*gotE) != fmt.Sprint(e) || fmt.Sprint(*gotS) != fmt.Sprint(s) {
			t.Fatalf("%v became %v (%v), %v became %v (%v)", e, gotE, err1, s, gotS, err2)
		}
	}
}

// TestFramesAreBounded: what is cut, too long, or of another form is refused, and takes no memory that has not come.
func TestFramesAreBounded(t *testing.T) {
	ev := engine.Event{Text: "some text", Logprobs: []engine.TokenLogprob{{Token: "a", Top: []engine.TokenLogprob{{Token: "b"}}}}, Usage: &engine.Usage{Model: "m"}}
	whole := appendEvent(nil, &ev)
	for n := range whole {
		if _, err := parseEvent(whole[:n]); !errors.Is(err, errFrame) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	if _, err := parseEvent(append(whole, 0)); !errors.Is(err, errFrame) {
		t.Errorf("a byte too many: %v", err)
	}
	if _, err := parseEvent([]byte{0x80, 0x80, 0x04, 0}); !errors.Is(err, errFrame) {
		t.Errorf("a field of a later release: %v", err)
	}
	deep := engine.Event{Logprobs: []engine.TokenLogprob{{Top: []engine.TokenLogprob{{Top: []engine.TokenLogprob{{}}}}}}}
	if _, err := parseEvent(appendEvent(nil, &deep)); !errors.Is(err, errFrame) {
		t.Errorf("alternatives of alternatives: %v", err)
	}
	next := func(wire ...byte) error {
		_, _, err := (&frames{r: bufio.NewReader(bytes.NewReader(wire))}).next()
		return err
	}
	if err := next('E', 0xff, 0xff, 0xff, 0xff, 0x7f); !errors.Is(err, errFrame) {
		t.Errorf("a frame of 32 GiB: %v", err)
	}
	large := []byte{'E', 0xff, 0xff, 0xff, 0x7f, 1, 2, 3} // 256 MiB are announced
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := next(large...); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("three bytes that came took %d", used)
	}
}

// TestMore: an event says that there is more where the whole of the next one has come, and not where a part has.
func TestMore(t *testing.T) {
	one := appendFrame(nil, frameEvent, appendEvent(nil, &engine.Event{Text: strings.Repeat("x", 300)}))
	for extra := range len(one) + 1 {
		in := frames{r: bufio.NewReaderSize(bytes.NewReader(append(bytes.Clone(one), one[:extra]...)), 4096)}
		if _, _, err := in.next(); err != nil || in.more() != (extra == len(one)) {
			t.Fatalf("with %d of %d bytes of the next: more %v, %v", extra, len(one), in.more(), err)
		}
	}
}

func FuzzEvent(f *testing.F) {
	g := filler{rand.New(rand.NewPCG(5, 6))}
	for range 20 {
		var ev engine.Event
		g.fill(reflect.ValueOf(&ev).Elem(), 0)
		f.Add(appendEvent(nil, &ev))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if ev, err := parseEvent(body); err == nil {
			again, err := parseEvent(appendEvent(nil, &ev))
			if err != nil || !same(ev, again) {
				t.Fatalf("%#v became %#v, %v", ev, again, err)
			}
		}
		_, _ = parseEmbeddings(body)
		_, _ = parseScores(body)
		in := frames{r: bufio.NewReader(bytes.NewReader(body))}
		for err := error(nil); err == nil; _, _, err = in.next() {
		}
	})
}

func FuzzWork(f *testing.F) {
	g := filler{rand.New(rand.NewPCG(7, 8))}
	for range 10 {
		for _, w := range []engine.Work{&engine.Request{}, &engine.EmbedRequest{}, &engine.ScoreRequest{}} {
			g.fill(reflect.ValueOf(w).Elem(), 0)
			sent, err := workOf(w, time.Now())
			if err != nil {
				f.Fatal(err)
			}
			raw, err := encode(sent)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw)
		}
	}
	f.Add([]byte(`{"generate":{"later":1}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := strictjson.Decode[work](raw)
		if err != nil {
			return
		}
		now := time.Now()
		w, err := got.work(now)
		if err != nil {
			return
		}
		sent, err := workOf(w, now)
		if err != nil {
			t.Fatal(err)
		}
		again, err := encode(sent)
		if err != nil {
			t.Fatal(err)
		}
		back, err := strictjson.Decode[work](again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if w2, err := back.work(now); err != nil || !same(w, w2) {
			t.Fatalf("%#v became %#v, %v", w, w2, err)
		}
	})
}
