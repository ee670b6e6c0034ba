package cpuname

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{
		"processor\t: 0\nmodel name\t: Some CPU\n\nprocessor\t: 1\nmodel name\t: Other\n": "Some CPU",
		"cpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Xeon\nflags\t: fpu\n":             "Xeon (family 6, model 207)",
		"Model Name\t\t: Loongson-3A6000\n":                                               "Loongson-3A6000",
		"processor\t: 0\nCPU implementer\t: 0x48\nCPU part\t: 0xd01\n":                    "implementer 0x48 part 0xd01",
		"": "unknown CPU",
	} {
		if got := parse([]byte(info)); got != want {
			t.Errorf("%q: %q", info, got)
		}
	}
}
