package wrapkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// schema is the migration that brings epochs. A rotation keeps releases before it off the database: they could not read what it wraps.
const schema = 32

// rotationRow is the row of wrapping_rotation.
type rotationRow struct {
	Active   int64
	Begun    int64
	Emptied  int64
	Finished int64
}

// running reports whether a rotation has begun and not ended.
func (r rotationRow) running() bool { return r.Begun != 0 && r.Finished == 0 }

// readRotation reads the row and, with a strength, locks it.
func readRotation(db *gorm.DB, strength string) (rotationRow, error) {
	var rows []rotationRow
	q := db.Table("wrapping_rotation").Select("active", "begun", "emptied", "finished").Where("name = 'rotation'")
	if strength != "" {
		q = q.Clauses(clause.Locking{Strength: strength})
	}
	if err := q.Find(&rows).Error; err != nil {
		return rotationRow{}, database.Unavailable("read the active wrapping key", err)
	}
	if len(rows) == 0 {
		return rotationRow{}, errors.New("the row of wrapping_rotation is gone; restore it: without it nobody knows which wrapping key is active")
	}
	return rows[0], nil
}

// progressRow is a row of wrapping_progress.
type progressRow struct {
	Kind       string
	Position   string
	Total      int64
	Done       int64
	Unreadable int64
	Complete   int64
}

// TableName implements gorm's Tabler.
func (progressRow) TableName() string { return "wrapping_progress" }

func progressColumns() []string {
	return []string{"kind", "position", "total", "done", "unreadable", "complete"}
}

// Epoch is a wrapping key, without its bytes.
type Epoch struct {
	Number             int64
	State              string
	Created, Destroyed time.Time // zero: derived from the master key; not destroyed
}

// Progress is how far a rotation has come with one kind.
type Progress struct {
	Kind        string
	Total, Done int64 // rows that were of older epochs when it began, and that were re-wrapped
	Unreadable  int64 // rows that did not open, and stay as they are
	Left        int64 // rows of older epochs now, the unreadable ones among them
}

// Status is how the wrapping keys stand.
type Status struct {
	Active          int64
	Running         bool
	Begun, Finished time.Time // of the last rotation; zero: none yet, or not finished
	DestroyAfter    time.Time // while it waits for the grace; else zero
	Kinds           []Progress
	Epochs          []Epoch
}

// Begin makes the next epoch and has everything moved to it by whoever runs [Rotator.Run]. From when it returns, nothing is stored under an older
// epoch. Errors: CodeConflict while a rotation runs; those of the database, after which it may have begun.
func (r *Rotator) Begin(ctx context.Context) (Status, error) {
	err := r.cfg.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		now := r.now().UnixMicro()
		was, err := readRotation(tx, clause.LockingStrengthUpdate)
		if err != nil {
			return err
		}
		if was.running() {
			return fault.New(fault.CodeConflict, fault.Say("wrapkey.running", was.Active))
		}
		next, err := newEpoch(r.cfg.Ring, r.cfg.Suite, was.Active+1, now)
		if err != nil {
			return err
		}
		if err := tx.Table(row{}.TableName()).Where("state = ?", StateActive).Update("state", StateRetiring).Error; err != nil {
			return err
		}
		if err := tx.Create(&next).Error; err != nil {
			return err
		}
		if err := tx.Where("1 = 1").Delete(&progressRow{}).Error; err != nil {
			return err
		}
		for _, k := range r.cfg.Kinds {
			n, err := k.Count(tx, 0, was.Active)
			if err != nil {
				return err
			}
			if err := tx.Create(&progressRow{Kind: k.Name(), Total: n}).Error; err != nil {
				return err
			}
		}
		if err := tx.Exec("UPDATE installation_compatibility SET floor = ? WHERE floor < ?", schema, schema).Error; err != nil {
			return err
		}
		return tx.Exec("UPDATE wrapping_rotation SET active = ?, begun = ?, emptied = 0, finished = 0 WHERE name = 'rotation'", next.Number, now).Error
	})
	if err != nil {
		return Status{}, database.Unavailable("begin the rotation", err)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return r.Status(ctx)
}

// Status says how the wrapping keys stand, from the database.
func (r *Rotator) Status(ctx context.Context) (out Status, err error) {
	err = database.Snapshot(ctx, r.cfg.DB, func(tx *gorm.DB) error {
		now, err := readRotation(tx, "")
		if err != nil {
			return err
		}
		out = Status{Active: now.Active, Running: now.running(), Begun: moment(now.Begun), Finished: moment(now.Finished)}
		if out.Running && now.Emptied != 0 {
			out.DestroyAfter = moment(now.Emptied).Add(r.cfg.Grace)
		}
		if out.Kinds, err = r.progress(tx, now.Active); err != nil {
			return err
		}
		var rows []row
		if err := tx.Select("number", "state", "created", "destroyed").Order("number").Find(&rows).Error; err != nil {
			return err
		}
		for _, x := range rows {
			out.Epochs = append(out.Epochs, Epoch{x.Number, x.State, moment(x.Created), moment(x.Destroyed)})
		}
		return nil
	})
	return out, database.Unavailable("read the rotation", err)
}

