package billing

import (
	"math"
	"testing"
)

func TestMoneyIsADecimal(t *testing.T) {
	t.Parallel()
	for m, want := range map[Money]string{
		0: "0", 1: "0.000000001", -1: "-0.000000001", 1_500_000_000: "1.5", 12_000_000_000: "12", 100_000_000_000: "100", -1_000_000_001: "-1.000000001",
		math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808",
	} {
		got := m.Decimal()
		if got != want {
			t.Errorf("%d: %s, want %s", m, got, want)
		}
		if back, err := ParseMoney(got); m >= 0 && (err != nil || back != m) {
			t.Errorf("%s is read as %d, %v", got, back, err)
		}
	}
	for _, bad := range []string{"", "x", "-1", "1e3", "1/2", "0x10", "1_000", "0.0000000001", "9223372036.854775808"} {
		if m, err := ParseMoney(bad); err == nil {
			t.Errorf("%q is read as %d", bad, m)
		}
	}
}
