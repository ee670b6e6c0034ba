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
	// Lacking is what it is not known to do at this analysis, what is lost among it. An earlier release knew no such thing: what it lacked was lost at once.
	Lacking []Lack `json:"lacking,omitempty"`

	// What follows is of rollouts with gates (schema 2). Look is the number of the planned analysis out of Looks, 0 between two. Last says that the
	// step is the last partial one. Confirm says that stable answers nothing any more: the comparison was made before. Proven is the hash of the
	// evidence on which the step has passed already: it waits for a person.
	Look    int           `json:"look,omitempty"`
	Looks   int           `json:"looks,omitempty"`
	Last    bool          `json:"last,omitempty"`
	Confirm bool          `json:"confirm,omitempty"`
	Proven  string        `json:"proven,omitempty"`
	Limits  string        `json:"limits,omitempty"` // SHA-256 of the thresholds that the evidence is judged by
	Earlier []EarlierStep `json:"earlier,omitempty"`
	Results []Results     `json:"results,omitempty"`
}

// Arm is what one version did since Since (UTC unix microseconds).
type Arm struct {
	Since      int64 `json:"since"`
	Requests   int64 `json:"requests"`
	Errors     int64 `json:"errors"`
	FirstToken []Bin `json:"first_token,omitempty"`
	Total      []Bin `json:"total,omitempty"`
	// Sums are of rollouts with gates; Requests counts what the policy refused, too, then.
	Sums *Sums `json:"sums,omitempty"`
}

// Sums are what the gates read of an arm beside its latencies.
type Sums struct {
	Failures Ratio          `json:"failures"`
	Refusals Ratio          `json:"refusals"`
	Tokens   Ratio          `json:"tokens"`
	Cost     Ratio          `json:"cost"`
	Slow     Ratio          `json:"slow"` // answers above the P95 of the arm: how much the latencies of one conversation have in common
	Tenants  []TenantCounts `json:"tenants,omitempty"`
}

// ratio returns the sums of a gate's metric; of a latency those of slow answers, which say how much it varies by chance.
func (s *Sums) ratio(metric string) Ratio {
	switch metric {
	case MetricFailures:
		return s.Failures
	case MetricRefusals:
		return s.Refusals
	case MetricTokens:
		return s.Tokens
	case MetricCost:
		return s.Cost
	}
	return s.Slow
}

// TenantCounts are the counts of one tenant, by its id.
type TenantCounts struct {
	Tenant   string `json:"tenant"`
	Requests int64  `json:"requests"`
	Errors   int64  `json:"errors"`
	Refused  int64  `json:"refused"`
}

func (s *Sums) sound() bool {
	if s == nil {
		return true
	}
	for _, r := range []Ratio{s.Failures, s.Refusals, s.Tokens, s.Cost, s.Slow} {
		if !r.sound() {
			return false
		}
	}
	for _, t := range s.Tenants {
		if t.Requests < 0 || t.Errors < 0 || t.Refused < 0 || t.Errors > t.Requests || t.Refused > t.Requests {
			return false
		}
	}
	return s.Failures.Y <= s.Failures.N && s.Refusals.Y <= s.Refusals.N
}

// Bin counts the latencies that round down to Micros.
type Bin struct {
	Micros int64 `json:"us"`
	Count  int64 `json:"n"`
}

// The schemas of evidence: of rollouts of before there were gates and of trials, and of rollouts with gates.
const (
	evidenceSchema = 1
	gateSchema     = 2
)

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
		w := binWidth(v)
		counts[v/w*w]++
	}
	return sortedBins(counts)
}

// binWidth is how many microseconds the bin of a latency is wide.
func binWidth(v int64) int64 { return 1 << max(bits.Len64(uint64(max(v, 0)))-7, 0) }

func sortedBins(counts map[int64]int64) []Bin {
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
	return a.Sums.sound() && soundBins(a.FirstToken) && soundBins(a.Total)
}

func soundBins(b []Bin) bool {
	for i, x := range b {
		if x.Count <= 0 || x.Micros < 0 || i > 0 && b[i-1].Micros >= x.Micros {
			return false
		}
	}
	return true
}
