package witness

import (
	"encoding/json"
	"net/http"
	"time"
)

// State is what a monitoring probe wants to know.
type State struct {
	OK      bool       `json:"ok"`      // the last pass was good and not long ago
	Log     string     `json:"log"`     // origin of the log
	Witness string     `json:"witness"` // public key of the witness
	Size    int64      `json:"size"`    // records under the checkpoint cosigned last
	Root    string     `json:"root"`
	Passed  *time.Time `json:"passed,omitempty"` // last good pass
	Error   string     `json:"error,omitempty"`  // of the last pass
	Alarms  []string   `json:"alarms"`           // files of alarms nobody has cleared
}

// State returns how things are.
func (w *Witness) State() State {
	w.mu.Lock()
	s := w.state
	w.mu.Unlock()
	files, err := w.alarms()
	s.Alarms = append([]string{}, files...)
	if err != nil && s.Error == "" {
		s.Error = err.Error()
	}
	s.OK = s.Error == "" && len(files) == 0 && s.Passed != nil && w.cfg.Now().Sub(*s.Passed) <= max(5*w.cfg.Every, time.Minute)
	return s
}

// ServeHTTP answers GET / with the state as JSON: 200 while all is well, else 503.
func (w *Witness) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(out, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		out.Header().Set("Allow", "GET, HEAD")
		http.Error(out, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	s := w.State()
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		http.Error(out, "internal error", http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json; charset=utf-8")
	out.Header().Set("Cache-Control", "no-store")
	if !s.OK {
		out.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = out.Write(append(body, '\n'))
}

// remembered puts what is cosigned into the state.
func (w *Witness) remembered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Log, w.state.Witness = w.cfg.Verifier.Origin(), w.Key()
	if w.note != "" {
		w.state.Size, w.state.Root = w.tree.Size, w.tree.Root.String()
	}
}

// passed puts the result of a pass into the state. A cleared alarm counts from the next pass on.
func (w *Witness) passed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Error = ""
	if err != nil {
		w.state.Error = err.Error()
		return
	}
	at := w.cfg.Now().UTC()
	w.state.Passed = &at
}
