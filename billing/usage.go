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
	// FirstToken and Total are how long it took, in microseconds; 0: not known. They are no part of what tells payloads of a request apart.
	FirstToken int64 `json:"-"`
	Total      int64 `json:"-"`
	// Once: the request may have been answered twice, because the first answer was lost when a process died. What is recorded first is billed,
	// and what differs from it later changes nothing.
	Once bool `json:"-"`
}

// check refuses for good what no retry mends: the audit log then ships the record unbooked instead of waiting for ever.
func (u Usage) check() error {
	var why fault.Phrase
	switch {
	case u.Request == "" || u.Tenant == "":
		why = fault.Say("billing.usage_unnamed")
	case u.Cost < 0 || u.Energy < 0:
		why = fault.Say("billing.negative_usage")
	case u.At <= 0 || u.At >= maxTime:
		why = fault.Say("billing.usage_time")
	default:
		return nil
	}
	return fmt.Errorf("request %s: %w", u.Request, fault.New(fault.CodeInvalidValue, "usage", why))
}

// digest tells two payloads of one request apart.
func (u Usage) digest() (string, error) {
	b, err := json.Marshal(u)
	if err != nil {
		return "", fmt.Errorf("encode usage: %w", err)
	}
	return digest(b), nil
}

// dayOf returns the UTC day of a time in Unix microseconds.
func dayOf(at int64) string { return time.UnixMicro(at).UTC().Format(time.DateOnly) }
