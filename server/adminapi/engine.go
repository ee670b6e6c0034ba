package adminapi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/worker"
)

// itemList is an answer whose items need no translation: the engine's own types are those of the document, and a test holds them together.
type itemList[T any] struct {
	Items []T `json:"items"`
}

// LocalEngine is an engine of our own, with what it reports of itself.
type LocalEngine struct {
	Name  string
	Kind  pool.Kind
	State worker.State
	Load  []worker.Load // by model; none while it does not answer
}

// schedulers is a list of schedulers beside the engines that they and others belong to.
type schedulers struct {
	Items     []native.SchedulerState `json:"items"`
	Instances []EngineInstance        `json:"instances"`
}

// GetScheduler implements GET /engine/scheduler.
func (s *Server) GetScheduler(c *gin.Context) {
	out := schedulers{Items: []native.SchedulerState{}, Instances: s.engineInstances()}
	if s.deps.Native != nil {
		out.Items = s.deps.Native.Scheduler()
	}
	s.reply(c, http.StatusOK, out, nil)
}

// engineInstances shows the slots and the memory of the engines of our own.
func (s *Server) engineInstances() []EngineInstance {
	out := []EngineInstance{}
	for _, e := range s.deps.LocalEngines() {
		view := EngineInstance{Name: e.Name, Kind: EngineInstanceKind(e.Kind), State: EngineInstanceState(e.State), Models: []EngineInstanceLoad{}}
		for _, l := range e.Load {
			view.Models = append(view.Models, EngineInstanceLoad{
				Model: string(l.Model), RunningSequences: l.Running, WaitingSequences: l.Waiting, KvPages: l.Pages, KvPagesInUse: l.PagesInUse,
				KvPageTokens: positive(l.PageTokens), KvPageBytes: positive(l.PageBytes),
			})
			view.ConcurrencyLimit = cmp.Or(view.ConcurrencyLimit, positive(l.Slots))
		}
		out = append(out, view)
	}
	return out
}

// positive is a figure that was reported.
func positive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// defaultSteps is the length of a page of steps.
const defaultSteps = 100

// ListSteps implements GET /engine/steps.
func (s *Server) ListSteps(c *gin.Context, params ListStepsParams) {
	out := itemList[sched.StepRecord]{Items: []sched.StepRecord{}}
	if s.deps.Native != nil {
		var after *uint64
		if params.After != nil {
			n := uint64(*params.After)
			after = &n
		}
		n := defaultSteps
		if params.Limit != nil {
			n = *params.Limit
		}
		out.Items = append(out.Items, s.deps.Native.StepPage(after, n)...)
	}
	s.reply(c, http.StatusOK, out, nil)
}

// ListAdapters implements GET /engine/adapters.
func (s *Server) ListAdapters(c *gin.Context) {
	out := AdapterList{Items: []Adapter{}}
	loaded, err := s.deps.Adapters(c.Request.Context())
	for _, a := range loaded {
		out.Items = append(out.Items, adapterView(a))
	}
	s.reply(c, http.StatusOK, out, err)
}

func adapterView(a native.Adapter) Adapter {
	return Adapter{Id: string(a.ID), Model: string(a.Model), Digest: a.Digest, Bytes: int64(a.Bytes), Tenants: list(a.Tenants)}
}

// LoadAdapter implements POST /engine/adapters.
func (s *Server) LoadAdapter(c *gin.Context) {
	in, err := decode[NewAdapter](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	tenants := deref(in.Tenants)
	detail := map[string]string{"model": in.Model, "path": in.Path, "tenants": truncate(strings.Join(tenants, " "), maxResource)}
	about(c, in.Id, detail)
	a, err := s.deps.LoadAdapter(c.Request.Context(), native.AdapterConfig{ID: engine.ModelID(in.Id), Model: engine.ModelID(in.Model), Path: in.Path, Tenants: tenants})
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail["digest"] = a.Digest
	s.reply(c, http.StatusCreated, adapterView(a), nil)
}

// UnloadAdapter implements DELETE /engine/adapters/{id}.
func (s *Server) UnloadAdapter(c *gin.Context, id string) {
	s.reply(c, http.StatusNoContent, nil, s.deps.UnloadAdapter(c.Request.Context(), engine.ModelID(id)))
}

// GetEnergy implements GET /engine/energy.
func (s *Server) GetEnergy(c *gin.Context) {
	account := s.deps.Energy
	out := EnergyState{Method: EnergyStateMethod(account.Method()), IdleMethod: EnergyStateIdleMethod(account.IdleMethod()), Meters: []EnergyMeter{}}
	for _, m := range account.Meters() {
		out.Meters = append(out.Meters, EnergyMeter{
			Kind: m.Kind, Name: m.Name, Method: EnergyMeterMethod(m.Method), UncertaintyPermille: m.UncertaintyPermille, Node: m.Node, Reads: m.Reads,
		})
	}
	if len(out.Meters) > 0 {
		t := account.Totals()
		out.Totals = &EnergyTotals{
			MeteredUj: t.Metered, RequestsUj: t.Requests, RunningUj: t.Running, IdleUj: t.Idle, UnattributedUj: t.Unattributed,
			CoveredMs: t.Covered.Milliseconds(), MissingMs: t.Missing.Milliseconds(),
		}
	}
	s.reply(c, http.StatusOK, out, nil)
}
