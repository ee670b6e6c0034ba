package governance

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/mask"
	"github.com/sluice-project/sluice/governance/vault"
	"github.com/sluice-project/sluice/internal/fault"
)

// Ask is a request to be admitted.
type Ask struct {
	Request, Tenant string
	Session         string // conversation; "" means the request stands alone
	Subject         string // digest of the person it is about: whom the caller acts for, else the caller
	Name            string // what the caller calls the conversation, by which people may ask for its values; "" if it has no name
	Action, Model   string
	Purpose         string           // demanded by policies that list purposes
	Intake          bool             // a document is taken in: nobody is answered, so no purpose is demanded
	Fields          []Field          // masked at once; those of a request that documents may know more about wait for [Admission.Mask]
	Known           []classify.Known // values that the caller says are sensitive: masked wherever they stand, whatever their class
}

// Field is a text of the request. It is rewritten in place.
type Field struct {
	Path string // such as "messages[2].content"
	Text *string
}

// Finding counts values of one class that were treated in one way. It never holds a value. Action is what was done, in the words of
// policies: one that hides never stands beside a reply that shows the value, unless Restored says how often it was put back. For pseudonyms
// in the answer it is "unknown" or "cut".
type Finding struct {
	Direction, Class string
	Detector         string // and its version
	Action           string
	Count            int
	Restored         int // how often values of it, which the engine has as pseudonyms, were put back for the caller
}

// Admission is an admitted request: its masked values and the rules for its answer. It is safe for concurrent use.
type Admission struct {
	guard   *Guard
	force   inForce
	tenant  string
	channel string
	vault   *mask.Vault
	keptIn  string // the scope under which values are kept
	name    string // of the scope
	subject string
	began   vault.Moment

	keeping sync.Mutex // one call of Keep at a time

	mu     sync.Mutex
	counts map[Finding]int           // Count and Restored are zero in the keys
	coded  map[string][]Finding      // the findings of the value behind each code, as keys of counts
	back   map[Finding]int           // how often values were put back
	known  []classify.Known          // values that somebody said are sensitive
	rules  map[Direction]*mask.Rules // with known; nil where there are none
}

// Admit applies the tenant's policy: model, purpose, then every field, if there are any, is masked in place. When it fails no field has changed; if a
// value was blocked, the admission is returned beside the error so that its findings can be recorded. Errors:
// CodePolicyUnavailable, CodeModelNotAllowed, CodePurpose, CodeBlockedContent naming class and field.
func (g *Guard) Admit(_ context.Context, ask Ask) (*Admission, error) {
	force, err := g.policy(ask.Tenant)
	if err != nil {
		return nil, err
	}
	scope, ofSession := scopeOf(force.policy, ask.Session, ask.Request)
	a := &Admission{
		guard: g, force: force, tenant: ask.Tenant, channel: g.channels[ask.Action], vault: g.vault(ask.Tenant, scope), keptIn: scope, counts: map[Finding]int{},
		coded: map[string][]Finding{}, back: map[Finding]int{},
		subject: ask.Subject, began: g.values.Mark(),
	}
	switch {
	case ofSession && ask.Name != "":
		a.name = ask.Name
	case ask.Request != "":
		a.keptIn = scopeRequest + ask.Request
	}
	a.know(ask.Known)
	if ask.Model != "" && !force.policy.allowsModel(ask.Model) { // a search asks no model
		return a, fault.New(fault.CodeModelNotAllowed, ask.Model).WithParam("model")
	}
	if p := force.policy.Purposes; len(p) > 0 && !ask.Intake {
		if !slices.Contains(p, ask.Purpose) {
			return a, fault.New(fault.CodePurpose, strings.Join(p, ", ")).WithParam("purpose")
		}
		a.force.ref.Purpose = ask.Purpose
	}
	return a, a.maskFields(ask.Fields)
}

// know adds values that somebody said are sensitive. In answers they are treated by the rule of their class: the model has pseudonyms of
// them, so it is another's value that it brings.
func (a *Admission) know(values []classify.Known) {
	if len(values) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = append(a.known, values...)
	a.rules = map[Direction]*mask.Rules{
		DirectionRequest: a.force.along(a.channel, DirectionRequest).Knowing(a.known),
		DirectionPassage: a.force.along(a.channel, DirectionPassage).Knowing(a.known),
		DirectionAnswer:  a.force.along(a.channel, DirectionAnswer).Recognising(a.known),
	}
}

