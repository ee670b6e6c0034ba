package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// scripted is a sender that fails as told.
type scripted struct {
	mu   sync.Mutex
	errs []error // of the next attempts; nil: taken
	at   []time.Time
	sent []message // what was taken
	hang bool
}

func (s *scripted) send(ctx context.Context, m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	if s.hang {
		<-ctx.Done()
		return &failure{why: "it hangs"}
	}
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		if err != nil {
			return err
		}
	}
	s.sent = append(s.sent, m)
	return nil
}

// said lists what was taken: code, which one, status.
func (s *scripted) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, m := range s.sent {
		out = append(out, m.alert.Code+" "+m.alert.About+" "+m.alert.status())
	}
	return out
}

// scene is a notifier with one scripted channel that runs in a bubble of time.
type scene struct {
	n    *Notifier
	s    *scripted
	c    *channel
	stop func()
	reg  *prometheus.Registry
	log  *bytes.Buffer
}

func inScene(t *testing.T, cfg Config, test func(t *testing.T, sc scene)) {
	synctest.Test(t, func(t *testing.T) {
		sc := scene{s: &scripted{}, reg: prometheus.NewRegistry(), log: &bytes.Buffer{}}
		if cfg.Channels == nil {
			cfg.Channels = []Channel{{Name: "ops", Kind: kindWebhook, URL: keyring.Inline("https://h.example/in")}}
		}
		var err error
		if sc.n, err = New(cfg, "", slog.New(slog.NewTextHandler(sc.log, nil)), sc.reg); err != nil {
			t.Fatal(err)
		}
		sc.c = sc.n.channels[0]
		sc.c.sender = sc.s
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- sc.n.Run(ctx) }()
		sc.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		defer sc.stop()
		test(t, sc)
	})
}

func (sc scene) dropped(reason string) float64 {
	return testutil.ToFloat64(sc.c.metrics.dropped.WithLabelValues("ops", reason))
}

func alert(code, about string, s Severity) Alert {
	return Alert{Code: code, About: about, Severity: s, Title: fault.Quote("t", "标题"), Text: fault.Quote("x", "内容")}
}

func over(a Alert) Alert {
	a.Resolved = true
	return a
}

// TestOnceWithinTheWindow: an alert that lasts is told once in a while, its end is told once, and only of what was told.
func TestOnceWithinTheWindow(t *testing.T) {
	inScene(t, Config{Repeat: time.Hour}, func(t *testing.T, sc scene) {
		a, b := alert("audit.backlog", "n1", Warning), alert("audit.backlog", "n2", Warning)
		for range 130 { // two hours and ten minutes
			sc.n.Notify(t.Context(), a)
			time.Sleep(time.Minute)
		}
		sc.n.Notify(t.Context(), b)
		sc.n.Notify(t.Context(), over(a))
		sc.n.Notify(t.Context(), over(a))
		sc.n.Notify(t.Context(), over(alert("audit.backlog", "never told", Warning)))
		sc.n.Notify(t.Context(), alert("chatter", "", Info)) // below what the channel wants
		sc.n.Notify(t.Context(), a)                          // it is back
		synctest.Wait()
		want := []string{"audit.backlog n1 firing", "audit.backlog n1 firing", "audit.backlog n1 firing", "audit.backlog n2 firing", "audit.backlog n1 resolved", "audit.backlog n1 firing"}
		if got := sc.s.said(); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		if got := testutil.ToFloat64(sc.c.metrics.suppressed.WithLabelValues("ops")); got != 129 {
			t.Errorf("%v were suppressed", got)
		}
		if got := testutil.ToFloat64(sc.c.metrics.delivered.WithLabelValues("ops")); got != 6 {
			t.Errorf("%v were delivered", got)
		}
	})
}

// TestPausesGrow: attempts come further and further apart, each pause by chance, and the other side's own word goes before that.
func TestPausesGrow(t *testing.T) {
	inScene(t, Config{}, func(t *testing.T, sc scene) {
		down := &failure{why: "down"}
		sc.s.errs = []error{down, down, down, &failure{why: "too many", after: 10 * time.Minute}}
		sc.n.Notify(t.Context(), alert("a", "", Critical))
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := sc.s.said(); len(got) != 1 || len(sc.s.at) != 5 {
			t.Fatalf("%d attempts, %q", len(sc.s.at), got)
		}
		for i, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if d := sc.s.at[i+1].Sub(sc.s.at[i]); d < most/2 || d > most {
				t.Errorf("pause %d is %s, want half of %s to all of it", i, d, most)
			}
		}
		if d := sc.s.at[4].Sub(sc.s.at[3]); d != 10*time.Minute {
			t.Errorf("it waited %s, told to wait 10m", d)
		}
	})
}

