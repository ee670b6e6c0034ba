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
	"github.com/sluice-project/sluice/governance/signature"
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
		signed, reason              string
		leads                       []string
		keys                        []signature.Key
	}
	own, err := signature.NewSigner(signature.EdDSA, bytes.Repeat([]byte{7}, signature.SeedSize))
	must(t, err)
	other, err := signature.NewSigner(signature.EdDSA, bytes.Repeat([]byte{8}, signature.SeedSize))
	must(t, err)
	sign := func(by *signature.Signer, tenant, text string) string {
		d := signature.NewDigester(by.Algorithm, 1)
		d.Text(0, text)
		signed, err := by.Sign(signature.Statement{
			Schema: signature.Schema, Tenant: tenant, Request: "r7", Digest: by.Algorithm.Digest(), Answers: []signature.Digests{d.Digests(0, "stop")},
		}, signature.JWS)
		must(t, err)
		return signed
	}
	good := sign(own, "demo", "a")
	forged := strings.Replace(sign(other, "demo", "a"), strings.Split(sign(other, "demo", "a"), ".")[0], strings.Split(good, ".")[0], 1) // names the key of the tenant
	is := func(signed, reason string, leads ...string) func(m *made) {
		return func(m *made) { m.signed, m.reason, m.leads = signed, reason, leads }
	}
	check := func(subject []byte, beside string, keySet []byte) (ProvenanceSigned, error) {
		x, err := signature.Inspect(subject, beside, keySet)
		return ProvenanceSigned(x), err
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

		"signed":                          {is(good, "signature_own", "r7"), ""},
		"forged":                          {is(forged, "signature_own", "r7"), `signature that is "altered"`},
		"forged, and said so":             {is(forged, "signature_cut"), ""},
		"good, and said to be forged":     {is(good, "signature_cut"), `is "authentic"`},
		"signed and not mentioned":        {is(good, "signature_none"), `is "authentic"`},
		"mentioned and not there":         {is("", "signature_own", "r7"), `is "none"`},
		"without a word about signatures": {is("", ""), `is "none"`},
		"of another text":                 {is(sign(own, "demo", "b"), "signature_own", "r7"), "covers the text: false"},
		"of another text, and said so":    {is(sign(own, "demo", "b"), "signature_text", "r7"), ""},
		"of a text in a file":             {is(sign(own, "demo", "b"), "signature_read", "r7"), ""},
		"of another request":              {is(good, "signature_own", "r8"), "another request"},
		"signed for another tenant":       {is(sign(own, "acme", "a"), "signature_own", "r7"), `is "authentic"`},
		"signed for another, and said so": {is(sign(own, "acme", "a"), "signature_key"), ""},
		"by another key":                  {is(sign(other, "demo", "a"), "signature_own", "r7"), `is "unknown_key"`},
		"by another key, and said so":     {is(sign(other, "demo", "a"), "signature_key"), ""},
		"no signature":                    {is("a.b.c", "signature_own", "r7"), `is "malformed"`},
		"by a key that was revoked": {func(m *made) {
			is(good, "signature_own", "r7")(m)
			m.keys[0].Revoked = time.Unix(1_700_000_000, 0)
		}, `is "revoked"`},
		"without keys": {func(m *made) { is(good, "signature_own", "r7")(m); m.keys = nil }, "signature"},
	} {
		t.Run(name, func(t *testing.T) {
			m := made{"demo", "unchanged", "a", "", []string{"record-6"}, map[string][]byte{"records/a-1.json": proof}, "", "signature_none", nil, []signature.Key{own.Key}}
			c.change(&m)
			sum := sha256.Sum256([]byte(m.subject))
			verdict, err := json.Marshal(map[string]any{
				"schema": "sluice.provenance/1", "tenant": m.tenant, "conclusion": m.conclusion, "subject": map[string]any{"sha256": hex.EncodeToString(sum[:])},
				"marks":    map[string]any{"signature": map[string]any{"reason": m.reason, "requests": m.leads}},
				"requests": []any{map[string]any{"id": m.request, "records": m.records}},
			})
			must(t, err)
			files := map[string][]byte{"subject.txt": []byte("a"), ProvenanceVerdict: verdict}
			for name, text := range m.proofs {
				files[name] = text
			}
			if m.signed != "" {
				files[ProvenanceSignature] = []byte(m.signed)
			}
			if m.keys != nil {
				set, err := signature.MarshalKeys(m.keys)
				must(t, err)
				files[ProvenanceKeys] = set
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
			got, err := VerifyProvenance(b, int64(out.Len()), signer.Verifier(), checkpoint.Witnesses{}, check, &r)
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
