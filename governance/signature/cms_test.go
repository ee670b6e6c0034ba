package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emmansun/gmsm/pkcs7"
	"github.com/emmansun/gmsm/smx509"

	"github.com/sluice-project/sluice/migrations/dbtest"
)

// der is a message about said, as bytes.
func der(t testing.TB, a Algorithm) []byte {
	t.Helper()
	out, err := base64.StdEncoding.DecodeString(sign(t, signer(t, a, 7), statement(a, said()), CMS))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEveryByteOfAMessage: whatever byte of a message is another one, or is missing, nothing is proved. The bytes may be given as they are.
func TestEveryByteOfAMessage(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms() {
		keys := []Key{signer(t, a, 7).Key}
		whole := der(t, a)
		if x, err := Verify(string(whole), keys); err != nil || !x.Matches(said()) {
			t.Fatalf("%s: %+v, %v", a, x, err)
		}
		for i := range whole {
			for _, bit := range []byte{1, 0x20, 0x80} {
				changed := bytes.Clone(whole)
				changed[i] ^= bit
				for _, text := range []string{string(changed), base64.StdEncoding.EncodeToString(changed)} {
					if _, err := Verify(text, keys); err == nil {
						t.Fatalf("%s: byte %d may be %#x in place of %#x", a, i, changed[i], whole[i])
					}
				}
			}
			if _, err := Verify(base64.StdEncoding.EncodeToString(append(bytes.Clone(whole[:i]), whole[i+1:]...)), keys); err == nil {
				t.Fatalf("%s: byte %d may be missing", a, i)
			}
		}
	}
}

// TestKeptFormOfMessages holds the form to messages that the first release with them made.
func TestKeptFormOfMessages(t *testing.T) {
	t.Parallel()
	for a, want := range map[Algorithm]string{EdDSA: "66940752ea68100dc00f17eef1a285f81aecb820b275d6dc43a83a4bb256e0d3", SM2SM3: "590f1c3e765d110ed482a551b818873e228688f93b7d3d28c678ba79ed09882e"} {
		if sum := sha256.Sum256(der(t, a)); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: the form has changed: %x", a, sum)
		}
	}
}

// TestTheirReadersOfMessages: readers that are not ours find the statement, the certificate and the signatures.
func TestTheirReadersOfMessages(t *testing.T) {
	t.Parallel()
	t.Run("SM2", func(t *testing.T) {
		t.Parallel()
		whole := der(t, SM2SM3)
		p, err := pkcs7.Parse(whole)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Verify(); err != nil || !strings.Contains(string(p.Content), `"receipt":"a1"`) {
			t.Errorf("%v: %s", err, p.Content)
		}
		trusted := smx509.NewCertPool()
		trusted.AddCert(p.GetOnlySigner())
		if err := p.VerifyWithChain(trusted); err != nil {
			t.Errorf("with its certificate as the root: %v", err)
		}
		if got := p.GetOnlySigner(); got.Subject.CommonName != signer(t, SM2SM3, 7).ID || got.CheckSignature(got.SignatureAlgorithm, got.RawTBSCertificate, got.Signature) != nil || got.IsCA {
			t.Errorf("%+v", got)
		}
		p.Content = append(p.Content, ' ')
		if p.Verify() == nil {
			t.Error("that reader takes anything")
		}
	})
	t.Run("Ed25519", func(t *testing.T) {
		t.Parallel()
		theirReaderOfEd25519(t, der(t, EdDSA))
	})
	t.Run("openssl", func(t *testing.T) {
		t.Parallel()
		dbtest.Programs(t, "openssl")
		file := filepath.Join(t.TempDir(), "message.der")
		if err := os.WriteFile(file, der(t, EdDSA), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "openssl", "cms", "-cmsout", "-print", "-noout", "-inform", "DER", "-in", file).CombinedOutput()
		for _, want := range []string{"pkcs7-signedData", "CN=" + signer(t, EdDSA, 7).ID, "signingTime", "ED25519", "X509v3 Basic Constraints"} {
			if err != nil || !strings.Contains(strings.ReplaceAll(string(out), " = ", "="), want) {
				t.Errorf("%v, no %q in %s", err, want, out)
			}
		}
	})
}

