package conform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/unified"
	"github.com/sluice-project/sluice/internal/fault"
)

// errors is CP-8: what is wrong with a request is said by a status and a body that mean what the profile says.
func (r *run) errors(ctx context.Context) *verdict {
	v := &verdict{}
	text := "prompt"
	b := r.ask(question, 8)
	if _, ok := b["text_input"]; ok {
		text = "text_input"
	} else if _, ok := b["inputs"]; ok {
		text = "inputs"
	} else if _, ok := b["messages"]; ok {
		text = "messages"
	}
	r.wrong(ctx, v, "body", []byte(`{"model": `), "")
	r.wrong(ctx, v, text, b.with(text, 7), "")
	if r.prof.Errors.WrongModel != 0 && !r.ownForm() {
		r.wrong(ctx, v, "model", r.ask(question, 8).with("model", "no-such-model-4711"), string(fault.CodeModelNotFound))
	}
	if r.context > 0 && r.context <= 1<<17 {
		want := string(fault.CodeContextLength)
		if !slices.ContainsFunc(r.prof.Errors.Rules, func(rule profile.ErrorRule) bool { return rule.Fault == want }) {
			want = ""
		}
		r.wrong(ctx, v, "length", r.ask(strings.Repeat(" stone", 2*r.context), 8), want)
	}
	return v
}

// wrong sends what is wrong. It has to be refused with a status from 400 to 499, and to mean what is wanted.
func (r *run) wrong(ctx context.Context, v *verdict, what string, b any, want string) {
	resp, err := r.post(ctx, r.path(false), b)
	if err == nil {
		_ = resp.Body.Close()
		v.note("%s: accepted", what)
		v.fail(fault.Say("conform.error_status", what, "200"))
		return
	}
	var refused *errRefused
	if !errors.As(err, &refused) {
		v.fail(unusable(what, err))
		return
	}
	meant := r.prof.Errors.Fault(refused.Refusal)
	v.note("%s: status %d, taken for %s, a sentence %t", what, refused.Status, meant, refused.Message != "")
	switch {
	case refused.Status < 400 || refused.Status > 499 && meant != string(fault.CodeContextLength):
		v.fail(fault.Say("conform.error_status", what, fmt.Sprint(refused.Status)))
	case want != "" && meant != want:
		v.fail(fault.Say("conform.error_meaning", what, meant))
	}
}

// busy is how many requests the engine says it works on.
func (r *run) busy(ctx context.Context) (float64, error) {
	m, err := r.peer.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range []unified.Name{unified.RequestsRunning, unified.BatchSize} {
		if _, mapped := r.prof.Metrics.Map[n]; !mapped {
			continue
		}
		if v, ok := m[n]; ok && !(n == unified.BatchSize && r.prof.Metrics.Map[n].Name == "llamacpp:n_busy_slots_per_decode") {
			return v.Value, nil
		}
	}
	return 0, peer.ErrNotTold
}

// eventually asks until something holds, at most so long. It is false if it never did.
func eventually(ctx context.Context, within time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		if holds() {
			return true
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return false
		}
	}
}

// longest is a completion that takes a while.
func (r *run) longest() int {
	if r.context > 0 {
		return min(4000, r.context/2)
	}
	return 2000
}

