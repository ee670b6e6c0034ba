package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
)

// Batch is how a batch stands. Times are zero until they have come.
type Batch struct {
	ID, Endpoint, State                                                 string
	Project                                                             string
	InputFile, OutputFile, ErrorFile                                    string // "" until there is one
	Window                                                              string
	Metadata                                                            map[string]string
	Problems                                                            []Problem
	Total, Completed, Failed                                            int64
	Expired, Cancelled                                                  int64     // of the failed ones: those that were not asked
	ResultsGone                                                         time.Time // when the files of an ended batch go; zero: never
	Created, Expires, InProgressAt, FinalizingAt, CancellingAt, EndedAt time.Time
}

// Scope is which batches somebody means: those of an owner that ask one of the endpoints. All others are not there.
type Scope struct {
	files.Owner

	Endpoints  []string
	AnyProject bool // those of the owner in all projects
}

// NewID returns the id of a batch that is to come. Ids of one scope order as their batches came.
func NewID() string { return idMark + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "") }

const (
	idMark   = "batch_"
	idDigits = 32
)

// isID reports whether a batch could have an id. A dialect may have put something in front of what NewID has returned.
func isID(id string) bool {
	_, digits, ok := strings.Cut(id, idMark)
	return ok && len(digits) == idDigits && strings.Trim(digits, "0123456789abcdef") == "" && database.Text(id) == id
}

// NewBatch is what somebody wants done.
type NewBatch struct {
	ID         string // of NewID
	Endpoint   string // one of [Endpoints]
	InputFile  string // "" where the requests come in an [Input]
	Metadata   map[string]string
	OutputLife time.Duration // of the files of results; 0: they never expire
	Source     string        // where it is asked
	Language   string        // in which its lines are told errors

	Purpose, OnBehalfOf, DataGrade string // of its lines
}

// sealedText is what of a batch is encrypted.
type sealedText struct {
	Metadata   map[string]string `json:"metadata"`
	OnBehalfOf string            `json:"on_behalf_of,omitempty"`
	DataGrade  string            `json:"data_grade,omitempty"`
}

// Create makes a batch of a file in the name of by, and holds the file. Errors: CodeNotFound for a file that is not the caller's; CodeInvalidValue for one of
// another purpose; CodeBatchesFull where the tenant has as many open batches as it may.
func (s *Service) Create(ctx context.Context, by identity.Principal, n NewBatch) (Batch, error) {
	if !slices.Contains(Endpoints(), n.Endpoint) {
		return Batch{}, fault.New(fault.CodeInvalidValue, "endpoint", fault.Say("value.one_of", strings.Join(Endpoints(), ", "))).WithParam("endpoint")
	}
	b, err := s.newRow(by, n)
	if err != nil {
		return Batch{}, err
	}
	return s.create(ctx, b, n)
}

func (s *Service) create(ctx context.Context, b row, n NewBatch) (Batch, error) {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return s.insert(tx, &b, sealedText{n.Metadata, n.OnBehalfOf, n.DataGrade}) })
	if err != nil {
		return Batch{}, database.Unavailable("make the batch", err)
	}
	s.rouse()
	return b.public(n.Metadata)
}

func (s *Service) newRow(by identity.Principal, n NewBatch) (row, error) {
	owner, as, now := files.OwnerOf(by), identity.ActingFor(by), s.now()
	scopes, err := json.Marshal(as.Scopes)
	return row{
		ID: n.ID, Tenant: owner.Tenant, Project: owner.Project, Person: owner.Person, ActorKind: as.Kind, Actor: as.ID, Scopes: string(scopes), Proof: as.Proof,
		Source: n.Source, Language: n.Language, Purpose: n.Purpose, Endpoint: n.Endpoint, InputFile: n.InputFile, State: Validating, WindowText: WindowText, OutputLife: int64(n.OutputLife / time.Second),
		Problems: "[]", CreatedAt: now.UnixMicro(), ExpiresAt: now.Add(Window).UnixMicro(),
	}, err
}

func (s *Service) insert(tx *gorm.DB, b *row, says sealedText) error {
	input, err := s.cfg.Files.Hold(tx, b.owner(), b.InputFile) // which locks the files of the tenant, so that batches are counted one by one
	if err != nil {
		return err
	}
	if input.Purpose != files.PurposeBatch {
		return fault.New(fault.CodeInvalidValue, "input_file_id", fault.Say("batch.purpose", input.Purpose)).WithParam("input_file_id")
	}
	if err := s.roomForBatch(tx, b.Tenant); err != nil {
		return err
	}
	key, e, err := s.keys.NewDataKey(tx, s.cfg.Suite, b.label())
	if err != nil {
		return err
	}
	text, err := json.Marshal(says)
	if err != nil {
		return err
	}
	b.Suite, b.Epoch, b.Wrapped, b.Metadata = string(e.Suite), e.Epoch, e.Sealed, key.Seal(text, metadataLabel(b.ID))
	return tx.Create(b).Error
}

// roomForBatch refuses a batch more than the tenant may have open.
func (s *Service) roomForBatch(db *gorm.DB, tenant string) error {
	var n int64
	if err := db.Model(&row{}).Where("tenant = ? AND state IN ?", tenant, open()).Count(&n).Error; err != nil {
		return err
	}
	if n >= s.cfg.MaxOpen {
		return fault.New(fault.CodeBatchesFull, s.cfg.MaxOpen).WithRetryAfter(time.Minute)
	}
	return nil
}

