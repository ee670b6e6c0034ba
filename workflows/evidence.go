package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
)

// Evidence is everything a verdict rests on: what both arms did since the step began, and what the candidate cannot do. It holds counts and names of
// features only, never text.
type Evidence struct {
	Schema    int    `json:"schema"`
	Rollout   string `json:"rollout"`
	Phase     string `json:"phase"`
	Stable    Arm    `json:"stable"`
	Candidate Arm    `json:"candidate"`
	// Lost is what the candidate has to do and, for some time, is not known to do any more; Unseen says that no instance of it could be looked at.
	Lost   []string `json:"lost,omitempty"`
	Unseen bool     `json:"unseen,omitempty"`
	// Lacking is what it is not known to do at this look, what is lost among it. An earlier release knew no such thing: what it lacked was lost at once.
	Lacking []Lack `json:"lacking,omitempty"`
}

// Arm is what one version did since Since (UTC unix microseconds).
type Arm struct {
	Since      int64 `json:"since"`
	Requests   int64 `json:"requests"`
	Errors     int64 `json:"errors"`
	FirstToken []Bin `json:"first_token,omitempty"`
	Total      []Bin `json:"total,omitempty"`
}

// Bin counts the latencies that round down to Micros.
type Bin struct {
	Micros int64 `json:"us"`
	Count  int64 `json:"n"`
}

const evidenceSchema = 1

// Hash returns the SHA-256 of the evidence's canonical form, which is its JSON: fixed field order, integers and identifiers only.
func (e Evidence) Hash() string {
	sum := sha256.Sum256(e.canonical())
	return hex.EncodeToString(sum[:])
}

func (e Evidence) canonical() []byte {
	body, err := json.Marshal(e)
	if err != nil { // cannot happen: integers and strings always encode
		return fmt.Appendf(nil, "%+v", e)
	}
	return body
}

// bins rounds latencies down to seven significant bits, at most 1.6 % of the value, and counts them. Ten thousand samples become
// a few hundred numbers, small enough to be stored with every transition. The rounding is part of the definition of the measure,
// so the statistics on rounded values are exact.
func bins(micros []int64) []Bin {
	counts := make(map[int64]int64, 256)
	for _, v := range micros {
		v = max(v, 0)
		if drop := bits.Len64(uint64(v)) - 7; drop > 0 {
			v = v >> drop << drop
		}
		counts[v]++
	}
	out := make([]Bin, 0, len(counts))
	for v, n := range counts {
		out = append(out, Bin{Micros: v, Count: n})
	}
	slices.SortFunc(out, func(a, b Bin) int {
		if a.Micros < b.Micros {
			return -1
		}
		return 1
	})
	return out
}

// sound reports whether the arm's numbers can be true. Anything else is treated as missing data.
func (a Arm) sound() bool {
	if a.Requests < 0 || a.Errors < 0 || a.Errors > a.Requests {
		return false
	}
	return soundBins(a.FirstToken) && soundBins(a.Total)
}

func soundBins(b []Bin) bool {
	for i, x := range b {
		if x.Count <= 0 || x.Micros < 0 || i > 0 && b[i-1].Micros >= x.Micros {
			return false
		}
	}
	return true
}
