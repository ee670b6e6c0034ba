package online

import "testing"

// TestSpelledChinese: only small letters are syllables.
func TestSpelledChinese(t *testing.T) {
	for text, want := range map[string]bool{"zhangsan": true, "wangxiaoming": true, "AA": false, "zhangAA": false, "EUAE": false, "zhang": false, "service": false, "\x00": false} {
		if got := spelledChinese([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
