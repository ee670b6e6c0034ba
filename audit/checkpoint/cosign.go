package checkpoint

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Witness cosigns checkpoints: it states that at a time it had seen no other history of the log.
type Witness struct {
	key key
	now func() time.Time
}

// NewWitness returns the witness called name with the Ed25519 key of a seed of 32 bytes.
func NewWitness(name string, seed []byte, now func() time.Time) (Witness, error) {
	return newWitness(name, kindCosignature, seed, now)
}

// NewSM2Witness does what NewWitness does, with an SM2 key.
func NewSM2Witness(name string, seed []byte, now func() time.Time) (Witness, error) {
	return newWitness(name, kindSM2Witness, seed, now)
}

func newWitness(name, kind string, seed []byte, now func() time.Time) (Witness, error) {
	k, err := newKey(name, kind, seed)
	if err != nil {
		return Witness{}, fmt.Errorf("make witness key: %w", err)
	}
	return Witness{k, now}, nil
}

// Key is the public key as text, for [NewWitnesses].
func (w Witness) Key() string { return w.key.text() }

// Cosign returns the signature line, with its newline, for a checkpoint that the caller has checked.
func (w Witness) Cosign(text string) (string, error) {
	end := strings.LastIndex(text, "\n\n") // where the note package cuts
	if end < 0 {
		return "", errors.New("cosign checkpoint: it is no signed note")
	}
	msg := text[:end]
	at := w.now().Unix()
	sig := binary.BigEndian.AppendUint32(nil, w.key.hash())
	sig = binary.BigEndian.AppendUint64(sig, uint64(at))
	own, err := w.key.sign(cosigned(at, msg+"\n"))
	if err != nil {
		return "", fmt.Errorf("cosign checkpoint: %w", err)
	}
	sig = append(sig, own...)
	return fmt.Sprintf("— %s %s\n", w.key.name, base64.StdEncoding.EncodeToString(sig)), nil
}

// cosigned is what a witness signs.
func cosigned(at int64, msg string) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, msg)
}

// Witnesses are the public keys of those whose cosignatures count.
type Witnesses struct{ keys []key }

// NewWitnesses reads public keys as [Witness.Key] gives them, with white space between them. There may be none.
func NewWitnesses(keys string) (Witnesses, error) {
	var w Witnesses
	for _, text := range strings.Fields(keys) {
		k, err := parseKey(text, kindCosignature, kindSM2Witness)
		if err != nil {
			return Witnesses{}, fmt.Errorf("read witness key: want name+hash+base64, as `sluice audit witness` prints it: %w", err)
		}
		w.keys = append(w.keys, k)
	}
	return w, nil
}

// Names are those of the witnesses, each once: a witness that changes its key has two for a while.
func (w Witnesses) Names() []string {
	var out []string
	for _, k := range w.keys {
		if !slices.Contains(out, k.name) {
			out = append(out, k.name)
		}
	}
	return out
}

// Cosignature is a valid one.
type Cosignature struct {
	Witness string
	Time    time.Time
}

// OpenCosigned does what Open does, and returns the valid cosignatures of known witnesses. A cosignature of a known witness that does not
// hold is an error.
func (v Verifier) OpenCosigned(text string, known Witnesses) (Tree, []Cosignature, error) {
	list := v.verifiers()
	var found []Cosignature
	for _, k := range known.keys {
		list = append(list, cosignatureVerifier{k, &found})
	}
	n, err := note.Open([]byte(text), note.VerifierList(list...))
	if err != nil {
		return Tree{}, nil, fmt.Errorf("open checkpoint: %w", err)
	}
	own := 0
	for _, s := range n.Sigs {
		for _, k := range v.keys {
			if s.Name == k.Name() && s.Hash == k.KeyHash() {
				own++
			}
		}
	}
	if own == 0 {
		return Tree{}, nil, errors.New("open checkpoint: the log itself did not sign it")
	}
	t, err := v.read(n)
	return t, found, err
}

type cosignatureVerifier struct {
	key
	found *[]Cosignature
}

// Verify implements note.Verifier.
func (k cosignatureVerifier) Verify(msg, sig []byte) bool {
	if len(sig) < 8 {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	if at > 1<<62 || !k.verify(cosigned(int64(at), string(msg)), sig[8:]) {
		return false
	}
	*k.found = append(*k.found, Cosignature{k.name, time.Unix(int64(at), 0).UTC()})
	return true
}

// Add returns the checkpoint with another signature line, which the caller has checked, unless it is there already.
func Add(text, line string) string {
	if !strings.HasSuffix(line, "\n") {
		line += "\n"
	}
	if strings.Contains(text, "\n"+line) {
		return text
	}
	return text + line
}
