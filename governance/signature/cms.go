package signature

import (
	"bytes"
	"crypto/sha512"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/emmansun/gmsm/sm3"
	"golang.org/x/crypto/cryptobyte"
	tags "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/sluice-project/sluice/internal/strictjson"
)

// The Cryptographic Message Syntax (RFC 5652) wraps a statement so that archives and courts' systems read it: SignedData with the statement inside, one
// signer, and a certificate that the key has signed for itself. Ed25519 is used as RFC 8419 says, SM2 with the object identifiers of GB/T 35275. The issuer
// of the certificate is the name of the key, its serial number the digest in that name. It says nothing of the key's validity: the published keys do.
//
// Apart from the statement and the two signatures nothing in such a message is free, so a message is checked by making it once more: there is no byte that
// could be another one, and no parser that reads what nobody compares.

// cmsForm is what messages of an algorithm differ in.
type cmsForm struct {
	signedData, data asn1.ObjectIdentifier
	digest           asn1.ObjectIdentifier
	sum              func([]byte) []byte
	signature        asn1.ObjectIdentifier   // of content
	certificate      asn1.ObjectIdentifier   // signature of the certificate
	publicKey        []asn1.ObjectIdentifier // the algorithm, and the curve
}

func (a Algorithm) cms() cmsForm {
	if a == SM2SM3 {
		return cmsForm{
			signedData: asn1.ObjectIdentifier{1, 2, 156, 10197, 6, 1, 4, 2, 2}, data: asn1.ObjectIdentifier{1, 2, 156, 10197, 6, 1, 4, 2, 1},
			digest:    asn1.ObjectIdentifier{1, 2, 156, 10197, 1, 401},
			sum:       func(b []byte) []byte { sum := sm3.Sum(b); return sum[:] },
			signature: asn1.ObjectIdentifier{1, 2, 156, 10197, 1, 301, 1}, certificate: asn1.ObjectIdentifier{1, 2, 156, 10197, 1, 501},
			publicKey: []asn1.ObjectIdentifier{{1, 2, 840, 10045, 2, 1}, {1, 2, 156, 10197, 1, 301}},
		}
	}
	ed25519 := asn1.ObjectIdentifier{1, 3, 101, 112}
	return cmsForm{
		signedData: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}, data: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1},
		digest:    asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3},
		sum:       func(b []byte) []byte { sum := sha512.Sum512(b); return sum[:] },
		signature: ed25519, certificate: ed25519,
		publicKey: []asn1.ObjectIdentifier{ed25519},
	}
}

var (
	oidCommonName    = asn1.ObjectIdentifier{2, 5, 4, 3}                 //nolint:gochecknoglobals // constants of X.500 and PKCS #9
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3} //nolint:gochecknoglobals // likewise
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4} //nolint:gochecknoglobals // likewise
	oidSigningTime   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 5} //nolint:gochecknoglobals // likewise
)

// certified is the time from which certificates are valid, before any key of this product; they end when time does (RFC 5280, 4.1.2.5).
const (
	certifiedFrom  = "200101000000Z"
	certifiedUntil = "99991231235959Z"
)

// signCMS returns the message with a statement, in base64.
func (s *Signer) signCMS(x Statement) (string, error) {
	content, err := json.Marshal(x)
	if err != nil {
		return "", err
	}
	tbs, err := s.certificateBody()
	if err != nil {
		return "", err
	}
	attributes, err := s.attributes(content, x.Time)
	if err != nil {
		return "", err
	}
	ofCertificate, err := s.signDER(tbs)
	if err != nil {
		return "", err
	}
	ofContent, err := s.signDER(attributes)
	if err != nil {
		return "", err
	}
	der, err := s.message(content, x.Time, ofCertificate, ofContent)
	return base64.StdEncoding.EncodeToString(der), err
}

// signDER signs, and writes the signature as ASN.1 has it.
func (s *Signer) signDER(msg []byte) ([]byte, error) {
	sig, err := s.sign(msg)
	if err != nil || s.Algorithm != SM2SM3 {
		return sig, err
	}
	return nested(sig)
}

// verifyDER reports whether sig, as signDER writes it, is a signature of msg by the key.
func (k Key) verifyDER(msg, sig []byte) bool {
	if k.Algorithm == SM2SM3 {
		numbers, err := flat(sig)
		if err != nil {
			return false
		}
		sig = numbers
	}
	return k.verify(msg, sig)
}

