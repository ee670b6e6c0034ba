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
	"iter"
	"os"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/record"
)

// Sealed is a record with its position in the tree.
type Sealed struct {
	Index   int64
	Payload []byte // the exact bytes that the leaf hash covers
}

// WriteBundle writes a zip that proves, offline and to someone who has nothing but the public key of the log, what records say. They come
// in ascending order. hashes are those of the log, as package tlog stores them. Records that contradict cfg are an error, and then what
// was written is no bundle; whether the records are those of the tree is for [VerifyBundle] to say, so check a bundle before it leaves.
func WriteBundle(w io.Writer, cfg BundleConfig, records iter.Seq2[Sealed, error], hashes tlog.HashReader) (Manifest, error) {
	m, err := cfg.manifest(hashes)
	if err != nil {
		return Manifest{}, fmt.Errorf("write evidence: %w", err)
	}
	b := &bundler{zip: zip.NewWriter(w), m: m}
	if err := b.write(cfg, records, hashes); err != nil {
		return Manifest{}, fmt.Errorf("write evidence: %w", err)
	}
	return b.m, nil
}

type bundler struct {
	zip     *zip.Writer
	m       Manifest
	indexes []int64
}

func (b *bundler) write(cfg BundleConfig, records iter.Seq2[Sealed, error], hashes tlog.HashReader) error {
	// A zip takes one entry at a time, and the records can be read once: the table waits in a file.
	spool, err := os.CreateTemp("", "sluice-evidence-*.csv")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }()
	if err := b.add(recordsName, zip.Deflate, func(w io.Writer) error { return b.records(w, spool, records) }); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := b.add(csvName, zip.Deflate, func(w io.Writer) error { _, err := io.Copy(w, spool); return err }); err != nil {
		return err
	}
	// Hashes do not shrink, and stored as they are they can be read at any place.
	if err := b.add(treeName, zip.Store, func(w io.Writer) error { return writeHashes(w, b.m.Size, b.indexes, hashes) }); err != nil {
		return err
	}
	if err := b.add(checkpointName, zip.Deflate, text(cfg.Checkpoint)); err != nil {
		return err
	}
	if err := b.add(readmeName, zip.Deflate, text(readme(b.m))); err != nil {
		return err
	}
	return b.sign(cfg)
}

// sign writes the manifest and its signature, and ends the zip.
func (b *bundler) sign(cfg BundleConfig) error {
	listed := b.m
	manifest, err := json.MarshalIndent(listed, "", "  ")
	if err != nil {
		return err
	}
	if len(manifest) > maxSmall || len(cfg.Checkpoint) > maxSmall {
		return fmt.Errorf("the manifest or the checkpoint is over %d bytes", maxSmall)
	}
	signed, err := cfg.Signer.SignText(statement(b.m.Origin, hexSum(manifest)))
	if err != nil {
		return err
	}
	if err := b.add(manifestName, zip.Deflate, text(string(manifest))); err != nil {
		return err
	}
	if err := b.add(signatureName, zip.Deflate, text(signed)); err != nil {
		return err
	}
	b.m = listed // which does not list itself
	return b.zip.Close()
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// add writes an entry and lists it.
func (b *bundler) add(name string, method uint16, write func(io.Writer) error) error {
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: b.m.Created})
	if err != nil {
		return err
	}
	c := &counter{w: w, sum: sha256.New()}
	if err := write(c); err != nil {
		return err
	}
	b.m.Files = append(b.m.Files, File{name, c.n, hex.EncodeToString(c.sum.Sum(nil))})
	return nil
}

// counter counts and hashes what passes through.
type counter struct {
	w   io.Writer
	n   int64
	sum hash.Hash
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.sum.Write(p[:n])
	return n, err
}

func (b *bundler) records(w, table io.Writer, records iter.Seq2[Sealed, error]) error {
	s, t := newScope(b.m), &csvTable{}
	if _, err := table.Write(t.header()); err != nil {
		return err
	}
	var line []byte
	for r, err := range records {
		if err != nil {
			return err
		}
		e, err := b.check(s, r)
		if err != nil {
			return fmt.Errorf("record with index %d: %w", r.Index, err)
		}
		line = appendLine(line[:0], r)
		_, err = w.Write(line)
		_, err2 := table.Write(t.row(r.Index, e))
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		b.indexes = append(b.indexes, r.Index)
	}
	if bad := s.end(); bad != nil {
		return errors.New(bad[0].cause)
	}
	if n := len(b.indexes); n > 0 {
		b.m.Records, b.m.First, b.m.Last = int64(n), b.indexes[0], b.indexes[n-1]
	}
	return nil
}

func (b *bundler) check(s *scope, r Sealed) (record.Event, error) {
	if len(r.Payload) > record.MaxPayload || bytes.IndexByte(r.Payload, '\n') >= 0 {
		return record.Event{}, errors.New("its bytes are not one line of a record; run `sluice audit verify`")
	}
	if r.Index >= b.m.Size {
		return record.Event{}, fmt.Errorf("the checkpoint covers %d records only", b.m.Size)
	}
	e, err := record.Decode(r.Payload)
	if err != nil {
		return record.Event{}, err
	}
	if bad := s.add(r.Index, e); bad != nil {
		return record.Event{}, errors.New(bad[0].cause)
	}
	return e, nil
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// stamp writes unix microseconds for people.
func stamp(us int64) string { return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z") }