// along returns the rules for texts of a direction.
func (a *Admission) along(d Direction) *mask.Rules {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.rules[d]; r != nil {
		return r
	}
	return a.force.along(a.channel, d)
}

// Mask masks the fields of the request in place, or changes none. known are values that documents say are sensitive: they are masked wherever
// they stand, in passages, too. Call it with the fields once, when all of them have been found, and before [Admission.MaskPassage]; a search, which finds
// documents for fields that are masked, calls it with what these say alone. Error: CodeBlockedContent naming class and field.
func (a *Admission) Mask(known []classify.Known, fields []Field) error {
	a.know(known)
	return a.maskFields(fields)
}

// Question masks a text of the request for whom it is searched with, before Mask has been called: what Mask makes of it has the same
// pseudonyms. Nothing is counted. Error: CodeBlockedContent.
func (a *Admission) Question(text string) (string, error) {
	masked, spans := a.vault.Mask(a.along(DirectionRequest), text)
	for _, s := range spans {
		if s.Action == mask.ActionBlock {
			return "", fault.New(fault.CodeBlockedContent, string(s.Class))
		}
	}
	return masked, nil
}

// maskFields masks the fields of the request in place, or changes none.
func (a *Admission) maskFields(fields []Field) error {
	masked := make([]string, len(fields))
	var blocked error
	for i, f := range fields { // all of them, so that the findings of a refused request are complete
		if f.Text == nil {
			continue
		}
		text, err := a.maskText(*f.Text, DirectionRequest, f.Path, false)
		if err != nil && blocked == nil {
			blocked = err
		}
		masked[i] = text
	}
	if blocked != nil {
		return blocked
	}
	for i, f := range fields {
		if f.Text != nil {
			*f.Text = masked[i]
		}
	}
	return nil
}

// maskText masks one text, for an engine or only to be shown. It fails when a value in it is to be blocked.
func (a *Admission) maskText(text string, d Direction, path string, shown bool) (string, error) {
	masked, spans := a.vault.Mask(a.along(d), text)
	var err error
	for _, s := range spans {
		a.count(d, s.Class, done(s.Action, shown), s.Code)
		if s.Action == mask.ActionBlock && err == nil {
			masked, err = "", fault.New(fault.CodeBlockedContent, string(s.Class)).WithParam(path)
		}
	}
	return masked, err
}

// done is what an action does to a value. A pseudonym hides it from engines: in what is shown to the caller and given to no engine, it is
// put back before anybody has read it, so that the value has only been observed.
func done(action mask.Action, shown bool) mask.Action {
	if shown && action == mask.ActionToken {
		return mask.ActionObserve
	}
	return action
}

// count counts a value of a class; code is that of its pseudonym, if it has one.
func (a *Admission) count(d Direction, c classify.Class, action mask.Action, code string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := Finding{Direction: string(d), Class: string(c), Detector: classify.Detector(c), Action: string(action)}
	if action == mask.ActionToken && code != "" && !slices.Contains(a.coded[code], f) {
		a.coded[code] = append(a.coded[code], f)
	}
	a.counts[f]++
	a.guard.metrics.values.WithLabelValues(string(d), classLabel(c), string(action)).Inc()
}

// classLabel is how metrics call a class: those of tenants are too many to be told apart.
func classLabel(c classify.Class) string {
	if _, ok := classify.TypeOf(c); ok {
		return string(c)
	}
	return "custom"
}

// MaskPassage masks a retrieved passage with the request's own pseudonyms. Call it before [Admission.Release]. Error:
// CodeBlockedContent.
func (a *Admission) MaskPassage(text string) (string, error) {
	return a.maskText(text, DirectionPassage, "rag", false)
}

// MaskShown masks a passage that is given to no engine: [Admission.Release] puts back every value that has a pseudonym, and shows it, so
// its finding says observe. Otherwise it is as MaskPassage.
func (a *Admission) MaskShown(text string) (string, error) {
	return a.maskText(text, DirectionPassage, "rag", true)
}

// Policy returns what the decision was made under.
func (a *Admission) Policy() PolicyRef { return a.force.ref }