// TestDropsAreCounted: whatever is not delivered shows under its reason, in the metrics and in the log.
func TestDropsAreCounted(t *testing.T) {
	t.Run(dropRefused, func(t *testing.T) {
		inScene(t, Config{}, func(t *testing.T, sc scene) {
			sc.s.errs = []error{&failure{why: "token is not exist", final: true}}
			sc.n.Notify(t.Context(), alert("a", "", Critical))
			synctest.Wait()
			if sc.dropped(dropRefused) != 1 || len(sc.s.at) != 1 || !strings.Contains(sc.log.String(), "token is not exist") {
				t.Errorf("%v dropped, %d attempts\n%s", sc.dropped(dropRefused), len(sc.s.at), sc.log)
			}
		})
	})
	t.Run(dropDeadline, func(t *testing.T) {
		inScene(t, Config{Deadline: 10 * time.Minute}, func(t *testing.T, sc scene) {
			for range 100 {
				sc.s.errs = append(sc.s.errs, errors.New("down"))
			}
			a := alert("a", "", Critical)
			sc.n.Notify(t.Context(), a)
			time.Sleep(10*time.Minute + time.Second)
			synctest.Wait()
			if sc.dropped(dropDeadline) != 1 {
				t.Errorf("%v dropped after %d attempts", sc.dropped(dropDeadline), len(sc.s.at))
			}
			sc.s.errs = nil
			sc.n.Notify(t.Context(), a) // nobody was told, so it is no repetition
			synctest.Wait()
			if got := sc.s.said(); len(got) != 1 {
				t.Errorf("got %q", got)
			}
		})
	})
	t.Run(dropFull, func(t *testing.T) {
		inScene(t, Config{Queue: 3}, func(t *testing.T, sc scene) {
			sc.s.errs = []error{errors.New("down")}
			for i := range 8 {
				sc.n.Notify(t.Context(), alert("a", fmt.Sprint(i), Critical))
				synctest.Wait() // the first is being tried
			}
			if got := sc.dropped(dropFull); got != 4 {
				t.Errorf("%v dropped", got)
			}
			sc.n.Notify(t.Context(), alert("a", "7", Critical)) // raised again: still no room
			time.Sleep(time.Minute)
			sc.n.Notify(t.Context(), alert("a", "7", Critical))
			synctest.Wait()
			if got := sc.s.said(); len(got) != 5 || got[4] != "a 7 firing" {
				t.Errorf("got %q", got)
			}
		})
	})
	t.Run(dropShutdown, func(t *testing.T) {
		inScene(t, Config{Timeout: time.Hour}, func(t *testing.T, sc scene) {
			sc.s.hang = true
			for i := range 3 {
				sc.n.Notify(t.Context(), alert("a", fmt.Sprint(i), Critical))
			}
			synctest.Wait()
			begun := time.Now()
			sc.stop()
			if took := time.Since(begun); took != drainFor {
				t.Errorf("the end took %s", took)
			}
			sc.n.Notify(t.Context(), alert("a", "late", Critical))
			if got := sc.dropped(dropShutdown); got != 4 {
				t.Errorf("%v dropped", got)
			}
			if got := testutil.ToFloat64(sc.c.metrics.waiting.WithLabelValues("ops")); got != 0 {
				t.Errorf("%v wait", got)
			}
		})
	})
}

// TestEndDelivers: what waits when the process is told to end still goes out.
func TestEndDelivers(t *testing.T) {
	inScene(t, Config{}, func(t *testing.T, sc scene) {
		sc.s.errs = []error{errors.New("down")}
		for i := range 5 {
			sc.n.Notify(t.Context(), alert("a", fmt.Sprint(i), Critical))
		}
		sc.stop()
		if got := sc.s.said(); len(got) != 5 {
			t.Errorf("got %q", got)
		}
	})
}

