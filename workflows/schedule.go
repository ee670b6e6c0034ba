package workflows

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

const (
	capacityWorkflow   = "SetCapacity"
	capacityActivity   = "CapacityReconcile"
	capacityScheduleID = "sluice-capacity"
)

// capacityInput is version 1 of the workflow's argument. The slot is not in it: whoever runs late must use the slot of its own
// time.
type capacityInput struct {
	Schema int `json:"schema"`
}

// setCapacity runs at every edge of the plan.
func setCapacity(ctx workflow.Context, _ capacityInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 20 * time.Second, ScheduleToCloseTimeout: 10 * time.Minute,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 30 * time.Second},
	})
	return workflow.ExecuteActivity(ctx, capacityActivity).Get(ctx, nil)
}

// Capacity is the activity of [setCapacity].
func (a *activities) Capacity(ctx context.Context) error {
	return a.plan.reconcile(ctx, "the schedule reached the edge of a window")
}

// scheduleSpec has one calendar entry per edge, in the plan's zone.
func scheduleSpec(p Plan) client.ScheduleSpec {
	spec := client.ScheduleSpec{TimeZoneName: p.Timezone}
	for _, e := range p.edges() {
		c := client.ScheduleCalendarSpec{
			Hour:   []client.ScheduleRange{{Start: e.minute / 60}},
			Minute: []client.ScheduleRange{{Start: e.minute % 60}},
		}
		for _, d := range e.days {
			c.DayOfWeek = append(c.DayOfWeek, client.ScheduleRange{Start: d})
		}
		spec.Calendars = append(spec.Calendars, c)
	}
	return spec
}

// syncSchedule creates the schedule, brings it to the plan, or deletes it where there is none any more. A missed edge is caught up for one minute only: later, the
// processes have switched by themselves.
func (s *Service) syncSchedule(ctx context.Context, p Plan) error {
	if p.IsZero() {
		err := s.client.ScheduleClient().GetHandle(ctx, capacityScheduleID).Delete(ctx)
		if absent := (*serviceerror.NotFound)(nil); errors.As(err, &absent) {
			return nil
		}
		return err
	}
	action := &client.ScheduleWorkflowAction{
		ID: "capacity", Workflow: capacityWorkflow, TaskQueue: s.cfg.TaskQueue, Args: []any{capacityInput{Schema: 1}},
		WorkflowExecutionTimeout: 15 * time.Minute,
	}
	spec := scheduleSpec(p)
	_, err := s.client.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: capacityScheduleID, Spec: spec, Action: action, Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Minute,
	})
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return err
	}
	return s.client.ScheduleClient().GetHandle(ctx, capacityScheduleID).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := in.Description.Schedule
			next.Spec, next.Action = &spec, action
			next.Policy = &client.SchedulePolicies{Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Minute}
			return &client.ScheduleUpdate{Schedule: &next}, nil
		},
	})
}
