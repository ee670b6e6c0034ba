package number

import "testing"

// TestCheckDigits holds each check to a number that its standard prints, and to what every one of them promises: that one wrong digit shows.
func TestCheckDigits(t *testing.T) {
	for _, c := range []struct {
		name, printed string
		holds         func(s string) bool
	}{
		{"ISO/IEC 7812", "79927398713", Luhn},
		{"GB 11643", "11010519491231002X", func(s string) bool { return residentCheck(s) == s[17] }},
		{"GB 11643", "440524188001010014", func(s string) bool { return residentCheck(s) == s[17] }},
		{"GB 32100", "91350100M000100Y43", func(s string) bool { return usccCheck([]byte(s)) }},
		{"GB 11714", "D2143569X", func(s string) bool { return organisationCheck([]byte(s)) }},
		{"ISO 7064, MOD 11,10", "07945", mod1110},
		{"ISO 3779", "1M8GDM9AXKP042788", func(s string) bool { return vinCheck([17]byte([]byte(s))) == s[8] }},
	} {
		if !c.holds(c.printed) {
			t.Errorf("%s: %s does not hold", c.name, c.printed)
		}
		for i, was := range []byte(c.printed) {
			for d := byte('0'); d <= '9' && was <= '9'; d++ {
				if wrong := c.printed[:i] + string(d) + c.printed[i+1:]; d != was && c.holds(wrong) {
					t.Errorf("%s: %s holds, too", c.name, wrong)
				}
			}
		}
	}
}

func TestDates(t *testing.T) {
	for date, want := range map[string]bool{
		"19491231": true, "20000229": true, "20240229": true, "19000229": false, "20230229": false, "20240431": false, "20241301": false, "20240100": false,
		"18991231": false, "21000101": false,
	} {
		if got := validDate8([]byte(date)); got != want {
			t.Errorf("%s: %t", date, got)
		}
	}
}