// cancel is CP-9: an abandoned request frees its slot.
func (r *run) cancel(ctx context.Context) *verdict {
	if d := r.prof.Cancel.Disconnect; d == nil || !*d {
		return skip(NotApplicable, fault.Say("conform.no_way", "cancel"))
	}
	before, err := r.busy(ctx)
	if err != nil {
		return skip(NotReported, fault.Say("conform.not_told", "requests_running"))
	}
	v := &verdict{}
	during := 0.0
	_, err = r.stream(ctx, r.ask("Write as long a story about a river as you can, and do not stop.", r.longest()), func(a *answer) error {
		if a.events < 3 {
			return nil
		}
		eventually(ctx, time.Second, func() bool { during, _ = r.busy(ctx); return during > before })
		return errStop
	})
	if !errors.Is(err, errStop) {
		if err == nil {
			return skip(NotReported, fault.Say("conform.too_short"))
		}
		v.fail(unusable("stream", err))
		return v
	}
	if during <= before {
		return skip(NotReported, fault.Say("conform.not_told", "requests_running"))
	}
	began := r.cfg.Now()
	free := eventually(ctx, r.cfg.FreeWithin, func() bool {
		now, err := r.busy(ctx)
		return err == nil && now <= before
	})
	v.note("running: %g, then %g; free again: %t, after %s", before, during, free, r.cfg.Now().Sub(began).Round(time.Millisecond))
	if !free {
		v.fail(fault.Say("conform.cancel", r.cfg.FreeWithin.String()))
	}
	v.saw(free, capability.Cancel)
	return v
}

// metrics is CP-10: the page has what the profile says, moves with the work, and is in the units that the profile says.
func (r *run) metrics(ctx context.Context) *verdict {
	if r.prof.Metrics.Path == "" || len(r.prof.Metrics.Map) == 0 {
		return skip(NotReported, fault.Say("conform.not_told", "metrics"))
	}
	v := &verdict{}
	before, err := r.peer.Metrics(ctx)
	if err != nil {
		v.fail(unusable("metrics", err))
		return v
	}
	var slowest time.Duration
	for i := range 3 {
		began := r.cfg.Now()
		if _, err := r.whole(ctx, r.ask(fmt.Sprintf("%d. %s", i, question), 16)); err != nil {
			v.fail(unusable("answer", err))
			return v
		}
		slowest = max(slowest, r.cfg.Now().Sub(began))
	}
	var after unified.Values
	eventually(ctx, r.cfg.MovesWithin, func() bool {
		after, err = r.peer.Metrics(ctx)
		return err == nil && len(r.still(before, after)) == 0
	})
	if err != nil {
		v.fail(unusable("metrics", err))
		return v
	}
	r.judge(v, before, after, slowest)
	return v
}

// moving are the metrics that work has to move.
func moving() []unified.Name {
	return []unified.Name{unified.PromptTokens, unified.OutputTokens, unified.RequestsDone, unified.FirstToken, unified.RequestTime}
}

// still are the metrics that should have moved and have not.
func (r *run) still(before, after unified.Values) []unified.Name {
	var out []unified.Name
	for _, n := range moving() {
		a, ok := after[n]
		if !ok || r.prof.Metrics.Map[n].Optional || a.Form == unified.Gauge {
			continue
		}
		if b := before[n]; a.Value == b.Value && a.Count == b.Count {
			out = append(out, n)
		}
	}
	return out
}

func (r *run) judge(v *verdict, before, after unified.Values, slowest time.Duration) {
	for _, n := range slices.Sorted(maps.Keys(r.prof.Metrics.Map)) {
		value, ok := after[n]
		if !ok {
			v.note("%s: not reported", n)
			if !r.prof.Metrics.Map[n].Optional {
				v.fail(fault.Say("conform.metric_missing", string(n)))
			}
			continue
		}
		row, _ := unified.Lookup(n)
		mean, has := value.Mean()
		if value.Form == unified.Histogram {
			d := unified.Value{Form: unified.Histogram, Value: value.Value - before[n].Value, Count: value.Count - before[n].Count}
			mean, has = d.Mean()
		}
		v.note("%s from %s: %g %s (%s)", n, value.Series, mean, row.Unit, value.Form)
		switch {
		case value.Value < 0, row.Unit == unified.Ratio && value.Value > 1.0001:
			v.fail(fault.Say("conform.metric_value", string(n)))
		case row.Unit == unified.Seconds && has && n != unified.KVMoveTime && mean > 2*slowest.Seconds()+.05:
			v.fail(fault.Say("conform.metric_value", string(n)))
		}
	}
	for _, n := range r.still(before, after) {
		v.fail(fault.Say("conform.metric_still", string(n)))
	}
}