// theirReaderOfEd25519 checks a message by RFC 5652, 5.4 and 5.6, with the decoder, the certificates and the keys of the standard library.
func theirReaderOfEd25519(t *testing.T, whole []byte) {
	t.Helper()
	type attribute struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue `asn1:"set"`
	}
	type algorithm struct{ Algorithm asn1.ObjectIdentifier }
	var m struct {
		Type    asn1.ObjectIdentifier
		Content struct {
			Version int
			Digests []algorithm `asn1:"set"`
			Data    struct {
				Type    asn1.ObjectIdentifier
				Content []byte `asn1:"explicit,tag:0"`
			}
			Certificates asn1.RawValue `asn1:"tag:0"`
			Signers      []struct {
				Version int
				By      struct {
					Issuer asn1.RawValue
					Serial *big.Int
				}
				Digest     algorithm
				Attributes asn1.RawValue `asn1:"tag:0"`
				Algorithm  algorithm
				Signature  []byte
			} `asn1:"set"`
		} `asn1:"explicit,tag:0"`
	}
	rest, err := asn1.Unmarshal(whole, &m)
	if err != nil || len(rest) > 0 || len(m.Content.Signers) != 1 || m.Content.Version != 1 {
		t.Fatalf("%v, %d bytes too many: %+v", err, len(rest), m)
	}
	by := m.Content.Signers[0]
	certificate, err := x509.ParseCertificate(m.Content.Certificates.Bytes)
	if err != nil || certificate.CheckSignature(x509.PureEd25519, certificate.RawTBSCertificate, certificate.Signature) != nil || certificate.IsCA || certificate.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment {
		t.Fatalf("%v: %+v", err, certificate)
	}
	if !bytes.Equal(certificate.RawIssuer, by.By.Issuer.FullBytes) || certificate.SerialNumber.Cmp(by.By.Serial) != 0 || certificate.Subject.CommonName != signer(t, EdDSA, 7).ID {
		t.Errorf("the signer is %v, the certificate is of %v", by.By, certificate.Subject)
	}
	set := append([]byte{0x31}, by.Attributes.FullBytes[1:]...)
	if public, ok := certificate.PublicKey.(ed25519.PublicKey); !ok || !ed25519.Verify(public, set, by.Signature) {
		t.Error("the key of the certificate did not sign the attributes")
	}
	var attributes []attribute
	if rest, err := asn1.UnmarshalWithParams(set, &attributes, "set"); err != nil || len(rest) > 0 || len(attributes) != 3 {
		t.Fatalf("%v: %+v", err, attributes)
	}
	var kind asn1.ObjectIdentifier
	var digest []byte
	var at time.Time
	for i, into := range []any{&kind, &at, &digest} {
		if _, err := asn1.Unmarshal(attributes[i].Value.Bytes, into); err != nil {
			t.Errorf("attribute %v: %v", attributes[i].Type, err)
		}
	}
	if sum := sha512.Sum512(m.Content.Data.Content); !bytes.Equal(sum[:], digest) || !kind.Equal(m.Content.Data.Type) || at.Unix() != 1_795_000_000 {
		t.Errorf("%v at %v", kind, at)
	}
}

// TestMessagesOfOthers: what another key, or nobody, signed is refused, wherever it stands.
func TestMessagesOfOthers(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms() {
		s, other := signer(t, a, 7), signer(t, a, 8)
		x := statement(a, said())
		stranger := *other
		stranger.ID = s.ID // his key and signatures under our name
		if _, err := Verify(sign(t, &stranger, x, CMS), []Key{s.Key}); err == nil {
			t.Errorf("%s: a stranger signs in our name", a)
		}
		named := other.Key
		named.ID = "sk_zz"
		if m, err := named.message(nil, 0, nil, nil); err != nil || len(m) == 0 {
			t.Errorf("a name that is no digest: %v", err)
		}
		for _, bad := range []string{"", "MIIB", "0\x82", "0\x82\xff\xff", strings.Repeat("0\x82\x01\x01", 1<<14)} {
			if _, err := Verify(bad, []Key{s.Key}); err == nil {
				t.Errorf("%.20q was taken", bad)
			}
		}
	}
	later := statement(EdDSA, said())
	later.Time = time.Date(2060, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro()
	s := signer(t, EdDSA, 7)
	if got, err := Verify(sign(t, s, later, CMS), []Key{s.Key}); err != nil || got.Time != later.Time {
		t.Errorf("%v, %v", got.Time, err)
	}
}
