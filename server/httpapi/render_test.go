package httpapi

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/limit"
)

func TestHeadersAsTheyAreSpelled(t *testing.T) {
	for us, want := range map[int64]string{0: "0.000", 7: "0.007", 1000: "1.000", 12345: "12.345", 9_007_199_254_740_993 / 1000: "9007199254.740"} {
		if got := milliseconds(us); got != want {
			t.Errorf("%d µs: %s, want %s", us, got, want)
		}
	}
	if got, want := timing(gateway.Head{Steps: audit.Steps{Authenticate: 12, Policy: 31001, Record: 250}}), "authenticate;dur=0.012, policy;dur=31.001, record;dur=0.250"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := timing(gateway.Head{}); got != "" {
		t.Errorf("%s of no step", got)
	}
	h := http.Header{}
	set := headerWriter{into: h}
	set.rate(limit.State{Tokens: limit.Level{Limit: 9, Remaining: 4, Reset: 1500*time.Millisecond + 3}})
	want := map[string][]string{"X-Ratelimit-Limit-Tokens": {"9"}, "X-Ratelimit-Remaining-Tokens": {"4"}, "X-Ratelimit-Reset-Tokens": {"1.5s"}}
	if fmt.Sprint(h) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", h, want)
	}
}
