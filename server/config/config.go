// Package config is the one configuration tree of Sluice. The types of its branches belong to the packages that use them; this
// package gives them names, defaults and a strict loader.
//
// Precedence: command-line flag > SLUICE_* environment > file > default. The environment variable of a key is SLUICE_ and the key in
// upper case with underscores: `http.max_body_bytes` is SLUICE_HTTP_MAX_BODY_BYTES. Lists can only be set in the file.
package config

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/siem"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/remote"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/gateway/instances"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/notify"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/rag"
	"github.com/sluice-project/sluice/server/httpapi"
	"github.com/sluice-project/sluice/server/keysource"
	"github.com/sluice-project/sluice/server/offboard"
	"github.com/sluice-project/sluice/server/sla"
	"github.com/sluice-project/sluice/workflows"
)

// Example is the annotated example file: every key with its default.
//
//go:embed sluice.example.yaml
var Example string

// Config is the tree.
type Config struct {
	Data            string // data directory
	MasterKeyFile   string // 64 hex digits, mode 0600; not there if the key is sealed
	KeySource       keysource.Config
	Downloads       string // where `sluice pull` puts models and programs
	Listen          string // business API, and everything else unless AdminListen is set
	AdminListen     string // management API and console on an address of their own
	InferenceListen string // the Open Inference Protocol over gRPC; "": it is not there
	PublicURL       string // how browsers and applications reach Listen
	AdminURL        string // how browsers reach AdminListen
	DrainTimeout    time.Duration
	MaxStale        time.Duration // how long what could not be refreshed from the database is trusted; 0: 5m
	Console         bool
	TLS             TLS
	Log             Log
	Metrics         Metrics
	Operations      Operations
	Database        database.Config
	HTTP            httpapi.Config
	Identity        identity.Config
	Governance      governance.Config
	Label           label.Config
	Audit           Audit
	Billing         billing.Config
	Energy          energy.Config
	Limits          Limits
	Gateway         gateway.Config
	Route           route.Config
	Engines         Engines
	RAG             RAG
	Batches         Batches
	Workflows       Workflows
	Registry        Registry
	Notify          notify.Config
	Offboarding     offboard.Permitted
	SLA             sla.Config
}

// Registry says whether answers are remembered by fingerprints.
type Registry struct {
	Enabled bool
}

// TLS names the certificate files of the listeners; both empty means plain HTTP.
type TLS struct {
	CertFile, KeyFile string
}

// Log says what is logged and how.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // json or text
}

// Metrics says what /metrics shows beside the usual.
type Metrics struct {
	// VLLMNames shows the native engine's figures under vLLM's names too.
	VLLMNames bool
}

// Operations says where metrics, the details of readiness and profiles are, and who may read them: whoever reaches Listen, or who has the
// Token. With neither they are refused.
type Operations struct {
	Listen string             // an address of their own; "": where the management API is
	Token  keyring.Credential // sent as a bearer token, on any listener
	Pprof  bool               // profiles at /debug/pprof/
}

// Limits are the rate limits, and the Redis that shares them between replicas.
type Limits struct {
	limit.Config `koanf:",squash"`

	RedisURL keyring.Credential // redis://user:password@host:6379/0; empty: limits hold per process
}

// Audit sets the audit log up, and lists where its records go beside.
type Audit struct {
	audit.Config `koanf:",squash"`

	SIEM []siem.Config
}

// Engines lists what runs models.
type Engines struct {
	// Place is the kind of place where this machine stands, with the native engine and the workers; "" means centre.
	Place   pool.Place
	Native  native.Config
	Remote  []Remote
	Workers []Worker
	Serve   Serve
	Pools   []Pool
	// Registered bounds what administrators may register while the server runs.
	Registered instances.Config
	// Profiles are files, or folders of *.yaml, with profiles of engines beside those of the program.
	Profiles []string
}

// Worker is a native engine in a process of its own, and the name under which model versions refer to it.
type Worker struct {
	worker.Config `koanf:",squash"`

	Name string
	// Place is the kind of place where it stands; "" is that of this machine for one at a unix socket or with local, and outside for others.
	Place pool.Place
}

// Serve says where `sluice engine serve` offers the native engine.
type Serve struct {
	worker.Endpoint `koanf:",squash"`
}

// Remote is one upstream and the name under which model versions refer to it.
type Remote struct {
	remote.Config `koanf:",squash"`

	Name string
	// Place is the kind of place where it stands; "" is outside: nobody says.
	Place pool.Place
}

// RAG sets retrieval up.
type RAG struct {
	rag.Config `koanf:",squash"`

	// EmbeddingModel is the native model that embeds documents and queries; empty switches retrieval off.
	EmbeddingModel string
}

// Batches bounds batches, and the files of callers.
type Batches struct {
	batch.Limits `koanf:",squash"`

	Files files.Limits
}

