package profile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/unified"
)

// Refusal is an answer that is an error, as far as a rule looks at it. Message is looked at and never kept.
type Refusal struct {
	Status              int // 0: an error within a stream
	Code, Type, Message string
	Format              bool // the request asked for a form of its answer
	Retry               time.Duration
}

// ReadRefusal takes an answer apart, whichever of the known shapes it has. What is in none is an error without words.
func (e *Errors) ReadRefusal(status int, h http.Header, body []byte) Refusal {
	r := Refusal{Status: status}
	for _, name := range e.RetryAfter {
		if v := h.Get(name); v != "" {
			r.Retry = retryAfter(v)
			break
		}
	}
	var doc map[string]any
	if json.Unmarshal(body, &doc) != nil {
		return r
	}
	r.fill(doc)
	return r
}

// fill reads {"error": {…}}, {"error": "…", "error_type": "…"}, {"detail": …} and the members alone.
func (r *Refusal) fill(doc map[string]any) {
	switch inner := doc["error"].(type) {
	case map[string]any:
		doc = inner
	case string:
		r.Message, r.Type = inner, text(doc["error_type"])
		return
	}
	r.Message, r.Type, r.Code = text(doc["message"]), text(doc["type"]), text(doc["code"])
	if r.Message == "" {
		r.Message = text(doc["detail"])
	}
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case map[string]any:
		return text(unified.Member(v, "message"))
	}
	return fmt.Sprint(v)
}

// retryAfter reads seconds or a date, at most an hour.
func retryAfter(v string) time.Duration {
	d := time.Duration(0)
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		d = time.Duration(min(s, 3600) * float64(time.Second))
	} else if t, err := http.ParseTime(v); err == nil {
		d = time.Until(t)
	}
	return min(max(d, 0), time.Hour)
}

// Fault returns what a refusal means: the fault of the first rule that matches, "upstream_failed" if none does.
func (e *Errors) Fault(r Refusal) string {
	for _, rule := range e.Rules {
		if rule.matches(r) {
			return rule.Fault
		}
	}
	return "upstream_failed"
}

func (rule *ErrorRule) matches(r Refusal) bool {
	switch {
	case len(rule.Status) > 0 && !slices.Contains(rule.Status, r.Status), rule.Least > 0 && r.Status < rule.Least:
		return false
	case rule.Code != "" && rule.Code != r.Code, rule.Type != "" && rule.Type != r.Type:
		return false
	case rule.Says != "" && !strings.Contains(r.Message, rule.Says):
		return false
	case rule.Format && !r.Format, rule.Waiting && r.Retry <= 0:
		return false
	}
	said := strings.ToLower(r.Message)
	return len(rule.Words) == 0 || slices.ContainsFunc(rule.Words, func(w string) bool { return strings.Contains(said, w) })
}
