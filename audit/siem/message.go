package siem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-project/sluice/audit/record"
)

// sealed is a record and its place in the log.
type sealed struct {
	index int64
	event record.Event
}

// sender is what all messages of a destination have in common.
type sender struct {
	format  string
	host    string // printable ASCII
	version string // of the product
	limit   int    // bytes of a message
}

// message returns the record as one syslog message of RFC 5424. Facility 13 is that of audits; the number of the structured data, which RFC 5424
// lets wrap, and the text have the place in the log.
func (s sender) message(r sealed) []byte {
	head := fmt.Appendf(nil, "<%d>1 %s %s sluice - %s [meta sequenceId=\"%d\"] ", 13*8+severityOf(r.event).syslog,
		time.UnixMicro(r.event.Time).UTC().Format("2006-01-02T15:04:05.000000Z"), s.host, printable(string(r.event.Stage), 32), 1+r.index%(1<<31-1))
	for _, most := range []int{1 << 10, 256, 64, 16, 8} { // values are cut evenly, so that the text stays well-formed
		text := s.text(r, most)
		if len(head)+len(text) <= s.limit || most == 8 {
			return append(head, text...)
		}
	}
	return nil // not reached: the last one is sent
}

func (s sender) text(r sealed, most int) []byte {
	if s.format == formatCEF {
		return s.cef(r, most)
	}
	return s.ocsf(r, most)
}

// frame is a message as it travels: its length, a space, the message (octet counting).
func frame(message []byte) []byte {
	return append(strconv.AppendInt(nil, int64(len(message)), 10), append([]byte{' '}, message...)...)
}

// printable makes a header field of RFC 5424: printable ASCII without spaces, "-" for nothing.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), most)]
}

// severity is how bad something is, on the scales of syslog, CEF and OCSF.
type severity struct{ syslog, cef, ocsf int }

func severityOf(e record.Event) severity {
	switch e.Outcome {
	case "refused":
		return severity{4, 5, 2} // warning, medium, low
	case "failed", "aborted":
		return severity{3, 6, 3} // error, medium, medium
	}
	return severity{6, 2, 1} // informational, low, informational
}

// cut shortens s to at most n bytes, at the end of a character, and makes it text.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "…"
}

// entries bounds lists.
func entries(most int) int {
	if most < 64 {
		return 4
	}
	return 32
}

// findings lists what the policy found and did, such as "request cn_mobile token 2".
func findings(e record.Event, most int) []string {
	var out []string
	for _, f := range e.Findings {
		if len(out) == entries(most) {
			break
		}
		out = append(out, cut(fmt.Sprintf("%s %s %s %d", f.Direction, f.Class, f.Done(), f.Count), most))
	}
	return out
}

// details returns the first of the details, cut.
func details(e record.Event, most int) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(e.Detail)) {
		if len(out) == entries(most) {
			break
		}
		out[cut(name, min(most, 64))] = cut(e.Detail[name], most)
	}
	return out
}

// cef writes the text in ArcSight's Common Event Format, revision 25.
func (s sender) cef(r sealed, most int) []byte {
	e := r.event
	var b bytes.Buffer
	fmt.Fprintf(&b, "CEF:0|Sluice|Sluice|%s|%s|%s|%d|", cefHead(s.version, most), cefHead(e.Action, most), cefHead(e.Action+" "+e.Outcome, most), severityOf(e).cef)
	first := true
	put := func(key, value string) {
		if value == "" {
			return
		}
		if !first {
			b.WriteByte(' ')
		}
		first = false
		b.WriteString(key + "=" + cefValue(value))
	}
	short := func(key, value string) { put(key, cut(value, most)) }
	labelled := func(key, label, value string) {
		if value != "" {
			short(key, value)
			put(key+"Label", label)
		}
	}
	number := func(key, label string, n int64) {
		put(key, strconv.FormatInt(n, 10))
		put(key+"Label", label)
	}
	put("rt", strconv.FormatInt(e.Time/1000, 10))
	put("externalId", cut(e.ID, 64))
	number("cn1", "index", r.index)
	short("act", e.Decision)
	short("outcome", e.Outcome)
	short("reason", e.ErrorCode)
	short("suid", e.Actor.ID)
	short("suser", e.Actor.Name)
	short("spriv", e.Actor.Kind)
	if ip, err := netip.ParseAddr(e.Source); err == nil && ip.Unmap().Is4() {
		put("src", ip.Unmap().String())
	} else if err == nil {
		put("c6a2", ip.String())
		put("c6a2Label", "Source IPv6 Address")
	}
	labelled("cs1", "tenant", e.Tenant)
	labelled("cs2", "model", e.Model.Asked)
	labelled("cs3", "policy", e.Policy)
	labelled("cs4", "request", e.Request)
	labelled("cs5", "findings", strings.Join(findings(e, most), "; "))
	labelled("cs6", "resource", e.Resource)
	if e.Stage == record.StageOutcome {
		number("cn2", "prompt tokens", e.Usage.PromptTokens)
		number("cn3", "completion tokens", e.Usage.CompletionTokens)
	}
	if d := details(e, most); len(d) > 0 {
		text, _ := json.Marshal(d) // strings only
		labelled("flexString1", "detail", string(text))
	}
	return b.Bytes()
}

