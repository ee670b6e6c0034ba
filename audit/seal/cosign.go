package seal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/internal/fault"
)

// The bounds of tiles.
const (
	TileHeight    = 8 // of the C2SP tlog-tiles format
	maxTileLevel  = 7 // 2^63 records have no more
	MaxTileNumber = 1 << 48
)

// CosignatureRow is a row of audit_cosignatures: the signature line of a witness for the checkpoint of a size.
type CosignatureRow struct {
	Size    int64
	Witness string
	Line    string
	Time    int64
}

// TableName implements gorm's Tabler.
func (CosignatureRow) TableName() string { return "audit_cosignatures" }

// Witnessed says how far a witness of the configuration has cosigned: Size is 0 if it never did.
type Witnessed struct {
	Witness string    `json:"witness"`
	Size    int64     `json:"size"`
	Time    time.Time `json:"time"`
}

// HashTile returns the hashes of a tile of height 8 of the tree under the newest checkpoint, 32 bytes each. Errors: CodeInvalidValue for
// what is no hash tile, CodeNotFound for one with hashes beyond the checkpoint.
func (t *Tree) HashTile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	if tile.H != TileHeight || tile.L < 0 || tile.L > maxTileLevel || tile.N < 0 || tile.N > MaxTileNumber || tile.W < 1 || tile.W > 1<<TileHeight {
		return nil, fault.New(fault.CodeInvalidValue, "tile", fault.Say("audit.tile_height"))
	}
	_, top, err := t.Newest(ctx)
	if err != nil {
		return nil, err
	}
	if tile.N<<TileHeight+int64(tile.W) > top.Size>>(TileHeight*tile.L) {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.tile"), strings.TrimPrefix(tile.Path(), "tile/8/"))
	}
	b, err := tlog.ReadTileData(tile, t.Hashes(ctx))
	if err != nil {
		return nil, fmt.Errorf("read tile: %w", err)
	}
	return b, nil
}

// CosignedCheckpoint returns the newest checkpoint with the cosignatures that witnesses gave for it, "" if nothing was sealed yet.
func (t *Tree) CosignedCheckpoint(ctx context.Context) (string, error) {
	text, top, err := t.Newest(ctx)
	if err != nil || text == "" {
		return "", err
	}
	var rows []CosignatureRow
	err = t.db.WithContext(ctx).Select("witness", "line").Where("size = ?", top.Size).Order("witness").Find(&rows).Error
	if err != nil {
		return "", fmt.Errorf("read cosignatures: %w", err)
	}
	for _, r := range rows {
		with := checkpoint.Add(text, r.Line)
		if _, _, err := t.keys.OpenCosigned(with, t.witnesses); err != nil { // one bad row must not hide the checkpoint
			t.log.Error("a stored cosignature does not hold: the database was changed", slog.String("witness", r.Witness), slog.Int64("size", top.Size))
			continue
		}
		text = with
	}
	return text, nil
}

// Cosign stores the cosignatures of witnesses of the configuration that a note brings: a checkpoint of this log with their lines.
// Those that are there already stay as they are. Errors: CodeInvalidValue if the log did not sign the note or no such witness did,
// CodeConflict if the log has no such checkpoint.
func (t *Tree) Cosign(ctx context.Context, note string) error {
	top, err := t.keys.Open(note)
	if err != nil {
		return fault.Wrap(err, fault.CodeInvalidValue, "body", fault.Say("audit.foreign_checkpoint"))
	}
	stored, err := t.checkpointOf(ctx, top.Size)
	if err != nil {
		return err
	}
	body, lines := SplitNote(note)
	if own, _ := SplitNote(stored); own != body {
		return fault.New(fault.CodeConflict, fault.Say("audit.checkpoint_unknown"))
	}
	rows, err := t.cosignatures(stored, top.Size, lines)
	if err != nil {
		return err
	}
	err = t.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&rows).Error
	if err != nil {
		return fmt.Errorf("store cosignatures: %w", err)
	}
	return nil
}

// LastTime is the last second of the year 9999. No witness lives to see it, and what is later does not fit a date.
const LastTime = 253402300799

// cosignatures checks each line against the stored checkpoint, by itself, and returns those of known witnesses.
func (t *Tree) cosignatures(stored string, size int64, lines []string) ([]CosignatureRow, error) {
	var rows []CosignatureRow
	for _, line := range lines {
		_, found, err := t.keys.OpenCosigned(checkpoint.Add(stored, line), t.witnesses)
		if err != nil {
			return nil, fault.Wrap(err, fault.CodeInvalidValue, "body", fault.Say("audit.cosignature_invalid"))
		}
		for _, c := range found { // of this line: stored has none
			if c.Time.Unix() > LastTime {
				return nil, fault.New(fault.CodeInvalidValue, "body", fault.Say("audit.cosignature_time"))
			}
			rows = append(rows, CosignatureRow{Size: size, Witness: c.Witness, Line: line, Time: c.Time.UnixMicro()})
		}
	}
	if len(rows) == 0 {
		return nil, fault.New(fault.CodeInvalidValue, "body", fault.Say("audit.cosignature_missing"))
	}
	return rows, nil
}

// SplitNote cuts a signed note into its text and its signature lines.
func SplitNote(note string) (body string, lines []string) {
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
func (t *Tree) Witnessed(ctx context.Context) ([]Witnessed, error) {
	out := make([]Witnessed, 0, len(t.witnesses.Names()))
	for _, name := range t.witnesses.Names() {
		var rows []CosignatureRow
		err := t.db.WithContext(ctx).Select("size", "line").Where("witness = ?", name).Order("size DESC").Limit(1).Find(&rows).Error
		if err != nil {
			return nil, fmt.Errorf("read cosignatures: %w", err)
		}
		w := Witnessed{Witness: name}
		for _, r := range rows {
			if w.Size, w.Time, err = t.cosigned(ctx, r); err != nil {
				return nil, fmt.Errorf("%w: the cosignature of %s for size %d: %w", ErrRewritten, name, r.Size, err)
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// cosigned checks a stored cosignature and returns what it states; nothing if it is of a key that is not in the configuration any more.
func (t *Tree) cosigned(ctx context.Context, r CosignatureRow) (int64, time.Time, error) {
	stored, err := t.checkpointOf(ctx, r.Size)
	if err != nil {
		return 0, time.Time{}, err
	}
	top, found, err := t.keys.OpenCosigned(checkpoint.Add(stored, r.Line), t.witnesses)
	if err != nil {
		return 0, time.Time{}, err
	}
	if top.Size != r.Size {
		return 0, time.Time{}, errors.New("it is stored under another size")
	}
	if len(found) == 0 {
		return 0, time.Time{}, nil
	}
	return top.Size, found[0].Time, nil
}

// checkpointOf returns the checkpoint of a size, "" if there is none.
func (t *Tree) checkpointOf(ctx context.Context, size int64) (string, error) {
	var rows []CheckpointRow
	if err := t.db.WithContext(ctx).Select("note").Where("size = ?", size).Limit(1).Find(&rows).Error; err != nil {
		return "", fmt.Errorf("read checkpoint: %w", err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	return rows[0].Note, nil
}
