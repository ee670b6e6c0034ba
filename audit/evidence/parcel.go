package evidence

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/internal/strictjson"
)

// A parcel is a ZIP file with files for somebody, a manifest that has the SHA-256 of each, and a note in which the keys of the log sign the digest of
// the manifest. SHA256SUMS says the same for sha256sum. The manifest is written last: what broke off has none.
const (
	parcelManifest = "manifest.json"
	parcelNote     = "manifest.note"
	parcelSums     = "SHA256SUMS"
	parcelKey      = "key.txt"

	maxParcelManifest = 64 << 20
)

// ParcelManifest says what a parcel contains.
type ParcelManifest struct {
	Format string            `json:"format"` // "sluice-parcel/1"
	Origin string            `json:"origin"`
	Kind   string            `json:"kind"` // such as "tenant-export"
	About  map[string]string `json:"about"`
	Time   time.Time         `json:"time"`
	Files  []ParcelFile      `json:"files"`
}

// ParcelFile is one file of a parcel.
type ParcelFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const parcelFormat = "sluice-parcel/1"

// ParcelWriter writes a parcel. It is used by one goroutine.
type ParcelWriter struct {
	zip      *zip.Writer
	manifest ParcelManifest
	names    map[string]bool // of its files
	listed   int             // how long their list in the manifest becomes at most, in bytes
	open     *parcelEntry
}

// parcelEntry counts and hashes what is written into a file.
type parcelEntry struct {
	to    io.Writer
	sum   hash.Hash
	bytes int64
}

func (e *parcelEntry) Write(p []byte) (int, error) {
	n, err := e.to.Write(p)
	e.sum.Write(p[:n])
	e.bytes += int64(n)
	return n, err
}

// NewParcelWriter returns a writer of a parcel of a kind, about what the members say.
func NewParcelWriter(w io.Writer, kind string, about map[string]string, now time.Time) *ParcelWriter {
	return &ParcelWriter{zip: zip.NewWriter(w), names: map[string]bool{}, manifest: ParcelManifest{Format: parcelFormat, Kind: kind, About: about, Time: now.UTC(), Files: []ParcelFile{}}}
}

// errParcelFull refuses a manifest that [VerifyParcel] would not read.
var errParcelFull = errors.New("parcel: too many files for one manifest")

// Create begins a file, which ends with the next one or with [ParcelWriter.Close]. Names are unique, relative and with slashes. Error: too, a file with
// which the manifest would be too long to be read again.
func (p *ParcelWriter) Create(name string) (io.Writer, error) {
	p.end()
	if p.names[name] || !parcelName(name) {
		return nil, fmt.Errorf("parcel: %q is no name for a file, or there is one of it", name)
	}
	longest, err := json.MarshalIndent(ParcelFile{Name: name, Bytes: math.MaxInt64, SHA256: strings.Repeat("0", 2*sha256.Size)}, "  ", " ")
	if err != nil {
		return nil, fmt.Errorf("parcel: %w", err)
	}
	listed := p.listed + len(longest) + len(",\n  ")
	if listed > maxParcelManifest {
		return nil, errParcelFull
	}
	w, err := p.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: p.manifest.Time})
	if err != nil {
		return nil, fmt.Errorf("parcel: %w", err)
	}
	p.names[name], p.listed = true, listed
	p.manifest.Files = append(p.manifest.Files, ParcelFile{Name: name})
	p.open = &parcelEntry{to: w, sum: sha256.New()}
	return p.open, nil
}

// parcelName reports whether a name stays below the folder that somebody unpacks into, and is no file of the parcel itself.
func parcelName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\\x00\n\r:") {
			return false
		}
	}
	return !slices.Contains([]string{parcelManifest, parcelNote, parcelSums, parcelKey}, name)
}

func (p *ParcelWriter) end() {
	if p.open == nil {
		return
	}
	last := &p.manifest.Files[len(p.manifest.Files)-1]
	last.Bytes, last.SHA256 = p.open.bytes, hex.EncodeToString(p.open.sum.Sum(nil))
	p.open = nil
}

// Close writes the manifest, has its digest signed, and ends the file. key is the public key of the log, which origin names. It returns the manifest and its digest.
// A manifest that is too long to be read again, with what it is about, is refused.
func (p *ParcelWriter) Close(origin, key string, sign func(text string) (string, error)) (m ParcelManifest, digest string, err error) {
	p.end()
	p.manifest.Origin = origin
	raw, err := json.MarshalIndent(p.manifest, "", " ")
	if err != nil {
		return ParcelManifest{}, "", fmt.Errorf("parcel: %w", err)
	}
	if len(raw) > maxParcelManifest {
		return ParcelManifest{}, "", errParcelFull
	}
	sum := sha256.Sum256(raw)
	digest = hex.EncodeToString(sum[:])
	note, err := sign(parcelText(origin, digest))
	if err != nil {
		return ParcelManifest{}, "", fmt.Errorf("parcel: %w", err)
	}
	var sums strings.Builder
	for _, f := range p.manifest.Files {
		fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.Name)
	}
	for _, f := range []struct{ name, text string }{
		{parcelSums, sums.String()}, {parcelKey, strings.TrimSpace(key) + "\n"}, {parcelManifest, string(raw)}, {parcelNote, note},
	} {
		w, err := p.zip.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: p.manifest.Time})
		if err == nil {
			_, err = io.WriteString(w, f.text)
		}
		if err != nil {
			return ParcelManifest{}, "", fmt.Errorf("parcel: %w", err)
		}
	}
	if err := p.zip.Close(); err != nil {
		return ParcelManifest{}, "", fmt.Errorf("parcel: %w", err)
	}
	return p.manifest, digest, nil
}