func (r *Rotator) progress(tx *gorm.DB, active int64) ([]Progress, error) {
	var rows []progressRow
	if err := tx.Select(progressColumns()).Find(&rows).Error; err != nil {
		return nil, err
	}
	out := make([]Progress, 0, len(r.cfg.Kinds))
	for _, k := range r.cfg.Kinds {
		p := Progress{Kind: k.Name()}
		if i := slices.IndexFunc(rows, func(x progressRow) bool { return x.Kind == p.Kind }); i >= 0 {
			p.Total, p.Done, p.Unreadable = rows[i].Total, rows[i].Done, rows[i].Unreadable
		}
		var err error
		if p.Left, err = k.Count(tx, 0, active-1); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// step does the next piece of work of the rotation, and reports whether there may be more at once.
func (r *Rotator) step(ctx context.Context) (more bool, err error) {
	db := r.cfg.DB.WithContext(ctx)
	now, err := readRotation(db, "")
	if err != nil || !now.running() {
		return false, err
	}
	for _, k := range r.cfg.Kinds {
		open, err := r.renewSome(db, k, now.Active)
		if err != nil || open {
			return open, err
		}
	}
	if now.Emptied == 0 {
		err := db.Exec("UPDATE wrapping_rotation SET emptied = ? WHERE name = 'rotation' AND active = ? AND emptied = 0", r.now().UnixMicro(), now.Active).Error
		return false, database.Unavailable("note that everything is wrapped anew", err)
	}
	if r.now().Before(moment(now.Emptied).Add(r.cfg.Grace)) {
		return false, nil
	}
	return false, r.finish(ctx, now.Active)
}

// errOvertaken says that another replica has done a step meanwhile.
var errOvertaken = errors.New("another replica has gone on with the rotation")

// renewSome re-wraps the next rows of a kind, and reports whether there was something to do.
func (r *Rotator) renewSome(db *gorm.DB, k Kind, active int64) (open bool, err error) {
	var rows []progressRow
	if err := db.Select(progressColumns()).Where("kind = ?", k.Name()).Find(&rows).Error; err != nil {
		return false, database.Unavailable("read how far the rotation has come", err)
	}
	if len(rows) == 0 {
		return true, r.takeIn(db, k, active)
	}
	p := rows[0]
	if p.Complete != 0 {
		return false, nil
	}
	before, moved := p, int64(0)
	was := before.Position
	err = db.Transaction(func(tx *gorm.DB) error {
		now, err := readRotation(tx, clause.LockingStrengthShare)
		if err != nil {
			return err
		}
		if now.Active != active || !now.running() {
			return errOvertaken
		}
		done, err := k.Renew(tx, was, active)
		if err != nil {
			return err
		}
		moved = done.Done
		if was == "" {
			p.Unreadable = 0
		}
		p.Position, p.Done, p.Unreadable = done.Last, p.Done+done.Done, p.Unreadable+done.Unreadable
		if done.Last == "" {
			left, err := k.Count(tx, 0, active-1)
			if err != nil {
				return err
			}
			if left == p.Unreadable {
				p.Complete = 1
			} // else somebody held a row: the next round begins with the first
		}
		// The position alone does not tell that nobody has gone on: a round that left rows over is back where it began.
		res := tx.Exec("UPDATE wrapping_progress SET position = ?, done = ?, unreadable = ?, complete = ? WHERE kind = ? AND position = ? AND done = ? AND unreadable = ? AND complete = 0",
			p.Position, p.Done, p.Unreadable, p.Complete, p.Kind, was, before.Done, before.Unreadable)
		if res.Error == nil && res.RowsAffected == 0 {
			return errOvertaken
		}
		return res.Error
	})
	if errors.Is(err, errOvertaken) { // look again how far it has come
		return true, nil
	}
	if err != nil {
		return false, database.Unavailable("wrap anew", err)
	}
	r.metrics.done.WithLabelValues(p.Kind).Add(float64(moved))
	return true, nil
}

// takeIn has the rotation re-wrap a kind, too, that the replica which has begun it did not know: it was of the release before. The grace begins anew.
func (r *Rotator) takeIn(db *gorm.DB, k Kind, active int64) error {
	err := db.Transaction(func(tx *gorm.DB) error {
		now, err := readRotation(tx, clause.LockingStrengthUpdate)
		if err != nil || now.Active != active || !now.running() { // the next step looks again
			return err
		}
		n, err := k.Count(tx, 0, active-1)
		if err != nil {
			return err
		}
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&progressRow{Kind: k.Name(), Total: n}).Error; err != nil {
			return err
		}
		return tx.Exec("UPDATE wrapping_rotation SET emptied = 0 WHERE name = 'rotation'").Error
	})
	return database.Unavailable("have the rotation take in another kind", err)
}

// The actions of the records of a rotation.
const (
	// ActionDestroy is that of the record before the bytes of older epochs are destroyed; it is sealed before they are.
	ActionDestroy = "keyring.destroy"
	// ActionRotated is that of the record that a rotation has ended, with how much it re-wrapped.
	ActionRotated = "keyring.rotated"
)

// finish destroys the older random epochs that no row names, and ends the rotation. Broken off anywhere it is repeated, and so is a record of it.
func (r *Rotator) finish(ctx context.Context, active int64) error {
	db := r.cfg.DB.WithContext(ctx)
	free, kept, err := r.olderEpochs(db, active)
	if err != nil {
		return err
	}
	progress, err := r.progress(db, active)
	if err != nil {
		return database.Unavailable("read how far the rotation has come", err)
	}
	detail := map[string]string{"epoch": strconv.FormatInt(active, 10), "destroyed": join(free), "kept": join(kept)}
	for _, p := range progress {
		detail[p.Kind], detail[p.Kind+".unreadable"] = strconv.FormatInt(p.Done, 10), strconv.FormatInt(p.Unreadable, 10)
	}
	if len(free) > 0 {
		if err := r.cfg.Record(ctx, ActionDestroy, detail); err != nil {
			return fmt.Errorf("record what is destroyed: %w", err)
		}
		if err := r.destroy(db, active, free); err != nil {
			return database.Unavailable("destroy older wrapping keys", err)
		}
	}
	if err := scrub(db); err != nil {
		return database.Unavailable("destroy older wrapping keys", err)
	}
	if err := r.cfg.Record(ctx, ActionRotated, detail); err != nil {
		return fmt.Errorf("record the end of the rotation: %w", err)
	}
	err = db.Exec("UPDATE wrapping_rotation SET finished = ? WHERE name = 'rotation' AND active = ? AND finished = 0", r.now().UnixMicro(), active).Error
	return database.Unavailable("end the rotation", err)
}

// olderEpochs returns the random epochs that retire: those that no row names, and the others.
func (r *Rotator) olderEpochs(db *gorm.DB, active int64) (free, kept []int64, err error) {
	var numbers []int64
	err = db.Table(row{}.TableName()).Where("state = ? AND number > 0 AND number < ?", StateRetiring, active).Order("number").Pluck("number", &numbers).Error
	if err != nil {
		return nil, nil, database.Unavailable("read the wrapping keys", err)
	}
	for _, n := range numbers {
		used := false
		for _, k := range r.cfg.Kinds {
			rows, err := k.Count(db, n, n)
			if err != nil {
				return nil, nil, database.Unavailable("count what is wrapped", err)
			}
			used = used || rows > 0
		}
		if used {
			kept = append(kept, n)
		} else {
			free = append(free, n)
		}
	}
	return free, kept, nil
}

// destroy overwrites the bytes of epochs, unless a row names one after all. Nobody wraps meanwhile.
func (r *Rotator) destroy(db *gorm.DB, active int64, numbers []int64) error {
	return db.Transaction(func(tx *gorm.DB) error {
		now, err := readRotation(tx, clause.LockingStrengthUpdate)
		if err != nil {
			return err
		}
		if now.Active != active || !now.running() {
			return errOvertaken
		}
		free, _, err := r.olderEpochs(tx, active)
		if err != nil {
			return err
		}
		if !slices.Equal(free, numbers) {
			return fmt.Errorf("the wrapping keys %s are not the ones to destroy any more, but %s; will be tried again", join(numbers), join(free))
		}
		if database.IsSQLite(tx) {
			if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
				return err
			}
		}
		return tx.Table(row{}.TableName()).Where("number IN ?", numbers).
			Updates(map[string]any{"state": StateDestroyed, "destroyed": r.now().UnixMicro(), "wrapped": []byte{}}).Error
	})
}

// scrub removes what the bytes of destroyed epochs left in the files of the database, as far as those are ours.
func scrub(db *gorm.DB) error {
	if database.IsSQLite(db) {
		var r struct{ Busy int64 }
		if err := db.Raw("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&r).Error; err != nil {
			return err
		}
		if r.Busy != 0 {
			return errors.New("a long read held the log of the database; will be tried again")
		}
		return nil
	}
	return db.Exec("VACUUM FULL wrapping_keys").Error
}

func join(numbers []int64) string {
	out := ""
	for i, n := range numbers {
		if i > 0 {
			out += " "
		}
		out += strconv.FormatInt(n, 10)
	}
	return out
}