// message puts a message together.
func (k Key) message(content []byte, at int64, ofCertificate, ofContent []byte) ([]byte, error) {
	f := k.Algorithm.cms()
	tbs, err := k.certificateBody()
	if err != nil {
		return nil, err
	}
	attributes, err := k.attributes(content, at)
	if err != nil {
		return nil, err
	}
	attributes[0] = byte(tags.Tag(0).ContextSpecific().Constructed()) // they are signed as a set and stand there as a member of the signer
	var b cryptobyte.Builder
	sequence(&b, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(f.signedData)
		b.AddASN1(tags.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
			sequence(b, func(b *cryptobyte.Builder) {
				b.AddASN1Int64(1)
				b.AddASN1(tags.SET, func(b *cryptobyte.Builder) { algorithm(b, f.digest) })
				sequence(b, func(b *cryptobyte.Builder) {
					b.AddASN1ObjectIdentifier(f.data)
					b.AddASN1(tags.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) { b.AddASN1OctetString(content) })
				})
				b.AddASN1(tags.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
					sequence(b, func(b *cryptobyte.Builder) {
						b.AddBytes(tbs)
						algorithm(b, f.certificate)
						b.AddASN1BitString(ofCertificate)
					})
				})
				b.AddASN1(tags.SET, func(b *cryptobyte.Builder) {
					sequence(b, func(b *cryptobyte.Builder) {
						b.AddASN1Int64(1)
						sequence(b, func(b *cryptobyte.Builder) { k.addName(b); k.addSerial(b) })
						algorithm(b, f.digest)
						b.AddBytes(attributes)
						algorithm(b, f.signature)
						b.AddASN1OctetString(ofContent)
					})
				})
			})
		})
	})
	return b.Bytes()
}

// certificateBody is what the certificate of a key says, without its signature.
func (k Key) certificateBody() ([]byte, error) {
	f := k.Algorithm.cms()
	var b cryptobyte.Builder
	sequence(&b, func(b *cryptobyte.Builder) {
		b.AddASN1(tags.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) { b.AddASN1Int64(2) }) // version 3
		k.addSerial(b)
		algorithm(b, f.certificate)
		k.addName(b)
		sequence(b, func(b *cryptobyte.Builder) {
			b.AddASN1(tags.UTCTime, func(b *cryptobyte.Builder) { b.AddBytes([]byte(certifiedFrom)) })
			b.AddASN1(tags.GeneralizedTime, func(b *cryptobyte.Builder) { b.AddBytes([]byte(certifiedUntil)) })
		})
		k.addName(b)
		sequence(b, func(b *cryptobyte.Builder) {
			algorithm(b, f.publicKey...)
			b.AddASN1BitString(k.Public)
		})
		// The key signs data and nothing else: no certificates of others.
		b.AddASN1(tags.Tag(3).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
			sequence(b, func(b *cryptobyte.Builder) {
				extension(b, asn1.ObjectIdentifier{2, 5, 29, 15}, []byte{byte(tags.BIT_STRING), 2, 6, 0xc0}) // digital signature, content commitment
				extension(b, asn1.ObjectIdentifier{2, 5, 29, 19}, []byte{byte(tags.SEQUENCE), 0})            // no authority
			})
		})
	})
	return b.Bytes()
}

// attributes is what is signed: the kind of content, its digest and the time, in the order of their encodings.
func (k Key) attributes(content []byte, at int64) ([]byte, error) {
	f := k.Algorithm.cms()
	when := time.UnixMicro(at).UTC()
	each := make([][]byte, 3)
	for i, a := range []struct {
		id    asn1.ObjectIdentifier
		value func(*cryptobyte.Builder)
	}{
		{oidContentType, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(f.data) }},
		{oidMessageDigest, func(b *cryptobyte.Builder) { b.AddASN1OctetString(f.sum(content)) }},
		{oidSigningTime, func(b *cryptobyte.Builder) {
			if when.Year() < 1950 || when.Year() > 2049 { // RFC 5652, 11.3
				b.AddASN1GeneralizedTime(when)
				return
			}
			b.AddASN1UTCTime(when)
		}},
	} {
		var b cryptobyte.Builder
		sequence(&b, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(a.id)
			b.AddASN1(tags.SET, a.value)
		})
		one, err := b.Bytes()
		if err != nil {
			return nil, fmt.Errorf("write the attribute %s: %w", a.id, err)
		}
		each[i] = one
	}
	slices.SortFunc(each, bytes.Compare)
	var b cryptobyte.Builder
	b.AddASN1(tags.SET, func(b *cryptobyte.Builder) { b.AddBytes(slices.Concat(each...)) })
	return b.Bytes()
}

func sequence(b *cryptobyte.Builder, of func(*cryptobyte.Builder)) { b.AddASN1(tags.SEQUENCE, of) }

