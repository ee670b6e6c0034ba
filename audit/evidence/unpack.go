package evidence

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
)

// source remembers whether reading itself failed: then nothing can be said about the bundle.
type source struct {
	r   io.ReaderAt
	err error
}

var errOffset = errors.New("the file refers to a place outside of it")

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errOffset
	}
	n, err := s.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	return n, err
}

// unpack finds the entries of a bundle, and that there is nothing else in the file.
func unpack(src io.ReaderAt, size int64) (map[string]*zip.File, error) {
	z, err := zip.NewReader(src, size)
	if err != nil {
		return nil, fmt.Errorf("it is no complete zip file: %w", err)
	}
	files, want := map[string]*zip.File{}, append(listedNames(), manifestName, signatureName)
	for _, f := range z.File {
		switch {
		case !slices.Contains(want, f.Name):
			return nil, fmt.Errorf("the entry %q does not belong into a bundle", f.Name)
		case files[f.Name] != nil:
			return nil, fmt.Errorf("the entry %s is there twice", f.Name)
		case f.Method != zip.Store && f.Method != zip.Deflate, f.Method == zip.Store && f.CompressedSize64 != f.UncompressedSize64:
			return nil, fmt.Errorf("the entry %s is packed in a way no bundle is", f.Name)
		}
		files[f.Name] = f
	}
	for _, name := range want {
		if files[name] == nil {
			return nil, fmt.Errorf("the entry %s is missing", name)
		}
	}
	if err := layout(src, size, z); err != nil {
		return nil, err
	}
	return files, nil
}

var errLayout = errors.New("the zip file is not laid out as a bundle is, so that another program could see other files in it; it was packed anew: use the file as it was exported")

// layout makes sure that entries and directory fill the file without a gap. Programs find the entries of a zip file in different ways; in a
// file with room for more, one of them could show files that were never checked.
func layout(src io.ReaderAt, size int64, z *zip.Reader) error {
	const (
		localHeader, centralHeader = 30, 46
		descriptor, descriptor64   = 16, 24
		end, end64                 = 22, 22 + 20 + 56
		large                      = 1<<32 - 1 // from here on sizes and places take 64 bits
	)
	at, directory := int64(0), int64(0)
	for _, f := range z.File {
		head := make([]byte, localHeader+len(f.Name))
		if _, err := src.ReadAt(head, at); err != nil {
			return errLayout
		}
		extra := int64(binary.LittleEndian.Uint16(head[28:]))
		data, err := f.DataOffset()
		switch {
		case err != nil, string(head[:4]) != "PK\x03\x04", data != at+int64(len(head))+extra,
			binary.LittleEndian.Uint16(head[6:]) != f.Flags, binary.LittleEndian.Uint16(head[8:]) != f.Method,
			int(binary.LittleEndian.Uint16(head[26:])) != len(f.Name), string(head[localHeader:]) != f.Name,
			f.CompressedSize64 > uint64(size), f.Comment != "":
			return errLayout
		}
		at = data + int64(f.CompressedSize64)
		switch {
		case f.Flags&8 == 0:
		case max(f.CompressedSize64, f.UncompressedSize64) >= large:
			at += descriptor64
		default:
			at += descriptor
		}
		directory += int64(centralHeader + len(f.Name) + len(f.Extra))
	}
	want := at + directory + end
	if at >= large {
		want = at + directory + end64
	}
	if size != want || z.Comment != "" {
		return errLayout
	}
	return nil
}

// small returns an entry that is read whole.
func small(f *zip.File) ([]byte, error) {
	if f.UncompressedSize64 > maxSmall {
		return nil, fmt.Errorf("%s is over %d bytes", f.Name, maxSmall)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	defer r.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(r, maxSmall))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be unpacked: %w", f.Name, err)
	}
	return b, nil
}

// content reads an entry as far as the manifest says it goes, and compares it on the way.
type content struct {
	want File
	in   io.ReadCloser
	r    io.Reader
	n    int64
	sum  hash.Hash
	err  error
}

func open(f *zip.File, want File) (*content, error) {
	if f.UncompressedSize64 != uint64(want.Bytes) {
		return nil, fmt.Errorf("%s has %d bytes, the manifest says %d", want.Name, f.UncompressedSize64, want.Bytes)
	}
	in, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", want.Name, err)
	}
	return &content{want: want, in: in, r: io.LimitReader(in, want.Bytes), sum: sha256.New()}, nil
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// close reads the rest and says whether the entry is the one that the manifest lists.
func (c *content) close() error {
	defer c.in.Close() //nolint:errcheck // read only
	if c.err == nil {
		_, c.err = io.Copy(io.Discard, c)
	}
	if c.err == nil { // the zip reader compares its checksum at the end
		_, c.err = io.Copy(io.Discard, io.LimitReader(c.in, 1))
	}
	switch {
	case c.err != nil:
		return fmt.Errorf("%s cannot be unpacked: %w", c.want.Name, c.err)
	case c.n != c.want.Bytes || hex.EncodeToString(c.sum.Sum(nil)) != c.want.SHA256:
		return fmt.Errorf("%s is not the file that was signed", c.want.Name)
	}
	return nil
}
