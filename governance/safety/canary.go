package safety

import (
	"regexp"
	"time"
)

// maxCanaries bounds those of one request.
const maxCanaries = 16

// canary is how an application writes one into its system message.
var canary = regexp.MustCompile(`canary-[A-Za-z0-9]{16,48}`)

// Canaries returns a matcher of the canary strings in a text, or nil where there are none: "canary-" with 16 to 48 letters and digits. Whoever
// writes one into a system message learns of a model that gives the message away.
func Canaries(text string, action Action) *Matcher {
	found := canary.FindAllString(text, maxCanaries)
	if len(found) == 0 {
		return nil
	}
	l := &Library{Name: builtInName, Version: builtInVersion, Rules: []Rule{{ID: "canary", Risk: RiskCanary, Action: action, Scope: Output, Words: found, Spread: 1}}}
	return Compile([]*Library{l}, time.Time{}, nil)
}