func parcelText(origin, digest string) string { return origin + "/parcel\nsha256 " + digest + "\n" }

// ParcelReport says what checking a parcel has found.
type ParcelReport struct {
	OK       bool
	Manifest ParcelManifest
	Digest   string // SHA-256 of the manifest, hex
	Problems []Problem
}

// IsParcel reports whether a ZIP file is a parcel, and returns the key inside it.
func IsParcel(f io.ReaderAt, size int64) (key string, yes bool) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return "", false
	}
	if _, err := parcelRead(z, parcelNote); err != nil {
		return "", false
	}
	raw, err := parcelRead(z, parcelKey)
	return strings.TrimSpace(string(raw)), err == nil
}

// VerifyParcel checks the signature of the manifest and every file of a parcel: that it is there, unchanged, and that there is no other one. Error: the
// file is no ZIP file.
func VerifyParcel(f io.ReaderAt, size int64, v checkpoint.Verifier) (ParcelReport, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return ParcelReport{}, fmt.Errorf("parcel: %w", err)
	}
	r := ParcelReport{Problems: []Problem{}}
	problem := func(kind, name string, err error) {
		r.Problems = append(r.Problems, Problem{Kind: kind, Index: -1, Cause: strings.TrimPrefix(name+": "+err.Error(), ": ")})
	}
	if err := layout(f, size, z); err != nil {
		problem("zip", "", err)
		return r, nil
	}
	if r.Manifest, r.Digest, err = parcelManifestOf(z, v); err != nil {
		problem("manifest", "", err)
		return r, nil
	}
	said := map[string]ParcelFile{}
	for _, x := range r.Manifest.Files {
		said[x.Name] = x
	}
	for _, entry := range z.File {
		if slices.Contains([]string{parcelManifest, parcelNote, parcelSums, parcelKey}, entry.Name) {
			continue
		}
		want, there := said[entry.Name]
		delete(said, entry.Name)
		if !there {
			problem("file", entry.Name, errors.New("the manifest does not have it, or not twice"))
		} else if err := parcelSame(entry, want); err != nil {
			problem("file", entry.Name, err)
		}
	}
	for name := range said {
		problem("file", name, errors.New("it is missing"))
	}
	slices.SortFunc(r.Problems, func(a, b Problem) int { return strings.Compare(a.Cause, b.Cause) })
	r.OK = len(r.Problems) == 0
	return r, nil
}

func parcelManifestOf(z *zip.Reader, v checkpoint.Verifier) (m ParcelManifest, digest string, err error) {
	raw, err := parcelRead(z, parcelManifest)
	if err != nil {
		return m, "", err
	}
	note, err := parcelRead(z, parcelNote)
	if err != nil {
		return m, "", err
	}
	text, err := v.OpenText(string(note))
	if err != nil {
		return m, "", err
	}
	sum := sha256.Sum256(raw)
	digest = hex.EncodeToString(sum[:])
	if text != parcelText(v.Origin(), digest) {
		return m, "", errors.New("what is signed is another manifest")
	}
	if m, err = strictjson.Decode[ParcelManifest](raw); err != nil {
		return m, "", err
	}
	if m.Format != parcelFormat {
		return m, "", fmt.Errorf("its format %q is unknown to this release", m.Format)
	}
	return m, digest, nil
}

// parcelRead reads a file of the parcel itself, of which there must be one.
func parcelRead(z *zip.Reader, name string) ([]byte, error) {
	var found *zip.File
	for _, f := range z.File {
		if f.Name == name && found != nil {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		if f.Name == name {
			found = f
		}
	}
	if found == nil {
		return nil, fmt.Errorf("there is no %s: it is no parcel, or not whole", name)
	}
	r, err := found.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // read only
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, maxParcelManifest+1))
	if err == nil && n > maxParcelManifest {
		err = fmt.Errorf("%s is too large", name)
	}
	return b.Bytes(), err
}

func parcelSame(entry *zip.File, want ParcelFile) error {
	r, err := entry.Open()
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // read only
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(r, want.Bytes+1))
	switch {
	case err != nil:
		return err
	case n != want.Bytes || hex.EncodeToString(sum.Sum(nil)) != want.SHA256:
		return errors.New("it was changed")
	}
	return nil
}
