package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/sleep"
)

const (
	firstPause = time.Second // before an attempt is repeated; later ones are longer
	// drainFor is how long the channels may go on when the process ends.
	drainFor = 5 * time.Second
)

// Notifier sends alerts to the channels of the configuration. It is safe for concurrent use. One without channels does nothing.
type Notifier struct {
	channels []*channel
	timeout  time.Duration
	source   string
}

// New returns a notifier. It calls nobody before [Notifier.Run]. source is how people reach the installation, "" if that is not known.
func New(cfg Config, source string, log *slog.Logger, reg prometheus.Registerer) (*Notifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	cfg = cfg.withDefaults()
	n := &Notifier{timeout: cfg.Timeout, source: source}
	m := newMetrics(reg, cfg.Channels)
	client := httpClient()
	for _, c := range cfg.Channels {
		s, err := newSender(c, client)
		if err != nil {
			return nil, fmt.Errorf("notify: channel %s: %w", c.Name, err)
		}
		n.channels = append(n.channels, &channel{
			cfg: c, repeat: cfg.Repeat, deadline: cfg.Deadline, timeout: cfg.Timeout, pause: firstPause, limit: limit(c), sender: s, metrics: m,
			log: log.With(slog.String("component", "notify"), slog.String("channel", c.Name)), queue: make(chan message, cfg.Queue), told: map[string]time.Time{},
		})
	}
	return n, nil
}

// Notify puts an alert into the queue of every channel that wants it. It does not wait.
func (n *Notifier) Notify(ctx context.Context, a Alert) {
	for _, c := range n.channels {
		c.offer(ctx, a, n.source)
	}
}

// Run delivers until ctx ends. Then it goes on for a few seconds with what waits, and drops the rest.
func (n *Notifier) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainFor, cancel) })()
	var wg sync.WaitGroup
	for _, c := range n.channels {
		wg.Go(func() { c.run(ctx, work) })
	}
	wg.Wait()
	<-ctx.Done()
	return nil
}

// Result says how a test of one channel went.
type Result struct {
	Channel, Kind string
	Took          time.Duration
	Err           error // nil: the other side has taken the message
}