// algorithm writes an identifier, with a second one as its parameter if there is one.
func algorithm(b *cryptobyte.Builder, ids ...asn1.ObjectIdentifier) {
	sequence(b, func(b *cryptobyte.Builder) {
		for _, id := range ids {
			b.AddASN1ObjectIdentifier(id)
		}
	})
}

// extension writes one that must not be ignored.
func extension(b *cryptobyte.Builder, id asn1.ObjectIdentifier, value []byte) {
	sequence(b, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(id)
		b.AddASN1Boolean(true)
		b.AddASN1OctetString(value)
	})
}

// addName writes the key as a distinguished name.
func (k Key) addName(b *cryptobyte.Builder) {
	sequence(b, func(b *cryptobyte.Builder) {
		b.AddASN1(tags.SET, func(b *cryptobyte.Builder) {
			sequence(b, func(b *cryptobyte.Builder) {
				b.AddASN1ObjectIdentifier(oidCommonName)
				b.AddASN1(tags.UTF8String, func(b *cryptobyte.Builder) { b.AddBytes([]byte(k.ID)) })
			})
		})
	})
}

func (k Key) addSerial(b *cryptobyte.Builder) {
	digest, _ := hex.DecodeString(strings.TrimPrefix(k.ID, keyPrefix)) // what is no digest gives a message that is equal to none
	b.AddASN1BigInt(new(big.Int).SetBytes(digest))
}

// parseCMS finds the statement, the key and the signatures of a message. It skips what stands between: signedBy compares it.
func parseCMS(der []byte) (signed, error) {
	var id asn1.ObjectIdentifier
	var outer, inner, data, certificates, certificate, signers, signer, by, content cryptobyte.String
	var ofCertificate asn1.BitString
	var ofContent []byte
	serial := new(big.Int)
	explicit := tags.Tag(0).ContextSpecific().Constructed()
	in := cryptobyte.String(der)
	ok := in.ReadASN1(&outer, tags.SEQUENCE) && in.Empty() && outer.ReadASN1ObjectIdentifier(&id) && outer.ReadASN1(&inner, explicit) &&
		inner.ReadASN1(&inner, tags.SEQUENCE) && inner.SkipASN1(tags.INTEGER) && inner.SkipASN1(tags.SET) &&
		inner.ReadASN1(&data, tags.SEQUENCE) && data.SkipASN1(tags.OBJECT_IDENTIFIER) && data.ReadASN1(&data, explicit) && data.ReadASN1(&content, tags.OCTET_STRING) &&
		inner.ReadASN1(&certificates, explicit) && certificates.ReadASN1(&certificate, tags.SEQUENCE) && certificate.SkipASN1(tags.SEQUENCE) &&
		certificate.SkipASN1(tags.SEQUENCE) && certificate.ReadASN1BitString(&ofCertificate) &&
		inner.ReadASN1(&signers, tags.SET) && signers.ReadASN1(&signer, tags.SEQUENCE) && signer.SkipASN1(tags.INTEGER) &&
		signer.ReadASN1(&by, tags.SEQUENCE) && by.SkipASN1(tags.SEQUENCE) && by.ReadASN1Integer(serial) &&
		signer.SkipASN1(tags.SEQUENCE) && signer.SkipASN1(explicit) && signer.SkipASN1(tags.SEQUENCE) && signer.ReadASN1Bytes(&ofContent, tags.OCTET_STRING)
	if !ok || serial.Sign() < 0 || serial.BitLen() > 8*keyDigest {
		return signed{}, ErrMalformed
	}
	s := signed{key: keyPrefix + hex.EncodeToString(serial.FillBytes(make([]byte, keyDigest)))}
	for _, a := range []Algorithm{EdDSA, SM2SM3} {
		if a.cms().signedData.Equal(id) {
			s.algorithm = a
		}
	}
	x, err := strictjson.Decode[Statement](content)
	if err != nil || s.algorithm == "" { // what the decoder says of it quotes the input, so it stays here
		return signed{}, ErrMalformed
	}
	s.statement = x
	s.by = func(k Key) bool {
		tbs, err1 := k.certificateBody()
		attributes, err2 := k.attributes(content, x.Time)
		again, err3 := k.message(content, x.Time, ofCertificate.RightAlign(), ofContent)
		return err1 == nil && err2 == nil && err3 == nil && bytes.Equal(again, der) &&
			k.verifyDER(tbs, ofCertificate.RightAlign()) && k.verifyDER(attributes, ofContent)
	}
	return s, nil
}
