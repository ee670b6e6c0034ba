package database

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

const insertRows = 500 // in one statement

// Insert adds rows, or what rows point to, to their table as gorm maps them, many in one statement, and in their order. tail ends every
// statement, as "ON CONFLICT DO NOTHING" does; a statement touches no row twice. Columns are strings, int64 and bytes. It is for what comes
// in thousands: gorm's own way costs several times as much.
func Insert[R any](tx *gorm.DB, rows []R, tail string) error {
	return eachInsert(tx, rows, tail, func(query string, args []any) error {
		_, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, query, args...)
		return err
	})
}

// InsertMissing is Insert for rows some of which may be there. It returns the values of the column key of those that it added: of several
// transactions that add a row at once, one does.
func InsertMissing[R any](tx *gorm.DB, rows []R, key string) (added map[string]bool, err error) {
	added = make(map[string]bool, len(rows))
	return added, eachInsert(tx, rows, "ON CONFLICT DO NOTHING RETURNING "+key, func(query string, args []any) error {
		found, err := tx.Statement.ConnPool.QueryContext(tx.Statement.Context, query, args...)
		if err != nil {
			return err
		}
		defer found.Close() //nolint:errcheck // Err says it
		for found.Next() {
			var k string
			if err := found.Scan(&k); err != nil {
				return err
			}
			added[k] = true
		}
		return found.Err()
	})
}

func eachInsert[R any](tx *gorm.DB, rows []R, tail string, do func(query string, args []any) error) error {
	if len(rows) == 0 {
		return nil
	}
	parsed := gorm.Statement{DB: tx}
	if err := parsed.Parse(&rows[0]); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	table, columns := parsed.Schema.Table, parsed.Schema.DBNames
	fields := make([]*schema.Field, len(columns))
	for k, name := range columns {
		fields[k] = parsed.Schema.FieldsByDBName[name]
		switch t := fields[k].FieldType; {
		case t.Kind() == reflect.String, t.Kind() == reflect.Int64, t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		default:
			return fmt.Errorf("insert into %s: the column %s is a %s, which is none of the kinds that are inserted in bulk", table, name, t)
		}
	}
	if len(fields) > maxColumns {
		return fmt.Errorf("insert into %s: %d columns, of %d at most", table, len(fields), maxColumns)
	}
	values := unnested
	if IsSQLite(tx) {
		values = rowSlice
	}
	head := "INSERT INTO " + table + ` ("` + strings.Join(columns, `", "`) + `") `
	for part := range slices.Chunk(rows, insertRows) {
		text, args := values(fields, reflect.ValueOf(part))
		if err := do(head+text+" "+tail, args); err != nil {
			return fmt.Errorf("insert into %s: %w", table, err)
		}
	}
	return nil
}

// rowSlice lets the statement read the rows where they are.
func rowSlice(fields []*schema.Field, rows reflect.Value) (string, []any) {
	// Without a condition, ON CONFLICT would be read as that of a join.
	return "SELECT " + columnNames(len(fields)) + " FROM sluice_rows(?) WHERE true", []any{sqlite3.Pointer(given{fields, rows})}
}

// unnested passes each column as one array: the statement is the same for any number of rows, so that PostgreSQL and its driver prepare it
// once, and a value in an array costs less than a parameter.
func unnested(fields []*schema.Field, rows reflect.Value) (string, []any) {
	arrays, args := make([]string, len(fields)), make([]any, len(fields))
	for k, f := range fields {
		kind := "bytea"
		switch f.FieldType.Kind() {
		case reflect.String:
			kind, args[k] = "text", column(f, rows, reflect.Value.String)
		case reflect.Int64:
			kind, args[k] = "bigint", column(f, rows, reflect.Value.Int)
		default:
			args[k] = column(f, rows, reflect.Value.Bytes)
		}
		arrays[k] = fmt.Sprintf("$%d::%s[]", k+1, kind)
	}
	return "SELECT * FROM unnest(" + strings.Join(arrays, ", ") + ")", args
}

func column[V any](f *schema.Field, rows reflect.Value, get func(reflect.Value) V) []V {
	out := make([]V, rows.Len())
	for i := range out {
		out[i] = get(f.ReflectValueOf(context.Background(), rows.Index(i)))
	}
	return out
}