// TestRobotsKeepTheLimit: at most 20 messages in any minute.
func TestRobotsKeepTheLimit(t *testing.T) {
	inScene(t, Config{Channels: []Channel{{Name: "ops", Kind: kindDingTalk, URL: keyring.Inline("https://h.example/in")}}}, func(t *testing.T, sc scene) {
		for i := range 60 {
			sc.n.Notify(t.Context(), alert("a", fmt.Sprint(i), Critical))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(sc.s.at) != 60 {
			t.Fatalf("%d were sent", len(sc.s.at))
		}
		for i := 20; i < len(sc.s.at); i++ {
			if d := sc.s.at[i].Sub(sc.s.at[i-20]); d < time.Minute {
				t.Fatalf("21 messages in %s", d)
			}
		}
	})
	if l := limit(Channel{Kind: kindWebhook}); l.Limit() != rate.Inf {
		t.Errorf("a webhook is limited to %v", l.Limit())
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  Config
		want []string
	}{
		"no kind":        {Config{Channels: []Channel{{Name: "a"}}}, []string{"channels[0].kind"}},
		"names":          {Config{Channels: []Channel{{Name: "A b", Kind: kindWeCom, URL: keyring.Inline("https://h/x")}, {Kind: kindWeCom, URL: keyring.Inline("https://h/x")}}}, []string{"channels[0].name", "channels[1].name"}},
		"twice":          {Config{Channels: []Channel{{Name: "a", Kind: kindWeCom, URL: keyring.Inline("https://h/x")}, {Name: "a", Kind: kindWeCom, URL: keyring.Inline("https://h/x")}}}, []string{"channels[1].name"}},
		"words":          {Config{Channels: []Channel{{Name: "a", Kind: kindWeCom, URL: keyring.Inline("https://h/x"), Language: "de", Severity: "loud"}}}, []string{"language", "severity"}},
		"address":        {Config{Channels: []Channel{{Name: "a", Kind: kindWebhook, URL: keyring.Inline("ftp://canary")}}}, []string{"channels[0].url"}},
		"token in clear": {Config{Channels: []Channel{{Name: "a", Kind: kindDingTalk, URL: keyring.Inline("http://canary/x")}}}, []string{"channels[0].url", "https"}},
		"weak secret":    {Config{Channels: []Channel{{Name: "a", Kind: kindWebhook, URL: keyring.Inline("https://h/x"), Secret: keyring.Inline("canary")}}}, []string{"channels[0].secret", "openssl"}},
		"wecom signs":    {Config{Channels: []Channel{{Name: "a", Kind: kindWeCom, URL: keyring.Inline("https://h/x"), Secret: keyring.Inline("canary")}}}, []string{"channels[0].secret"}},
		"mixed":          {Config{Channels: []Channel{{Name: "a", Kind: kindFeishu, URL: keyring.Inline("https://h/x"), From: "a@b.example"}}}, []string{"channels[0].kind"}},
		"keyword":        {Config{Channels: []Channel{{Name: "a", Kind: kindWebhook, URL: keyring.Inline("https://h/x"), Keyword: "w"}}}, []string{"channels[0].keyword"}},
		"email": {Config{Channels: []Channel{{Name: "a", Kind: kindEmail, Server: "h", TLS: "maybe", Username: "u", From: "x", To: []string{"y"}, URL: keyring.Inline("https://canary")}}}, []string{
			"server", "tls", "username", "from", "to", "kind",
		}},
		"password in clear": {Config{Channels: []Channel{{Name: "a", Kind: kindEmail, Server: "h:25", TLS: "none", Username: "u", Password: keyring.Inline("canary"), From: "a@b.example", To: []string{"a@b.example"}}}}, []string{"channels[0].tls"}},
		"numbers":           {Config{Repeat: -1, Deadline: -1, Timeout: -1, Queue: -1}, []string{"repeat", "deadline", "timeout", "queue"}},
	} {
		err := tc.cfg.Validate()
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v lacks %s", name, err, want)
			}
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("a\nb\u2028\xff")
	f.Add(strings.Repeat("长", 300))
	f.Fuzz(func(t *testing.T, s string) {
		if got := plain(s); len(got) > 400 || strings.ContainsAny(got, "\n\r\x00\u2028") {
			t.Errorf("%q", got)
		}
	})
}
