package modelstore

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

type kind uint8

const (
	plainFile kind = iota
	zipFile        // also a wheel
	tarGzip
)

// archiveKind looks at the first bytes of a file.
func archiveKind(name string) (kind, error) {
	f, err := os.Open(name)
	if err != nil {
		return plainFile, err
	}
	var head [4]byte
	n, err := io.ReadFull(f, head[:])
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // shorter than any archive
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return plainFile, err
	}
	switch {
	case n < len(head):
		return plainFile, nil
	case string(head[:]) == "PK\x03\x04":
		return zipFile, nil
	case head[0] == 0x1f && head[1] == 0x8b:
		return tarGzip, nil
	}
	return plainFile, nil
}

// extract writes one member of an archive to target, at most limit bytes. The names inside an archive decide nothing about paths.
func extract(ctx context.Context, archive, member, target string, limit int64, progress func(int64)) error {
	k, err := archiveKind(archive)
	if err != nil {
		return err
	}
	write := func(r io.Reader) error {
		return writeFile(target, &contextReader{ctx: ctx, r: r}, limit, progress)
	}
	switch k {
	case zipFile:
		return extractZip(archive, member, write)
	case tarGzip:
		return extractTar(ctx, archive, member, write)
	default:
		return errors.New("what the source sent is neither a zip nor a tar.gz archive")
	}
}

func extractZip(archive, member string, write func(io.Reader) error) (err error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("open the archive: %w", err)
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	for _, f := range z.File {
		if f.Name != member || !f.Mode().IsRegular() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("open the archive: %w", err)
		}
		return errors.Join(write(r), r.Close())
	}
	return fmt.Errorf("%w: the archive holds no %s", errNotFound, member)
}

func extractTar(ctx context.Context, archive, member string, write func(io.Reader) error) (err error) {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("open the archive: %w", err)
	}
	// Bounded also while members are skipped: a few kilobytes can unpack to terabytes.
	t := tar.NewReader(io.LimitReader(&contextReader{ctx: ctx, r: unzipped}, maxArchive))
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: the archive holds no %s", errNotFound, member)
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if h.Typeflag == tar.TypeReg && path.Clean(h.Name) == member {
			return write(t)
		}
	}
}