// cefHead escapes a field of the header; there is no escape for the end of a line, so it becomes a space.
func cefHead(s string, most int) string {
	return strings.NewReplacer(`\`, `\\`, `|`, `\|`).Replace(noControls(cut(s, most)))
}

// cefValue escapes a value of the extension.
func cefValue(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.NewReplacer(`\`, `\\`, `=`, `\=`).Replace(noControls(l))
	}
	return strings.Join(lines, `\n`)
}

// noControls keeps what a name brings along from ending a line or a message for a receiver that looks for such characters.
func noControls(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// The numbers of OCSF 1.3: the class API Activity of the category Application Activity, what is done, and how it ended.
const (
	classAPI, categoryApplication = 6003, 6

	doesCreate, doesRead, doesUpdate, doesDelete, doesOther = 1, 2, 3, 4, 99

	succeeds, fails = 1, 2
)

// activityOf reads what an action does from the verb that its last word begins with.
func activityOf(action string) int {
	verb := action[strings.LastIndex(action, ".")+1:]
	for does, verbs := range map[int][]string{
		doesCreate: {"create", "issue", "register", "ingest", "start"}, doesRead: {"get", "list", "search", "read", "export", "verify", "preview", "reveal", "download"},
		doesUpdate: {"update", "edit", "set", "put", "publish", "change", "reset", "enable", "disable", "approve", "promote"}, doesDelete: {"delete", "revoke", "remove", "erase", "prune", "release"},
	} {
		if slices.ContainsFunc(verbs, func(v string) bool { return strings.HasPrefix(verb, v) }) {
			return does
		}
	}
	return doesOther
}

type object map[string]any

// set adds a text that is there.
func (o object) set(key, value string, most int) {
	if value != "" {
		o[key] = cut(value, most)
	}
}

// ocsf writes the text as JSON of the Open Cybersecurity Schema Framework 1.3, class API Activity.
func (s sender) ocsf(r sealed, most int) []byte {
	e := r.event
	sev, does := severityOf(e), activityOf(e.Action)
	metadata := object{
		"version": "1.3.0", "product": object{"name": "Sluice", "vendor_name": "Sluice", "version": s.version},
		"uid": cut(e.ID, 64), "sequence": r.index, "log_name": "audit", "event_code": cut(string(e.Stage), most), "logged_time": e.Time / 1000,
	}
	metadata.set("tenant_uid", e.Tenant, most)
	metadata.set("correlation_uid", e.Request, most)
	user := object{"type_id": map[string]int{"user": 1, "key": 99, "system": 3}[e.Actor.Kind]}
	if e.Actor.Kind == "key" {
		user["type"] = "API key"
	}
	user.set("uid", e.Actor.ID, most)
	user.set("name", e.Actor.Name, most)
	actor := object{"user": user, "app_name": "Sluice"}
	if e.Session != "" {
		actor["session"] = object{"uid": cut(e.Session, most)}
	}
	api := object{"operation": cut(e.Action, most), "service": object{"name": "Sluice"}}
	if e.Request != "" {
		api["request"] = object{"uid": cut(e.Request, most)}
	}
	response := object{"code": e.Status}
	response.set("error", e.ErrorCode, most)
	api["response"] = response
	from := object{"name": s.host}
	if ip, err := netip.ParseAddr(e.Source); err == nil {
		from = object{"ip": ip.Unmap().String()}
	}
	out := object{
		"class_uid": classAPI, "class_name": "API Activity", "category_uid": categoryApplication, "category_name": "Application Activity",
		"activity_id": does, "type_uid": classAPI*100 + does, "severity_id": sev.ocsf, "time": e.Time / 1000,
		"metadata": metadata, "actor": actor, "api": api, "src_endpoint": from,
	}
	if does == doesOther {
		out.set("activity_name", e.Action, most)
	}
	out["status_id"] = succeeds
	if e.Outcome != "ok" && e.Outcome != "" {
		out["status_id"] = fails
		out.set("status_detail", e.Outcome, most)
	}
	out["unmapped"] = s.unmapped(r, most)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(out) // of texts and numbers
	return bytes.TrimSpace(b.Bytes())
}

// unmapped is what the schema has no place for.
func (s sender) unmapped(r sealed, most int) object {
	e := r.event
	more := object{}
	for key, value := range map[string]string{
		"project": e.Project, "region": e.Region, "resource": e.Resource, "on_behalf_of": e.Actor.OnBehalfOf, "model": e.Model.Asked, "routed": e.Model.Routed,
		"model_version": e.Model.Version, "policy": e.Policy, "decision": e.Decision, "rollout": e.Rollout, "arm": e.Arm,
	} {
		more.set(key, value, most)
	}
	if f := findings(e, most); len(f) > 0 {
		more["findings"] = f
	}
	if d := details(e, most); len(d) > 0 {
		more["detail"] = d
	}
	if e.Stage == record.StageOutcome {
		more["prompt_tokens"], more["completion_tokens"], more["cost_nano"], more["microseconds"] = e.Usage.PromptTokens, e.Usage.CompletionTokens, e.Usage.Cost, e.Latency.Total
	}
	return more
}
