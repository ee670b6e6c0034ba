package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

// TestProvenance: a parcel with a verdict says one thing, or its problems are named. Whoever has the key of the log could sign anything; so each of these is
// signed as it is.
func TestProvenance(t *testing.T) {
	signer := newSigner(t, 1)
	w, err := checkpoint.NewWitness("witness.example", bytes.Repeat([]byte{9}, 32), time.Now)
	must(t, err)
	proof, err := json.Marshal(proofOf(t, signer, w))
	must(t, err)
	strange, err := json.Marshal(proofOf(t, newSigner(t, 2), w))
	must(t, err)
	type made struct {
		tenant, conclusion, subject string
		request                     string
		records                     []string
		proofs                      map[string][]byte
	}
	for name, c := range map[string]struct {
		change func(m *made)
		want   string
	}{
		"good":                 {func(*made) {}, ""},
		"of another tenant":    {func(m *made) { m.tenant = "acme" }, "something else"},
		"another conclusion":   {func(m *made) { m.conclusion = "derived" }, "something else"},
		"another subject":      {func(m *made) { m.subject = "b" }, "something else"},
		"another request":      {func(m *made) { m.request = "r2" }, "another tenant or request"},
		"without proof":        {func(m *made) { m.proofs = nil }, "no proof"},
		"another record":       {func(m *made) { m.records = []string{"record-7"} }, "no proof"},
		"a record too many":    {func(m *made) { m.records = nil }, "does not name"},
		"proof of another log": {func(m *made) { m.proofs["records/a-1.json"] = strange }, "checkpoint"},
		"no proof at all":      {func(m *made) { m.proofs["records/a-1.json"] = []byte("{}") }, "read proof"},
	} {
		t.Run(name, func(t *testing.T) {
			m := made{"demo", "unchanged", "a", "", []string{"record-6"}, map[string][]byte{"records/a-1.json": proof}}
			c.change(&m)
			sum := sha256.Sum256([]byte(m.subject))
			verdict, err := json.Marshal(map[string]any{
				"schema": "sluice.provenance/1", "tenant": m.tenant, "conclusion": m.conclusion, "subject": map[string]any{"sha256": hex.EncodeToString(sum[:])},
				"requests": []any{map[string]any{"id": m.request, "records": m.records}},
			})
			must(t, err)
			files := map[string][]byte{"subject.txt": []byte("a"), ProvenanceVerdict: verdict}
			for name, text := range m.proofs {
				files[name] = text
			}
			var out bytes.Buffer
			p := NewParcelWriter(&out, ProvenanceKind, map[string]string{"tenant": "demo", "conclusion": "unchanged"}, time.Unix(1_800_000_000, 0))
			for name, text := range files {
				w, err := p.Create(name)
				must(t, err)
				_, err = io.Copy(w, bytes.NewReader(text))
				must(t, err)
			}
			_, _, err = p.Close(signer.Verifier().Origin(), signer.Key(), signer.SignText)
			must(t, err)
			b := bytes.NewReader(out.Bytes())
			r, err := VerifyParcel(b, int64(out.Len()), signer.Verifier())
			must(t, err)
			if !r.OK {
				t.Fatalf("%+v", r.Problems)
			}
			got, err := VerifyProvenance(b, int64(out.Len()), signer.Verifier(), checkpoint.Witnesses{}, &r)
			must(t, err)
			if c.want == "" && (!r.OK || len(got.Records) != 1 || got.Tenant != "demo") {
				t.Errorf("%+v %+v", r, got)
			}
			said := ""
			for _, p := range r.Problems {
				said += p.Kind + ": " + p.Cause + "\n"
			}
			if c.want != "" && (r.OK || !strings.Contains(said, c.want)) {
				t.Errorf("%+v", r)
			}
		})
	}
}
