package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
)

// store keeps what lists and auditors read. Every write is repeatable.
type store struct{ db *gorm.DB }

type rolloutRow struct {
	ID         string
	Model      string
	Stable     string
	Candidate  string
	Spec       string
	Starter    string
	Phase      string
	Share      int
	Decision   string
	CheckedAt  int64
	Seq        int
	StartedAt  int64
	EnteredAt  int64
	FinishedAt int64
	Evidence   string // what the decision was made of
}

func (rolloutRow) TableName() string { return "rollout_rollouts" }

//nolint:gochecknoglobals // a constant table
var rolloutColumns = []string{
	"id", "model", "stable", "candidate", "spec", "starter", "phase", "share", "decision", "checked_at", "seq",
	"started_at", "entered_at", "finished_at",
}

type transitionRow struct {
	ID        string
	Rollout   string
	Seq       int
	FromPhase string
	ToPhase   string
	Share     int
	At        int64
	Actor     string
	Reason    string
	Evidence  string
	Audit     string
	Cause     string
}

func (transitionRow) TableName() string { return "rollout_transitions" }

type evidenceRow struct {
	Hash       string
	Rollout    string
	At         int64
	Body       string
	Thresholds string
	Decision   string
}

func (evidenceRow) TableName() string { return "rollout_evidence" }

func unavailable(step string, err error) error {
	return fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeDatabaseUnavailable)
}

// create inserts the row of a new rollout.
func (s *store) create(ctx context.Context, st State) error {
	spec, err1 := encode(st.Spec)
	starter, err2 := encode(st.Starter)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	row := rolloutRow{
		ID: st.ID, Model: st.Model, Stable: st.Stable, Candidate: st.Candidate, Spec: spec, Starter: starter,
		Phase: st.Phase, StartedAt: st.StartedAt,
	}
	if err := s.db.WithContext(ctx).Create(&row).Error; err != nil {
		return unavailable("insert rollout", err)
	}
	return nil
}

// abandon marks a rollout that never started.
func (s *store) abandon(ctx context.Context, id string, at time.Time) error {
	err := s.db.WithContext(ctx).Table("rollout_rollouts").Where("id = ? AND phase = ?", id, PhaseStarting).
		Updates(map[string]any{"phase": PhaseFailed, "finished_at": at.UnixMicro()}).Error
	if err != nil {
		return unavailable("abandon rollout", err)
	}
	return nil
}

// errOvertaken says that a forward transition's number went to the abort that was performed while Temporal was away.
var errOvertaken = errors.New("the rollout was aborted before this transition began")

// transition makes sure that t has its row and returns the id of its audit record and the hash of its evidence, each "" before
// there is one.
func (s *store) transition(ctx context.Context, rollout string, t Transition) (audit, evidence string, err error) {
	actor, err := encode(t.Actor)
	if err != nil {
		return "", "", err
	}
	var cause string
	if t.Cause != nil {
		if cause, err = encode(t.Cause); err != nil {
			return "", "", err
		}
	}
	row := transitionRow{
		ID: t.ID, Rollout: rollout, Seq: t.Seq, FromPhase: t.From, ToPhase: t.To, Share: t.Share, At: t.At, Actor: actor,
		Reason: t.Reason, Evidence: t.Evidence, Cause: cause,
	}
	evidence = t.Evidence
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var have []transitionRow
		if err := tx.Select("id", "to_phase", "audit", "evidence").Where("id = ?", t.ID).Limit(1).Find(&have).Error; err != nil {
			return err
		}
		if len(have) == 1 {
			if have[0].ToPhase != t.To && !finished(phaseOf(t.To)) {
				return errOvertaken
			}
			audit, evidence = have[0].Audit, have[0].Evidence
			return nil
		}
		return tx.Create(&row).Error
	})
	if errors.Is(err, errOvertaken) {
		return "", "", err
	}
	if errors.Is(err, gorm.ErrDuplicatedKey) { // a twin of this attempt was faster; the next attempt finds its row
		return "", "", fmt.Errorf("insert transition %s: %w", t.ID, err)
	}
	if err != nil {
		return "", "", unavailable("insert transition", err)
	}
	return audit, evidence, nil
}

// settled notes what the step that the transition id leaves ended on.
func (s *store) settled(ctx context.Context, id, evidence string) error {
	err := s.db.WithContext(ctx).Table("rollout_transitions").Where("id = ?", id).Update("evidence", evidence).Error
	if err != nil {
		return unavailable("note evidence", err)
	}
	return nil
}

func (s *store) audited(ctx context.Context, id, audit string) error {
	err := s.db.WithContext(ctx).Table("rollout_transitions").Where("id = ?", id).Update("audit", audit).Error
	if err != nil {
		return unavailable("note audit record", err)
	}
	return nil
}

