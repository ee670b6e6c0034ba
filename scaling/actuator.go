package scaling

import (
	"context"
	"errors"
)

// Order is what an actuator is to bring about.
type Order struct {
	// ID names the decision. An order that comes again under its id has no second effect.
	ID      string         `json:"id"`
	Pool    string         `json:"pool"`
	Target  int            `json:"target"`
	Domains map[string]int `json:"domains,omitempty"` // the target by failure domain; nil: it does not matter where
	// Term rises with every change of who decides. Orders of an earlier term than the latest are refused, so that two never pull in turns.
	Term int64 `json:"term"`
}

// ErrStaleTerm refuses an order of somebody who decides no longer.
var ErrStaleTerm = errors.New("an order of a later term was taken")

// Actuator makes a pool have the instances that were decided. Its suite is scaling/actuatortest. It is safe for concurrent use.
type Actuator interface {
	// Fleet says what there is. An error means that nobody knows: it is not an empty pool.
	Fleet(ctx context.Context) (Fleet, error)
	// Scale takes an order. It returns once the order is taken, which is long before instances are ready or gone, and keeps to ctx.
	// What comes up takes work only when it is ready; what goes gets nothing new, ends what it runs within its deadline, and only then stops.
	// A start that fails is tried again after a pause that grows, for as long as the target demands it. Error: ErrStaleTerm.
	Scale(ctx context.Context, o Order) error
}
