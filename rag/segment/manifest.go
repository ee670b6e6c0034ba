package segment

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/rag/lexical"
)

const (
	manifestName  = "manifest"
	manifestMagic = "SLUICES1"
	maxManifest   = 1 << 30
	formatVersion = 2
)

// manifest says what a store consists of. In its file it stands sealed behind manifestMagic and the id of the store.
type manifest struct {
	Format   int
	Analyzer int // of the lexical index
	Model    string
	Dim      int
	Revision int64
	Mark     string
	Log      int64  // number of the first log to read
	Before   []byte // link of the record before it
	Groups   [][]byte
	Segments []segmentEntry
}

// segmentEntry is a segment and what became of its documents since it was written.
type segmentEntry struct {
	Name        string
	IndexBytes  int64
	TextBytes   int64
	Docs, Rows  int
	SpanBytes   int64
	MixedBytes  int64 `json:",omitempty"`
	VectorBytes int64
	WordBytes   int64
	Changed     []docChange `json:",omitempty"`
}

// docChange is a document, by its number, and its rule now.
type docChange struct {
	D    uint32
	G    uint32 // gone if deleted
	F, U int64  `json:",omitempty"`
	// P are the groups of its rows where they differ: how many, which, how many and so on.
	P []uint32 `json:",omitempty"`
}

func (m *manifest) write(files durable.Files, dir string, v sealer) error {
	plain, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	id, err := hex.DecodeString(v.store)
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	b := append(append([]byte(manifestMagic), id...), v.key.Seal(plain, v.label(manifestName, 0))...)
	if err := durable.Replace(files, filepath.Join(dir, manifestName), b); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// readManifest returns the manifest of a directory and the sealer of its store; nil if there is none.
func readManifest(dir string, key seal.Key) (*manifest, sealer, error) {
	path := filepath.Join(dir, manifestName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sealer{}, nil
	}
	if err != nil {
		return nil, sealer{}, fmt.Errorf("read manifest: %w", err)
	}
	if info.Size() > maxManifest {
		return nil, sealer{}, damaged(path, 0, "it has %d bytes", info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, sealer{}, fmt.Errorf("read manifest: %w", err)
	}
	const head = len(manifestMagic) + 16
	if len(b) < head || string(b[:len(manifestMagic)]) != manifestMagic {
		return nil, sealer{}, damaged(path, 0, "not a manifest of passages")
	}
	v := sealer{key, hex.EncodeToString(b[len(manifestMagic):head])}
	plain, err := key.Open(b[head:], v.label(manifestName, 0))
	if err != nil {
		return nil, sealer{}, damaged(path, 0, "it does not open: it was changed, or the key is another")
	}
	m := &manifest{}
	if err := json.Unmarshal(plain, m); err != nil {
		return nil, sealer{}, damaged(path, 0, "not a manifest of passages")
	}
	return m, v, nil
}

// check reports whether this release can use a store for this model.
func (m *manifest) check(model string, dim int) error {
	switch {
	case m.Format != formatVersion:
		return fmt.Errorf("%w: format %d", ErrForeign, m.Format)
	case m.Analyzer != lexical.AnalyzerVersion:
		return fmt.Errorf("%w: analyzer %d", ErrForeign, m.Analyzer)
	case len(m.Before) != len(link{}):
		return fmt.Errorf("%w: no link of a log", ErrForeign)
	case m.Model != model || m.Dim != dim:
		return fmt.Errorf("%w: vectors of %q with %d components", ErrForeign, m.Model, m.Dim)
	}
	return nil
}