// latest returns the number of the latest transition begun.
func (s *store) latest(ctx context.Context, rollout string) (int, error) {
	var seq int
	err := s.db.WithContext(ctx).Table("rollout_transitions").Select("COALESCE(MAX(seq), 0)").Where("rollout = ?", rollout).Scan(&seq).Error
	if err != nil {
		return 0, unavailable("read transitions", err)
	}
	return seq, nil
}

// superseded reports whether a transition after seq has begun.
func (s *store) superseded(ctx context.Context, rollout string, seq int) (bool, error) {
	latest, err := s.latest(ctx, rollout)
	return latest > seq, err
}

// entered brings the rollout's row to t. An attempt that comes late changes nothing.
func (s *store) entered(ctx context.Context, rollout string, t Transition) error {
	set := map[string]any{"phase": phaseOf(t.To), "share": t.Share, "seq": t.Seq, "entered_at": t.At, "finished_at": int64(0)}
	if finished(phaseOf(t.To)) {
		set["finished_at"] = t.At // the verdict that led here stays, and what it rests on
	} else {
		set["decision"], set["evidence"], set["checked_at"] = "", "", int64(0)
	}
	err := s.db.WithContext(ctx).Table("rollout_rollouts").Where("id = ? AND seq < ?", rollout, t.Seq).Updates(set).Error
	if err != nil {
		return unavailable("update rollout", err)
	}
	return nil
}

func finished(phase string) bool {
	switch phase {
	case PhaseCompleted, PhaseRolledBack, PhaseAborted, PhaseFailed:
		return true
	}
	return false
}

// checked notes the latest verdict of a running rollout with what it was made of. An evaluation that comes late, when the rollout has left
// the step, changes nothing.
func (s *store) checked(ctx context.Context, ev Evidence, d Decision, at time.Time) error {
	decision, err := encode(d)
	if err != nil {
		return err
	}
	err = s.db.WithContext(ctx).Table("rollout_rollouts").
		Where("id = ? AND finished_at = 0 AND phase = ? AND share = ?", ev.Rollout, phaseOf(ev.Phase), shareOf(ev.Phase)).
		Updates(map[string]any{"decision": decision, "evidence": string(ev.canonical()), "checked_at": at.UnixMicro()}).Error
	if err != nil {
		return unavailable("note verdict", err)
	}
	return nil
}

// saveEvidence stores evidence under its hash, once.
func (s *store) saveEvidence(ctx context.Context, ev Evidence, th Thresholds, d Decision, at time.Time) error {
	thresholds, err1 := encode(th)
	decision, err2 := encode(d)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	row := evidenceRow{
		Hash: d.Evidence, Rollout: ev.Rollout, At: at.UnixMicro(), Body: string(ev.canonical()), Thresholds: thresholds, Decision: decision,
	}
	err := s.db.WithContext(ctx).Create(&row).Error
	if err != nil && !errors.Is(err, gorm.ErrDuplicatedKey) {
		return unavailable("keep evidence", err)
	}
	return nil
}

// evaluations returns the evidence that a rollout refers to, by hash: what its steps were left on, and its latest verdict. A step that
// passes and waits keeps one evaluation after the other, which nobody asks for again.
func (s *store) evaluations(ctx context.Context, st State) (map[string]Evaluation, error) {
	hashes := []string{st.Decision.Evidence}
	for _, t := range st.History {
		hashes = append(hashes, t.Evidence)
	}
	out, err := s.evidence(ctx, hashes)
	if err != nil {
		return nil, err
	}
	var proofs []string
	for _, l := range out {
		if l.Evidence.Proven != "" {
			proofs = append(proofs, l.Evidence.Proven)
		}
	}
	if len(proofs) == 0 {
		return out, nil
	}
	proven, err := s.evidence(ctx, proofs)
	if err != nil {
		return nil, err
	}
	for hash, l := range out {
		if proof, ok := proven[l.Evidence.Proven]; ok {
			l.Proof = &proof
			out[hash] = l
		}
	}
	return out, nil
}

func (s *store) evidence(ctx context.Context, hashes []string) (map[string]Evaluation, error) {
	var rows []evidenceRow
	err := s.db.WithContext(ctx).Select("hash", "at", "body", "thresholds", "decision").Where("hash IN ?", hashes).Find(&rows).Error
	if err != nil {
		return nil, unavailable("read evidence", err)
	}
	out := make(map[string]Evaluation, len(rows))
	for _, r := range rows {
		l := Evaluation{At: r.At}
		err := errors.Join(json.Unmarshal([]byte(r.Body), &l.Evidence), json.Unmarshal([]byte(r.Thresholds), &l.Thresholds), json.Unmarshal([]byte(r.Decision), &l.Decision))
		if err != nil {
			return nil, fmt.Errorf("decode evidence %s: %w", r.Hash, err)
		}
		out[r.Hash] = l
	}
	return out, nil
}

