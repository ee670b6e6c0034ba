package billing

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// Usage is what one request used. The request id identifies it.
type Usage struct {
	Request, Tenant, Project, Key, Actor, Action, Model, Version string
	At                                                           int64 // admission, in Unix microseconds, as given to Reserve
	Tokens                                                       Tokens
	Estimated                                                    bool // the engine did not report the counts
	Cost                                                         Money
	Currency, PriceBook                                          string
	Energy                                                       int64 // microjoules
	EnergyMethod                                                 string
	Outcome                                                      string
}

// check refuses for good what no retry mends: the audit log then ships the record unbooked instead of waiting for ever.
func (u Usage) check() error {
	why := ""
	switch {
	case u.Request == "" || u.Tenant == "":
		why = "lacks request or tenant"
	case u.Cost < 0 || u.Energy < 0:
		why = "has a negative cost or energy"
	case u.At <= 0 || u.At >= maxTime:
		why = "has no admission time"
	default:
		return nil
	}
	return fault.New(fault.CodeInvalidValue, "usage of request "+u.Request, why)
}

// digest tells two payloads of one request apart.
func (u Usage) digest() (string, error) {
	b, err := json.Marshal(u)
	if err != nil {
		return "", fmt.Errorf("encode usage: %w", err)
	}
	return digest(b), nil
}

// day returns the UTC day of the admission.
func (u Usage) day() string { return time.UnixMicro(u.At).UTC().Format(time.DateOnly) }
