package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
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

func (u Usage) check() error {
	switch {
	case u.Request == "" || u.Tenant == "":
		return errors.New("usage without request or tenant")
	case u.Cost < 0 || u.Energy < 0:
		return fmt.Errorf("usage of request %s: cost and energy must not be negative", u.Request)
	case u.At <= 0 || u.At >= maxTime:
		return fmt.Errorf("usage of request %s: no admission time", u.Request)
	}
	return nil
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
