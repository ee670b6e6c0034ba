package remote

import "testing"

func TestTypesOfStreams(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/json": false, "application/json; charset=utf-8": false, "": false, "text/plain": false,
		"text/event-stream": true, "text/event-stream; charset=utf-8": true, "Text/Event-Stream": true,
	} {
		if got := isStream(contentType); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
	}
}