// overload is CP-11: what is too much is refused as the profile says, or waits; nothing breaks by it.
func (r *run) overload(ctx context.Context) *verdict {
	if !r.cfg.Destructive {
		return skip(NotApplicable, fault.Say("conform.destructive"))
	}
	v := &verdict{}
	var mu sync.Mutex
	counts := map[string]int{}
	var wg sync.WaitGroup
	for i := range r.cfg.Load {
		wg.Go(func() {
			_, err := r.whole(ctx, r.ask(fmt.Sprintf("%d. %s", i, question), 24))
			var refused *errRefused
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				counts["answered"]++
			case !errors.As(err, &refused):
				counts["no answer"]++
			case r.prof.Errors.Fault(refused.Refusal) == string(fault.CodeEngineOverloaded):
				counts["refused"]++
			default:
				counts[fmt.Sprint(refused.Status)]++
			}
		})
	}
	wg.Wait()
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		v.note("%s: %d of %d", what, counts[what], r.cfg.Load)
		if what != "answered" && what != "refused" {
			v.fail(fault.Say("conform.overload", what))
		}
	}
	if counts["answered"] == 0 {
		v.fail(fault.Say("conform.overload", "nothing"))
	}
	if _, err := r.whole(ctx, r.ask(question, 4)); err != nil {
		v.fail(unusable("afterwards", err))
	}
	return v
}

// contract is CP-12: the engine tells its version, the same each time, and what was observed and the contract agree.
func (r *run) contract(ctx context.Context) *verdict {
	v := &verdict{}
	var versions []string
	for range 3 {
		version, err := r.peer.Version(ctx)
		if errors.Is(err, peer.ErrNotTold) {
			v.note("version: not told")
			break
		}
		if err != nil || version == "" {
			v.fail(fault.Say("conform.version"))
			break
		}
		versions = append(versions, version)
	}
	if versions = slices.Compact(versions); len(versions) > 1 {
		v.fail(fault.Say("conform.version_changes"))
	}
	v.note("versions: %s", strings.Join(versions, ", "))
	o, err := r.peer.Observe(ctx, r.cfg.Simulated || r.simulated.Load())
	if err != nil && v.result != Failed {
		v.fail(unusable("probe", err))
	}
	if v.result == Failed {
		return v
	}
	seen := r.prof.Claimed.Observe(o)
	state := seen.State()
	v.note("facts: %s", strings.Join(slices.Sorted(maps.Keys(state)), ", "))
	if o.Version != "" && state["version.engine"] != o.Version {
		v.fail(fault.Say("conform.contract", "version.engine"))
	}
	for _, f := range capability.Features() {
		cell, ok := seen.Features[f]
		met, why := seen.Meets(capability.Needs{Model: r.model, Features: []capability.Feature{f}}, nil)
		if met && (!ok || cell.Proven() == capability.Roadmap) {
			v.fail(fault.Say("conform.contract", string(f)))
		}
		if !met && ok && why.Why == capability.WhyUnknown {
			v.note("%s: its condition speaks of what was not observed (%s)", f, strings.Join(cell.When.Names(), ", "))
		}
	}
	if v.result != Failed && len(versions) == 0 {
		v.result, v.reason, v.why = NotReported, fault.Say("conform.not_told", "version"), true
	}
	return v
}