// Workflows says where Temporal is.
type Workflows struct {
	workflows.Config `koanf:",squash"`

	Enabled  bool
	Embedded Embedded
}

// Embedded sets up the Temporal development server that is supervised when Workflows.Address is empty.
type Embedded struct {
	Binary string // empty: `temporal` on PATH, else the pulled one
	Port   int    // 0: any free port
}

// Default returns the defaults.
func Default() Config {
	return Config{
		Data:         DefaultData(),
		Downloads:    defaultDownloads(),
		Listen:       "127.0.0.1:8080",
		DrainTimeout: 30 * time.Second,
		Console:      true,
		Log:          Log{Level: "info", Format: "json"},
		// A small two-socket-less server under load; declare your own for figures that mean something.
		Energy: energy.Config{IdleMilliwatts: 20_000, BusyMilliwatts: 65_000, Slots: 8},
		Limits: Limits{Config: limit.Config{
			Key:    limit.Limits{RequestsPerMinute: 6000, TokensPerMinute: 2_000_000, Concurrent: 256},
			Tenant: limit.Limits{RequestsPerMinute: 60_000, TokensPerMinute: 20_000_000, Concurrent: 1024},
		}},
		Engines: Engines{Native: native.Config{Models: []native.ModelConfig{
			{ID: "smollm2-135m-instruct", Path: "smollm2-135m-instruct-q4_1.gguf"},
			{ID: "multilingual-e5-small", Path: "multilingual-e5-small-q4.bin"},
		}}},
		RAG:       RAG{EmbeddingModel: "multilingual-e5-small"},
		Workflows: Workflows{Enabled: true},
		Registry:  Registry{Enabled: true},
	}
}

// DefaultData returns the default data directory: $XDG_DATA_HOME/sluice or ~/.local/share/sluice.
func DefaultData() string { return userDir("XDG_DATA_HOME", ".local/share") }

func defaultDownloads() string { return userDir("XDG_CACHE_HOME", ".cache") }

func userDir(variable, fallback string) string {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sluice")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "."
	}
	return filepath.Join(home, fallback, "sluice")
}

// resolve fills what depends on other keys.
func (c *Config) resolve() {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&c.MasterKeyFile, filepath.Join(c.Data, "keys", "master.key"))
	set(&c.KeySource.SealedFile, filepath.Join(filepath.Dir(c.MasterKeyFile), "master.sealed.json"))
	c.KeySource.PlainFile, c.KeySource.Suite = c.MasterKeyFile, cmp.Or(c.Audit.Suite, seal.Intl)
	set(&c.Audit.Dir, filepath.Join(c.Data, "audit"))
	set(&c.Engines.Serve.Address, "unix:"+filepath.Join(c.Data, "engine", "engine.sock"))
	set(&c.Engines.Native.CacheDir, filepath.Join(c.Downloads, "packed"))
	for i, p := range c.Engines.Profiles {
		if !filepath.IsAbs(p) {
			c.Engines.Profiles[i] = filepath.Join(c.Data, p)
		}
	}
	for _, age := range []*time.Duration{&c.Identity.MaxStale, &c.Governance.MaxStale, &c.Billing.MaxStale, &c.Route.MaxStale, &c.RAG.MaxStale} {
		*age = cmp.Or(*age, c.MaxStale)
	}
	c.RAG.Suite, c.Identity.Suite = c.Audit.Suite, c.Audit.Suite
	c.RAG.Compiled = filepath.Join(c.Data, "compiled")
	c.Identity.WebAuthn.Address = c.consoleAddress()
	if c.Database.URL.Empty() {
		c.Database.URL = keyring.Inline("sqlite:" + filepath.Join(c.Data, "sluice.db"))
	}
}