func (b row) public(metadata map[string]string) (Batch, error) {
	out := Batch{
		ID: b.ID, Endpoint: b.Endpoint, State: b.State, Project: b.Project, InputFile: b.InputFile, OutputFile: b.OutputFile, ErrorFile: b.ErrorFile, Window: b.WindowText, Metadata: metadata,
		Total: b.Total, Completed: b.Completed, Failed: b.Failed, Created: at(b.CreatedAt), Expires: at(b.ExpiresAt), InProgressAt: at(b.InProgressAt),
		FinalizingAt: at(b.FinalizingAt), CancellingAt: at(b.CancellingAt), EndedAt: at(b.EndedAt), Expired: b.LinesExpired, Cancelled: b.LinesCancelled,
	}
	if b.ended() && b.OutputLife > 0 {
		out.ResultsGone = out.EndedAt.Add(time.Duration(b.OutputLife) * time.Second)
	}
	if err := json.Unmarshal([]byte(b.Problems), &out.Problems); err != nil {
		return out, fmt.Errorf("read the problems of batch %s: %w", b.ID, err)
	}
	return out, nil
}

// shown opens what of a batch is sealed.
func (s *Service) shown(db *gorm.DB, b row) (Batch, error) {
	key, err := s.key(db, b)
	if err != nil {
		return Batch{}, err
	}
	says, err := b.openText(key)
	if err != nil {
		return Batch{}, err
	}
	return b.public(says.Metadata)
}

func (b row) openText(key seal.Key) (says sealedText, err error) {
	text, err := key.Open(b.Metadata, metadataLabel(b.ID))
	if err != nil {
		return says, fmt.Errorf("batch %s: its metadata do not open: %w", b.ID, err)
	}
	if json.Unmarshal(text, &says) != nil {
		return says, fmt.Errorf("batch %s: its metadata are not ours", b.ID) // the error of the decoder would quote them
	}
	return says, nil
}

// Get returns a batch. Error: CodeNotFound, also for a batch of somebody else.
func (s *Service) Get(ctx context.Context, o Scope, id string) (out Batch, err error) {
	err = database.Snapshot(ctx, s.db, func(tx *gorm.DB) error {
		b, err := find(tx, o, id)
		if err == nil {
			out, err = s.shown(tx, b)
		}
		return err
	})
	return out, database.Unavailable("read the batch", err)
}

// Page says which part of a list is wanted: behind the id After, or before the id Before, or, where both are "", the newest ones.
type Page struct {
	After, Before string
	Limit         int
}

// List returns a page of batches, the newest first, and whether there are more in its direction. The batches that the page names as its ends may be gone:
// a caller can delete what it has read of a list and go on. Error: CodeNotFound for what is no id of a batch.
func (s *Service) List(ctx context.Context, o Scope, p Page) (page []Batch, more bool, err error) {
	err = database.Snapshot(ctx, s.db, func(tx *gorm.DB) error {
		page = nil
		rows, err := listed(tx, o, p)
		if err != nil {
			return err
		}
		if more = len(rows) > p.Limit; more {
			rows = rows[:p.Limit]
		}
		if p.Before != "" {
			slices.Reverse(rows)
		}
		for _, b := range rows {
			one, err := s.shown(tx, b)
			if err != nil {
				return err
			}
			page = append(page, one)
		}
		return nil
	})
	return page, more, database.Unavailable("list batches", err)
}

// listed returns the rows of a page, the nearest to its id first, and one more.
func listed(tx *gorm.DB, o Scope, p Page) (rows []row, err error) {
	from, order, than := p.After, "id DESC", "<"
	if p.Before != "" {
		from, order, than = p.Before, "id", ">"
	}
	want := within(tx, o).Select(columns()).Order(order).Limit(p.Limit + 1)
	if from != "" {
		if !isID(from) {
			return nil, notFound(from)
		}
		want = want.Where("id "+than+" ?", from)
	}
	return rows, want.Find(&rows).Error
}

// Cancel ends a batch: nothing more of it is asked, and what is being asked is waited for. It returns the batch, which is cancelling. Errors: CodeNotFound;
// CodeConflict for one that has ended or is about to.
func (s *Service) Cancel(ctx context.Context, o Scope, id string) (Batch, error) {
	db := s.db.WithContext(ctx)
	res := within(db.Model(&row{}), o).Where("id = ? AND state IN ?", database.Text(id), []string{Validating, InProgress}).
		Updates(map[string]any{"state": Cancelling, "ending": Cancelled, "cancelling_at": s.now().UnixMicro()})
	if res.Error != nil {
		return Batch{}, database.Unavailable("cancel the batch", res.Error)
	}
	b, err := s.Get(ctx, o, id)
	if err == nil && b.State != Cancelling && b.State != Cancelled {
		err = fault.New(fault.CodeConflict, fault.Say("batch.over", b.State))
	}
	if res.RowsAffected > 0 {
		s.stopWork(id)
		s.rouse()
	}
	return b, err
}

// Delete removes a batch that has ended, with its input and the files that it has written. It may be repeated. Errors: CodeNotFound; CodeConflict for one
// that has not ended.
func (s *Service) Delete(ctx context.Context, o Scope, id string) error {
	b, err := find(s.db.WithContext(ctx), o, id)
	if err != nil {
		return database.Unavailable("look for the batch", err)
	}
	if !b.ended() {
		return fault.New(fault.CodeConflict, fault.Say("batch.not_over", b.State))
	}
	for _, file := range []string{b.InputFile, b.OutputFile, b.ErrorFile} { // before the row, which knows their names
		if file == "" {
			continue
		}
		if err := s.cfg.Files.Delete(ctx, o.Owner, file); err != nil && !fault.Is(err, fault.CodeNotFound) {
			return err
		}
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if database.IsSQLite(tx) { // what is deleted is overwritten
			if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
				return err
			}
		}
		return within(tx, o).Where("id = ?", b.ID).Delete(&row{}).Error
	})
	return database.Unavailable("delete the batch", err)
}

// rouse has the runner look for work at once.
func (s *Service) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
