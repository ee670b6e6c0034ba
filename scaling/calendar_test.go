package scaling

import (
	"fmt"
	"testing"
)

// FuzzClockMinutes: what is read is written the same way.
func FuzzClockMinutes(f *testing.F) {
	for _, s := range []string{"00:00", "24:00", "23:59", "7:00", "-1:00", "99:99", "1e:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ClockMinutes(s)
		if err == nil && fmt.Sprintf("%02d:%02d", m/60, m%60) != s {
			t.Errorf("%q was read as %d", s, m)
		}
	})
}
