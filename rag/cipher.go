package rag

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// documentCipher encrypts what documents say before it is stored. What says where a document belongs, its name and its access labels, stays
// readable for the database, and so do the vectors of its passages.
type documentCipher struct {
	suite seal.Suite // of what is stored from now on
	keys  map[seal.Suite]seal.Key
}

func newDocumentCipher(ring *keyring.Ring, suite seal.Suite) (*documentCipher, error) {
	c := &documentCipher{suite: suite, keys: map[seal.Suite]seal.Key{}}
	for s, bytes := range map[seal.Suite][]byte{
		seal.Intl: ring.Derive("rag/document/v1"), seal.GM: ring.Derive("rag/document/sm4/v1")[:seal.GM.KeySize()],
	} {
		key, err := seal.NewKey(s, bytes)
		if err != nil {
			return nil, fmt.Errorf("encrypt documents: %w", err)
		}
		c.keys[s] = key
	}
	if _, known := c.keys[suite]; !known {
		return nil, fmt.Errorf("encrypt documents: suite %q is unknown to this release", suite)
	}
	return c, nil
}

// sealedText is what stands encrypted in a row.
type sealedText struct {
	Title    string   `json:"title"`
	Digest   string   `json:"digest"`
	Content  string   `json:"content"`
	Known    string   `json:"known"`
	Sections []string `json:"sections"` // of the chunks, in their order
}

// label binds a ciphertext to the version of the document that it is of.
func (d *documentRow) label() []byte {
	return seal.Label("rag document", d.Collection, d.ID, fmt.Sprint(d.Version))
}

// seal returns the rows of a document as they are stored.
func (c *documentCipher) seal(doc documentRow, chunks []chunkRow) (documentRow, []chunkRow, error) {
	text := sealedText{Title: doc.Title, Digest: doc.Digest, Content: doc.Content, Known: doc.Known, Sections: make([]string, len(chunks))}
	stored := make([]chunkRow, len(chunks))
	for i, row := range chunks {
		text.Sections[i], row.Section = row.Section, ""
		stored[i] = row
	}
	plain, err := json.Marshal(text)
	if err != nil {
		return documentRow{}, nil, fmt.Errorf("encrypt document: %w", err)
	}
	doc.Title, doc.Digest, doc.Content, doc.Known = "", "", "", ""
	doc.Suite, doc.Sealed = string(c.suite), c.keys[c.suite].Seal(plain, doc.label())
	return doc, stored, nil
}

// open puts what a document says back into its rows. A document that a release before has stored in clear stays as it is.
func (c *documentCipher) open(doc *documentRow, chunks []chunkRow) error {
	if doc.Suite == "" {
		return nil
	}
	key, known := c.keys[seal.Suite(doc.Suite)]
	if !known {
		return fmt.Errorf("suite %q is unknown to this release", doc.Suite)
	}
	plain, err := key.Open(doc.Sealed, doc.label())
	if err != nil {
		return err
	}
	var text sealedText
	if err := json.Unmarshal(plain, &text); err != nil {
		return errors.New("the encrypted text is not ours") // the error of the decoder would quote it
	}
	if len(text.Sections) != len(chunks) {
		return fmt.Errorf("it has %d passages and the sections of %d", len(chunks), len(text.Sections))
	}
	for i := range chunks {
		chunks[i].Section = text.Sections[i]
	}
	doc.Title, doc.Digest, doc.Content, doc.Known, doc.Sealed = text.Title, text.Digest, text.Content, text.Known, nil
	return nil
}
