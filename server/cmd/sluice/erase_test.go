package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit"
)

func TestEraseWantsOneOfThree(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--tenant", "demo"}, {"--subject", "alice"}, {"--list", "--again", "x"}, {"--tenant", "demo", "--subject", "alice", "--list"},
	} {
		r := runCommand(t.Context(), nil, "", append([]string{"audit", "erase"}, args...)...)
		if r.code == exitOK || !strings.Contains(r.err, "--subject, or --list, or --again") {
			t.Errorf("%v: %d %s", args, r.code, r.err)
		}
	}
}

func FuzzParseErasures(f *testing.F) {
	var list bytes.Buffer
	if err := printErasures(&list, []audit.Erasure{{Tenant: "demo", Subject: strings.Repeat("ab", 32), Time: 1, Record: "r"}, {Tenant: "x", Subject: strings.Repeat("0", 64)}}); err != nil {
		f.Fatal(err)
	}
	f.Add(list.Bytes())
	f.Add([]byte("{}\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseErasures(b)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := printErasures(&out, got); err != nil {
			t.Fatal(err)
		}
		again, err := parseErasures(out.Bytes())
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
