package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profile loads a side of ours once more and keeps what its processor time and its allocations went to. Nothing of this load is reported:
// being profiled costs time.
func (s *gatewaySide) profile(ctx context.Context, o gatewayOptions, connections int) error {
	if !s.ours {
		return nil
	}
	if err := os.MkdirAll(o.profiles, 0o700); err != nil {
		return err
	}
	kinds := []string{"profile", "allocs"}
	ended := make(chan error, len(kinds))
	for _, kind := range kinds {
		go func() {
			url := fmt.Sprintf("%s/debug/pprof/%s?seconds=%d", s.url, kind, int(o.length.Seconds()))
			ended <- download(ctx, url, filepath.Join(o.profiles, fmt.Sprintf("%s-%d-%s.pb.gz", strings.ReplaceAll(s.name, "/", "-"), connections, kind)))
		}()
	}
	got, err := load(ctx, s.target, connections, o.length, s.dialect.body(prompt, false), false)
	for range kinds {
		err = errors.Join(err, <-ended)
	}
	if err == nil {
		fmt.Printf("%-12d %s: profiled over %d requests\n", connections, s.name, len(got.latencies))
	}
	return err
}

// download keeps what an address of operations answers in a file.
func download(ctx context.Context, url, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+operationsToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, res.StatusCode)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, res.Body)
	return errors.Join(err, f.Close())
}
