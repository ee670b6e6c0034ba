package gateway

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
)

// This page is about where texts may go. The policy says it by the grade of their data, which what was found in them raises. Whoever chooses an instance asks
// for it anew each time: at first, for a retry, for a hedge, and for a part. A fallback, and a line of a batch, is a call of its own. What equal calls share is
// kept apart by it.

// placing says where the texts of the call may go, by what is known of them now. Without a decision they go nowhere.
func (r *run) placing() governance.Placing {
	if d := r.admission.decision; d != nil {
		return d.Placing()
	}
	return r.admission.placing
}

// prefixOf returns the hashes of the beginnings of a masked prompt, if its model's instances are compared by them. Those of two tenants are never the same, unless
// their policies let engines share what they computed of prompts.
func (r *run) prefixOf(c *Call) []uint64 {
	if r.need != route.Generate || !r.choice.Resilience.Prefers().UsesPrefix() {
		return nil
	}
	domain := "tenant/" + r.caller.Tenant
	if r.admission.decision.SharesPrefixCache() {
		domain = "shared"
	}
	h := pool.NewPrefixHash(r.p.prefixes, domain)
	for i := range c.Tools {
		h.Write(c.Tools[i].Name)
		h.Write(c.Tools[i].Description)
		h.Write(string(c.Tools[i].Parameters))
	}
	for i := range c.Messages {
		h.Write(c.Messages[i].Role)
		h.Write(c.Messages[i].Content)
	}
	h.Write(c.Prompt)
	return h.Sum()
}

// settlePlace chooses the instance anew once the texts are masked, where prompts count, and where the texts, which are looked at after the route is chosen, may
// not go to the one that was chosen. All that comes after it goes by the new choice. No engine has had anything of the texts but, masked, the question of a
// search, and what spells tokens. What asks no engine stays where it is, also what an entry of a FAQ answers.
func (r *run) settlePlace() error {
	at := r.serving().Instance
	if at == nil || r.direct() {
		return nil
	}
	allowed := r.placing().Allows(string(at.Place()))
	if allowed && len(r.masked.prefix) == 0 {
		return nil
	}
	told := r.demand.trace
	r.demand.anew()
	next, err := r.p.deps.Router.Again(r.choice, nil)
	if err != nil || next.Instance == nil {
		if allowed { // it has just begun to take no requests: whoever asks it learns so
			r.demand.stays(&told)
			return nil
		}
		return r.demand.misplaced(next)
	}
	r.choice = next
	r.answer.move(next, nil)
	return nil
}

// firstAfter is how long an instance took until its first token, where instances are compared by that; else 0. Lines of batches wait behind all others, and
// come in one piece.
func (r *run) firstAfter(asked time.Time) time.Duration {
	if p := r.choice.Resilience.Prefers(); p == nil || p.FirstToken == 0 || r.class() == engine.ClassBatch {
		return 0
	}
	return r.p.now().Sub(asked)
}

// waited notes that an instance has said nothing until it is given up.
func (r *run) waited(i *pool.Instance, asked time.Time) {
	if after := r.firstAfter(asked); after > 0 {
		i.Waited(after, r.choice.Resilience.Choose.FirstToken)
	}
}

// notePlace tells a record of the grade of the data, and of the place where the call runs, unless what it gets is no model's; that of the end also how the instance was
// chosen before anything was tried, if the model's policy compares instances, or one of them stands where the data may not go.
func (r *run) notePlace(stage audit.Stage, detail map[string]string) {
	if g := r.placing().Grade; g != 0 {
		detail["data_grade"] = g.String()
	}
	if i := r.serving().Instance; i != nil && !r.prompt.verdict.unasked() {
		detail["place"] = string(i.Place())
	}
	if stage != audit.StageOutcome || r.demand == nil {
		return
	}
	if text := r.demand.decisionText(); text != "" {
		detail["route"] = text
	}
}

// decisionText says how an instance was chosen among several, as records have it: each of them, at most 16, with its verdict, and the terms of its score in
// hundredths where they were compared by them. It has no numbers of requests, which are those of all tenants. "" where there was nothing to choose, or it
// was chosen by work alone.
func (d *demand) decisionText() string {
	t := &d.trace
	misplaced := slices.ContainsFunc(t.All(), func(c pool.Considered) bool { return c.Why == route.WhyPlace })
	if len(t.All()) < 2 || !misplaced && d.run.choice.Resilience.Prefers() == nil {
		return ""
	}
	type said struct {
		Instance string `json:"instance"`
		Verdict  string `json:"verdict"`
		Why      string `json:"why,omitempty"`
		Sum      int    `json:"sum,omitempty"` // by the weights; what follows is without them
		Load     int    `json:"load,omitempty"`
		Prefix   int    `json:"prefix,omitempty"`
		Cost     int    `json:"cost,omitempty"`
		Energy   int    `json:"energy,omitempty"`
		Session  int    `json:"session,omitempty"`
	}
	cents := func(x float64) int { return int(math.Round(x * 100)) }
	out := struct {
		Instances []said `json:"instances"`
		More      int    `json:"more,omitempty"`
	}{More: t.More()}
	for _, c := range t.All() {
		out.Instances = append(out.Instances, said{
			Instance: c.Instance, Verdict: string(c.Verdict), Why: c.Why, Sum: cents(c.Score.Sum), Load: cents(c.Score.Load),
			Prefix: cents(c.Score.Prefix), Cost: cents(c.Score.Cost), Energy: cents(c.Score.Energy), Session: cents(c.Score.Session),
		})
	}
	text, err := json.Marshal(out)
	if err != nil { // texts and numbers
		return ""
	}
	return string(text)
}
