package labelfile

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/internal/testpython"
)

// otherTool is the implementation of the standard's authors (c2pa-rs): it reads files whose certificates it does not trust, and trusts, and signs one of each kind with a certificate of its own.
const otherTool = `
import c2pa, datetime, json, os, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
FORMATS = {"png": "image/png", "jpg": "image/jpeg", "pdf": "application/pdf"}
folder = sys.argv[2]
def settings(anchors):
    out = {"verify": {"verify_trust": True, "verify_after_sign": False}}
    if anchors:
        out["trust"] = {"user_anchors": anchors}
    return c2pa.Context(c2pa.Settings.from_dict(out))
def read(name, anchors):
    with open(os.path.join(folder, name), "rb") as f:
        found = json.loads(c2pa.Reader(FORMATS[name[-3:]], f, context=settings(anchors)).json())
    active = found["manifests"][found["active_manifest"]]
    failures = [x["code"] for x in found["validation_results"]["activeManifest"]["failure"]]
    return dict(state=found["validation_state"], failures=failures, manifests=len(found["manifests"]), assertions=[x["label"] for x in active["assertions"]],
                label=[x["data"] for x in active["assertions"] if x["label"] == "io.github.sluice-project.aigc"])
def certificate(name, issuer, key, signer, ca):
    full = lambda cn: x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Elsewhere"), x509.NameAttribute(NameOID.COMMON_NAME, cn)])
    b = x509.CertificateBuilder().subject_name(full(name)).issuer_name(full(issuer)).public_key(key.public_key()).serial_number(x509.random_serial_number())
    b = b.not_valid_before(datetime.datetime(2025, 1, 1)).not_valid_after(datetime.datetime(2060, 1, 1)).add_extension(x509.BasicConstraints(ca, None), True)
    b = b.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    b = b.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False)
    b = b.add_extension(x509.KeyUsage(not ca, False, False, False, False, ca, ca, False, False), True)
    if not ca:
        b = b.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), False)
    return b.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
if sys.argv[1] == "read":
    anchors = open(os.path.join(folder, "anchors.pem")).read()
    print(json.dumps({name: [read(name, None), read(name, anchors)] for name in sys.argv[3:]}))
else:
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    with open(os.path.join(folder, "elsewhere.pem"), "wb") as f:
        f.write(certificate("Root", "Root", root, root, True))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    signer = c2pa.Signer.from_info(c2pa.C2paSignerInfo(b"es256", certificate("Signer", "Root", key, root, False), private, None))
    for name in sys.argv[3:]:
        created = {"action": "c2pa.created", "digitalSourceType": "http://cv.iptc.org/newscodes/digitalsourcetype/digitalCreation"}
        manifest = {"claim_generator_info": [{"name": "elsewhere"}], "assertions": [{"label": "c2pa.actions", "data": {"actions": [created]}}]}
        with open(os.path.join(folder, name), "rb") as source, open(os.path.join(folder, "elsewhere-" + name), "w+b") as out:
            c2pa.Builder(manifest, context=settings(None)).sign(signer, FORMATS[name[-3:]], source, out)
`

// referenceReport is what the reference says of a file.
type referenceReport struct {
	State      string
	Failures   []string
	Manifests  int
	Assertions []string
	Label      []map[string]string
}

// TestReferenceReadsOurCredentials: the reference implementation finds our credentials valid, trusts them with our certificate, and says of a changed picture what we say; and we
// read what it signs, and keep it.
func TestReferenceReadsOurCredentials(t *testing.T) {
	t.Parallel()
	python, dir, a := testpython.Python(t, "c2pa", "c2pa"), t.TempDir(), authority(t, 9, 2026, 1)
	put := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(what string, names ...string) (out map[string][2]referenceReport) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, append([]string{"-W", "ignore", "-c", otherTool, what, dir}, names...)...)
		cmd.Stderr = os.Stderr
		b, err := cmd.Output()
		if err == nil && what == "read" {
			err = json.Unmarshal(b, &out)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		return out
	}
	put("anchors.pem", a.CertificatePEM())
	var own, changed, kept []string
	for _, name := range credentialled() {
		put(name, samples(t)[name])
		_, data := signedSample(t, name)
		put("ours-"+name, data)
		put("changed-"+name, repaint(t, name, data))
		own, changed = append(own, "ours-"+name), append(changed, "changed-"+name)
	}
	run("sign", credentialled()...)
	pem, err := os.ReadFile(filepath.Join(dir, "elsewhere.pem"))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := c2pa.ParseCertificates(pem)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range credentialled() {
		data, err := os.ReadFile(filepath.Join(dir, "elsewhere-"+name))
		if err != nil {
			t.Fatal(err)
		}
		report, carried, err := checked(t, name, data, a)
		if err != nil || report.State != c2pa.UnknownSigner || report.Signer != "Elsewhere" || report.Label != nil {
			t.Errorf("%s, signed elsewhere: %+v %v", name, report, err)
			continue
		}
		if got := c2pa.Check(data, *carried, c2pa.Anchors{Certificates: theirs}); got.State != c2pa.Trusted {
			t.Errorf("%s, signed elsewhere, with their certificate: %+v", name, got)
		}
		if report, _, err = checked(t, name, repaint(t, name, data), a); err != nil || report.Code != c2pa.CodeFileChanged {
			t.Errorf("%s, signed elsewhere and changed: %+v %v", name, report, err)
		}
		k, _ := Detect(name, data)
		both, err := signing(t).Write(k, data, ours(t), "")
		if err != nil {
			t.Errorf("%s, signed elsewhere and labelled here: %v", name, err)
			continue
		}
		put("kept-"+name, both.Data)
		kept = append(kept, "kept-"+name)
	}

	all := run("read", slices.Concat(own, changed, kept)...)
	for name, got := range all {
		before, with := got[0], got[1]
		switch {
		case slices.Contains(changed, name):
			if before.State != "Invalid" || !slices.Contains(before.Failures, string(c2pa.CodeFileChanged)) || with.State != "Invalid" {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		case before.State != "Valid" || !slices.Equal(before.Failures, []string{string(c2pa.CodeUntrusted)}), with.State != "Trusted" || len(with.Failures) > 0:
			t.Errorf("%s: %+v", name, got)
		}
		want := map[string]string{}
		for _, f := range ours(t).Fields() {
			want[f.Name] = f.Value
		}
		if len(with.Label) != 1 || len(with.Label[0]) != len(want) || with.Label[0]["ProduceID"] != want["ProduceID"] || !slices.Contains(with.Assertions, "c2pa.actions.v2") {
			t.Errorf("%s: %+v", name, with)
		}
		if slices.Contains(kept, name) != (with.Manifests == 2) {
			t.Errorf("%s has %d manifests", name, with.Manifests)
		}
	}
	if len(all) != 3*len(credentialled()) {
		t.Errorf("%d files were read", len(all))
	}
}
