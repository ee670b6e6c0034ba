package conform

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/internal/strictjson"
)

// Key signs reports, in the signed-note format and with Ed25519.
type Key struct {
	signer note.Signer
	public string
}

// algorithm is the signed-note format's byte for Ed25519.
const algorithm = 1

// NewKey makes the key of a seed of 32 bytes. Equal names and seeds give equal keys. The name has no spaces and no plus sign.
func NewKey(name string, seed []byte) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("a seed has %d bytes, not %d", len(seed), ed25519.SeedSize)
	}
	pub, _ := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey) // what it always is
	hash := sha256.Sum256(append([]byte(name+"\n"), append([]byte{algorithm}, pub...)...))
	return ParseKey(fmt.Sprintf("PRIVATE+KEY+%s+%x+%s", name, hash[:4], base64.StdEncoding.EncodeToString(append([]byte{algorithm}, seed...))))
}

// ParseKey reads a private key in the text form of the signed-note format. The error never has the text.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	s, err := note.NewSigner(text)
	if err != nil {
		return Key{}, errors.New("it is no private key of the signed-note format")
	}
	parts := strings.SplitN(text, "+", 5)
	raw, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return Key{}, errors.New("it is no private key of the signed-note format")
	}
	pub, _ := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	public, err := note.NewEd25519VerifierKey(s.Name(), pub)
	return Key{s, public}, err
}

// Public is the public half, as text.
func (k Key) Public() string { return k.public }

// signed is the file of a report.
type signed struct {
	Report    json.RawMessage `json:"report"`
	Signature string          `json:"signature,omitempty"` // a signed note; "" is a report that nobody answers for
}

// text is what is signed: what a reader wants to know, and the digest of everything.
func (r Report) text(canonical []byte) string {
	var b strings.Builder
	target := "software"
	if r.Target.Simulated {
		target = "simulator"
	}
	sum := sha256.Sum256(canonical)
	fmt.Fprintf(&b, "%s\nprofile %s %s\nbasis %s\ntarget %s\nversion %q\nhardware %q\ngrade %s\n", r.Format, r.Profile, r.Digest, r.Basis, target, r.Target.Version, r.Target.Hardware, r.Grade)
	for _, o := range r.Cases {
		fmt.Fprintf(&b, "CP-%d %s\n", o.Case, o.Result)
	}
	fmt.Fprintf(&b, "began %s\nreport sha256:%s\n", r.Began.UTC().Format("2006-01-02T15:04:05Z"), hex.EncodeToString(sum[:]))
	return b.String()
}

// Write returns the file of a report, signed if there is a key.
func (r Report) Write(key *Key) ([]byte, error) {
	canonical, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	file := signed{Report: canonical}
	if key != nil {
		n, err := note.Sign(&note.Note{Text: r.text(canonical)}, key.signer)
		if err != nil {
			return nil, fmt.Errorf("sign report: %w", err)
		}
		file.Signature = string(n)
	}
	return json.MarshalIndent(file, "", "  ")
}

// ErrNotSigned is the error of a report without a signature of the key that was asked for.
var ErrNotSigned = errors.New("the report has no valid signature of this key")

// Read reads the file of a report. With a public key, its signature has to be of that key and to cover what the file says; without one, nothing is
// proven.
func Read(file []byte, public string) (Report, error) {
	f, err := strictjson.Decode[signed](file)
	if err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	r, err := strictjson.Decode[Report](f.Report)
	if err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	if public == "" {
		return r, nil
	}
	v, err := note.NewVerifier(strings.TrimSpace(public))
	if err != nil {
		return Report{}, fmt.Errorf("the public key: %w", err)
	}
	n, err := note.Open([]byte(f.Signature), note.VerifierList(v))
	if err != nil {
		return Report{}, ErrNotSigned
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, f.Report); err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	if n.Text != r.text(compact.Bytes()) {
		return Report{}, ErrNotSigned
	}
	return r, nil
}

// Uses reports whether the report is of a profile as it is now.
func (r Report) Uses(p *profile.Profile) bool { return r.Profile == p.Name && r.Digest == p.Digest() }