// earlier returns what the partial steps that a rollout has left ended on.
func (s *store) earlier(ctx context.Context, rollout string) ([]EarlierStep, error) {
	st, err := s.get(ctx, rollout)
	if err != nil {
		return nil, err
	}
	kept, err := s.evaluations(ctx, st)
	if err != nil {
		return nil, err
	}
	var out []EarlierStep
	for _, t := range st.History {
		if phaseOf(t.From) != PhaseCanary || phaseOf(t.To) != PhaseCanary {
			continue
		}
		l, ok := kept[t.Evidence]
		if !ok {
			return nil, fmt.Errorf("the evidence of %s of rollout %s is missing", t.From, rollout)
		}
		out = append(out, earlierStep(l))
	}
	return out, nil
}

// get returns one rollout with its history.
func (s *store) get(ctx context.Context, id string) (State, error) {
	var rows []rolloutRow // lists do without the evidence, which is long
	err := s.db.WithContext(ctx).Select(rolloutColumns, "evidence").Where("id = ?", id).Limit(1).Find(&rows).Error
	if err != nil {
		return State{}, unavailable("read rollout", err)
	}
	if len(rows) == 0 {
		return State{}, fault.New(fault.CodeNotFound, fault.Say("thing.rollout"), id)
	}
	st, err := rows[0].state()
	if err != nil {
		return State{}, err
	}
	var moves []transitionRow
	err = s.db.WithContext(ctx).Select("id", "seq", "from_phase", "to_phase", "share", "at", "actor", "reason", "evidence", "audit", "cause").
		Where("rollout = ?", id).Order("seq").Find(&moves).Error
	if err != nil {
		return State{}, unavailable("read transitions", err)
	}
	for _, m := range moves {
		t := Transition{
			ID: m.ID, Seq: m.Seq, From: m.FromPhase, To: m.ToPhase, Share: m.Share, At: m.At, Reason: m.Reason, Evidence: m.Evidence,
			Audit: m.Audit,
		}
		if err := json.Unmarshal([]byte(m.Actor), &t.Actor); err != nil {
			return State{}, fmt.Errorf("decode actor of %s: %w", m.ID, err)
		}
		if m.Cause != "" {
			if err := json.Unmarshal([]byte(m.Cause), &t.Cause); err != nil {
				return State{}, fmt.Errorf("decode cause of %s: %w", m.ID, err)
			}
		}
		st.History = append(st.History, t)
	}
	return st, nil
}

// answering returns the ids of the running rollouts that have begun to give the candidate a share, whether or not their rows say so yet.
func (s *store) answering(ctx context.Context) (ids []string, err error) {
	err = s.db.WithContext(ctx).Table("rollout_rollouts AS r").
		Where("r.finished_at = 0 AND (r.share > 0 OR EXISTS (SELECT 1 FROM rollout_transitions AS t WHERE t.rollout = r.id AND t.share > 0))").Order("r.id").Pluck("r.id", &ids).Error
	if err != nil {
		return nil, unavailable("list rollouts", err)
	}
	return ids, nil
}

// list returns up to limit rollouts, newest first, that come after the one with the id cursor. Ids are UUIDv7: their order is
// the order of time.
func (s *store) list(ctx context.Context, cursor string, limit int) ([]State, error) {
	q := s.db.WithContext(ctx).Select(rolloutColumns)
	if cursor != "" {
		q = q.Where("id < ?", cursor)
	}
	var rows []rolloutRow
	if err := q.Order("id DESC").Limit(limit).Find(&rows).Error; err != nil {
		return nil, unavailable("list rollouts", err)
	}
	out := make([]State, 0, len(rows))
	for _, r := range rows {
		st, err := r.state()
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

func (r rolloutRow) state() (State, error) {
	st := State{
		ID: r.ID, Model: r.Model, Stable: r.Stable, Candidate: r.Candidate, Phase: r.Phase, Step: -1, Share: r.Share,
		StartedAt: r.StartedAt, EnteredAt: r.EnteredAt, CheckedAt: r.CheckedAt, FinishedAt: r.FinishedAt,
	}
	err := errors.Join(json.Unmarshal([]byte(r.Spec), &st.Spec), json.Unmarshal([]byte(r.Starter), &st.Starter))
	if r.Decision != "" {
		err = errors.Join(err, json.Unmarshal([]byte(r.Decision), &st.Decision))
	}
	if r.Evidence != "" {
		err = errors.Join(err, json.Unmarshal([]byte(r.Evidence), &st.Seen))
	}
	if err != nil {
		return State{}, fmt.Errorf("decode rollout %s: %w", r.ID, err)
	}
	if d := st.Decision.Stable; st.Seen != nil && (d == nil || *d != *st.Seen.Stable.counts()) {
		st.Seen = nil // the verdict is of a replica of the release before, which writes no evidence here
	}
	for i, step := range st.Spec.Steps {
		if step == r.Share && r.Phase == PhaseCanary {
			st.Step = i
		}
	}
	return st, nil
}
