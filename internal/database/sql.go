package database

import (
	"strings"

	"gorm.io/gorm"
)

// Text is s as a column of text takes it: PostgreSQL takes no NUL, and nothing that is not UTF-8.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// OneOf is the condition that columns are one of n lists of values. SQLite takes such lists as a table only.
func OneOf(db *gorm.DB, n int, columns ...string) string {
	list := "(" + strings.Repeat("?,", len(columns)-1) + "?)"
	list = strings.Repeat(list+",", n-1) + list
	if IsSQLite(db) {
		list = "VALUES " + list
	}
	return "(" + strings.Join(columns, ", ") + ") IN (" + list + ")"
}
