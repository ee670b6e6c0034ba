package parse

import "strconv"

// FormatForTest writes a number in a format.
func FormatForTest(code, number string) string {
	v, _ := strconv.ParseFloat(number, 64)
	return readFormat(code).format(v, false)
}