// LabelMode returns how answers are labelled for a caller whose key asks for mode, or leaves it to the policy with "".
func (a *Admission) LabelMode(mode string) string {
	if mode == identity.LabelText || mode == identity.LabelMetadata {
		return mode
	}
	return a.force.policy.Label
}

// AllowsCollection reports whether the policy lets answers draw on a document collection.
func (a *Admission) AllowsCollection(name string) bool {
	return identity.Matches(a.force.policy.Collections, name)
}

// SharesPrefixes reports whether the policy lets engines reuse what they computed of a prompt for other tenants whose policy says so too.
func (a *Admission) SharesPrefixes() bool { return a.force.policy.Prefixes == prefixesShared }

// WholeAnswers reports whether other servers may be asked for blocking answers in one piece.
func (a *Admission) WholeAnswers() bool { return a.force.policy.Upstream != upstreamStreamed }

// AnswersFirst reports whether a blocking reply may leave while its outcome record is being written.
func (a *Admission) AnswersFirst() bool { return a.force.policy.Durability == answerFirst }

// Record returns the form in which prompt and answer are to be kept: RecordMasked, RecordClear, or "" for not at all.
func (a *Admission) Record() string {
	if r := a.force.policy.Record; r == RecordMasked || r == RecordClear {
		return r
	}
	return ""
}

// Redact hides in a masked answer, before it is kept, the values that the engine brought and the answer may show: those of classes that do not
// stay in every direction.
func (a *Admission) Redact(answer string) string {
	left := a.force.detectors.Only(func(c classify.Class) bool {
		return slices.ContainsFunc(directions(), func(d Direction) bool {
			return !a.force.policy.action(a.channel, c, d).Leaves()
		})
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) > 0 {
		left = left.Insist(a.known)
	}
	return mask.Redact(left, answer)
}

// Urgency returns the class that a request which asks for one gets: its own, or the most urgent one that the policy allows.
func (a *Admission) Urgency(asked string) string {
	classes := urgencies()
	allowed := slices.Index(classes, a.force.policy.Urgency)
	if want := slices.Index(classes, asked); want >= 0 && want < allowed {
		return classes[allowed]
	}
	return asked
}

// Findings returns the totals so far, sorted by direction, class and action.
func (a *Admission) Findings() []Finding {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Finding, 0, len(a.counts))
	for f, n := range a.counts {
		f.Count, f.Restored = n, a.back[f]
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.Direction, y.Direction), cmp.Compare(x.Class, y.Class), cmp.Compare(x.Action, y.Action))
	})
	return out
}

// Masked reports whether any value has a pseudonym.
func (a *Admission) Masked() bool { return a.vault.Len() > 0 }

// Release returns the way out of one choice's text. Each choice needs its own, which belongs to one goroutine.
func (a *Admission) Release() *Release {
	return &Release{admission: a, direction: DirectionAnswer, egress: mask.NewEgress(a.vault, a.along(DirectionAnswer),
		func(c classify.Class, action mask.Action) { a.count(DirectionAnswer, c, action, "") })}
}

// Quote lets a masked passage, or what a citation says of one, out beside an answer: by the rules for answers, and counted as the passage that
// it is. What they block is refused, and is not counted: the answer goes out without the quote.
func (a *Admission) Quote() *Release {
	return &Release{admission: a, direction: DirectionPassage, egress: mask.NewEgress(a.vault, a.along(DirectionAnswer),
		func(c classify.Class, action mask.Action) {
			if action != mask.ActionBlock {
				a.count(DirectionPassage, c, action, "")
			}
		})}
}

// Release applies the answer rules to a stream and puts the caller's values back, whatever the cuts between pieces.
type Release struct {
	admission *Admission
	direction Direction
	egress    *mask.Egress
}

// Write takes a piece of the model's text and returns what may be shown now; only what is still undecided is held back. Error:
// CodeBlockedAnswer, after which nothing more is shown.
func (r *Release) Write(s string) (string, error) {
	out, err := r.egress.Write(s)
	return out, answerFault(err)
}

// Held returns how many characters wait for what follows.
func (r *Release) Held() int { return r.egress.Held() }

// Masked returns what the last Write or Close returned, with pseudonyms where it had values of the caller's.
func (r *Release) Masked() string { return r.egress.Masked() }

