package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	tileHeight    = 8 // of the C2SP tlog-tiles format
	maxTileLevel  = 7 // 2^63 records have no more
	maxTileNumber = 1 << 48
)

// cosignatureRow is a row of audit_cosignatures: the signature line of a witness for the checkpoint of a size.
type cosignatureRow struct {
	Size    int64
	Witness string
	Line    string
	Time    int64
}

func (cosignatureRow) TableName() string { return "audit_cosignatures" }

// Witnessed says how far a witness of the configuration has cosigned: Size is 0 if it never did.
type Witnessed struct {
	Witness string    `json:"witness"`
	Size    int64     `json:"size"`
	Time    time.Time `json:"time"`
}

// HashTile returns the hashes of a tile of height 8 of the tree under the newest checkpoint, 32 bytes each. Errors: CodeInvalidValue for
// what is no hash tile, CodeNotFound for one with hashes beyond the checkpoint.
func (l *Log) HashTile(ctx context.Context, t tlog.Tile) ([]byte, error) {
	if t.H != tileHeight || t.L < 0 || t.L > maxTileLevel || t.N < 0 || t.N > maxTileNumber || t.W < 1 || t.W > 1<<tileHeight {
		return nil, fault.New(fault.CodeInvalidValue, "tile", fault.Say("audit.tile_height"))
	}
	_, top, err := l.store.checkpoint(ctx, l.reads)
	if err != nil {
		return nil, err
	}
	if t.N<<tileHeight+int64(t.W) > top.Size>>(tileHeight*t.L) {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.tile"), strings.TrimPrefix(t.Path(), "tile/8/"))
	}
	b, err := tlog.ReadTileData(t, l.store.hashes(ctx))
	if err != nil {
		return nil, fmt.Errorf("read tile: %w", err)
	}
	return b, nil
}

// CosignedCheckpoint returns the newest checkpoint with the cosignatures that witnesses gave for it, "" if nothing was sealed yet.
func (l *Log) CosignedCheckpoint(ctx context.Context) (string, error) {
	text, t, err := l.store.checkpoint(ctx, l.reads)
	if err != nil || text == "" {
		return "", err
	}
	var rows []cosignatureRow
	err = l.store.db.WithContext(ctx).Select("witness", "line").Where("size = ?", t.Size).Order("witness").Find(&rows).Error
	if err != nil {
		return "", fmt.Errorf("read cosignatures: %w", err)
	}
	for _, r := range rows {
		with := checkpoint.Add(text, r.Line)
		if _, _, err := l.reads.OpenCosigned(with, l.witnesses); err != nil { // one bad row must not hide the checkpoint
			l.log.Error("a stored cosignature does not hold: the database was changed", slog.String("witness", r.Witness), slog.Int64("size", t.Size))
			continue
		}
		text = with
	}
	return text, nil
}

// Cosign stores the cosignatures of witnesses of the configuration that a note brings: a checkpoint of this log with their lines.
// Those that are there already stay as they are. Errors: CodeInvalidValue if the log did not sign the note or no such witness did,
// CodeConflict if the log has no such checkpoint.
func (l *Log) Cosign(ctx context.Context, note string) error {
	t, err := l.reads.Open(note)
	if err != nil {
		return fault.Wrap(err, fault.CodeInvalidValue, "body", fault.Say("audit.foreign_checkpoint"))
	}
	stored, err := l.store.checkpointOf(ctx, t.Size)
	if err != nil {
		return err
	}
	body, lines := splitNote(note)
	if own, _ := splitNote(stored); own != body {
		return fault.New(fault.CodeConflict, fault.Say("audit.checkpoint_unknown"))
	}
	rows, err := l.cosignatures(stored, t.Size, lines)
	if err != nil {
		return err
	}
	err = l.store.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&rows).Error
	if err != nil {
		return fmt.Errorf("store cosignatures: %w", err)
	}
	return nil
}

// lastTime is the last second of the year 9999. No witness lives to see it, and what is later does not fit a date.
const lastTime = 253402300799

// cosignatures checks each line against the stored checkpoint, by itself, and returns those of known witnesses.
func (l *Log) cosignatures(stored string, size int64, lines []string) ([]cosignatureRow, error) {
	var rows []cosignatureRow
	for _, line := range lines {
		_, found, err := l.reads.OpenCosigned(checkpoint.Add(stored, line), l.witnesses)
		if err != nil {
			return nil, fault.Wrap(err, fault.CodeInvalidValue, "body", fault.Say("audit.cosignature_invalid"))
		}
		for _, c := range found { // of this line: stored has none
			if c.Time.Unix() > lastTime {
				return nil, fault.New(fault.CodeInvalidValue, "body", fault.Say("audit.cosignature_time"))
			}
			rows = append(rows, cosignatureRow{Size: size, Witness: c.Witness, Line: line, Time: c.Time.UnixMicro()})
		}
	}
	if len(rows) == 0 {
		return nil, fault.New(fault.CodeInvalidValue, "body", fault.Say("audit.cosignature_missing"))
	}
	return rows, nil
}

