package server_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/simulate"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestPools: upstreams are registered, drained and removed while requests run; what one was never reached with is answered by another; and a
// registration leads nowhere that the configuration does not list.
func TestPools(t *testing.T) {
	t.Parallel()
	in := start(t, setup{remote: "[{id: scripted, dialect: vllm}]", overrides: map[string]any{
		"engines.registered.networks": []any{"127.0.0.0/8"}, "engines.registered.keys": []any{map[string]any{"name": "gpu", "secret": "planted-key-of-a-pool"}},
	}})
	if r := in.chat(map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hello"}}}); r.status != http.StatusOK {
		t.Errorf("the first request, to an upstream that is asked how it is: %d %s", r.status, r.body)
	}
	first, second := in.poolUpstream("Bearer planted-key-of-a-pool"), in.poolUpstream("Bearer planted-key-of-a-pool")
	add := func(name, address string, more map[string]any) reply {
		body := map[string]any{"name": name, "base_url": address + "/v1", "key": "gpu", "models": []any{map[string]any{"id": "scripted", "context_tokens": 4096}}}
		for k, v := range more {
			body[k] = v
		}
		return in.send(http.MethodPost, "/api/v1/pools/fleet/instances", in.session(), body)
	}
	for name, u := range map[string]*httptest.Server{"a": first, "b": second} {
		if r := add(name, u.URL, map[string]any{"weight": 2, "zone": "room-1"}); r.status != http.StatusCreated || strings.Contains(string(r.body), "planted") {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	in.admin(http.MethodPost, "/model-versions", map[string]any{"model": "pooled", "version": "v1", "engine": "fleet", "engine_model": "scripted"}, new(any))
	in.hasMatrix("fleet", "a", "b")
	in.gradesAreBound()
	served := func() string {
		t.Helper()
		r := in.chat(map[string]any{"model": "pooled", "messages": []any{map[string]any{"role": "user", "content": "hello"}}})
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return in.eventsOf(r.header.Get("X-Request-Id"), 2)[1].Detail["instance"]
	}
	seen := map[string]bool{}
	eventually(t, "both to serve", func() bool { seen[served()] = true; return seen["a"] && seen["b"] })

	drain := func(yes bool) adminapi.Instance {
		var out adminapi.Instance
		in.admin(http.MethodPatch, "/pools/fleet/instances/a", map[string]any{"draining": yes}, &out)
		return out
	}
	if got := drain(true); got.State != adminapi.InstanceStateDraining {
		t.Errorf("%+v", got)
	}
	for range 2 {
		if got := served(); got != "b" {
			t.Errorf("%s served, which is drained", got)
		}
	}
	drain(false)
	second.CloseClientConnections()
	second.Close()
	for range 4 { // from the first request on, before anybody has looked
		if got := served(); got != "a" {
			t.Errorf("%s served, which is down", got)
		}
	}
	eventually(t, "the dead one to be told", func() bool {
		for _, i := range in.instances() {
			if i.Name == "b" {
				return i.State == adminapi.InstanceStateSick && i.Cause != nil && *i.Cause != ""
			}
		}
		return false
	})
	if r := in.send(http.MethodDelete, "/api/v1/pools/fleet/instances/b", in.session(), nil); r.status != http.StatusNoContent {
		t.Errorf("%d %s", r.status, r.body)
	}

	for name, c := range map[string]struct {
		address string
		more    map[string]any
		status  int
		code    string
	}{
		"twice":              {first.URL, map[string]any{"name": "a"}, http.StatusConflict, "already_exists"},
		"a file as a key":    {first.URL, map[string]any{"key": "file:/etc/passwd"}, http.StatusBadRequest, "invalid_value"},
		"a key in the open":  {first.URL, map[string]any{"api_key": "sk-1"}, http.StatusBadRequest, "unsupported_parameter"},
		"another protocol":   {"file:///etc/passwd", nil, http.StatusBadRequest, "invalid_value"},
		"a user in its URL":  {"http://root@127.0.0.1:1", nil, http.StatusBadRequest, "invalid_value"},
		"an unknown dialect": {first.URL, map[string]any{"dialect": "martian"}, http.StatusBadRequest, "invalid_value"},
	} {
		r := add("c", c.address, c.more)
		if r.status != c.status || !strings.Contains(string(r.body), c.code) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// Outside the networks of the configuration nothing is called, be it public.
	if r := add("far", "http://192.0.2.7:8000", nil); r.status != http.StatusCreated {
		t.Errorf("%d %s", r.status, r.body)
	}
	eventually(t, "the address to be refused", func() bool {
		for _, i := range in.instances() {
			if i.Name == "far" && i.Cause != nil {
				return strings.Contains(*i.Cause, "the configuration does not list")
			}
		}
		return false
	})
	in.tellsOfItself()
	acts := strings.Join(in.allRecords(in.session()), "\n")
	for _, act := range []string{"admin.addInstance", "admin.changeInstance", "admin.removeInstance"} {
		if !strings.Contains(acts, act) {
			t.Errorf("there is no record of %s", act)
		}
	}
	if strings.Contains(acts, "planted-key-of-a-pool") {
		t.Error("a credential is recorded")
	}
	if log := in.logs.String(); strings.Contains(log, "planted-key-of-a-pool") {
		t.Error("a credential is logged")
	}
}

// tellsOfItself registers a simulated engine, which has a version and a page of metrics.
func (in *installation) tellsOfItself() {
	in.t.Helper()
	set, err := profile.New()
	if err != nil {
		in.t.Fatal(err)
	}
	vllm, err := set.Get("vllm")
	if err != nil {
		in.t.Fatal(err)
	}
	sim, err := simulate.New(simulate.Config{Profile: vllm, Model: simulate.DefaultModel(), Machine: simulate.DefaultMachine(), Version: "0.21.0"})
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(sim.Close)
	s := httptest.NewServer(sim)
	in.t.Cleanup(s.Close)
	body := map[string]any{"name": "told", "base_url": s.URL + "/v1", "dialect": "vllm", "models": []any{map[string]any{"id": simulate.DefaultModel().Name}}}
	if r := in.send(http.MethodPost, "/api/v1/pools/shown/instances", in.session(), body); r.status != http.StatusCreated || !strings.Contains(string(r.body), `"state":"ready"`) {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	eventually(in.t, "the engine to tell of itself", func() bool {
		for _, i := range in.instances() {
			if i.Name != "told" {
				if i.Metrics != nil || i.Version != nil {
					in.t.Errorf("%s tells nothing, and is said to: %+v", i.Name, i)
				}
				continue
			}
			if i.Version == nil || i.Metrics == nil || i.MetricsAt == nil {
				return false
			}
			running, told := (*i.Metrics)["requests_running"]
			_, first := (*i.Metrics)["time_to_first_token_seconds"] // nobody has asked anything
			return *i.Version == "0.21.0" && told && running == 0 && !first
		}
		return false
	})
}

// poolUpstream is an upstream that wants a credential.
func (in *installation) poolUpstream(credential string) *httptest.Server {
	in.t.Helper()
	up := &enginetest.Upstream{Engine: enginetest.NewScripted(nil)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != credential {
			http.Error(w, "{}", http.StatusUnauthorized)
			return
		}
		up.ServeHTTP(w, r)
	}))
	in.t.Cleanup(s.Close)
	return s
}

// gradesAreBound checks that data of a high grade does not go to upstreams of which nobody says where they are, that the refusal and its record say so, and that the
// explanation says the same of every instance.
func (in *installation) gradesAreBound() {
	in.t.Helper()
	ask := func(grade string) reply {
		return in.send(http.MethodPost, "/v1/chat/completions", in.started.Welcome.APIKey.Reveal(),
			map[string]any{"model": "pooled", "messages": []any{map[string]any{"role": "user", "content": "hello"}}}, "X-Sluice-Data-Grade", grade)
	}
	for grade, want := range map[string]string{"L3": `"place_not_allowed"`, "l3": "X-Sluice-Data-Grade"} {
		if r := ask(grade); r.status == http.StatusOK || !strings.Contains(string(r.body), want) {
			in.t.Errorf("%s: %d %s", grade, r.status, r.body)
		}
	}
	r := ask("L2")
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	d := in.eventsOf(r.header.Get("X-Request-Id"), 2)[1].Detail
	if d["data_grade"] != "L2" || d["place"] != "cloud" || d["route"] != "" { // by work alone there is nothing to tell
		in.t.Errorf("%v", d)
	}
	for grade, verdict := range map[string]string{"L3": "unfit place", "L1": ""} {
		var out adminapi.RouteExplanation
		in.admin(http.MethodGet, "/route/explain?model=pooled&grade="+grade, nil, &out)
		if len(out.Instances) != 2 || (out.Chosen == nil) != (verdict != "") || *out.Grade != grade || len(out.Places) != map[string]int{"L3": 3, "L1": 4}[grade] {
			in.t.Errorf("%s: %+v", grade, out)
		}
		for _, x := range out.Instances {
			if verdict != "" && (x.Why == nil || x.Verdict+" "+*x.Why != verdict) {
				in.t.Errorf("%s: %+v", grade, x)
			}
		}
	}
	if r := in.send(http.MethodGet, "/api/v1/route/explain?model=nobody", in.session(), nil); r.status != http.StatusNotFound {
		in.t.Errorf("%d %s", r.status, r.body)
	}
}

// hasMatrix checks that the matrix has a row for each instance of a pool, with a cell for every feature, that each answers chats, and that none claims
// what no scripted engine has.
func (in *installation) hasMatrix(pool string, names ...string) {
	in.t.Helper()
	var out adminapi.EngineMatrix
	in.admin(http.MethodGet, "/engine-matrix", nil, &out)
	var seen []string
	for _, r := range out.Rows {
		if r.Pool != pool {
			continue
		}
		seen = append(seen, r.Instance)
		if r.Model != "scripted" || r.State != "ready" || r.ContextTokens == nil || *r.ContextTokens != 4096 || len(r.Cells) != len(out.Features) {
			in.t.Errorf("%+v", r)
		}
		for i, c := range r.Cells {
			if c.Feature != out.Features[i] || c.Feature == "chat" && c.Usable != "yes" || c.Feature == "rerank" && c.Usable != "no" {
				in.t.Errorf("%s: %+v", r.Instance, c)
			}
		}
	}
	if !slices.Equal(seen, names) {
		in.t.Errorf("%v, want %v", seen, names)
	}
}

func (in *installation) instances() []adminapi.Instance {
	in.t.Helper()
	var out adminapi.InstanceList
	in.admin(http.MethodGet, "/instances", nil, &out)
	return out.Items
}
