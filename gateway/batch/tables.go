package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// The states of a batch.
const (
	Validating = "validating"
	InProgress = "in_progress"
	Finalizing = "finalizing"
	Cancelling = "cancelling"
	Completed  = "completed"
	Failed     = "failed"
	Expired    = "expired"
	Cancelled  = "cancelled"
)

// open are the states that are no end.
func open() []string { return []string{Validating, InProgress, Finalizing, Cancelling} }

type (
	row struct {
		ID             string
		Tenant         string
		Project        string
		Person         string
		ActorKind      string
		Actor          string
		Scopes         string
		Proof          string
		Source         string
		Language       string
		Purpose        string
		Endpoint       string
		InputFile      string
		OutputFile     string
		ErrorFile      string
		State          string
		Ending         string
		WindowText     string
		OutputLife     int64
		Suite          string
		Epoch          int64
		Wrapped        []byte
		Metadata       []byte
		Problems       string
		Total          int64
		Completed      int64
		Failed         int64
		LinesExpired   int64
		LinesCancelled int64
		CreatedAt      int64 `gorm:"autoCreateTime:false"`
		ExpiresAt      int64
		InProgressAt   int64
		FinalizingAt   int64
		CancellingAt   int64
		EndedAt        int64
		Stored         int64 // bytes of results that are in no file yet
		Holder         string
		HeldUntil      int64
	}
	lineRow struct {
		Batch  string
		Line   int64
		Failed int64
		Sealed []byte
	}
)

func (row) TableName() string     { return "batch_batches" }
func (lineRow) TableName() string { return "batch_lines" }

func columns() []string {
	return []string{
		"id", "tenant", "project", "person", "actor_kind", "actor", "scopes", "proof", "source", "language", "purpose", "endpoint", "input_file", "output_file", "error_file", "state", "ending",
		"window_text", "output_life", "suite", "epoch", "wrapped", "metadata", "problems", "total", "completed", "failed", "lines_expired", "lines_cancelled", "created_at", "expires_at", "in_progress_at",
		"finalizing_at", "cancelling_at", "ended_at", "stored", "holder", "held_until",
	}
}

// label binds a data key to its batch.
func (b row) label() []byte { return seal.Label("batch", b.Tenant, b.ID) }

func (b row) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: b.Epoch, Suite: seal.Suite(b.Suite), Sealed: b.Wrapped}
}

func (b row) owner() files.Owner {
	return files.Owner{Tenant: b.Tenant, Project: b.Project, Person: b.Person}
}

func (b row) acting() (identity.Acting, error) {
	a := identity.Acting{Kind: b.ActorKind, ID: b.Actor, Proof: b.Proof}
	err := json.Unmarshal([]byte(b.Scopes), &a.Scopes)
	return a, err
}

func (b row) ended() bool {
	return b.State == Completed || b.State == Failed || b.State == Expired || b.State == Cancelled
}

// lineLabel binds a result to its line.
func lineLabel(batch string, line int64) []byte {
	return seal.Label("batch line", batch, fmt.Sprint(line))
}

func metadataLabel(batch string) []byte { return seal.Label("batch metadata", batch) }

// requestID names the request of a line, however often it is asked.
func requestID(batch string, line int64) string { return fmt.Sprintf("%s.%d", batch, line) }

// key opens the data key of a batch.
func (s *Service) key(db *gorm.DB, b row) (seal.Key, error) {
	return s.keys.OpenDataKey(db, b.envelope(), b.label())
}

func within(db *gorm.DB, s Scope) *gorm.DB {
	db = db.Where("tenant = ? AND person = ? AND endpoint IN ?", s.Tenant, s.Person, s.Endpoints)
	if s.AnyProject && s.Person != "" { // else it would be everybody's
		return db
	}
	return db.Where("project = ?", s.Project)
}

// find returns the row of a batch in the scope. Any other one is not there.
func find(db *gorm.DB, o Scope, id string) (row, error) {
	var b row
	err := within(db, o).Select(columns()).Where("id = ?", database.Text(id)).Take(&b).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return b, notFound(id)
	}
	return b, err
}

func at(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Any reports whether a tenant has a batch. Errors: CodeDatabaseUnavailable.
func Any(db *gorm.DB, tenant string) (bool, error) {
	var found []int
	if err := db.Model(&row{}).Where("tenant = ?", tenant).Limit(1).Select("1").Find(&found).Error; err != nil {
		return false, database.Unavailable("look for batches", err)
	}
	return len(found) > 0, nil
}
