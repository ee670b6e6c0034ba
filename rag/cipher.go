package rag

import (
	"encoding/json"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// documentCipher encrypts what documents say before it is stored. What says where a document belongs, its name and its access labels, stays
// readable for the database, and so do the vectors of its passages.
type documentCipher struct {
	suite seal.Suite // of what is stored from now on
	keys  *wrapkey.Keys
}

func newDocumentCipher(ring *keyring.Ring, suite seal.Suite) (*documentCipher, error) {
	if !suite.Known() {
		return nil, fmt.Errorf("encrypt documents: suite %q is unknown to this release", suite)
	}
	return &documentCipher{suite, documentKeys(ring)}, nil
}

func documentKeys(ring *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(ring, "rag/document/v1", "rag/document/sm4/v1")
}

// Wrapped are the documents as a rotation of the wrapping keys sees them: their texts are encrypted anew.
func Wrapped(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[versionRow]{
		Kind: "documents", Keys: documentKeys(ring), Table: versionRow{}.TableName(), Sealed: "sealed", Limit: 4,
		Columns: []string{"id", "collection", "document", "version", "suite", "epoch", "sealed"},
		Label:   func(d versionRow) []byte { return d.label() },
		Row:     func(d versionRow) (string, wrapkey.Envelope) { return d.ID, d.envelope() },
	}
}

// sealedText is what stands encrypted in a row.
type sealedText struct {
	Title    string   `json:"title"`
	Digest   string   `json:"digest"`
	Content  string   `json:"content"`
	Known    string   `json:"known"`
	Sections []string `json:"sections"`         // of the chunks, in their order
	Places   []string `json:"places,omitempty"` // likewise; none if no chunk has one
	FAQ      string   `json:"faq,omitempty"`    // of an entry, as encodeFAQ writes it
}

// label binds a ciphertext to the version of the document that it is of.
func (r *versionRow) label() []byte {
	return seal.Label("rag document", r.Collection, r.Document, fmt.Sprint(r.Version))
}

func (r *versionRow) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: r.Epoch, Suite: seal.Suite(r.Suite), Sealed: r.Sealed}
}

// seal returns the rows of a document as the transaction tx is to store them.
func (c *documentCipher) seal(tx *gorm.DB, doc versionRow, chunks []chunkRow) (versionRow, []chunkRow, error) {
	text := sealedText{Title: doc.Title, Digest: doc.Digest, Content: doc.Content, Known: doc.Known, FAQ: doc.FAQ, Sections: make([]string, len(chunks))}
	stored := make([]chunkRow, len(chunks))
	for i, row := range chunks {
		if row.Place != "" && text.Places == nil {
			text.Places = make([]string, len(chunks))
		}
		if text.Places != nil {
			text.Places[i] = row.Place
		}
		text.Sections[i], row.Section, row.Place = row.Section, "", ""
		stored[i] = row
	}
	plain, err := json.Marshal(text)
	if err != nil {
		return versionRow{}, nil, fmt.Errorf("encrypt document: %w", err)
	}
	doc.Title, doc.Digest, doc.Content, doc.Known, doc.FAQ = "", "", "", "", ""
	e, err := c.keys.Seal(tx, c.suite, plain, doc.label())
	if err != nil {
		return versionRow{}, nil, fmt.Errorf("encrypt document: %w", err)
	}
	doc.Suite, doc.Epoch, doc.Sealed = string(e.Suite), e.Epoch, e.Sealed
	return doc, stored, nil
}

// open puts what a document says back into its rows. A document that a release before has stored in clear stays as it is.
func (c *documentCipher) open(db *gorm.DB, doc *versionRow, chunks []chunkRow) error {
	if doc.Suite == "" {
		return nil
	}
	plain, err := c.keys.Open(db, doc.envelope(), doc.label())
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
	if text.Places != nil && len(text.Places) != len(chunks) {
		return fmt.Errorf("it has %d passages and the places of %d", len(chunks), len(text.Places))
	}
	for i := range chunks {
		chunks[i].Section = text.Sections[i]
		if text.Places != nil {
			chunks[i].Place = text.Places[i]
		}
	}
	doc.Title, doc.Digest, doc.Content, doc.Known, doc.FAQ, doc.Sealed = text.Title, text.Digest, text.Content, text.Known, text.FAQ, nil
	return nil
}
