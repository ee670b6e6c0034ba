package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// setup is one way in which Sluice is set up: a side of its own.
type setup struct {
	name   string
	policy string // a document that is published before the load; "" keeps the one of a new installation
	bounds bool   // rate limits and a budget, which are counted and never reached
	binary string // the build; "" for the one that is measured
	pool   int    // instances that the upstream is, each in the same pool; 0 means 1
}

// The setups that need no file of one's own.
const (
	setupGoverned  = "governed"
	setupAuditOnly = "audit-only"
	setupPool      = "pool-8" // governed, with the upstream as eight instances of a pool
)

// setups reads a list of names: governed has the policy of a new installation, audit-only its own and no bounds, any other is governed by the
// document bench/policies/NAME.yaml, or that at a path; pool-8 is governed with eight instances.
func setups(list string) ([]setup, error) {
	var out []setup
	for name := range strings.SplitSeq(list, ",") {
		if name == setupGoverned {
			out = append(out, setup{name: name, bounds: true})
			continue
		}
		if name == setupPool {
			out = append(out, setup{name: name, bounds: true, pool: 8})
			continue
		}
		path := name
		if !strings.Contains(name, "/") {
			path = filepath.Join("bench", "policies", name+".yaml")
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("-setups: %w", err)
		}
		name = strings.TrimSuffix(filepath.Base(path), ".yaml")
		out = append(out, setup{name: name, policy: string(text), bounds: name != setupAuditOnly})
	}
	return out, nil
}

// builds are the setups, each once more with the other build if there is one.
func (o gatewayOptions) builds() []setup {
	var out []setup
	for _, su := range o.setups {
		out = append(out, su)
		if o.against != "" {
			su.name, su.binary = su.name+"-against", o.against
			out = append(out, su)
		}
	}
	return out
}

// startSetup starts the binary with the upstream as its only engine, publishes the setup's policy and makes sure that it is in force.
func startSetup(ctx context.Context, o gatewayOptions, su setup, dir, upstreamURL string) (*instance, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`engines:
  native: {models: []}
  registered: {networks: [127.0.0.1/32]}
  remote:
    - {name: scripted, base_url: "%s/v1", allow_private: [127.0.0.1/32], models: [{id: scripted}]}
`, upstreamURL)
	config += bounds(su.bounds, o.body == 0) // large bodies would reach the highest limit of tokens that there is
	in, err := startSluice(ctx, cmp.Or(su.binary, o.binary), dir, config)
	if err != nil {
		return nil, err
	}
	in.name = su.name
	if err := in.prepare(ctx, su, upstreamURL); err != nil {
		in.stop()
		return nil, err
	}
	return in, nil
}

// bounds are limits that are counted and never reached, of requests and of tokens; or none, where an installation has some by itself.
func bounds(requests, tokens bool) string {
	each := map[bool]string{true: "requests_per_minute: 60000000, concurrent: 10000", false: "requests_per_minute: 0, concurrent: 0"}[requests] +
		map[bool]string{true: ", tokens_per_minute: 60000000", false: ", tokens_per_minute: 0"}[requests && tokens]
	return fmt.Sprintf("limits:\n  key: {%s}\n  tenant: {%s}\n", each, each)
}

// prepare gives a new installation the budget and the policy of a setup, and prints what its answers say of both prompts.
func (in *instance) prepare(ctx context.Context, su setup, upstreamURL string) error {
	var session struct {
		Token string `json:"access_token"`
	}
	err := in.call(ctx, http.MethodPost, "/api/v1/session", "", map[string]string{"user": in.user, "password": in.password}, &session)
	if err != nil {
		return err
	}
	change := map[string]string{"current_password": in.password, "new_password": rand.Text()} // the first start demands it
	if err := in.call(ctx, http.MethodPost, "/api/v1/me/password", session.Token, change, &session); err != nil {
		return err
	}
	if su.bounds {
		budget := map[string]any{"period": "month", "limit_nano": int64(1e18)}
		if err := in.call(ctx, http.MethodPut, "/api/v1/budgets", session.Token, budget, nil); err != nil {
			return err
		}
	}
	for n := 1; n < su.pool; n++ {
		another := map[string]any{"name": fmt.Sprint("scripted-", n), "base_url": upstreamURL + "/v1", "models": []any{map[string]string{"id": "scripted"}}}
		if err := in.call(ctx, http.MethodPost, "/api/v1/pools/scripted/instances", session.Token, another, nil); err != nil {
			return err
		}
	}
	var published struct {
		Name string `json:"name"`
	}
	if su.policy != "" {
		err := in.call(ctx, http.MethodPost, "/api/v1/policies", session.Token, map[string]string{"yaml": su.policy}, &published)
		if err != nil {
			return fmt.Errorf("policy of %s: %w", su.name, err)
		}
	}
	for _, p := range bothPrompts() {
		var answer struct {
			Sluice struct {
				Policy   string            `json:"policy"`
				Findings []json.RawMessage `json:"findings"`
			} `json:"sluice"`
		}
		if err := in.call(ctx, http.MethodPost, "/v1/chat/completions", in.key, json.RawMessage(chat().body(p.text, false)), &answer); err != nil {
			return err
		}
		if now := answer.Sluice.Policy; published.Name != "" && now != published.Name {
			return fmt.Errorf("the policy in force is %s, not %s", now, published.Name)
		}
		fmt.Printf("%s: policy %s, %d kinds of values found in the prompt %s\n", su.name, answer.Sluice.Policy, len(answer.Sluice.Findings), p.name)
	}
	return nil
}

// call sends a JSON value and reads one back, if out is not nil.
func (in *instance) call(ctx context.Context, method, path, bearer string, value, out any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, in.url+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusBadRequest {
		var problem json.RawMessage
		_ = json.NewDecoder(res.Body).Decode(&problem)
		return fmt.Errorf("%s %s: status %d: %s", method, path, res.StatusCode, problem)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// instance is the built binary while it runs.
type instance struct {
	target

	user, password string // of the administrator
	pid            int
	stop           func()
}

// startSluice starts the binary as an operator would, with this configuration beside what every benchmark has.
func startSluice(ctx context.Context, binary, dir, config string) (*instance, error) {
	file := filepath.Join(dir, "sluice.yaml")
	text := "log: {level: error}\noperations: {pprof: true, token: " + operationsToken + "}\nrag: {embedding_model: \"\"}\n" + config
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	ready := filepath.Join(dir, "ready.json")
	cmd := exec.CommandContext(ctx, binary, "up", "--config", file, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0",
		"--no-temporal", "--no-console", "--ready-file", ready)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s (run `make build` first): %w", binary, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop := func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	}
	raw, err := await(ready, ended)
	var started struct {
		BaseURL  string `json:"base_url"`
		APIKey   string `json:"api_key"`
		User     string `json:"admin_user"`
		Password string `json:"admin_password"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &started)
	}
	if err != nil {
		stop()
		return nil, errors.Join(errors.New("start sluice"), err)
	}
	return &instance{
		target: target{name: "sluice", url: strings.TrimSuffix(started.BaseURL, "/v1"), key: started.APIKey},
		user:   started.User, password: started.Password, pid: cmd.Process.Pid, stop: stop,
	}, nil
}
