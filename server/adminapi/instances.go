package adminapi

import (
	"math"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/unified"
	"github.com/sluice-project/sluice/gateway/instances"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListInstances implements GET /instances.
func (s *Server) ListInstances(c *gin.Context) {
	out := InstanceList{Items: []Instance{}}
	for _, d := range s.deps.Instances.List() {
		out.Items = append(out.Items, instanceView(d))
	}
	s.reply(c, http.StatusOK, out, nil)
}

// AddInstance implements POST /pools/{pool}/instances.
func (s *Server) AddInstance(c *gin.Context, poolName PoolPath) {
	in, err := decode[NewInstance](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, poolName+"/"+in.Name, map[string]string{"base_url": truncate(in.BaseUrl, maxResource), "dialect": deref(in.Dialect), "key": deref(in.Key), "place": deref(in.Place)})
	if err := s.deps.Instances.Add(c.Request.Context(), instanceSpec(poolName, in), caller(c).ID); err != nil {
		s.Fail(c, err)
		return
	}
	s.replyInstance(c, http.StatusCreated, poolName, in.Name)
}

func instanceSpec(poolName string, in NewInstance) instances.Spec {
	spec := instances.Spec{
		Pool: poolName, Name: in.Name, BaseURL: in.BaseUrl, Dialect: deref(in.Dialect), Key: deref(in.Key),
		Attributes: pool.Attributes{
			Weight: deref(in.Weight), Place: pool.Place(deref(in.Place)), Zone: deref(in.Zone), Roles: deref(in.Roles), CostPerHour: deref(in.CostPerHour), Power: pool.Power(deref(in.Power)),
		},
	}
	for _, m := range in.Models {
		spec.Models = append(spec.Models, instances.Model{
			ID: m.Id, Upstream: deref(m.Upstream), ContextTokens: deref(m.ContextTokens), EmbedDim: deref(m.EmbedDim), Digest: deref(m.Digest),
			Precision: deref(m.Precision), Logprobs: deref(m.Logprobs), Tools: deref(m.Tools), Formats: deref(m.Formats), Sampling: deref(m.Sampling),
			Seed: deref(m.Seed), Choices: deref(m.Choices),
			Rerank: deref(m.Rerank),
		})
	}
	return spec
}

// ChangeInstance implements PATCH /pools/{pool}/instances/{name}.
func (s *Server) ChangeInstance(c *gin.Context, poolName PoolPath, name InstancePath) {
	in, err := decode[InstanceChange](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail := map[string]string{}
	about(c, poolName+"/"+name, detail)
	before, after, err := s.deps.Instances.Change(c.Request.Context(), poolName, name, instances.Change{Weight: in.Weight, Draining: in.Draining})
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail["weight"] = strconv.Itoa(before.Weight) + " → " + strconv.Itoa(after.Weight)
	detail["draining"] = strconv.FormatBool(before.Draining) + " → " + strconv.FormatBool(after.Draining)
	s.replyInstance(c, http.StatusOK, poolName, name)
}

// RemoveInstance implements DELETE /pools/{pool}/instances/{name}.
func (s *Server) RemoveInstance(c *gin.Context, poolName PoolPath, name InstancePath) {
	about(c, poolName+"/"+name, nil)
	s.reply(c, http.StatusNoContent, nil, s.deps.Instances.Remove(c.Request.Context(), poolName, name))
}

func (s *Server) replyInstance(c *gin.Context, status int, poolName, name string) {
	for _, d := range s.deps.Instances.List() {
		if d.Pool == poolName && d.Name == name {
			s.reply(c, status, instanceView(d), nil)
			return
		}
	}
	s.Fail(c, fault.New(fault.CodeNotFound, fault.Say("thing.instance"), poolName+"/"+name)) // somebody else has removed it
}

func instanceView(d instances.Described) Instance {
	out := Instance{
		Pool: d.Pool, Name: d.Name, Kind: InstanceKind(d.Kind), State: InstanceState(d.State), Since: d.Since.UTC(), Weight: max(1, d.Weight),
		Draining: d.Draining, Configured: d.Configured, Running: d.Running, Models: []string{},
		Place: optional(string(d.Place)), Profile: optional(d.Profile), BaseUrl: optional(d.BaseURL), Zone: optional(d.Zone), Power: optional(string(d.Power)), CreatedBy: optional(d.CreatedBy),
		CreatedAt: optionalTime(d.CreatedAt), Version: optional(d.Version),
	}
	if d.Metrics != nil {
		out.Metrics, out.MetricsAt = new(numbers(d.Metrics)), optionalTime(d.MetricsAt)
	}
	for _, m := range d.Models {
		out.Models = append(out.Models, string(m.ID))
	}
	if d.Cause != nil {
		out.Cause = optional(truncate(d.Cause.Error(), maxResource)) // of the connection or the status; never what an upstream has said
	}
	if len(d.Roles) > 0 {
		out.Roles = &d.Roles
	}
	if d.CostPerHour > 0 {
		out.CostPerHour = &d.CostPerHour
	}
	return out
}

// numbers are the values of a page, each as one number. A histogram that has seen nothing has none.
func numbers(all unified.Values) map[string]float64 {
	out := map[string]float64{}
	for name, v := range all {
		n, ok := v.Mean()
		if ok && !math.IsInf(n, 0) && !math.IsNaN(n) { // neither is a number of JSON
			out[string(name)] = n
		}
	}
	return out
}
