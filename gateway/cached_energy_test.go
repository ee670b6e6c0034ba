package gateway

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/billing/energy"
	sensor "github.com/sluice-project/sluice/billing/energy/meter"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	plantedIdle = 10 // watts of a planted machine
	plantedWork = 40 // more of them while its engine works
)

// planted is a machine with a meter, and its engine, which takes a second for each event and logs each as a step of its request.
type planted struct {
	engine.Engine

	mu      sync.Mutex
	working int
	since   time.Time
	energy  int64 // microjoules that nobody has been told of
	all     int64 // beyond idle
	steps   []energy.Step
	at      []time.Time
}

func (*planted) Source() sensor.Source {
	return sensor.Source{Kind: "planted", Method: sensor.Measured, UncertaintyPermille: 20}
}

func (*planted) Refresh(context.Context) error { return nil }

func (p *planted) Advance(sensor.Moment) (int64, error) {
	p.count(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.energy
	p.energy = 0
	return told, nil
}

// count takes the time until now into account, and has the engine begin or end.
func (p *planted) count(begins int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.since).Microseconds()
	p.energy += took * plantedIdle
	if p.working > 0 {
		p.energy += took * plantedWork
		p.all += took * plantedWork
	}
	p.working, p.since = p.working+begins, time.Now()
}

func (p *planted) Generate(ctx context.Context, text *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		p.count(1)
		defer p.count(-1)
		for ev, err := range (slowEngine{p.Engine, time.Second}).Generate(ctx, text) {
			p.mu.Lock()
			p.steps, p.at = append(p.steps, energy.Step{Took: time.Second, Shares: []energy.Share{{Request: text.Request.ID, Weight: 1}}}), append(p.at, time.Now())
			p.mu.Unlock()
			if !yield(ev, err) {
				return
			}
		}
	}
}

func (p *planted) log(after uint64) (out []energy.Step, last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := after; i < uint64(len(p.steps)); i++ {
		s := p.steps[i]
		s.Ago = time.Since(p.at[i])
		out = append(out, s)
	}
	return out, uint64(len(p.steps))
}

// TestEnergyOfSharedAnswers: with meters, who leads at the end of a shared answer has the energy of all of it, whoever has asked the engine for it; who led and
// left has none on record, nor has who follows. Nothing is counted on for a request that is over, and the work of an answer that goes on is no idle time.
func TestEnergyOfSharedAnswers(t *testing.T) {
	broken := fault.Wrap(errBroken, fault.CodeEngineUnavailable, "chat")
	for name, x := range map[string]struct {
		leads, follows int  // events that each reads; 0: all, -1: none
		late           bool // the leader reads later than the other one
		logs, fails    bool
		charged        string
	}{
		"the leader stays":                 {charged: "leads"},
		"the leader leaves":                {leads: 2, charged: "follows"},
		"the leader leaves unread":         {leads: -1, charged: "follows"},
		"the other one asks":               {late: true, charged: "leads"},
		"the other one asks, and leaves":   {late: true, follows: 2, charged: "leads"},
		"the leader leaves, with steps":    {leads: 2, logs: true, charged: "follows"},
		"the other one asks, with steps":   {late: true, logs: true, charged: "leads"},
		"all leave":                        {leads: 2, follows: 3},
		"all leave, the leader at the end": {leads: 3, follows: 2},
		"the engine fails":                 {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &planted{since: time.Now(), Engine: enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan {
					plan := enginetest.Plan{Texts: []string{"one two three four"}}
					if x.fails {
						plan.Err = broken
					}
					return plan
				})}
				w, _ := pooledWorld(t, p)
				w.caching = exactAnswers()
				w.principal.Limits.Concurrent = 0
				begin := time.Now()
				cfg := energy.AccountConfig{
					Config: energy.Config{IdleMilliwatts: 1000 * plantedIdle, BusyMilliwatts: 1000 * plantedIdle}, Meters: []sensor.Meter{p},
					Clock: func() sensor.Moment { return sensor.Moment{Mono: time.Since(begin), Wall: time.Now()} },
				}
				if x.logs {
					cfg.Steps = p.log
				}
				account, err := energy.NewAccount(cfg)
				if err != nil {
					t.Fatal(err)
				}
				w.deps.Energy = account
				rest := func(seconds int) {
					for range seconds {
						account.Read()
						time.Sleep(time.Second)
					}
					account.Read()
				}
				rest(15)
				replies := map[string]*Reply{}
				for _, id := range []string{"leads", "follows"} {
					r, err := w.Chat(t.Context(), coldCall(id, "hello"))
					if err != nil {
						t.Fatal(err)
					}
					replies[id] = r
				}
				var all sync.WaitGroup
				for id, most := range map[string]int{"leads": x.leads, "follows": x.follows} {
					all.Go(func() {
						r := replies[id]
						defer r.Close()
						if id == "leads" && x.late || id == "follows" && !x.late {
							time.Sleep(100 * time.Millisecond)
						}
						if most < 0 {
							return
						}
						n := 0
						for range r.Events() {
							if n++; n == most {
								return
							}
						}
					})
				}
				rest(8)
				all.Wait()
				w.Pipeline.answers.Wait()
				rest(15)
				totals, out := account.Totals(), w.outcomes()
				least, most := p.all*99/100, p.all
				if x.logs { // the first step has no weight before it ends
					least = p.all * 5 / 6
				}
				if x.fails { // and is asked again, for the other one
					least, most, x.charged = least/2, most/2, "leads follows"
				}
				for id, e := range out {
					charged := strings.Contains(x.charged, id)
					if charged && (e.Usage.Energy < least || e.Usage.Energy > most || e.Usage.EnergyMethod != "measured" || e.Detail["energy_meter"] != "planted") ||
						!charged && (e.Usage.Energy != 0 || e.Usage.EnergyMethod != "" || e.Detail["energy_meter"] != "") {
						t.Errorf("%s: %+v %v; the engine took %d", id, e.Usage, e.Detail, p.all)
					}
				}
				if sum := out["leads"].Usage.Energy + out["follows"].Usage.Energy; totals.Running != 0 || totals.Requests != sum || totals.Idle > totals.Covered.Microseconds()*plantedIdle {
					t.Errorf("%+v; on record are %d", totals, sum)
				}
				if x.fails {
					return
				}
				if _, err := w.ask(t, coldCall("again", "bye")); err != nil { // what was learned as idle is what it was
					t.Error(err)
				}
				w.Pipeline.answers.Wait()
				if e := w.outcomes()["again"].Usage; e.EnergyMethod != "measured" || e.Energy < 2_000_000*plantedWork {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}
