package rag

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// Original is a document as it is stored: the text that was taken from the file, not the file.
type Original struct {
	Collection string // its name
	DocumentInfo
	Text string
}

// Originals calls do with every document of a tenant, by collection and id, one at a time. It needs no service: a server that has no embedding model
// has documents of an earlier configuration. It ends with the first error of do. Errors: of a document that cannot be read; CodeDatabaseUnavailable.
func Originals(ctx context.Context, db *gorm.DB, keys *keyring.Ring, tenant string, do func(Original) error) error {
	cipher, err := newDocumentCipher(keys, seal.Intl) // it only reads: every row names its own suite
	if err != nil {
		return err
	}
	s := store{db: db, cipher: cipher}
	all, err := s.collections(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Tenant != tenant {
			continue
		}
		_, ids, err := s.revisions(ctx, c.ID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			err := s.original(ctx, c.Name, id, do)
			if err != nil {
				return fmt.Errorf("document %s of %s: %w", id, c.Name, err)
			}
		}
	}
	return nil
}

// original reads one document. One that is replaced meanwhile is read again; one that is deleted is none. Error: errChanged, too, for one that is there and
// never whole, as one is that has lost chunks.
func (s store) original(ctx context.Context, collection, id string, do func(Original) error) error {
	for range 3 {
		b, err := s.document(ctx, id)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return err
		}
		return do(Original{Collection: collection, Text: b.Content, DocumentInfo: DocumentInfo{
			ID: b.ID, Name: b.Name, Title: b.Title, MIME: b.MIME, Version: versionName(b.Version), Labels: b.labels, Chunks: b.Chunks, Bytes: len(b.Content), Digest: b.Digest,
			CreatedAt: time.UnixMicro(b.CreatedAt).UTC(), UpdatedAt: time.UnixMicro(b.UpdatedAt).UTC(),
		}})
	}
	var there int64
	err := s.db.WithContext(ctx).Model(&documentRow{}).Where("id = ?", id).Count(&there).Error
	if err == nil && there > 0 {
		return errChanged
	}
	return dbError("look for the document", err)
}
