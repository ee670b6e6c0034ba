package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/signature"
)

// TestSignedAnswers: an answer is checked with the published keys alone, as a text or as the body that a program has kept.
func TestSignedAnswers(t *testing.T) {
	t.Parallel()
	const said = "The parcel has come.\n"
	for i, algorithm := range []signature.Algorithm{signature.EdDSA, signature.SM2SM3, signature.EdDSA, signature.SM2SM3} {
		form := []signature.Form{signature.JWS, signature.CMS}[i/2]
		signer, err := signature.NewSigner(algorithm, bytes.Repeat([]byte{7}, signature.SeedSize))
		must(t, err)
		digests := signature.NewDigester(algorithm, 1)
		digests.Text(0, said)
		signed, err := signer.Sign(signature.Statement{
			Schema: signature.Schema, Issuer: "sluice.example/\x1b[2Jaudit", Tenant: "acme", Request: "r1", Receipt: "a1", Time: 1_795_000_000_000_000,
			Digest: algorithm.Digest(), Answers: []signature.Digests{digests.Digests(0, "stop")},
		}, form)
		must(t, err)
		body, err := json.Marshal(map[string]any{
			"choices": []any{map[string]any{"message": map[string]string{"content": said}}}, "sluice": map[string]string{"signature": signed},
		})
		must(t, err)
		revoked := signer.Key
		revoked.Revoked = time.Unix(1_795_000_000, 0)
		dir := t.TempDir()
		file := func(name string, content []byte) string {
			path := filepath.Join(dir, name)
			must(t, os.WriteFile(path, content, 0o600))
			return path
		}
		set := func(name string, keys ...signature.Key) string {
			text, err := signature.MarshalKeys(keys)
			must(t, err)
			return file(name, text)
		}
		keys, none, void := set("keys.json", signer.Key), set("none.json"), set("revoked.json", revoked)
		text, whole, sig := file("answer.txt", []byte(said)), file("answer.json", body), file("answer.sig", []byte(signed+"\n"))
		other := file("other.txt", []byte(strings.TrimSpace(said)))
		otherBody := file("other.json", bytes.Replace(body, []byte("parcel"), []byte("Parcel"), 1))
		for _, c := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"--keys", keys, "--signature", sig, text}, exitProven, "receipt / 回执: a1"},
			{[]string{"--keys", keys, whole}, exitProven, "signed by"},
			{[]string{"--keys", keys, "--json", whole}, exitProven, `"ok": true`},
			{[]string{"--keys", keys, "--signature", sig, other}, exitProblems, "签名真实，但对应另一回答"},
			{[]string{"--keys", keys, otherBody}, exitProblems, "not the answer"},
			{[]string{"--keys", none, whole}, exitProblems, "not among the given ones"},
			{[]string{"--keys", void, whole}, exitProblems, "已被吊销"},
			{[]string{"--keys", keys, "--signature", text, text}, exitProblems, "not a signed result"},
			{[]string{"--keys", keys, text}, exitFailed, "--signature FILE"},
			{[]string{"--keys", text, whole}, exitFailed, "not a set of public keys"},
			{[]string{"--signature", sig, text}, exitFailed, "needs --keys"},
		} {
			var out, errs bytes.Buffer
			if code := run(t.Context(), c.args, &out, &errs, false); code != c.code || !strings.Contains(out.String()+errs.String(), c.says) {
				t.Errorf("%s %q: %d, %s%s", algorithm, c.args, code, out.String(), errs.String())
			}
			if strings.ContainsRune(out.String(), '\x1b') {
				t.Errorf("%q: a terminal would obey %q", c.args, out.String())
			}
		}
	}
}
