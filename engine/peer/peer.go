package peer

import (
	"errors"
	"net/http"

	"github.com/sluice-project/sluice/engine/profile"
)

// ErrNotTold is the error of a question that the profile knows no way to ask.
var ErrNotTold = errors.New("the engine does not tell")

// Config says which engine is asked.
type Config struct {
	Profile *profile.Profile
	// URL is the root of the server, without /v1. Management and Metrics are the roots of its other ports; "" is derived from the profile's ports: the
	// same host, or URL itself where the profile names no port.
	URL, Management, Metrics string
	Key                      string       // sent as a bearer token; "" sends none
	Client                   *http.Client // nil: http.DefaultTransport without redirects
}

// State is how an engine says it is.
type State string

// The states.
const (
	Ready       State = "ready"
	Loading     State = "loading" // lives, and will be ready
	Standby     State = "standby" // lives, behind another one
	NotReady    State = "not-ready"
	Unreachable State = "unreachable"
)