// consoleAddress is how browsers reach the console: without a public address at least those of the same machine do. "" if nobody knows.
func (c *Config) consoleAddress() string {
	listen, public := c.Listen, c.PublicURL
	if c.AdminListen != "" {
		listen, public = c.AdminListen, c.AdminURL
	}
	if public != "" {
		return public
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil || port == "" || port == "0" {
		return ""
	}
	scheme := "http"
	if c.TLS.CertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort("localhost", port)
}

// Validate reports everything that is wrong, each with its path.
func (c Config) Validate() error {
	var errs []error
	add := func(path string, err error) {
		all := []error{err}
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			all = several.Unwrap()
		}
		for _, err := range all {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s.%w", path, err))
			}
		}
	}
	key := func(name string, ok bool, message string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", name, message))
		}
	}
	key("data", filepath.IsAbs(c.Data), "must be an absolute path")
	for name, address := range map[string]string{"listen": c.Listen, "admin_listen": c.AdminListen, "inference_listen": c.InferenceListen, "operations.listen": c.Operations.Listen} {
		if address == "" && name != "listen" {
			continue
		}
		_, _, err := net.SplitHostPort(address)
		key(name, err == nil, "must be host:port, such as 127.0.0.1:8080")
	}
	for name, address := range map[string]string{"public_url": c.PublicURL, "admin_url": c.AdminURL} {
		u, err := url.Parse(address)
		key(name, address == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "must be an http or https address")
	}
	key("admin_url", c.AdminURL == "" || c.AdminListen != "", "needs admin_listen: without it public_url says how the console is reached")
	key("operations.token", c.Operations.Token.Empty() || len(c.Operations.Token.Reveal()) >= 16, "must have 16 characters or more")
	key("operations.pprof", !c.Operations.Pprof || c.Operations.Listen != "" || !c.Operations.Token.Empty(), "needs operations.listen or operations.token")
	key("drain_timeout", c.DrainTimeout > 0, "must be positive")
	key("max_stale", cmp.Or(c.MaxStale, snapshot.DefaultMaxAge) >= 2*max(time.Second, c.RAG.Poll), "must be at least 2s, and twice rag.poll")
	key("tls", (c.TLS.CertFile == "") == (c.TLS.KeyFile == ""), "set both cert_file and key_file, or neither")
	key("log.level", c.Log.Level == "debug" || c.Log.Level == "info" || c.Log.Level == "warn" || c.Log.Level == "error", "must be debug, info, warn or error")
	key("log.format", c.Log.Format == "json" || c.Log.Format == "text", "must be json or text")
	add("key_source", c.KeySource.Validate())
	add("database", c.Database.Validate())
	add("http", c.HTTP.Validate())
	add("identity", c.Identity.Validate())
	add("governance", c.Governance.Validate())
	add("label", c.Label.Validate())
	add("audit", c.Audit.Validate())
	add("audit", siem.Validate(c.Audit.SIEM))
	add("billing", c.Billing.Validate())
	add("energy", c.Energy.Validate())
	add("limits", c.Limits.Validate())
	add("gateway", c.Gateway.Validate())
	// What is set aside for a request must outlive it: whoever lets a slow request go uncounted lets it overspend.
	longest := cmp.Or(c.Gateway.Timeout, 10*time.Minute)
	key("billing.reservation_timeout", cmp.Or(c.Billing.ReservationTimeout, time.Hour) > longest, "must be longer than gateway.timeout")
	key("limits.lease", c.Limits.RedisURL.Empty() || cmp.Or(c.Limits.Lease, 15*time.Minute) > longest, "must be longer than gateway.timeout")
	add("route", c.Route.Validate())
	if len(c.Engines.Native.Models) > 0 {
		add("engines.native", c.Engines.Native.Validate())
	}
	named := func(path, name string) {
		key(path, name != "", "must be set: model versions refer to it")
		key(path, name != "native" && !strings.Contains(name, "/"),
			"must not be native, which is the engine of this process, nor hold a slash, behind which records name a version")
	}
	profiles, err := profile.New(c.Engines.Profiles...)
	if err != nil {
		key("engines.profiles", false, err.Error())
	}
	placed := func(path string, p pool.Place) {
		key(path, p == "" || slices.Contains(pool.Places(), p), "must be device, edge, centre or cloud, or empty")
	}
	placed("engines.place", c.Engines.Place)
	for i, r := range c.Engines.Remote {
		named(fmt.Sprintf("engines.remote[%d].name", i), r.Name)
		r.Profiles = profiles
		placed(fmt.Sprintf("engines.remote[%d].place", i), r.Place)
		key(fmt.Sprintf("engines.remote[%d].place", i), r.Place == "" || r.Place == pool.PlaceCloud || !r.Outside(profiles), "the dialect is that of a cloud, which is outside")
		add(fmt.Sprintf("engines.remote[%d]", i), r.Validate())
	}
	for i, w := range c.Engines.Workers {
		named(fmt.Sprintf("engines.workers[%d].name", i), w.Name)
		placed(fmt.Sprintf("engines.workers[%d].place", i), w.Place)
		add(fmt.Sprintf("engines.workers[%d]", i), w.Validate())
	}
	add("engines.serve", c.Engines.Serve.Validate())
	add("engines", c.Engines.validatePools(profiles))
	add("engines.registered", c.Engines.Registered.Validate())
	add("rag", c.RAG.Validate())
	add("batches", c.Batches.Validate())
	add("batches.files", c.Batches.Files.Validate())
	if c.Workflows.Enabled {
		w := c.Workflows.Config
		if w.Address == "" {
			w.Address = "127.0.0.1:0" // of the embedded server: known once that runs
		}
		add("workflows", w.Validate())
	}
	add("notify", c.Notify.Validate())
	add("sla", c.SLA.Validate())
	key("workflows.embedded.port", c.Workflows.Embedded.Port >= 0 && c.Workflows.Embedded.Port < 65536, "must be a port number")
	return errors.Join(errs...)
}

// ModelPath returns where a model file lies: paths that are not absolute are below the models of Downloads.
func (c *Config) ModelPath(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Downloads, modelstore.Models, path)
}
