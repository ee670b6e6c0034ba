package batch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/sleep"
)

// wireResult is a line of the files that a batch writes, in the dialect.
type wireResult struct {
	ID       string        `json:"id"`
	CustomID string        `json:"custom_id"`
	Response *wireResponse `json:"response"`
	Error    *wireError    `json:"error"`
}

type wireResponse struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"`
}

type wireError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// result is what came of a line.
type result struct {
	line   int64
	failed bool
	state  string // for the metrics
	text   []byte // a line of JSON, without its end
}

// resultID names a result in the files.
func resultID(batch string, line int64) string {
	sum := sha256.Sum256([]byte("batch result/" + requestID(batch, line)))
	return "batch_req_" + hex.EncodeToString(sum[:16])
}

// answered makes the result of what a line was told.
func answered(batch string, l line, r Response) (result, error) {
	body := json.RawMessage(bytes.TrimSpace(r.Body))
	if !json.Valid(body) {
		quoted, err := json.Marshal(string(r.Body))
		if err != nil {
			return result{}, err
		}
		body = quoted
	}
	out := result{line: l.number, state: Completed}
	if out.failed = !succeeded(r.Status); out.failed {
		out.state = Failed
	}
	var err error
	out.text, err = encode(wireResult{
		ID: resultID(batch, l.number), CustomID: l.customID, Response: &wireResponse{r.Status, requestID(batch, l.number), body},
	})
	return out, err
}

// refused makes the result of a line that nobody was asked.
func refused(batch string, l line, state, code, message string) (result, error) {
	text, err := encode(wireResult{ID: resultID(batch, l.number), CustomID: l.customID, Error: &wireError{code, message}})
	return result{l.number, true, state, text}, err
}

func encode(r wireResult) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, errors.New("encode a result") // the encoder's error may quote it
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// statusOverloaded is what an endpoint says in the place of 503 whose clients know an overloaded service by it.
const statusOverloaded = 529

// comeBack returns whether a line is to be asked again later, and how long it was told to wait; 0: it was not told. Besides refusals that pass, that is
// the conflict with itself of a line whose answer was lost, until its usage is recorded.
func comeBack(r Response) (wait time.Duration, again bool) {
	ms, err := strconv.ParseInt(r.Header.Get("Retry-After-Ms"), 10, 64)
	wait = time.Duration(ms) * time.Millisecond
	if err != nil || ms < 0 {
		var s int64
		s, err = strconv.ParseInt(r.Header.Get("Retry-After"), 10, 64)
		wait = time.Duration(s) * time.Second
	}
	told := err == nil && wait >= 0
	if !told {
		wait = 0
	}
	switch {
	case r.Header.Get("X-Should-Retry") == "false":
		return 0, false
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable, r.Status == statusOverloaded:
		return wait, true
	case r.Status == http.StatusConflict:
		return wait, told
	}
	return 0, false
}

// errOver ends work on a batch whose row no longer waits for results.
var errOver = errors.New("the batch takes no more results")

const (
	putTries = 7                     // of a result, after which the batch breaks off and the line is asked again
	putWait  = 50 * time.Millisecond // after the first failure; it doubles
)

// store puts a result, and tries again for a while: an answer that is lost was computed for nothing. Errors: as of put.
func (s *Service) store(ctx context.Context, w *work, r result) (state string, err error) {
	for try, wait := 1, putWait; ; try, wait = try+1, 2*wait {
		state, err = s.put(s.db.WithContext(ctx), w, r)
		if err == nil || errors.Is(err, errOver) || try == putTries || fault.KindOf(err) != fault.Unavailable {
			return state, err
		}
		if !sleep.For(ctx, wait) {
			return "", err
		}
	}
}

// put stores results, those that are new, and counts them in the batch. It returns the state of the batch. Errors: errOver; of the database.
func (s *Service) put(db *gorm.DB, w *work, results ...result) (state string, err error) {
	rows := make([]lineRow, len(results))
	for i, r := range results {
		rows[i] = lineRow{Batch: w.id, Line: r.line, Sealed: w.key.Seal(r.text, lineLabel(w.id, r.line))}
		if r.failed {
			rows[i].Failed = 1
		}
	}
	fresh := map[string]int{}
	err = db.Transaction(func(tx *gorm.DB) error {
		clear(fresh)
		// The batch first: whoever changes its state waits, or has changed it before.
		var now []row
		err := tx.Select("state").Where("id = ?", w.id).Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Find(&now).Error
		if err != nil {
			return err
		}
		if len(now) == 0 || now[0].State != InProgress && now[0].State != Cancelling {
			return errOver
		}
		state = now[0].State
		var completed, failed, stored int64
		for i, r := range rows {
			res := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&r)
			if res.Error != nil {
				return res.Error
			}
			if res.RowsAffected == 0 {
				continue // it has its result
			}
			fresh[results[i].state]++
			completed, failed, stored = completed+1-r.Failed, failed+r.Failed, stored+int64(len(r.Sealed))
		}
		return tx.Model(&row{}).Where("id = ?", w.id).Updates(map[string]any{
			"completed": gorm.Expr("completed + ?", completed), "failed": gorm.Expr("failed + ?", failed), "stored": gorm.Expr("stored + ?", stored),
			"lines_expired": gorm.Expr("lines_expired + ?", fresh[Expired]), "lines_cancelled": gorm.Expr("lines_cancelled + ?", fresh[Cancelled]),
		}).Error
	})
	if err != nil && !errors.Is(err, errOver) {
		return "", database.Unavailable("store a result", err)
	}
	if err == nil {
		for state, n := range fresh {
			s.metrics.lines.WithLabelValues(state).Add(float64(n))
		}
	}
	return state, err
}

// room reports whether a tenant may have another result: its files and the results of its batches that are in none yet are bounded. Error: CodeFilesFull.
func (s *Service) room(ctx context.Context, tenant string) error {
	var stored int64
	err := s.db.WithContext(ctx).Model(&row{}).Where("tenant = ? AND state IN ?", tenant, open()).Select("COALESCE(SUM(stored), 0)").Scan(&stored).Error
	if err != nil {
		return database.Unavailable("look how much results take", err)
	}
	return s.cfg.Files.Room(ctx, tenant, stored+1)
}

// done returns the lines that have their results.
func (s *Service) done(db *gorm.DB, batch string) (map[int64]bool, error) {
	var numbers []int64
	if err := db.Model(&lineRow{}).Where("batch = ?", batch).Pluck("line", &numbers).Error; err != nil {
		return nil, database.Unavailable("read which lines have results", err)
	}
	out := make(map[int64]bool, len(numbers))
	for _, n := range numbers {
		out[n] = true
	}
	return out, nil
}

// The codes of lines that were not asked.
const (
	codeExpired   = "batch_expired"
	codeCancelled = "batch_cancelled"
)

// succeeded reports whether a status is an answer.
func succeeded(status int) bool { return status >= 200 && status <= 299 }

// left returns what is written of lines that were not asked: the time was over, or somebody has ended the batch.
func left(ending string) (code string, message fault.Phrase) {
	if ending == Expired {
		return codeExpired, fault.Say("batch.line_expired", WindowText)
	}
	return codeCancelled, fault.Say("batch.line_cancelled")
}

func (p Problem) String() string { return fmt.Sprintf("%s at line %d", p.Code, p.Line) }
