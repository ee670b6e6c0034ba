package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/server/config"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExampleIsTheDefault: the annotated example sets every key, each to its default, and loads to what no file at all gives.
func TestExampleIsTheDefault(t *testing.T) {
	data := t.TempDir()
	overrides := map[string]any{"data": data, "downloads": data}
	want, err := config.Load("", nil, overrides)
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(write(t, config.Example), nil, overrides)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Print(), got.Print()); diff != "" {
		t.Errorf("the example differs from the defaults (-default +example):\n%s", diff)
	}
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(config.Example), &tree); err != nil {
		t.Fatal(err)
	}
	for _, key := range config.Keys() {
		if !has(tree, strings.Split(key, ".")) {
			t.Errorf("the example does not set %s", key)
		}
	}
}

func has(tree map[string]any, path []string) bool {
	v, ok := tree[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	sub, ok := v.(map[string]any)
	return ok && has(sub, path[1:])
}

// TestEveryKeyIsExplained: every line of the example that sets a key has a comment on it or in the block above.
func TestEveryKeyIsExplained(t *testing.T) {
	commented := false
	for i, line := range strings.Split(config.Example, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "#"):
			commented = true
		case text == "":
			commented = false
		case !commented && !strings.Contains(line, " # ") && !strings.HasSuffix(text, ":"):
			t.Errorf("line %d has no comment: %s", i+1, line)
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := write(t, "listen: 127.0.0.1:1\nlog: {level: warn}\ndrain_timeout: 7s\n")
	c, err := config.Load(file, []string{"SLUICE_LISTEN=127.0.0.1:2", "SLUICE_LOG_LEVEL=error", "SLUICE_TEST_X=1", "HOME=/"}, map[string]any{"listen": "127.0.0.1:3"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:3" || c.Log.Level != "error" || c.DrainTimeout.Seconds() != 7 || c.Log.Format != "json" {
		t.Errorf("got %s %s %s %s", c.Listen, c.Log.Level, c.DrainTimeout, c.Log.Format)
	}
}

// TestCompiledCodeIsKept: what the reader of PDFs compiles is kept below the data directory, which is nobody else's.
func TestCompiledCodeIsKept(t *testing.T) {
	c, err := config.Load(write(t, ""), nil, nil)
	if err != nil || c.RAG.Compiled != filepath.Join(c.Data, "compiled") || !filepath.IsAbs(c.RAG.Compiled) {
		t.Errorf("%q, %v", c.RAG.Compiled, err)
	}
}

// TestOneSuite: audit.suite encrypts the documents of knowledge bases as well.
func TestOneSuite(t *testing.T) {
	c, err := config.Load(write(t, "audit: {suite: gm}\n"), nil, nil)
	if err != nil || c.RAG.Suite != "gm" {
		t.Errorf("%q, %v", c.RAG.Suite, err)
	}
}

// TestOneMaximumAge: max_stale holds for everything that has no key of its own, and for what has one and says nothing.
func TestOneMaximumAge(t *testing.T) {
	c, err := config.Load(write(t, "max_stale: 1h\ngovernance: {max_stale: 7m}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]time.Duration{"identity": c.Identity.MaxStale, "billing": c.Billing.MaxStale, "route": c.Route.MaxStale, "rag": c.RAG.MaxStale} {
		if got != time.Hour {
			t.Errorf("%s has %s", name, got)
		}
	}
	if c.Governance.MaxStale != 7*time.Minute {
		t.Errorf("governance has %s, and its own key says 7m", c.Governance.MaxStale)
	}
	if _, err := config.Load(write(t, "max_stale: 1s\n"), nil, nil); err == nil || !strings.Contains(err.Error(), "max_stale") {
		t.Errorf("one second is less than two polls: %v", err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		env  []string
		want []string
	}{
		"unknown key":              {"lissten: x\n", nil, []string{`unknown key "lissten"`, `"listen"`}},
		"unknown nested key":       {"http: {max_bodybytes: 1}\n", nil, []string{`"http.max_bodybytes"`, `"http.max_body_bytes"`}},
		"unknown key in a list":    {"engines: {native: {models: [{id: m, pth: x}]}}\n", nil, []string{"pth"}},
		"unknown variable":         {"", []string{"SLUICE_LISEN=x"}, []string{"SLUICE_LISEN", "SLUICE_LISTEN"}},
		"wrong type":               {"drain_timeout: soon\n", nil, []string{"drain_timeout"}},
		"several faults, all told": {"listen: nowhere\nlog: {level: loud}\ntls: {cert_file: a}\n", nil, []string{"listen:", "log.level:", "tls:"}},
		"a duration without unit":  {"drain_timeout: 30\n", nil, []string{"drain_timeout", "30s"}},
		"our own engine's name":    {"engines: {remote: [{name: native, base_url: https://h/v1, models: [{id: m}]}]}\n", nil, []string{"engines.remote[0].name", "native"}},
		"a worker over plain TCP":  {"engines: {workers: [{name: a, address: 'h:1'}]}\n", nil, []string{"engines.workers[0].cert_file", "certificate"}},
		"a worker without a name":  {"engines: {workers: [{address: 'unix:/run/e.sock'}]}\n", nil, []string{"engines.workers[0].name", "must be set"}},
		"a socket with TLS":        {"engines: {serve: {address: 'unix:/run/e.sock', cert_file: c}}\n", nil, []string{"engines.serve.cert_file", "no TLS"}},
		"a name with a version":    {"engines: {remote: [{name: native/1, base_url: https://h/v1, models: [{id: m}]}]}\n", nil, []string{"engines.remote[0].name", "slash"}},
		"one in a list":            {"engines: {remote: [{name: a, base_url: https://h/v1, models: [{id: m}], idle_timeout: 60}]}\n", nil, []string{"idle_timeout", "60s"}},
		"a typo like a service":    {"", []string{"SLUICE_WORKFLOW_EMBEDDED_PORT=7233"}, []string{"SLUICE_WORKFLOWS_EMBEDDED_PORT"}},
		"a plan for the embedded":  {"workflows: {capacity: {timezone: Asia/Nowhere, peak_concurrency: 8, valley_concurrency: 2}}\n", nil, []string{"workflows.capacity", "timezone"}},
		"requests outlive what is set aside": {
			"gateway: {timeout: 2h}\nlimits: {redis_url: 'redis://h:6379/0'}\n", nil, []string{"billing.reservation_timeout", "limits.lease", "gateway.timeout"},
		},
		"shares that are none": {
			"engines: {native: {tenants: {acme: 0}, prefix_cache: {tenant_share: 2}, latency: {interactive: 2h}, queue_tokens: -1}}\n", nil,
			[]string{"engines.native.tenants.acme", "prefix_cache.tenant_share", "latency.interactive", "queue_tokens"},
		},
		"an adapter of no model": {"engines: {native: {adapters: [{id: a, model: none, path: p}]}}\n", nil, []string{"engines.native.adapters[0]", "none"}},
		"an unknown adapter key": {"engines: {native: {adapters: [{id: a, model: none, pth: p}]}}\n", nil, []string{"pth"}},
		"a latency without unit": {"engines: {native: {latency: {interactive: 20}}}\n", nil, []string{"latency.interactive", "20s"}},
		"an unknown class":       {"engines: {native: {latency: {fast: 20ms}}}\n", nil, []string{"engines.native.latency.fast", "engines.native.latency."}},
		"processors by name":     {"", []string{"SLUICE_ENGINES_NATIVE_CPUS=all", "SLUICE_ENGINES_NATIVE_NUMA_NODE=-1"}, []string{"engines.native.cpus", "0-3,8", "numa_node"}},
		"not YAML":               {"listen: [\n", nil, []string{"sluice.yaml"}},
		"a key below others":     {"log:\n  level: info\nhttp:\n    max_bodybytes: 1\nlissten: x\n", nil, []string{`.yaml:4:5: unknown key "http.max_bodybytes"`, `.yaml:5:1: unknown key "lissten"`}},
		"a key below a list":     {"engines:\n  native:\n    models:\n      - id: m\n        pth: x\n", nil, []string{".yaml:5:9: ", "pth"}},
		"a type below others":    {"http:\n  max_body_bytes: many\n", nil, []string{".yaml:2:3: ", "http.max_body_bytes"}},
		"a value that is wrong":  {"log:\n  format: json\n  level: loud\n", nil, []string{".yaml:3:3: log.level: must be"}},
		"a key that lacks":       {"engines:\n  remote:\n    - base_url: https://h/v1\n      models: [{id: m}]\n", nil, []string{".yaml:3:7: engines.remote[0].name: must be set"}},
		"a value of an alias":    {"limits:\n  key: &l {concurrent: 1, tokens_per_minute: -1}\n  tenant: *l\n", nil, []string{".yaml:2:27: limits."}},
		"a key that comes twice": {"listen: a:1\nlisten: a:2\n", nil, []string{"line 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(write(t, tc.file), tc.env, nil)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
	if _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), nil, nil); err == nil || !strings.Contains(err.Error(), "sluice config example") {
		t.Errorf("a missing file must say how to make one: %v", err)
	}
}

// scaled is a configuration whose pool of one worker is scaled.
func scaled(worker, more string) string {
	return "engines:\n  workers: [{name: " + worker + ", address: 'unix:/run/e.sock', local: true}]\n  pools:\n    - name: chat\n      instances: [{engine: " + worker +
		"}]\n      scale: {max: 4, workers: {command: [e, '{address}']}, " + more + "}\n"
}

// TestScaleIsRead: what is of no use here is refused by its name, and times may stand in quotes or not.
func TestScaleIsRead(t *testing.T) {
	t.Parallel()
	c, err := config.Load(write(t, scaled("a", `min: 1, every: 2s, freeze: [{from: "2026-12-24T00:00:00+08:00", to: 2026-12-27T00:00:00Z}], calendar: {timezone: UTC, total: 4}`)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Engines.Pools[0].Scale; s.Max != 4 || s.Every != 2*time.Second || s.Calendar.Total != 4 || s.Freeze[0].To.Sub(s.Freeze[0].From) != 80*time.Hour {
		t.Errorf("%+v", s)
	}
	for more, want := range map[string]string{
		"min: 0":                             "engines.pools[0].scale.min",
		"min: 1, every: 2m":                  "scale.every",
		"min: 1, targets: {misses: 0.1}":     "scale.targets.misses",
		"min: 1, domains: [a]":               "scale.domains",
		"min: 1, cost: {carbon: 1}":          "scale.cost.carbon",
		"min: 1, cost: {watts: 1e300}":       "scale.cost",
		"min: 1, workers: {command: [e]}":    "command",
		"min: 1, workerz: {}":                "workerz",
		"min: 1, freeze: [{from: tomorrow}]": "freeze",
		"min: 1, calendar: {total: 2}":       "scale.calendar.timezone",
	} {
		text := strings.Replace(scaled("a", more), "workers: {command: [e, '{address}']}, min: 1, workers", "min: 1, workers", 1)
		if _, err := config.Load(write(t, text), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", more, err)
		}
	}
	if _, err := config.Load(write(t, scaled("scaled-1", "min: 1")), nil, nil); err == nil || !strings.Contains(err.Error(), "instances[0].engine: must not begin with scaled-") {
		t.Errorf("the name of a worker that is started: %v", err)
	}
	text := strings.Replace(scaled("a", "min: 1"), "name: chat", "name: ../chat", 1)
	if _, err := config.Load(write(t, text), nil, nil); err == nil || !strings.Contains(err.Error(), "engines.pools[0].name") {
		t.Errorf("a name that leads elsewhere: %v", err)
	}
}

// TestPlacesAreOfTheFile: what the environment or a flag sets is not where the file sets it.
func TestPlacesAreOfTheFile(t *testing.T) {
	file := write(t, "log:\n  level: loud\nlisten: nowhere\n")
	_, err := config.Load(file, []string{"SLUICE_LOG_LEVEL=louder"}, map[string]any{"listen": "elsewhere"})
	if err == nil || strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "log.level:") || !strings.Contains(err.Error(), "listen:") {
		t.Errorf("the file is blamed: %v", err)
	}
	if _, err = config.Load(file, nil, nil); err == nil || !strings.Contains(err.Error(), file+":2:3: log.level:") || !strings.Contains(err.Error(), file+":3:1: listen:") {
		t.Errorf("the file is not blamed: %v", err)
	}
}

// TestServingKeys: the keys of serving reach the engine's configuration from the file and from the environment.
func TestServingKeys(t *testing.T) {
	c, err := config.Load(write(t, `
engines:
  native:
    adapters: [{id: law, model: multilingual-e5-small, path: adapters/law, tenants: [acme, globex]}]
    tenants: {acme: 2.5, trial: 0.5}
    latency: {interactive: 15ms}
    prefix_cache: {tenant_share: 0.25, spill_dir: spill}
metrics: {vllm_names: true}
`), []string{
		"SLUICE_ENGINES_NATIVE_LATENCY_BATCH=2s", "SLUICE_ENGINES_NATIVE_CPUS=0-3,8", "SLUICE_ENGINES_NATIVE_NUMA_NODE=0", "SLUICE_ENGINES_NATIVE_MEMORY_MEBIBYTES=2048",
		"SLUICE_ENGINES_NATIVE_QUEUE_TOKENS=1000", "SLUICE_ENGINES_NATIVE_QUEUE_BYTES=5000", "SLUICE_ENGINES_NATIVE_PREFIX_CACHE_SPILL_MEBIBYTES=7",
		"SLUICE_ENGINES_NATIVE_NO_SPECULATION=true", "SLUICE_ENGINES_NATIVE_CONCURRENCY=5",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default().Engines.Native
	want.Adapters = []native.AdapterConfig{{ID: "law", Model: "multilingual-e5-small", Path: "adapters/law", Tenants: []string{"acme", "globex"}}}
	want.Tenants = map[string]float64{"acme": 2.5, "trial": 0.5}
	want.Latency = native.Latency{Interactive: 15 * time.Millisecond, Batch: 2 * time.Second}
	want.PrefixCache = native.PrefixCache{TenantShare: 0.25, SpillDir: "spill", SpillMebibytes: 7}
	want.CPUs, want.NUMANode, want.MemoryMebibytes, want.QueueTokens, want.QueueBytes, want.NoSpeculation, want.Concurrency = "0-3,8", "0", 2048, 1000, 5000, true, 5
	got := c.Engines.Native
	want.CacheDir = got.CacheDir
	if diff := cmp.Diff(want, got); diff != "" || !c.Metrics.VLLMNames {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := yaml.Marshal(c.Print()); err != nil {
		t.Error(err)
	}
}

// TestKubernetesLinks: the variables of a service with our name are no configuration.
func TestKubernetesLinks(t *testing.T) {
	if _, err := config.Load("", []string{
		"SLUICE_SERVICE_HOST=10.0.0.7", "SLUICE_SERVICE_PORT=8080", "SLUICE_SERVICE_PORT_HTTP=8080", "SLUICE_PORT=tcp://10.0.0.7:8080",
		"SLUICE_PORT_8080_TCP=tcp://10.0.0.7:8080", "SLUICE_PORT_8080_TCP_PROTO=tcp", "SLUICE_PORT_8080_TCP_PORT=8080",
		"SLUICE_PORT_8080_TCP_ADDR=10.0.0.7", "SLUICE_POSTGRES_SERVICE_HOST=10.0.0.8", "SLUICE_POSTGRES_PORT=tcp://10.0.0.8:5432",
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestPrintHidesSecrets(t *testing.T) {
	c, err := config.Load(write(t, "engines: {remote: [{name: a, base_url: https://h/v1, api_key: canary-key, models: [{id: m}]}]}\n"), []string{"SLUICE_DATABASE_URL=postgres://u:canary-password@h/d", "SLUICE_LIMITS_REDIS_URL=redis://:canary-password@h:6379/0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(c.Print())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "canary") {
		t.Errorf("a secret is printed:\n%s", raw)
	}
}

// referring is a configuration with a secret of each kind of place.
func referring(t *testing.T) (c *config.Config, key, token string) {
	t.Helper()
	dir := t.TempDir()
	key, token = filepath.Join(dir, "key"), filepath.Join(dir, "token")
	replace(t, key, "canary-key-1\n")
	replace(t, token, "canary-token-of-16-characters")
	_, err := config.Load(write(t, `
engines: {remote: [{name: a, base_url: https://h/v1, api_key: "file:`+key+`", models: [{id: m}]}, {name: b, base_url: https://h/v1, api_key: canary-written, models: [{id: m}]}]}
operations: {token: "file:`+token+`"}
limits: {redis_url: "redis://h:6379/0"}
notify: {channels: [{name: soc, kind: webhook, url: "env:SOC", secret: 12345}, {name: mail, kind: email, server: "h:25", username: u, password: "env:SMTP", from: a@example.com, to: [b@example.com]}]}
`), []string{"SLUICE_DATABASE_URL=postgres://u:canary-password@h/d", "SOC=https://h/canary", "SMTP=canary-smtp"}, nil)
	if err == nil || !strings.Contains(err.Error(), "notify.channels[0].secret: must be whsec_") || strings.Contains(err.Error(), "canary") {
		t.Fatalf("a wrong secret: %v", err)
	}
	if c, err = config.Load(write(t, `
engines: {remote: [{name: a, base_url: https://h/v1, api_key: "file:`+key+`", models: [{id: m}]}, {name: b, base_url: https://h/v1, api_key: canary-written, models: [{id: m}]}]}
operations: {token: "file:`+token+`"}
limits: {redis_url: "redis://h:6379/0"}
notify: {channels: [{name: soc, kind: webhook, url: "env:SOC"}, {name: mail, kind: email, server: "h:25", username: u, password: "env:SMTP", from: a@example.com, to: [b@example.com]}]}
`), []string{"SLUICE_DATABASE_URL=postgres://u:canary-password@h/d", "SOC=https://h/canary", "SMTP=canary-smtp"}, nil); err != nil {
		t.Fatal(err)
	}
	return c, key, token
}

func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestReferencesAreRead: secrets come from where the configuration says, are printed as that, and only those written out are warned of.
func TestReferencesAreRead(t *testing.T) {
	c, key, token := referring(t)
	for got, want := range map[string]string{
		c.Engines.Remote[0].APIKey.Reveal(): "canary-key-1", c.Operations.Token.Reveal(): "canary-token-of-16-characters",
		c.Database.URL.Reveal(): "postgres://u:canary-password@h/d", c.Notify.Channels[0].URL.Reveal(): "https://h/canary", c.Notify.Channels[1].Password.Reveal(): "canary-smtp",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	raw, err := yaml.Marshal(c.Print())
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{"file:" + key, "file:" + token, "env:SOC", "env:SMTP", "env:SLUICE_DATABASE_URL"} {
		if !strings.Contains(string(raw), shown) {
			t.Errorf("%s is not printed:\n%s", shown, raw)
		}
	}
	if strings.Contains(string(raw), "canary") {
		t.Errorf("a secret is printed:\n%s", raw)
	}
	if diff := cmp.Diff([]string{"engines.remote[1].api_key"}, c.InlineCredentials()); diff != "" {
		t.Errorf("written out, -want +got:\n%s", diff)
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"operations: {token: 'file:/none/such'}": "operations.token: read the secret: open /none/such", "operations: {token: 'file:relative'}": "absolute path",
		"operations: {token: 'env:NONE'}": "operations.token: env:NONE: the variable is not set", "operations: {token: [a]}": "file:/run/secrets/key or env:NAME",
	} {
		if _, err := config.Load(write(t, text), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestReplacedFilesAreFollowed: what a file has now is in use; what it must not have, or cannot be read, is not.
func TestReplacedFilesAreFollowed(t *testing.T) {
	c, key, token := referring(t)
	held := c.Engines.Remote[0].Config // as an engine has it
	if changed, err := c.RefreshCredentials(); len(changed) != 0 || err != nil {
		t.Fatalf("nothing was replaced: %v, %v", changed, err)
	}
	replace(t, key, "canary-key-2\n")
	replace(t, token, "short")
	changed, err := c.RefreshCredentials()
	if diff := cmp.Diff([]string{"engines.remote[0].api_key"}, changed); diff != "" || held.APIKey.Reveal() != "canary-key-2" {
		t.Errorf("%s the engine has %q", diff, held.APIKey.Reveal())
	}
	if err == nil || !strings.Contains(err.Error(), "operations.token: must have 16 characters") || c.Operations.Token.Reveal() != "canary-token-of-16-characters" {
		t.Errorf("a short token: %v; in use is %q", err, c.Operations.Token.Reveal())
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if changed, err = c.RefreshCredentials(); len(changed) != 0 || err == nil || strings.Contains(err.Error(), "canary") || held.APIKey.Reveal() != "canary-key-2" {
		t.Errorf("without the file: %v, %v; in use is %q", changed, err, held.APIKey.Reveal())
	}
	replace(t, key, "canary-key-3")
	replace(t, token, "canary-token-of-16-letters")
	if changed, err = c.RefreshCredentials(); len(changed) != 2 || err != nil {
		t.Errorf("after the mend: %v, %v", changed, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("listen: 127.0.0.1:1\n")
	f.Add("engines: {remote: [{name: a}]}\n")
	f.Add("engines: {remote: [{name: a, idle_timeout: null, connect_timeout: [], first_byte_timeout: {}}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Skip()
		}
		_, _ = config.Load(path, nil, nil) // must not panic
	})
}
