package fleet

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/scaling"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// machine does a request of azure-conversation in about a quarter of a second.
func machine() Machine {
	return Machine{Prefill: 8000, Decode: 1000, IdleWatt: 100, BusyWatt: 400, Hour: 2, KWh: 0.15}
}

func config(t Trace) Config {
	return Config{Trace: t, Machine: machine(), Wait: 10 * time.Second, StartMin: 30 * time.Second, StartMax: 90 * time.Second, Seed: 1}
}

// TestBankMonth is S-03: of 20 instances exactly 7 stay at night, all are back before the peak, and the saving is what the instance-hours say.
func TestBankMonth(t *testing.T) {
	t.Parallel()
	days := 30
	if testing.Short() {
		days = 3
	}
	shape := Shapes()[0]
	cfg := config(shape.Make(Day{Peak: 30, Night: 0.1, Weekend: 0.6, Noise: 0.1, Bursts: 1, Seed: 1}, monday, days, 10*time.Second))
	p := scaling.Policy{
		Min: 2, Max: 28, IgnoreForecast: true, Targets: scaling.Targets{Rate: 0.8 / 0.2565, Waiting: 4},
		Calendar: scaling.Calendar{Timezone: "UTC", Total: 20, Peak: []scaling.Window{{From: "07:00", To: "22:00"}}, Idle: []scaling.Window{{From: "22:00", To: "07:00"}}},
	}
	c, err := scaling.New(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Run(cfg, c, 20)
	if err != nil {
		t.Fatal(err)
	}
	twin, err := Run(cfg, nil, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range got.Hours {
		switch hour := h.At.Hour(); {
		case hour >= 1 && hour < 7 && h.Ready != 7:
			t.Fatalf("%s: %d instances at night", h.At, h.Ready)
		case hour >= 7 && hour < 22 && h.Ready < 20:
			t.Fatalf("%s: %d instances at the peak", h.At, h.Ready)
		}
	}
	if got.Least != 7 || got.MissShare() > twin.MissShare() {
		t.Errorf("%d at the least, %.5f missed of %.5f", got.Least, got.MissShare(), twin.MissShare())
	}
	saved := 1 - got.InstanceHours/twin.InstanceHours // 13 of 20 for a bit less than 9 of 24 hours
	if want := 20 * 24 * float64(days); math.Abs(twin.InstanceHours-want) > 1e-6 || saved < 0.19 || saved > 13.0/20*9/24 {
		t.Errorf("%g hours of %g: %.3f saved", got.InstanceHours, twin.InstanceHours, saved)
	}
	t.Logf("%.1f instance-hours of %.1f (%.1f %% saved), cost %.0f of %.0f (%.1f %%), %.1f of %.1f MJ", got.InstanceHours, twin.InstanceHours, 100*saved,
		got.Cost, twin.Cost, 100*(1-got.Cost/twin.Cost), got.Joules/1e6, twin.Joules/1e6)
}

// TestPredictiveBeatsReactive: with slow starts and a steep morning, the same instance-hours miss less when they are placed by the forecast.
func TestPredictiveBeatsReactive(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays weeks many times")
	}
	cfg := config(Shapes()[0].Make(Day{Peak: 150, Night: 0.02, Weekend: 0.6, Noise: 0.05, Seed: 2}, monday, 9, 10*time.Second))
	cfg.StartMin, cfg.StartMax, cfg.Uncounted = 8*time.Minute, 12*time.Minute, 4*24*time.Hour
	p := scaling.Policy{Min: 2, Max: 80, Targets: scaling.Targets{Rate: 0.85 / 0.2565, Waiting: 4}}
	all, err := Compare(cfg, p, 60)
	if err != nil {
		t.Fatal(err)
	}
	predictive, reactive := all[3], all[4]
	t.Logf("predictive: %.0f hours, %.4f missed; reactive: %.0f hours, %.4f missed", predictive.InstanceHours, predictive.MissShare(), reactive.InstanceHours, reactive.MissShare())
	if reactive.InstanceHours < predictive.InstanceHours || reactive.InstanceHours > 1.05*predictive.InstanceHours || predictive.MissShare() >= reactive.MissShare() {
		t.Error("prediction is worth nothing")
	}
}

// TestFaultsAreNoStorm: with half of all starts failing and spans without data, the pool keeps its floor and starts no more than it needs.
func TestFaultsAreNoStorm(t *testing.T) {
	t.Parallel()
	cfg := config(Shapes()[0].Make(Day{Peak: 30, Night: 0.1, Weekend: 1, Noise: 0.1, Seed: 3}, monday, 2, 10*time.Second))
	cfg.FailStarts = 0.5
	cfg.Blind = []scaling.Span{{From: monday.Add(20 * time.Hour), To: monday.Add(30 * time.Hour)}}
	p := scaling.Policy{Min: 3, Max: 20, Targets: scaling.Targets{Rate: 0.8 / 0.2565, Waiting: 4}}
	c, err := scaling.New(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Run(cfg, c, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got.Least < 3 || got.Most > 20 || got.Starts > 250 || got.MissShare() > 0.05 {
		t.Errorf("%d to %d instances, %d starts, %.4f missed", got.Least, got.Most, got.Starts, got.MissShare())
	}
	before := 0
	for _, h := range got.Hours {
		if at := h.At.Sub(monday); at > 20*time.Hour && at <= 30*time.Hour && h.Ready < before {
			t.Errorf("%s: %d became %d without data", h.At, before, h.Ready)
		}
		before = h.Ready
	}
}

// TestQueueIsExact: against what can be computed by hand. One instance, one request of two seconds in each second: the one of step n waits n seconds.
func TestQueueIsExact(t *testing.T) {
	t.Parallel()
	tr := Trace{Start: monday, Step: time.Second}
	for range 100 {
		tr.Loads = append(tr.Loads, Load{Requests: 1, In: 2})
	}
	tr.Loads = append(tr.Loads, make([]Load, 100)...)
	cfg := Config{Trace: tr, Machine: Machine{Prefill: 1, Decode: 1, IdleWatt: 100, BusyWatt: 300, Hour: 3600, KWh: 3.6e6}, Wait: 10 * time.Second}
	got, err := Run(cfg, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got.LongestWait < 99*time.Second || got.LongestWait > 100*time.Second || math.Abs(got.Missed-89.5) > 1 || got.Requests != 100 || math.Abs(got.Use-1) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got.Joules != 200*300 || math.Abs(got.Cost-(200+200*300)) > 1e-6 || math.Abs(got.InstanceHours-200.0/3600) > 1e-9 {
		t.Errorf("%+v", got)
	}
	again, _ := Run(cfg, nil, 1)
	if !reflect.DeepEqual(got, again) {
		t.Error("the same run gave another report")
	}
	if got, _ = Run(cfg, nil, 2); got.Missed != 0 || math.Abs(got.Use-0.5) > 1e-9 {
		t.Errorf("two instances: %+v", got)
	}
	cfg.Trace.Loads = cfg.Trace.Loads[:50] // what never ran has missed
	if got, _ = Run(cfg, nil, 1); math.Abs(got.Missed-29.5) > 1.5 {
		t.Errorf("cut off: %+v", got)
	}
}

func TestReadTraces(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"azure":    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:16:47,10,1\n",
		"burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n0,ChatGPT,374,44,418,Conversation log\n5,GPT-4,396,109,505,API log\n7,GPT-4,0,0,0,API log\n61,GPT-4,10,1,11,API log\n",
		"mooncake": `{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [1]}` + "\n" + `{"timestamp": 5000, "input_length": 396, "output_length": 109, "hash_ids": []}` + "\n\n" + `{"timestamp": 61000, "input_length": 10, "output_length": 1}`,
		"ours":     "seconds,input_tokens,output_tokens\n61,10,1\n0,374,44\n4.5,396,109\n",
	} {
		got, err := Read(strings.NewReader(text), monday, time.Minute)
		if want := []Load{{2, 770, 153}, {1, 10, 1}}; err != nil || !reflect.DeepEqual(got.Loads, want) {
			t.Errorf("%s: %v %v", name, got.Loads, err)
		}
	}
	for _, text := range []string{"", "a,b,c\n1,2,3\n", "seconds,input_tokens,output_tokens\n", "seconds,input_tokens,output_tokens\n-1,2,3\n", "seconds,input_tokens,output_tokens\n1e300,2,3\n", "seconds,input_tokens,output_tokens\nNaN,2,3\n", "seconds,input_tokens,output_tokens\n1,Inf,3\n", "{}\n", "{\"timestamp\":1}"} {
		if got, err := Read(strings.NewReader(text), monday, time.Minute); err == nil {
			t.Errorf("%q gave %v", text, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("seconds,input_tokens,output_tokens\n61,10,1\n0,374,44\n"))
	f.Add([]byte(`{"timestamp": 0, "input_length": 374, "output_length": 44}`))
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Read(bytes.NewReader(data), monday, time.Hour)
		if err != nil {
			return
		}
		for _, l := range got.Loads {
			if !(l.Requests >= 0 && l.In >= 0 && l.Out >= 0) {
				t.Errorf("%+v", l)
			}
		}
	})
}

func TestShapesAreAsTheySay(t *testing.T) {
	t.Parallel()
	for _, s := range Shapes() {
		day := s.Make(Day{Peak: 20, Night: 0.1, Weekend: 0.5, Noise: 0.1, Seed: 4}, monday, 7, time.Minute)
		sum, noon := Load{}, 0.0
		for i, l := range day.Loads {
			sum.Requests, sum.In, sum.Out = sum.Requests+l.Requests, sum.In+l.In, sum.Out+l.Out
			if at := monday.Add(time.Duration(i) * time.Minute); at.Hour() >= 11 && at.Hour() < 17 && at.Weekday() == time.Tuesday {
				noon += l.Requests
			}
		}
		if in := sum.In / sum.Requests; math.Abs(in-s.In) > 1e-6*s.In || math.Abs(sum.Out/sum.Requests-s.Out) > 1e-6*s.Out || math.Abs(noon/6/3600-20) > 1 {
			t.Errorf("%s: %g in, %g requests a second at noon", s.Name, in, noon/6/3600)
		}
	}
}