// splitNote cuts a signed note into its text and its signature lines.
func splitNote(note string) (body string, lines []string) {
	at := strings.LastIndex(note, "\n\n")
	if at < 0 {
		return "", nil
	}
	for line := range strings.Lines(note[at+2:]) {
		lines = append(lines, line)
	}
	return note[:at+1], lines
}

// Witnessed returns how far each witness of the configuration has cosigned, in the order of the configuration. What it returns was
// checked with the keys of the log and of the witness.
func (l *Log) Witnessed(ctx context.Context) ([]Witnessed, error) {
	out := make([]Witnessed, 0, len(l.cfg.Witnesses))
	for _, name := range l.witnesses.Names() {
		var rows []cosignatureRow
		err := l.store.db.WithContext(ctx).Select("size", "line").Where("witness = ?", name).Order("size DESC").Limit(1).Find(&rows).Error
		if err != nil {
			return nil, fmt.Errorf("read cosignatures: %w", err)
		}
		w := Witnessed{Witness: name}
		for _, r := range rows {
			if w.Size, w.Time, err = l.store.cosigned(ctx, l.reads, l.witnesses, r); err != nil {
				return nil, fmt.Errorf("%w: the cosignature of %s for size %d: %w", errRewritten, name, r.Size, err)
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// cosigned checks a stored cosignature and returns what it states; nothing if it is of a key that is not in the configuration any more.
func (s *store) cosigned(ctx context.Context, v checkpoint.Verifier, known checkpoint.Witnesses, r cosignatureRow) (int64, time.Time, error) {
	stored, err := s.checkpointOf(ctx, r.Size)
	if err != nil {
		return 0, time.Time{}, err
	}
	t, found, err := v.OpenCosigned(checkpoint.Add(stored, r.Line), known)
	if err != nil {
		return 0, time.Time{}, err
	}
	if t.Size != r.Size {
		return 0, time.Time{}, errors.New("it is stored under another size")
	}
	if len(found) == 0 {
		return 0, time.Time{}, nil
	}
	return t.Size, found[0].Time, nil
}

// checkpointOf returns the checkpoint of a size, "" if there is none.
func (s *store) checkpointOf(ctx context.Context, size int64) (string, error) {
	var rows []checkpointRow
	if err := s.db.WithContext(ctx).Select("note").Where("size = ?", size).Limit(1).Find(&rows).Error; err != nil {
		return "", fmt.Errorf("read checkpoint: %w", err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	return rows[0].Note, nil
}

// cosignatures checks what known witnesses signed. The checkpoints themselves were held against the records before.
func (w *walk) cosignatures(db *gorm.DB) error {
	if len(w.witnesses.Names()) == 0 {
		return nil
	}
	for size, witness := int64(-1), ""; ; {
		var rows []signedRow
		err := db.Table("audit_cosignatures AS s").Select("s.size", "s.witness", "s.line", "c.note").
			Joins("LEFT JOIN audit_checkpoints AS c ON c.size = s.size").
			Where("s.size > ? OR s.size = ? AND s.witness > ?", size, size, witness).Order("s.size, s.witness").Limit(verifyBatch).Find(&rows).Error
		if err != nil {
			return fmt.Errorf("read cosignatures: %w", err)
		}
		for _, r := range rows {
			w.cosignature(r)
			size, witness = r.Size, r.Witness
		}
		if len(rows) < verifyBatch {
			break
		}
	}
	slices.SortFunc(w.report.Witnessed, func(a, b Witnessed) int { return strings.Compare(a.Witness, b.Witness) })
	return nil
}

// signedRow is what a witness signed.
type signedRow struct {
	Size          int64
	Witness, Line string
	Note          *string // nil: there is no such checkpoint
}

func (w *walk) cosignature(r signedRow) {
	if r.Note == nil {
		w.problem("cosignature", "", r.Size, "witness "+r.Witness+" signed a checkpoint that is gone")
		return
	}
	_, found, err := w.v.OpenCosigned(checkpoint.Add(*r.Note, r.Line), w.witnesses)
	if err != nil {
		w.problem("cosignature", "", r.Size, "the cosignature of "+r.Witness+" does not hold: "+err.Error())
		return
	}
	for _, c := range found {
		next := Witnessed{c.Witness, r.Size, c.Time}
		if i := slices.IndexFunc(w.report.Witnessed, func(o Witnessed) bool { return o.Witness == c.Witness }); i >= 0 {
			w.report.Witnessed[i] = next // they come by size
		} else {
			w.report.Witnessed = append(w.report.Witnessed, next)
		}
	}
}
