package database

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"gorm.io/gorm/schema"
)

// maxColumns is how many columns of rows SQLite can be given.
const maxColumns = 48

// given are rows that a statement of SQLite reads from our memory, as the table sluice_rows(?): a value that goes this way is copied once,
// while each bound one costs several allocations and a place in the statement.
type given struct {
	fields []*schema.Field
	rows   reflect.Value // a slice
}

// registerRows lets the statements of a connection read rows that they are given.
func registerRows(c *sqlite3.Conn) error {
	//nolint:staticcheck // the method that takes its place needs Go 1.27
	return sqlite3.CreateModule(c, "sluice_rows", nil, func(c *sqlite3.Conn, _, _, _ string, _ ...string) (rowsTable, error) {
		return rowsTable{}, c.DeclareVTab("CREATE TABLE x(" + columnNames(maxColumns) + ", given HIDDEN)")
	})
}

// columnNames are those of the first n columns of the table.
func columnNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	return strings.Join(names, ", ")
}

type rowsTable struct{}

// BestIndex implements [sqlite3.VTab]: the argument is all there is to look for.
func (rowsTable) BestIndex(idx *sqlite3.IndexInfo) error {
	for i, c := range idx.Constraint {
		if c.Column == maxColumns && c.Op == sqlite3.INDEX_CONSTRAINT_EQ && c.Usable {
			idx.ConstraintUsage[i] = sqlite3.IndexConstraintUsage{Omit: true, ArgvIndex: 1}
			return nil
		}
	}
	return sqlite3.CONSTRAINT
}

// Open implements [sqlite3.VTab].
func (rowsTable) Open() (sqlite3.VTabCursor, error) { return &rowsCursor{}, nil }

type rowsCursor struct {
	given

	at  int
	row reflect.Value
}

// Filter implements [sqlite3.VTabCursor].
func (c *rowsCursor) Filter(_ int, _ string, arg ...sqlite3.Value) error {
	g, ok := arg[0].Pointer().(given)
	if !ok || len(g.fields) > maxColumns {
		return sqlite3.MISUSE
	}
	c.given, c.at = g, -1
	return c.Next()
}

// Next implements [sqlite3.VTabCursor].
func (c *rowsCursor) Next() error {
	if c.at++; !c.EOF() {
		c.row = c.rows.Index(c.at)
	}
	return nil
}

// EOF implements [sqlite3.VTabCursor].
func (c *rowsCursor) EOF() bool { return c.at >= c.rows.Len() }

// RowID implements [sqlite3.VTabCursor].
func (c *rowsCursor) RowID() (int64, error) { return int64(c.at), nil }

// Column implements [sqlite3.VTabCursor].
func (c *rowsCursor) Column(ctx sqlite3.Context, n int) error {
	if n >= len(c.fields) {
		return sqlite3.MISUSE
	}
	v := c.fields[n].ReflectValueOf(context.Background(), c.row)
	switch v.Kind() {
	case reflect.String:
		ctx.ResultText(v.String())
	case reflect.Int64:
		ctx.ResultInt64(v.Int())
	default:
		ctx.ResultBlob(v.Bytes())
	}
	return nil
}
