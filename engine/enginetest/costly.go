package enginetest

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// costlyTime bounds what one costly format may take on a slow machine that is busy with other tests.
	costlyTime = 20 * time.Second
	// costlyBytes is what the heap may differ by afterwards; the sources of the formats are several times as long.
	costlyBytes = 12 << 20
)

// costly are formats that are dear to those who take them naively. refuse says that there is no answer to them but a refusal; the others
// may be answered. n makes them differ from those of other numbers, so that none is remembered.
func costly(n int) []struct {
	name   string
	refuse bool
	format engine.Format
} {
	return []struct {
		name   string
		refuse bool
		format engine.Format
	}{
		{"schema that doubles at each of 60 levels", false, engine.Format{JSONSchema: doubling(n, 60)}},
		{"schema nested 20,000 times", true, engine.Format{JSONSchema: json.RawMessage(
			strings.Repeat(`{"items":`, 20_000) + fmt.Sprintf(`{"const":%d}`, n) + strings.Repeat("}", 20_000))}},
		{"conjunction of disjunctions", false, engine.Format{JSONSchema: conjunction(n, 30)}},
		{"a billion items", true, engine.Format{JSONSchema: json.RawMessage(fmt.Sprintf(`{"type":"array","items":{"enum":[%d,%d]},"minItems":1000000000}`, n, n+1))}},
		{"grammar of 10 MB", true, engine.Format{GBNF: fmt.Sprintf("root ::= \"%d\"", n) + strings.Repeat(` "ab" [c-e]`, 10<<20/11)}},
		{"grammar of two billion repetitions", true, engine.Format{GBNF: fmt.Sprintf("root ::= (\"%d\" [a-z]+){2000000000}", n)}},
		{"grammar nested 100,000 times", true, engine.Format{GBNF: "root ::= " + strings.Repeat("(", 100_000) + fmt.Sprintf("\"%d\"", n) + strings.Repeat(")", 100_000)}},
		{"rule that is itself", true, engine.Format{GBNF: fmt.Sprintf("root ::= first # %d\nfirst ::= (second)\nsecond ::= first\n", n)}},
		{"expression (a|a)*b", false, engine.Format{Regex: fmt.Sprintf(`(a|a)*b%d`, n)}},
		{"expression (x+x+)+y", false, engine.Format{Regex: fmt.Sprintf(`(x+x+)+y%d`, n)}},
		{"expression of repeated repetitions", true, engine.Format{Regex: fmt.Sprintf(`(((a{100}){100}){100}){100}%d`, n)}},
		{"expression that looks back far", false, engine.Format{Regex: fmt.Sprintf(`(a|b)*a(a|b){25}%d`, n)}},
		{"a million choices", true, engine.Format{Choice: strings.Fields(strings.Repeat(fmt.Sprintf("c%d ", n), 1_000_000))}},
		{"nothing", true, engine.Format{}},
	}
}

// doubling is a schema of which each level names the next one twice.
func doubling(n, levels int) json.RawMessage {
	var b strings.Builder
	fmt.Fprintf(&b, `{"$ref":"#/$defs/d0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}},"required":["a","b"],"additionalProperties":false},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"const":%d}}}`, levels, n)
	return json.RawMessage(b.String())
}

// conjunction is a schema of which each part leaves a choice of two.
func conjunction(n, parts int) json.RawMessage {
	all := make([]string, parts)
	for i := range all {
		all[i] = fmt.Sprintf(`{"anyOf":[{"required":["p%d"]},{"properties":{"q%d":{"const":%d}},"required":["q%d"]}]}`, i, i, n, i)
	}
	return json.RawMessage(`{"type":"object","allOf":[` + strings.Join(all, ",") + `]}`)
}

// costlyFormats: a costly format is refused in bounded time, what it took is given back, and others do not notice.
func (s *suite) costlyFormats() {
	s.need(s.generate.HasFormats && s.opt.OwnFormats, "to bound formats")
	want := s.ok(s.request())
	s.tryCostly(1) // what is made once and kept is there
	before := heap()
	s.tryCostly(2)
	if grown := heap() - before; grown > costlyBytes {
		s.Errorf("%d MB more are held after the formats", grown>>20)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		defer close(stop)
		s.tryCostly(3)
	})
	answered := 0
	for open := true; open; answered++ {
		if got := s.ok(s.request()); s.generate.Deterministic && got.text[0] != want.text[0] {
			s.Errorf("beside costly formats %q, alone %q", got.text[0], want.text[0])
		}
		select {
		case <-stop:
			open = false
		default:
		}
	}
	wg.Wait()
	s.Logf("%d requests were answered meanwhile", answered)
}

// heap returns the bytes in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one frees what finalizers held
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func (s *suite) tryCostly(n int) {
	s.Helper()
	for _, c := range costly(n) {
		req := s.request()
		req.MaxTokens, req.Format = 3, &c.format
		begin := time.Now()
		r := s.collect(s.ctx, req)
		if took := time.Since(begin); took > costlyTime {
			s.Errorf("%s: took %v", c.name, took)
		}
		if r.err == nil && !c.refuse {
			continue
		}
		if !fault.Is(r.err, fault.CodeInvalidValue) || fault.Public(r.err).Param() != "response_format" {
			s.Errorf("%s: %d events, %v", c.name, r.events, r.err)
		}
	}
}
