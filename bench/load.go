package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// target is where a load goes.
type target struct {
	name, url, key string
	headers        map[string]string // that every request has, besides the key
	dialect        dialect
}

// sample is what one measurement saw.
type sample struct {
	latencies  []time.Duration // sorted
	firstToken []time.Duration // sorted; streams only
	seconds    float64
	failures   int
}

func (s sample) quantile(q float64) time.Duration { return quantile(s.latencies, q) }

func (s sample) rate() float64 { return float64(len(s.latencies)) / s.seconds }

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// load runs connections clients for length, each sending the same body again and again on one connection.
func load(ctx context.Context, t target, connections int, length time.Duration, body []byte, stream bool) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, length+30*time.Second)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var (
		mu  sync.Mutex
		out sample
		wg  sync.WaitGroup
		err error
	)
	started := time.Now()
	for range connections {
		wg.Go(func() {
			var own sample
			for time.Since(started) < length {
				begin := time.Now()
				first, rerr := once(ctx, client, t, body)
				if rerr != nil {
					own.failures++
					mu.Lock()
					err = rerr
					mu.Unlock()
					if own.failures > 10 {
						break
					}
					continue
				}
				own.latencies = append(own.latencies, time.Since(begin))
				if stream {
					own.firstToken = append(own.firstToken, first.Sub(begin))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			out.latencies = append(out.latencies, own.latencies...)
			out.firstToken = append(out.firstToken, own.firstToken...)
			out.failures += own.failures
		})
	}
	wg.Wait()
	out.seconds = time.Since(started).Seconds()
	slices.Sort(out.latencies)
	slices.Sort(out.firstToken)
	if out.failures > 0 {
		return out, fmt.Errorf("%s: %d requests failed, the last with: %w", t.name, out.failures, err)
	}
	return out, nil
}

// once sends one request, reads the answer whole and returns when its first byte of body came.
func once(ctx context.Context, client *http.Client, t target, body []byte) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+t.dialect.path, bytes.NewReader(body))
	if err != nil {
		return time.Time{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+t.key)
	for name, value := range t.headers {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = res.Body.Close() }()
	r := bufio.NewReader(res.Body)
	_, err = r.ReadByte()
	first := time.Now()
	if err != nil {
		return first, err
	}
	if res.StatusCode != http.StatusOK {
		rest, _ := io.ReadAll(io.LimitReader(r, 300))
		return first, fmt.Errorf("status %d: %s", res.StatusCode, rest)
	}
	_, err = io.Copy(io.Discard, r)
	return first, err
}

// resetPeak has the system count a process's peak of memory anew.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// cpuSeconds returns the CPU time a process has used, and its peak resident set in MiB.
func cpuSeconds(pid int) (seconds float64, peakMiB int, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: not numbers", pid)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(v)[0])
			peakMiB = kib / 1024
		}
	}
	return (user + system) / 100, peakMiB, nil // USER_HZ is 100 on Linux
}
