package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server/httpapi"
)

// The ungoverned server is the product's own edge, pipeline and engine, but with parts that govern nothing: every credential is the name
// of a tenant that may do everything, nothing is masked, priced, labelled or recorded. It is a process of its own, as the peer is.

// openConfig says what the ungoverned server runs.
type openConfig struct {
	Model         string `json:"model"`
	Threads       int    `json:"threads"`
	Slots         int    `json:"slots"` // sequences at a time; 0: the engine's default
	Packed        string `json:"packed"`
	NoSpeculation bool   `json:"no_speculation"`
	NoTargets     bool   `json:"no_targets"` // latency targets so high that the controller never holds anything back
	Profile       string `json:"profile"`    // file for a CPU profile; ""
}

// servedModel is the name under which everything is asked for.
const servedModel = "m"

// openServer serves until it is interrupted. It prints its address once it can answer.
func openServer(text string, out io.Writer) error {
	var c openConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := native.Config{
		Models: []native.ModelConfig{{ID: servedModel, Path: c.Model}}, Threads: c.Threads, Concurrency: c.Slots, CacheDir: c.Packed,
		NoSpeculation: c.NoSpeculation,
	}
	if c.NoTargets {
		cfg.Latency = native.Latency{Interactive: time.Minute, Standard: time.Minute, Batch: time.Minute}
	}
	e, err := native.New(cfg, log, nil)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	handler, err := openHandler(e, log)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // lives as long as the process
	if err != nil {
		return err
	}
	if c.Profile != "" {
		f, err := os.Create(c.Profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer func() {
			pprof.StopCPUProfile()
			_ = f.Close()
		}()
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ended
		_ = srv.Close()
	}()
	fmt.Fprintf(out, "http://%s\n", l.Addr())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func openHandler(e engine.Engine, log *slog.Logger) (http.Handler, error) {
	models, err := e.Models(context.Background())
	if err != nil {
		return nil, err
	}
	most := limit.Limits{RequestsPerMinute: 60_000_000, TokensPerMinute: 60_000_000, Concurrent: 10_000}
	limits, err := limit.NewMemory(limit.Config{Key: most, Tenant: most}, log)
	if err != nil {
		return nil, err
	}
	p, err := gateway.New(gateway.Config{}, gateway.Deps{
		Identity: openDoor{}, Access: openDoor{}, Limits: limits, Guard: openGuard{}, Router: openRouter{pool.Alone(e), models[0]}, Ledger: openLedger{},
		Audit: openDoor{}, Energy: openDoor{}, Labels: openDoor{}, Agreements: openDoor{}, Signers: openDoor{}, Marks: openDoor{}, Keys: keyring.FromBytes(make([]byte, 32)), Log: log,
	}, nil)
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Config{}, p, log, nil)
	if err != nil {
		return nil, err
	}
	engine, err := api.NewEngine(api.WriteError)
	if err != nil {
		return nil, err
	}
	api.Register(engine)
	return engine, nil
}

// openDoor asks nothing and keeps nothing.
type openDoor struct{}

func (openDoor) Above(string) (string, []identity.Level) { return "", nil }

func (d openDoor) Act(ctx context.Context, a identity.Acting, source string) (identity.Principal, error) {
	return d.Authenticate(ctx, identity.DataPlane, a.ID, source)
}

func (openDoor) Authenticate(_ context.Context, _ identity.Plane, credential, _ string) (identity.Principal, error) {
	return identity.Principal{Tenant: credential, Kind: "key", ID: credential}, nil
}
func (openDoor) Allow(identity.Principal, access.Permission, string) error { return nil }
func (openDoor) AppendWith(context.Context, audit.Event, string, ...audit.Text) (audit.Receipt, error) {
	return audit.Receipt{ID: "none"}, nil
}
func (openDoor) Begin(string, bool) func() { return func() {} }
func (openDoor) Abandon(string)            {}
func (openDoor) End(string, time.Duration, int) energy.Figure {
	return energy.Figure{}
}
func (openDoor) KeyID(string) string             { return "" }
func (openDoor) Effective(_, _, _ string) string { return "" }
func (openDoor) Demanded() bool                  { return false }
func (openDoor) Make(string, string) label.Label { return label.Label{} }
func (openDoor) Signer(context.Context, string) (*signature.Signer, error) {
	return nil, errors.New("nobody signs here")
}

func (openDoor) MarkKey(context.Context, string, watermark.Params) (*watermark.Key, error) {
	return nil, errors.New("nobody marks here")
}

type openRouter struct {
	instance *pool.Instance
	info     engine.Model
}

func (r openRouter) Pick(a route.Ask) (route.Choice, error) {
	return route.Choice{
		Version:  route.Version{Model: a.Model, Version: "1", Engine: "native", EngineModel: r.info.ID, Precision: r.info.Precision},
		Instance: r.instance, Info: r.info,
	}, nil
}

func (openRouter) Again(route.Choice, []*pool.Instance) (route.Choice, error) {
	return route.Choice{}, errors.New("there is no other")
}
func (openLedger) Price(string, bool) (billing.Price, bool) { return billing.Price{}, false }
func (openRouter) Models() []route.Model                    { return nil }

// openGuard lets text through as it is.
type openGuard struct{}

func (openGuard) Admit(context.Context, governance.AdmitRequest) (gateway.Decision, error) {
	return openAdmission{}, nil
}
func (openGuard) Models(_ context.Context, _, _ string, all []string) []string { return all }

type openAdmission struct{}

func (openAdmission) Placing() governance.Placing { return governance.Anywhere() }

func (openAdmission) Policy() governance.PolicyRef                    { return governance.PolicyRef{} }
func (openAdmission) Findings() []governance.Finding                  { return nil }
func (openAdmission) Masked() bool                                    { return false }
func (openAdmission) MaskPassage(text string) (string, error)         { return text, nil }
func (openAdmission) MaskDisplayed(text string) (string, error)       { return text, nil }
func (openAdmission) Release() egress.Release                         { return &openRelease{} }
func (openAdmission) ReleaseCitation() egress.Release                 { return &openRelease{} }
func (openAdmission) ReleaseFound() egress.Release                    { return &openRelease{} }
func (openAdmission) Mask([]classify.Known, []governance.Field) error { return nil }
func (openAdmission) MaskQuery(text string) (string, error)           { return text, nil }
func (openAdmission) Examine(string) []governance.Finding             { return nil }
func (openAdmission) Examined() []string                              { return nil }
func (openAdmission) LabelMode(asked string) string                   { return asked }
func (openAdmission) DemandsAgreement() bool                          { return false }
func (openAdmission) AllowsCollection(string) bool                    { return true }
func (openAdmission) SharesPrefixCache() bool                         { return false }
func (openAdmission) UpstreamNonStreaming() bool                      { return true }
func (openAdmission) RespondBeforeRecord() bool                       { return false }
func (openAdmission) Signs() bool                                     { return false }
func (openAdmission) Caching() governance.Caching                     { return governance.Caching{} }

func (openAdmission) Watermark() governance.Watermarking { return governance.Watermarking{} }

func (openAdmission) Answering(string) governance.Answering { return governance.Answering{} }
func (openAdmission) Urgency(asked string) string           { return asked }
func (openAdmission) Record() string                        { return "" }
func (openAdmission) Redact(answer string) string           { return answer }
func (openAdmission) StoreValues(context.Context) error     { return nil }

type openRelease struct{ last string }

func (r *openRelease) Write(s string) (string, error) {
	r.last = s
	return s, nil
}

func (r *openRelease) Close(...string) (string, error) {
	r.last = ""
	return "", nil
}
func (r *openRelease) Masked() string { return r.last }
func (r *openRelease) Held() int      { return 0 }

type openLedger struct{}

func (openLedger) Reserve(context.Context, billing.Ask) (gateway.Reservation, error) {
	return openReservation{}, nil
}

type openReservation struct{}

func (openReservation) Renew()                               {}
func (openReservation) Quote(billing.Tokens) billing.Charge  { return billing.Charge{} }
func (openReservation) Settle(billing.Tokens) billing.Charge { return billing.Charge{} }
func (openReservation) Release()                             {}

func (openRouter) Resilience(string) *route.Resilience { return nil }
