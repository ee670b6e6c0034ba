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
	Text string // of an entry of a FAQ: its JSON, with negative questions
}

// Originals calls do with every version of every document of a tenant, by collection, id and version, one at a time. It needs no service: a server that has no embedding model
// has documents of an earlier configuration. It ends with the first error of do. Errors: of a document that cannot be read; CodeDatabaseUnavailable.
func Originals(ctx context.Context, db *gorm.DB, keys *keyring.Ring, tenant string, do func(Original) error) error {
	cipher, err := newDocumentCipher(keys, seal.Intl) // it only reads: every row names its own suite
	if err != nil {
		return err
	}
	s := store{db: db, cipher: cipher, rules: ruleKeeper{keys}}
	all, err := s.collections(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Tenant != tenant {
			continue
		}
		for after := ""; ; {
			ids, err := s.page(ctx, c.ID, after, 500)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				break
			}
			for _, id := range ids {
				if err := s.original(ctx, c.Name, id, do); err != nil {
					return fmt.Errorf("document %s of %s: %w", id, c.Name, err)
				}
			}
			after = ids[len(ids)-1]
		}
	}
	return nil
}

// original reads one document with its versions. One that changes meanwhile is read again, without the versions that were read; one that is deleted is none.
// Errors: errChanged for one that is there and changes again and again; errDamaged, also for one that has lost chunks.
func (s store) original(ctx context.Context, collection, id string, do func(Original) error) error {
	done := map[string]bool{}
	for range 3 {
		d, found, err := s.state(ctx, id)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil || !found {
			return err
		}
		labels, err := decodeLabels(d.Labels)
		if err != nil {
			return errors.Join(errDamaged, err)
		}
		for _, row := range d.versions {
			if done[row.ID] {
				continue
			}
			v, verr := s.content(ctx, row.ID)
			if errors.Is(verr, errChanged) {
				err = verr
				break
			}
			if verr != nil {
				return verr
			}
			out := Original{Collection: collection, Text: v.Content, DocumentInfo: DocumentInfo{
				ID: d.ID, Name: d.Name, Title: v.Title, MIME: v.MIME, Version: versionName(v.Version), Labels: labels, Restricted: d.documentRow.Rule != "", Chunks: v.Chunks,
				Bytes: len(v.Content), Digest: v.Digest, CreatedAt: time.UnixMicro(d.CreatedAt).UTC(), UpdatedAt: time.UnixMicro(v.CreatedAt).UTC(), Versions: len(d.versions), Revision: d.Revision,
			}}
			if v.FAQ != "" {
				out.Text = v.FAQ
			}
			out.ValidFrom, out.ValidUntil = times(row.ValidFrom, row.ValidUntil)
			if err := do(out); err != nil {
				return err
			}
			done[row.ID] = true
		}
		if err == nil {
			return nil
		}
	}
	var there int64
	err := s.db.WithContext(ctx).Model(&documentRow{}).Where("id = ?", id).Count(&there).Error
	if err == nil && there > 0 {
		return errChanged
	}
	return dbError("look for the document", err)
}
