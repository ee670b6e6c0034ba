package adminapi

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit/retention"
)

// The list of erasures is spelled as the API spells them, and read back.
func TestErasuresListed(t *testing.T) {
	subject := strings.Repeat("ab", 32)
	var list bytes.Buffer
	if err := WriteErasures(&list, []retention.Erasure{{Tenant: "demo", Subject: subject, Time: 1_767_225_600_000_001, Record: "r"}}); err != nil {
		t.Fatal(err)
	}
	want := `{"record":"r","subject":"` + subject + `","tenant":"demo","time":"2026-01-01T00:00:00.000001Z"}` + "\n"
	if list.String() != want {
		t.Errorf("%s, want %s", list.String(), want)
	}
	if got, err := ParseErasures(list.Bytes()); err != nil || len(got) != 1 || got[0].Tenant != "demo" || got[0].Subject != subject {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParseErasures(f *testing.F) {
	var list bytes.Buffer
	if err := WriteErasures(&list, []retention.Erasure{{Tenant: "demo", Subject: strings.Repeat("ab", 32), Time: 1, Record: "r"}, {Tenant: "x", Subject: strings.Repeat("0", 64)}}); err != nil {
		f.Fatal(err)
	}
	f.Add(list.Bytes())
	f.Add([]byte("{}\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseErasures(b)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteErasures(&out, got); err != nil {
			t.Fatal(err)
		}
		again, err := ParseErasures(out.Bytes())
		if err != nil || len(again) != len(got) {
			t.Fatalf("%d became %d: %v", len(got), len(again), err)
		}
		for i := range got {
			if len(got[i].Subject) != 64 || got[i].Tenant == "" || again[i].Subject != got[i].Subject {
				t.Fatalf("%+v", got[i])
			}
		}
	})
}