// Close returns the rest. Call it once, when the text has ended. Of a text that was cut off, unsaid is what may have come next: the stop
// strings, or "" for anything.
func (r *Release) Close(unsaid ...string) (string, error) {
	out, err := r.egress.Close(unsaid...)
	a, unknown := r.admission, r.egress.Unknown()
	a.guard.metrics.unknown.Add(float64(unknown))
	a.mu.Lock()
	defer a.mu.Unlock()
	for code, n := range r.egress.Restored() {
		for _, f := range a.coded[code] {
			a.back[f] += n
		}
	}
	for action, n := range map[string]int{pseudonymUnknown: unknown, pseudonymCut: r.egress.Torn()} {
		if n > 0 {
			a.counts[Finding{Direction: string(r.direction), Class: "pseudonym", Detector: mask.Detector, Action: action}] += n
		}
	}
	return out, answerFault(err)
}

// What findings say of pseudonyms in the answer.
const (
	pseudonymUnknown = "unknown" // it stands for no value of the request, and stays
	pseudonymCut     = "cut"     // the answer ended inside it, or may have: that part was left out
)

func answerFault(err error) error {
	if err == nil {
		return nil
	}
	var b *mask.BlockedError
	if errors.As(err, &b) {
		return fault.Wrap(err, fault.CodeBlockedAnswer, string(b.Class))
	}
	return err
}

// Look asks what a policy does to a text.
type Look struct {
	Tenant    string
	Text      string
	Direction Direction // "" is the request
	Channel   string    // such as "embeddings"; "" for one without exceptions
	Draft     []byte    // a policy document to be used in place of the one in force
}

// Seen is what a policy does to a text.
type Seen struct {
	Masked   string // as the model sees it, or as the caller sees the model's or what a search found; a value to be blocked has a pseudonym
	Restored string // Masked, were it the model's answer to this text, as the caller gets it; "" if the text is blocked
	Blocked  bool
	Spans    []Span
}

// Span is a range of a text, in bytes, and what the policy does to it.
type Span struct {
	Class      string
	Start, End int
	Score      float64
	Why        classify.Why
	Grade      int
	Action     string // of the policy, such as "token"
}

// Preview shows what a policy does to a text. Nothing is recorded. Errors: CodePolicyUnavailable; CodeInvalidPolicy of a draft;
// CodeInvalidValue of a direction or channel.
func (g *Guard) Preview(_ context.Context, look Look) (Seen, error) {
	force, err := g.looked(look)
	if err != nil {
		return Seen{}, err
	}
	d := cmp.Or(look.Direction, DirectionRequest)
	if !slices.Contains(directions(), d) {
		return Seen{}, fault.New(fault.CodeInvalidValue, "direction", fault.Say("must be request, passage or answer", "须为 request、passage 或 answer")).WithParam("direction")
	}
	if known := slices.Sorted(maps.Values(channels())); look.Channel != "" && !slices.Contains(known, look.Channel) {
		list := strings.Join(known, ", ")
		return Seen{}, fault.New(fault.CodeInvalidValue, "channel", fault.Say("must be one of %s", "须为以下之一：%s", list)).WithParam("channel")
	}
	scope, _ := scopeOf(force.policy, "", "")
	values := g.vault(look.Tenant, scope)
	masked, found := values.Mask(force.along(look.Channel, d), look.Text)
	out := Seen{Masked: masked, Spans: []Span{}}
	shown := d == DirectionPassage && look.Channel == channelSearch
	for _, f := range found {
		out.Spans = append(out.Spans, Span{string(f.Class), f.Start, f.End, f.Score, f.Why, force.policy.grade(f.Class), string(done(f.Action, shown))})
		out.Blocked = out.Blocked || f.Action == mask.ActionBlock
	}
	r := values.Restorer()
	restored := r.Write(masked) + r.Close()
	switch {
	case out.Blocked:
	case shown:
		out.Masked, out.Restored = restored, restored
	case d == DirectionAnswer: // nothing of it is the caller's own
		out.Restored = masked
	default:
		out.Restored = restored
	}
	return out, nil
}

// looked returns the policy that a preview is of.
func (g *Guard) looked(look Look) (inForce, error) {
	if look.Draft == nil {
		return g.policy(look.Tenant)
	}
	p, err := parsePolicy(look.Draft)
	if err != nil {
		return inForce{}, err
	}
	return g.apply(p)
}
