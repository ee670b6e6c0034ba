package labelfile

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/internal/keyring"
)

// authority is that of an installation with a master key of one byte's repetition.
func authority(t testing.TB, master byte, generation int) *c2pa.Authority {
	t.Helper()
	a, err := c2pa.NewAuthority(c2pa.Config{
		Keys: keyring.FromBytes(bytes.Repeat([]byte{master}, 32)), Producer: `示例"公司"(A&B)\`, Generation: generation,
		Now: func() time.Time { return time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// signing writes labels and content credentials.
func signing(t testing.TB) Writer { return Writer{Authority: authority(t, 9, 1)} }
