package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// streamTimeout is how long a client of a crowd waits for an answer before it counts as lost.
const streamTimeout = time.Minute

// crowd is what became of the requests of many clients.
type crowd struct {
	answered, limited, overloaded int   // 200, 429, 503
	lost                          int   // anything else: other statuses, connections that were refused or broke, answers that did not come
	last                          error // of those lost
	seconds                       float64
}

func (c *crowd) add(o crowd) {
	c.answered += o.answered
	c.limited += o.limited
	c.overloaded += o.overloaded
	c.lost += o.lost
	if o.last != nil {
		c.last = o.last
	}
}

func (c crowd) String() string {
	s := fmt.Sprintf("answered %d (%.0f/s), refused by 429 %d, by 503 %d, lost %d", c.answered, float64(c.answered)/c.seconds, c.limited, c.overloaded, c.lost)
	if c.last != nil {
		s += fmt.Sprintf(" (the last: %v)", c.last)
	}
	return s
}

// benchCrowd counts what becomes of large requests of very many clients, and the most memory that a side had meanwhile.
func benchCrowd(ctx context.Context, o gatewayOptions, sides []*gatewaySide, bars *gatewayBars) error {
	text := filler(o.body)
	for _, connections := range o.connections {
		fmt.Printf("\n%d connections with bodies of %d bytes, %d rounds of %s; whoever is refused waits as Retry-After says\n", connections, o.body, o.rounds, o.length)
		for n := range o.rounds {
			for i := range sides {
				s := sides[(i+n)%len(sides)]
				if err := resetPeak(s.pid); err != nil {
					return err
				}
				got := rush(ctx, s.target, connections, o.length, s.dialect.body(text, false))
				_, peak, err := cpuSeconds(s.pid)
				if err != nil {
					return fmt.Errorf("%s is gone: %w; %v", s.name, err, got)
				}
				fmt.Printf("%-14s %v, peak %d MiB\n", s.name, got, peak)
				bars.crowd(s, got, peak)
			}
		}
	}
	return ctx.Err()
}

// filler is a document of about so many bytes, with line feeds and a few values that a policy masks.
func filler(size int) string {
	const line = "The parcel left the warehouse in the morning and the carrier said that it would come before the weekend.\n"
	return prompt + "\n" + strings.Repeat(line, max(0, size-len(prompt))/(len(line)+1)) // a line feed takes two bytes
}

// rush has so many clients send the same body again and again for length, and waits until the last of them knows what became of its request.
func rush(ctx context.Context, t target, connections int, length time.Duration, body []byte) crowd {
	var (
		mu  sync.Mutex
		wg  sync.WaitGroup
		out crowd
	)
	whole := request(t, body)
	begin := time.Now()
	ends, stop := context.WithDeadline(ctx, begin.Add(length))
	defer stop()
	for range connections {
		wg.Go(func() {
			var own crowd
			for ends.Err() == nil && own.lost < 10 {
				own.add(send(ctx, hostOf(t), whole, ends.Done()))
			}
			mu.Lock()
			defer mu.Unlock()
			out.add(own)
		})
	}
	wg.Wait()
	out.seconds = time.Since(begin).Seconds()
	return out
}

// request is what goes over a connection.
func request(t target, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAuthorization: Bearer %s\r\n", t.dialect.path, hostOf(t), t.key)
	for name, value := range t.headers {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	b.Write(body)
	return b.Bytes()
}

func hostOf(t target) string { return strings.TrimPrefix(t.url, "http://") }

// send sends one request and says what became of it. A refused client waits as it is told, or until ended.
func send(ctx context.Context, host string, request []byte, ended <-chan struct{}) crowd {
	status, wait, err := exchange(ctx, host, request)
	switch {
	case err != nil:
		return crowd{lost: 1, last: err}
	case status == http.StatusOK:
		return crowd{answered: 1}
	}
	pause := time.NewTimer(wait)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ended:
	}
	if status == http.StatusTooManyRequests {
		return crowd{limited: 1}
	}
	return crowd{overloaded: 1}
}

// exchange returns the status of an answer that came whole, and how long whoever was refused shall wait. Each request has a connection of its
// own, so that none is lost because a server closes one that it takes to be idle; and it speaks HTTP itself, since net/http's client gives up
// a request when it cannot write all of it, and with it the answer of a server that has refused the rest.
func exchange(ctx context.Context, host string, request []byte) (status int, wait time.Duration, err error) {
	conn, err := (&net.Dialer{Timeout: streamTimeout}).DialContext(ctx, "tcp", host)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close() }() // ends the writing, too, if an answer came before its end
	if err := conn.SetDeadline(time.Now().Add(streamTimeout)); err != nil {
		return 0, 0, err
	}
	go func() { _, _ = conn.Write(request) }() // whoever cannot write gets no answer, or one that says why
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, 0, err
	}
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		wait = time.Duration(seconds) * time.Second
	default:
		return 0, 0, fmt.Errorf("status %d: %.200s", res.StatusCode, text)
	}
	return res.StatusCode, wait, nil
}

// raiseFiles lets this process, and those that it starts, open as many files as the system allows, and fails if that is not enough.
func raiseFiles(need int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur < uint64(need)+100 {
		return fmt.Errorf("%d open files are allowed, %d needed (ulimit -Hn)", limit.Cur, need+100)
	}
	return nil
}
