package store

import (
	"context"
	"fmt"
	"math"
)

// Forever is the time up to which everything is shipped of a run that is over.
const Forever = math.MaxInt64

// MarkDrained notes, per writer, up to when everything it wrote is in the database. A writer without any record there has no row, and nobody
// asks for it.
func (s *Store) MarkDrained(ctx context.Context, through map[string]int64) error {
	for writer, at := range through {
		err := s.DB.WithContext(ctx).Exec("UPDATE audit_writers SET drained = ? WHERE writer = ? AND drained < ?", at, writer, at).Error
		if err != nil {
			return fmt.Errorf("note what is shipped: %w", err)
		}
	}
	return nil
}
