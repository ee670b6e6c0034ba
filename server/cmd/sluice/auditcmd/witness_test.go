package auditcmd

import (
	"strings"
	"testing"
)

// TestWitnessFlags covers what is read out of flags that are well-formed.
func TestWitnessFlags(t *testing.T) {
	for address, want := range map[string]string{
		"https://sluice.example":            "https://sluice.example/api/v1/audit/log",
		"https://sluice.example/":           "https://sluice.example/api/v1/audit/log",
		"http://127.0.0.1:8080":             "http://127.0.0.1:8080/api/v1/audit/log",
		"https://log.example/2026/":         "https://log.example/2026",
		"https://x/sluice/api/v1/audit/log": "https://x/sluice/api/v1/audit/log",
		"sluice.example":                    "", "ftp://x": "", "": "", "https://x?y": "", "https://": "",
	} {
		if got, err := logAddress(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
	const base64Root, hexRoot = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	a, err := firstTree(7, base64Root)
	if b, berr := firstTree(7, hexRoot); err != nil || berr != nil || a != b || a.Size != 7 {
		t.Errorf("%v %v, %v %v", a, err, b, berr)
	}
	if none, err := firstTree(0, ""); err != nil || none.Size != 0 {
		t.Errorf("%v %v", none, err)
	}
	for _, c := range []struct {
		size int64
		root string
	}{{0, hexRoot}, {-1, hexRoot}, {7, ""}, {7, "x"}, {7, hexRoot[2:]}} {
		if _, err := firstTree(c.size, c.root); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	for _, f := range []witnessFlags{
		{tokenFile: "a", user: "b", passwordFile: "c"}, {user: "b"}, {passwordFile: "c"},
	} {
		if _, err := f.token("https://x" + logPath); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	if _, err := (witnessFlags{user: "b", passwordFile: "c"}).token("https://x/log"); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Error(err)
	}
}
