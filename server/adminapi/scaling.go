package adminapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/scaling"
)

// GetScaling implements GET /scaling.
func (s *Server) GetScaling(c *gin.Context) {
	out := ScalingList{Items: []ScaledPool{}}
	for _, l := range s.deps.Scaling {
		p := ScaledPool{Pool: l.Pool(), Decisions: []ScalingDecision{}}
		p.Min, p.Max = l.Bounds()
		p.HeadRoom = float32(l.HeadRoom())
		p.Plan = []ScalingPlanned{}
		for _, x := range l.Plan() {
			p.Plan = append(p.Plan, ScalingPlanned{At: x.At.UTC(), Slot: x.Slot, Floor: x.Floor, Instances: x.Instances, Forecast: forecastView(x.Forecast)})
		}
		if last, kept, ok := l.Decisions(); ok {
			view := scalingView(last)
			p.Latest = &view
			for _, d := range kept {
				p.Decisions = append(p.Decisions, scalingView(d))
			}
		}
		out.Items = append(out.Items, p)
	}
	s.reply(c, http.StatusOK, out, nil)
}

// longestOverride bounds how long a person's number holds: whoever forgets it pays for it no longer than that.
const longestOverride = 31 * 24 * time.Hour

// SetScalingOverride implements PUT /scaling/{pool}/override.
func (s *Server) SetScalingOverride(c *gin.Context, poolName PoolPath) {
	in, err := decode[NewScalingOverride](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, poolName, map[string]string{"target": strconv.Itoa(in.Target), "until": in.Until.UTC().Format(time.RFC3339), "reason": in.Reason})
	l := s.scaled(poolName)
	ahead := time.Until(in.Until)
	switch {
	case l == nil:
		err = fault.New(fault.CodeNotFound, fault.Say("thing.scaled_pool"), poolName)
	case ahead <= 0 || ahead > longestOverride:
		err = fault.New(fault.CodeInvalidValue, "until", fault.Say("scaling.until")).WithParam("until")
	default:
		l.SetOverride(&scaling.Override{Target: in.Target, Until: in.Until.UTC(), By: caller(c).ID, Reason: in.Reason})
	}
	s.reply(c, http.StatusNoContent, nil, err)
}

// RemoveScalingOverride implements DELETE /scaling/{pool}/override.
func (s *Server) RemoveScalingOverride(c *gin.Context, poolName PoolPath) {
	about(c, poolName, nil)
	l := s.scaled(poolName)
	if l == nil {
		s.Fail(c, fault.New(fault.CodeNotFound, fault.Say("thing.scaled_pool"), poolName))
		return
	}
	l.SetOverride(nil)
	s.reply(c, http.StatusNoContent, nil, nil)
}

// scaled returns the loop of a pool, nil if it is not scaled here.
func (s *Server) scaled(name string) *scaling.Loop {
	i := slices.IndexFunc(s.deps.Scaling, func(l *scaling.Loop) bool { return l.Pool() == name })
	if i < 0 {
		return nil
	}
	return s.deps.Scaling[i]
}

func forecastView(b *scaling.Band) *ScalingForecast {
	if b == nil {
		return nil
	}
	return &ScalingForecast{Low: float32(b.Low), Mid: float32(b.Mid), High: float32(b.High), At: float32(b.At), Error: float32(b.Error)}
}

func scalingView(d scaling.Decision) ScalingDecision {
	out := ScalingDecision{
		At: d.Now.UTC(), Ready: d.Fleet.Ready, Starting: d.Fleet.Starting, Draining: d.Fleet.Draining, Failed: d.Fleet.Failed, Slot: d.Slot, Floor: d.Floor,
		Wanted: d.Wanted, Winner: string(d.Winner), Before: d.Before, Target: d.Target, Needs: map[string]int{}, Limits: []string{}, Alarms: []string{},
		Line: d.Line, LeadSeconds: float32(d.Lead.Seconds()), Cost: float32(d.Cost), Joules: float32(d.Joules),
	}
	for why, n := range d.Needs {
		out.Needs[string(why)] = n
	}
	for _, l := range d.Limits {
		out.Limits = append(out.Limits, string(l))
	}
	for _, a := range d.Alarms {
		out.Alarms = append(out.Alarms, string(a))
	}
	out.Forecast = forecastView(d.Forecast)
	if r := d.Signals.Rate; !r.At.IsZero() {
		rate := float32(r.Value)
		out.Rate = &rate
	}
	if o := d.Override; o != nil {
		out.Override = &ScalingOverride{Target: o.Target, Until: o.Until, By: o.By, Reason: o.Reason}
	}
	return out
}
