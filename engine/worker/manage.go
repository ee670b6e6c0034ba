package worker

import (
	"net/http"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
	"github.com/sluice-project/sluice/internal/strictjson"
)

// now returns the state and what there is.
func (s *Server) now() (State, Backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.backend
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	state, b := s.now()
	out := healthReply{State: state, Instance: s.instance, Models: []modelReply{}, Load: []Load{}}
	if b.Engine != nil {
		models, err := b.Engine.Models(r.Context())
		if err != nil {
			s.refuse(w, err)
			return
		}
		for _, m := range models {
			out.Models = append(out.Models, modelReply(m))
		}
	}
	if b.Load != nil {
		out.Load = append(out.Load, b.Load()...)
	}
	s.reply(w, out)
}

// maxOrder bounds the body of what is neither work nor its result.
const maxOrder = 1 << 20

// order reads the body of a request that is no work. It has answered when ok is false.
func order[T any](s *Server, w http.ResponseWriter, r *http.Request) (v T, ok bool) {
	body, release, err := s.bodies.Body(w, r, inflight.Caller{ID: "gateway"}, maxOrder)
	defer release()
	if err == nil {
		if v, err = strictjson.Decode[T](body); err != nil {
			err = fault.New(fault.CodeUnsupported, "request", fault.Say("worker.unknown_work"))
		}
	}
	if err != nil {
		s.refuse(w, err)
		return v, false
	}
	return v, true
}

// forget drops what is kept of a tenant, prompts that wait to be run among it.
func (s *Server) forget(w http.ResponseWriter, r *http.Request) {
	of, ok := order[forgetWork](s, w, r)
	if !ok {
		return
	}
	s.prompts.forget(of.Tenant)
	if _, b := s.now(); b.Forget != nil {
		b.Forget(of.Tenant)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) listAdapters(w http.ResponseWriter, _ *http.Request) {
	out := []Adapter{}
	if _, b := s.now(); b.Adapters != nil {
		out = append(out, b.Adapters.List()...)
	}
	s.reply(w, out)
}

func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) {
	a, ok := order[NewAdapter](s, w, r)
	if !ok {
		return
	}
	_, b := s.now()
	if b.Adapters == nil {
		s.refuse(w, fault.New(fault.CodeModelNotFound, string(a.Model)).WithParam("model"))
		return
	}
	loaded, err := b.Adapters.Load(r.Context(), a)
	if err != nil {
		s.refuse(w, err)
		return
	}
	s.reply(w, loaded)
}

func (s *Server) unloadAdapter(w http.ResponseWriter, r *http.Request) {
	id := engine.ModelID(r.PathValue("id"))
	err := error(fault.New(fault.CodeModelNotFound, string(id)).WithParam("model"))
	if _, b := s.now(); b.Adapters != nil {
		err = b.Adapters.Unload(id)
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if _, b := s.now(); b.Metrics != nil {
		b.Metrics.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
