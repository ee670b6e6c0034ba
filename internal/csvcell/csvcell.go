// Package csvcell is a leaf: it writes what people have typed into cells of a CSV file so that a spreadsheet shows it as text.
package csvcell

import "strings"

// Plain returns text so that a spreadsheet doesn't take it for a formula: a text that begins like one gets an apostrophe in front.
// Numbers of ours that may be negative do not pass through it.
func Plain(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
