package c2pa

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
)

// Config is what an authority is made of.
type Config struct {
	Keys *keyring.Ring
	// Producer is whom certificates of signers name as their organisation, as labels do.
	Producer string
	// Generation is the number of the signer within its year. Whoever raises it has another key sign from then on.
	Generation int
	// Revoked are the signers whose keys are known to others, as "2026-0": year and generation. What they signed proves nothing any more.
	Revoked []string
	Now     func() time.Time // nil means time.Now
}

// Authority is the certificate authority of an installation, and its signers.
type Authority struct {
	cfg  Config
	root *x509.Certificate
	key  ed25519.PrivateKey
	// revoked are the public keys of revoked signers.
	revoked map[string]bool
}

// Anchors are whom a check trusts. The zero value trusts nobody.
type Anchors struct {
	Certificates []*x509.Certificate
	revoked      map[string]bool // public keys
	now          func() time.Time
}

// ErrClock says that the clock shows a time for which the authority of an installation has no certificates.
var ErrClock = errors.New("c2pa: the clock of this computer is wrong: content credentials are signed in the years 2026 to 2074")

// The authority's certificate has fixed times, so that it is always the same one.
func rootFrom() time.Time  { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }
func rootUntil() time.Time { return time.Date(2075, 1, 1, 0, 0, 0, 0, time.UTC) }

// signerYears is how long the certificate of a signer is valid, and with it, for programs that ask, its manifests: they have no time stamp.
const signerYears = 10

// maxOrganisation is how many characters X.509 allows in the name of an organisation.
const maxOrganisation = 64

// Purposes of a signer's certificate. The standard wants one that names the signing of documents or claims.
func documentSigning() asn1.ObjectIdentifier { // RFC 9336
	return asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 36}
}

func claimSigning() asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 62558, 2, 1}
}

func microsoftC2PA() asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 76, 59, 1, 9}
}

// NewAuthority derives the authority of an installation.
func NewAuthority(cfg Config) (*Authority, error) {
	if cfg.Keys == nil || cfg.Producer == "" {
		return nil, errors.New("c2pa: an authority needs the master key and the name of the producer")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Authority{cfg: cfg, key: ed25519.NewKeyFromSeed(cfg.Keys.Derive("governance/label/c2pa/authority/v1"))}
	public := a.key.Public().(ed25519.PublicKey)
	id := keyID(public)
	template := &x509.Certificate{
		SerialNumber: serial("authority", public),
		Subject:      pkix.Name{Organization: []string{"Sluice"}, CommonName: "Sluice content credentials " + hex.EncodeToString(id[:8])},
		NotBefore:    rootFrom(), NotAfter: rootUntil(),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: id,
	}
	der, err := x509.CreateCertificate(nil, template, template, public, a.key) // Ed25519 needs no randomness
	if err != nil {
		return nil, fmt.Errorf("c2pa: make the authority's certificate: %w", err)
	}
	if a.root, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("c2pa: read the authority's certificate: %w", err)
	}
	a.revoked = map[string]bool{}
	for _, name := range cfg.Revoked {
		year, generation, ok := strings.Cut(name, "-")
		if !ok {
			return nil, fmt.Errorf("c2pa: %q names no signer: it takes a year and a number", name)
		}
		a.revoked[string(a.signerKey(year, generation).Public().(ed25519.PublicKey))] = true
	}
	return a, nil
}

// Anchors are the certificates that prove manifests of this installation, for [Check].
func (a *Authority) Anchors() Anchors {
	return Anchors{[]*x509.Certificate{a.root}, a.revoked, a.cfg.Now}
}

// signerName names the signer of a time, as [Config] does.
func (a *Authority) signerName(at time.Time) string {
	return fmt.Sprintf("%d-%d", at.UTC().Year(), a.cfg.Generation)
}

func (a *Authority) signerKey(year, generation string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(a.cfg.Keys.MAC("governance/label/c2pa/signer/v1", year, generation))
}

// CertificatePEM is the certificate of the authority for lists of trusted signers.
func (a *Authority) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root.Raw})
}

// signer returns the key that signs at a time, and its certificate. Error: ErrClock.
func (a *Authority) signer(at time.Time) (ed25519.PrivateKey, []byte, error) {
	year, generation := at.UTC().Year(), strconv.Itoa(a.cfg.Generation)
	if year <= rootFrom().Year() || year >= rootUntil().Year() { // its certificate begins in the year before
		return nil, nil, ErrClock
	}
	key := a.signerKey(strconv.Itoa(year), generation)
	public := key.Public().(ed25519.PublicKey)
	organisation := []rune(a.cfg.Producer)
	template := &x509.Certificate{
		SerialNumber: serial("signer", append([]byte(a.cfg.Producer+"\x00"), public...)),
		Subject: pkix.Name{
			Organization: []string{string(organisation[:min(len(organisation), maxOrganisation)])},
			CommonName:   fmt.Sprintf("Sluice content credentials %d-%s", year, generation),
		},
		// The month before is for clocks that differ, and so that the last hours of a year have no certificate of the future.
		NotBefore: time.Date(year-1, 12, 1, 0, 0, 0, 0, time.UTC), NotAfter: earlier(time.Date(year+signerYears, 1, 1, 0, 0, 0, 0, time.UTC), rootUntil()),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		// Programs that have their purposes from earlier versions of the standard know the signing of e-mail only.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}, UnknownExtKeyUsage: []asn1.ObjectIdentifier{claimSigning(), documentSigning()}, SubjectKeyId: keyID(public),
	}
	der, err := x509.CreateCertificate(nil, template, a.root, public, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("c2pa: make the signer's certificate: %w", err)
	}
	return key, der, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func keyID(public []byte) []byte {
	sum := sha256.Sum256(public)
	return sum[:20]
}

// serial is the number of a certificate: another one for each that is made.
func serial(kind string, of []byte) *big.Int {
	sum := sha256.Sum256(append([]byte(kind+"\x00"), of...))
	sum[0] = sum[0]&0x7f | 0x40 // positive, and always as long
	return new(big.Int).SetBytes(sum[:16])
}

// ParseCertificates reads the certificates of a PEM file, for [Check].
func ParseCertificates(text []byte) (out []*x509.Certificate, err error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read a certificate: %w", err)
		}
		out = append(out, one)
	}
	if len(out) == 0 || len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return out, nil
}