// Test sends a message to one channel, or to all of them for "", once each, and waits. Error: CodeNotFound for a channel that is not configured.
func (n *Notifier) Test(ctx context.Context, name string) ([]Result, error) {
	var out []Result
	for _, c := range n.channels {
		if name != "" && name != c.cfg.Name {
			continue
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(ctx, n.timeout)
		err := c.sender.send(ctx, message{id: newID(), at: begun, source: n.source, alert: testAlert(), lang: c.cfg.lang()})
		cancel()
		out = append(out, Result{Channel: c.cfg.Name, Kind: c.cfg.Kind, Took: time.Since(begun), Err: err})
	}
	if len(out) == 0 && name != "" {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.channel"), name)
	}
	return out, nil
}

func testAlert() Alert {
	return Alert{
		Code: "notify.test", Severity: Info, Title: fault.Say("notify.test_title"),
		Text: fault.Say("notify.test_text"),
	}
}

// newID returns an id that nothing else has.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// sender makes one attempt. Its errors are of the type failure and hold no secret.
type sender interface {
	send(ctx context.Context, m message) error
}

func newSender(c Channel, client *http.Client) (sender, error) {
	switch c.Kind {
	case kindEmail:
		return newEmail(c)
	case kindWebhook:
		return &webhook{client: client, url: c.URL, secret: c.Secret}, nil
	default:
		return &robot{cfg: c, client: client, now: time.Now}, nil
	}
}

// limit keeps a robot below 20 messages in any minute: ten at once, and one more every six seconds. DingTalk silences a robot that sends
// more for ten minutes.
func limit(c Channel) *rate.Limiter {
	if !c.robot() {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Every(6*time.Second), 10)
}

// failure is an attempt that failed.
type failure struct {
	why   string
	final bool          // another attempt would fail, too
	after time.Duration // how long the other side asks to wait; 0: it does not say
}

func (f *failure) Error() string { return f.why }

// channel is one way out and what waits for it.
type channel struct {
	cfg      Channel
	repeat   time.Duration
	deadline time.Duration
	timeout  time.Duration
	pause    time.Duration
	limit    *rate.Limiter
	sender   sender
	metrics  *metrics
	log      *slog.Logger
	queue    chan message

	mu    sync.Mutex
	told  map[string]time.Time // when an alert was last put into the queue, by its key
	ended bool                 // nothing takes from the queue any more
}

// offer puts an alert into the queue unless the channel does not want it.
func (c *channel) offer(ctx context.Context, a Alert, source string) {
	if rank(a.Severity) < rank(Severity(c.cfg.Severity)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	last, known := c.told[a.key()]
	if a.Resolved && !known || !a.Resolved && known && now.Sub(last) < c.repeat {
		c.metrics.suppressed.WithLabelValues(c.cfg.Name).Inc()
		return
	}
	m := message{id: newID(), at: now, source: source, alert: a, lang: c.cfg.lang()}
	if c.ended {
		c.drop(ctx, m, dropShutdown, nil)
		return
	}
	select {
	case c.queue <- m:
		c.metrics.waiting.WithLabelValues(c.cfg.Name).Inc()
	default:
		c.drop(ctx, m, dropFull, nil)
		return
	}
	delete(c.told, a.key())
	if !a.Resolved {
		c.forget(now)
		c.told[a.key()] = now
	}
}

// forget removes what is no longer needed once there is much of it: alerts that last are told anew before that.
func (c *channel) forget(now time.Time) {
	if len(c.told) < 1000 {
		return
	}
	for key, at := range c.told {
		if now.Sub(at) > 2*c.repeat {
			delete(c.told, key)
		}
	}
}

// run delivers until ctx ends, and then what is left for as long as work goes on.
func (c *channel) run(ctx, work context.Context) {
	for ctx.Err() == nil {
		select {
		case m := <-c.queue:
			c.deliver(work, m)
		case <-ctx.Done():
		}
	}
	for {
		select {
		case m := <-c.queue:
			c.deliver(work, m)
			continue
		default:
		}
		c.mu.Lock()
		c.ended = len(c.queue) == 0
		ended := c.ended
		c.mu.Unlock()
		if ended {
			return
		}
	}
}

// deliver sends a message until it is taken or dropped.
func (c *channel) deliver(ctx context.Context, m message) {
	defer c.metrics.waiting.WithLabelValues(c.cfg.Name).Dec()
	for pause := c.pause; ; pause = min(2*pause, time.Minute) {
		if err := c.limit.Wait(ctx); err != nil {
			c.drop(ctx, m, dropShutdown, nil)
			return
		}
		attempt, cancel := context.WithTimeout(ctx, c.timeout)
		err := c.sender.send(attempt, m)
		cancel()
		if err == nil {
			c.metrics.delivered.WithLabelValues(c.cfg.Name).Inc()
			return
		}
		c.metrics.failed.WithLabelValues(c.cfg.Name).Inc()
		f := &failure{}
		errors.As(err, &f)
		wait := cmp.Or(f.after, jitter(pause))
		switch {
		case f.final:
			c.drop(ctx, m, dropRefused, err)
			return
		case ctx.Err() != nil || !sleep.For(ctx, min(wait, time.Until(m.at.Add(c.deadline)))):
			c.drop(ctx, m, dropShutdown, err)
			return
		case time.Since(m.at) >= c.deadline:
			c.drop(ctx, m, dropDeadline, err)
			c.mu.Lock()
			delete(c.told, m.alert.key()) // while it lasts, the next time it is raised is the next chance
			c.mu.Unlock()
			return
		}
	}
}

func (c *channel) drop(ctx context.Context, m message, reason string, err error) {
	c.metrics.dropped.WithLabelValues(c.cfg.Name, reason).Inc()
	attrs := []slog.Attr{slog.String("alert", m.alert.Code), slog.String("status", m.alert.status()), slog.String("reason", reason)}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	c.log.LogAttrs(ctx, slog.LevelError, "an alert was not delivered", attrs...)
}
