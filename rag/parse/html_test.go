package parse

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/message"
)

// TestHostilePageIsGivenUp: pages that take the HTML parser quadratic time, minutes at the largest size, are refused instead.
func TestHostilePageIsGivenUp(t *testing.T) {
	for _, unit := range []string{"x</z>", "<table>x<tr>"} {
		_, err := NewReader(Config{MaxTime: time.Millisecond}).Read(t.Context(), File{MIME: HTML, Body: []byte(strings.Repeat(unit, 1<<20))})
		var refused *Error
		if !errors.As(err, &refused) || refused.Reason.In(message.Chinese) == "" || !strings.Contains(refused.Reason.String(), "too long") {
			t.Errorf("%q: %v", unit, err)
		}
	}
}
