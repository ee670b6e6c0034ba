package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

const (
	// maxHeldKeys bounds the data keys in memory. Beyond it they are all dropped, and subjects get new ones.
	maxHeldKeys = 20000
	cutForm     = "-cut" // behind the form of a text that was longer than allowed
)

// contents encrypts what is kept beside records. A subject has one data key per run of the process, which is made at its first text.
type contents struct {
	keys   *keyring.Ring
	cipher *content.Cipher
	limit  int

	mu   sync.Mutex
	held map[owner]heldKey
}

type owner struct{ tenant, subject string }

// heldKey is a data key in use. Its encoded form goes before every record that uses it: no record depends on another's commit.
type heldKey struct {
	id      string
	encoded []byte
	data    content.DataKey
}

func newContents(keys *keyring.Ring, suite content.Suite, limit int) (*contents, error) {
	c, err := content.NewCipher(keys, suite)
	if err != nil {
		return nil, err
	}
	return &contents{keys: keys, cipher: c, limit: limit, held: map[owner]heldKey{}}, nil
}

// seal encrypts texts for e, fills its Contents and returns what goes before it in the write-ahead log.
func (c *contents) seal(e *Event, subject string, texts []Text, now time.Time) ([]wal.Attachment, error) {
	e.Contents = nil
	var marks []wal.Attachment
	texts = slices.DeleteFunc(slices.Clone(texts), func(t Text) bool {
		if t.Direction == DirectionMark && t.Text != "" {
			marks = append(marks, wal.Attachment{Kind: wal.KindMark, Payload: store.EncodeMark(subject, t.Text)})
		}
		return t.Text == "" || t.Direction == DirectionMark
	})
	if len(marks) > 1 || len(marks) == 1 && len(marks[0].Payload) > wal.MaxMark {
		return nil, errors.New("keep a mark: there are several, or it is too large")
	}
	if len(texts) == 0 {
		return marks, nil
	}
	if subject == "" {
		return nil, errors.New("keep audit contents: the texts are nobody's, so they could not be erased")
	}
	// The owner goes through JSON into a database, so it must come out as it went in.
	k, err := c.key(owner{database.Text(e.Tenant), database.Text(subject)}, now.UnixMicro())
	if err != nil {
		return nil, err
	}
	attached := append(marks, wal.Attachment{Kind: wal.KindKey, Payload: k.encoded})
	for _, t := range texts {
		if t.Direction != "request" && t.Direction != "answer" {
			return nil, fmt.Errorf("keep audit contents: direction %q is neither request nor answer", t.Direction)
		}
		if slices.ContainsFunc(e.Contents, func(x Content) bool { return x.Direction == t.Direction }) {
			return nil, fmt.Errorf("keep audit contents: two texts of one direction, %q", t.Direction)
		}
		text, form := t.Text, t.Form
		if len(text) > c.limit {
			text, form = cutText(text, c.limit), form+cutForm
		}
		b := k.data.Seal(e.ID, t.Direction, []byte(text))
		attached = append(attached, wal.Attachment{Kind: wal.KindContent, Payload: b})
		e.Contents = append(e.Contents, Content{Direction: t.Direction, Form: form, Key: k.id, Digest: content.Digest(b), Bytes: int64(len(b))})
	}
	return attached, nil
}

// longestToken bounds a pseudonym, in bytes.
const longestToken = 128

// cutText returns the first n bytes of s, less what would break a rune or a pseudonym of a masked text.
func cutText(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	s = s[:n]
	if open := strings.LastIndex(s, "⟦"); open >= 0 && len(s)-open < longestToken && !strings.Contains(s[open:], "⟧") {
		return s[:open]
	}
	return s
}

func (c *contents) key(o owner, now int64) (heldKey, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.held[o]; ok {
		return k, nil
	}
	stored, data, err := c.cipher.NewKey(o.tenant, o.subject, now)
	if err != nil {
		return heldKey{}, err
	}
	encoded, err := stored.Encode()
	if err != nil {
		return heldKey{}, err
	}
	if len(c.held) >= maxHeldKeys {
		clear(c.held)
	}
	k := heldKey{stored.ID, encoded, data}
	c.held[o] = k
	return k, nil
}

// forget drops every key in memory: the next texts get new ones.
func (c *contents) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.held)
}

// forgetKeys drops the keys with these ids: they are of subjects that were erased.
func (c *contents) forgetKeys(ids []string) {
	if len(ids) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, k := range c.held {
		if slices.Contains(ids, k.id) {
			delete(c.held, o)
		}
	}
}

// Kept is a prompt or an answer that was kept with a record.
type Kept struct {
	Direction string `json:"direction"`
	Form      string `json:"form"`
	Text      string `json:"text"`
	Bytes     int64  `json:"bytes"`  // of the ciphertext
	Erased    bool   `json:"erased"` // the text is gone, since its person was erased
}

// Contents returns what was kept with the record called id, in the order of the record. The caller records who read it, first.
func (l *Log) Contents(ctx context.Context, id string) ([]Kept, error) {
	e, err := l.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(e.Contents) == 0 {
		return []Kept{}, nil
	}
	found, keys, err := store.ContentsOf(l.store.DB.WithContext(ctx), e.Event)
	if err != nil {
		return nil, err
	}
	out := make([]Kept, 0, len(e.Contents))
	for _, c := range e.Contents {
		kept := Kept{Direction: c.Direction, Form: c.Form, Bytes: c.Bytes}
		b, ok := found[c.Digest]
		k, there := keys[c.Key]
		if !ok || !there {
			erased, err := retention.ErasedKeys(l.store.DB.WithContext(ctx), l.reads, []string{c.Key})
			if err != nil {
				return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
			}
			if !erased[c.Key] {
				return nil, fmt.Errorf("read contents: the %s of record %s is gone, and no erasure says so; run `sluice audit verify`", c.Direction, id)
			}
			kept.Erased = true
			out = append(out, kept)
			continue
		}
		if content.Digest(b) != c.Digest {
			return nil, fmt.Errorf("read contents: the %s of record %s was changed; run `sluice audit verify`", c.Direction, id)
		}
		data, err := l.contents.cipher.Unwrap(l.store.DB.WithContext(ctx), k)
		if err != nil {
			return nil, fmt.Errorf("read contents: %w", err)
		}
		text, err := data.Open(id, c.Direction, b)
		if err != nil {
			return nil, fmt.Errorf("read contents: %w", err)
		}
		kept.Text = string(text)
		out = append(out, kept)
	}
	return out, nil
}