// pixel is an image of one pixel.
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// media is CP-13: an image that a model can see counts; a model that cannot see says so.
func (r *run) media(ctx context.Context) *verdict {
	if !r.prof.Claims(capability.ImageIn) || r.prof.Endpoints.Chat == "" {
		return skip(NotApplicable, fault.Say("conform.not_claimed"))
	}
	v := &verdict{}
	text := map[string]any{"type": "text", "text": "What is this?"}
	ask := func(parts ...any) (answer, error) {
		return r.whole(ctx, r.ask("", 8).with("messages", []any{map[string]any{"role": "user", "content": parts}}))
	}
	plain, err := ask(text)
	if err != nil {
		v.fail(unusable("text parts", err))
		return v
	}
	a, err := ask(text, map[string]any{"type": "image_url", "image_url": map[string]any{"url": pixel}})
	var refused *errRefused
	if errors.As(err, &refused) && refused.Status >= 400 && refused.Status < 500 {
		out := skip(NotApplicable, fault.Say("conform.no_sight"))
		out.note("an image: status %d", refused.Status)
		return out
	}
	if err != nil {
		v.fail(unusable("image", err))
		v.saw(false, capability.ImageIn)
		return v
	}
	v.note("prompt tokens: %d, with an image %d", plain.prompt, a.prompt)
	if a.usage && a.prompt <= plain.prompt {
		v.fail(fault.Say("conform.image"))
	}
	v.saw(v.result != Failed, capability.ImageIn)
	return v
}

// adapters is CP-14: an adapter changes the answer, and one that is not there is refused.
func (r *run) adapters(ctx context.Context) *verdict {
	if !r.prof.Claims(capability.Adapters) {
		return skip(NotApplicable, fault.Say("conform.not_claimed"))
	}
	if r.cfg.Adapter == "" {
		return skip(NotApplicable, fault.Say("conform.no_adapter"))
	}
	v := &verdict{}
	name := r.prof.Request.Adapter.Name
	base, err := r.whole(ctx, r.ask(question, 24))
	if err != nil {
		v.fail(unusable("answer", err))
		return v
	}
	a, err := r.whole(ctx, r.ask(question, 24).with(name, r.cfg.Adapter))
	switch {
	case err != nil:
		v.fail(unusable("adapter", err))
	case a.text == base.text:
		v.fail(fault.Say("conform.adapter"))
	}
	v.note("another text: %t", err == nil && a.text != base.text)
	if r.prof.Errors.WrongModel != 0 || name != "model" {
		resp, err := r.post(ctx, r.path(false), r.ask(question, 8).with(name, "no-such-adapter-4711"))
		if err == nil {
			_ = resp.Body.Close()
			v.fail(fault.Say("conform.adapter_unknown"))
		}
		v.note("an unknown adapter: refused %t", err != nil)
	}
	v.saw(v.result != Failed, capability.Adapters)
	return v
}

// drain is CP-15: told to stop, the engine finishes what it has and takes no more.
func (r *run) drain(ctx context.Context) *verdict {
	if r.prof.Drain.Path == "" {
		return skip(NotApplicable, fault.Say("conform.no_way", "drain"))
	}
	if !r.cfg.Destructive {
		return skip(NotApplicable, fault.Say("conform.destructive"))
	}
	v := &verdict{}
	told := error(nil)
	a, err := r.stream(ctx, r.ask("Write a long story about a river.", min(600, r.longest())), func(a *answer) error {
		if a.events == 2 {
			told = r.peer.Drain(ctx)
		}
		return nil
	})
	switch {
	case told != nil:
		v.fail(unusable("drain", told))
		return v
	case err != nil && r.prof.Drain.Waits, err == nil && (a.broken != "" || !r.ownForm() && a.finish == ""):
		v.fail(fault.Say("conform.drain_cut"))
	}
	v.note("the request that ran: %d events, finish %q", a.events, r.reason(a.finish))
	resp, err := r.post(ctx, r.path(false), r.ask(question, 4))
	if err == nil {
		_ = resp.Body.Close()
		v.fail(fault.Say("conform.drain_open"))
	}
	var refused *errRefused
	if errors.As(err, &refused) {
		v.note("the next request: status %d", refused.Status)
		if refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests {
			v.note("a status that says nothing of stopping")
		}
	}
	if s, err := r.peer.Health(ctx); err == nil && s == peer.Ready {
		v.fail(fault.Say("conform.drain_open"))
	}
	v.saw(v.result != Failed, capability.Drain)
	return v
}
