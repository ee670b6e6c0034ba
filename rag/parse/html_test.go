package parse

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestHostilePageIsGivenUp: pages that take the HTML parser quadratic time, minutes at the largest size, are refused instead.
func TestHostilePageIsGivenUp(t *testing.T) {
	for _, unit := range []string{"x</z>", "<table>x<tr>"} {
		_, err := hypertextWithin([]byte(strings.Repeat(unit, 1<<20)), time.Millisecond)
		var refused *Error
		if !errors.As(err, &refused) || refused.Chinese == "" || !strings.Contains(refused.Reason, "too long") {
			t.Errorf("%q: %v", unit, err)
		}
	}
}
