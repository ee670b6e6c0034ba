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
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/governance/safety"
	"github.com/sluice-project/sluice/internal/fault"
)

// AdmitRequest is a request to be admitted.
type AdmitRequest struct {
	Request, Tenant string
	Project         string // of the key that asks; "": none
	Session         string // conversation; "" means the request stands alone
	Subject         string // digest of the person it is about: whom the caller acts for, else the caller
	Name            string // what the caller calls the conversation, by which people may ask for its values; "" if it has no name
	Action, Model   string
	Purpose         string           // demanded by policies that list purposes
	Ingest          bool             // a document is taken in: nobody is answered, so no purpose is demanded
	DataGrade       DataGrade        // that the request states of its data; it may only be above the policy's. 0: none
	Fields          []Field          // masked at once; those of a request that documents may know more about wait for [Admission.Mask]
	Known           []classify.Known // values that the caller says are sensitive: masked wherever they stand, whatever their class
}

// Field is a text of the request. It is rewritten in place.
type Field struct {
	Path string // such as "messages[2].content"
	Text *string
	// Operator: the text is of whoever made the application, such as a system message; canaries stand in it.
	Operator bool
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
	guard      *Guard
	active     activePolicy
	tenant     string
	channel    string
	pseudonyms *mask.Pseudonyms
	storeScope string // the scope under which values are kept
	name       string // of the scope
	subject    string
	epoch      pseudonym.Epoch
	screening  *screening // nil: off

	storeMu sync.Mutex // one call of StoreValues at a time

	mu             sync.Mutex
	counts         map[Finding]int           // Count and Restored are zero in the keys
	findingsByCode map[string][]Finding      // the findings of the value behind each code, as keys of counts
	restored       map[Finding]int           // how often values were put back
	known          []classify.Known          // values that somebody said are sensitive
	rules          map[Direction]*mask.Rules // with known; nil where there are none
	asked, raised  DataGrade                 // by the request, and by what was found
}

// Admit applies the policy in force: model, purpose, then every field, if there are any, is masked in place. When it fails no field has changed; if a
// value was blocked, the admission is returned beside the error so that its findings can be recorded. Errors:
// CodePolicyUnavailable, CodeModelNotAllowed, CodePurpose, CodeBlockedContent naming class and field, CodeUnsafeContent naming risk and field.
func (g *Guard) Admit(_ context.Context, ask AdmitRequest) (*Admission, error) {
	active, err := g.policy(ask.Tenant, ask.Project)
	if err != nil {
		return nil, err
	}
	scope, ofSession := scopeOf(active.policy, ask.Session, ask.Request)
	a := &Admission{
		guard: g, active: active, tenant: ask.Tenant, channel: g.channels[ask.Action], pseudonyms: g.newPseudonyms(ask.Tenant, scope), storeScope: scope, counts: map[Finding]int{},
		findingsByCode: map[string][]Finding{}, restored: map[Finding]int{},
		subject: ask.Subject, epoch: g.values.Epoch(), asked: ask.DataGrade,
	}
	switch {
	case ofSession && ask.Name != "":
		a.name = ask.Name
	case ask.Request != "":
		a.storeScope = scopeRequest + ask.Request
	}
	if a.screening, err = g.screening(active); err != nil {
		return nil, err
	}
	a.addKnown(ask.Known)
	if ask.Model != "" && !active.policy.allowsModel(ask.Model) { // a search asks no model
		return a, fault.New(fault.CodeModelNotAllowed, ask.Model).WithParam("model")
	}
	if p := active.policy.Purposes; len(p) > 0 && !ask.Ingest {
		if !slices.Contains(p, ask.Purpose) {
			return a, fault.New(fault.CodePurpose, strings.Join(p, ", ")).WithParam("purpose")
		}
		a.active.ref.Purpose = ask.Purpose
	}
	return a, a.maskFields(ask.Fields)
}

// addKnown adds values that the caller or a document declares sensitive. In answers the rule of their class applies: the model saw only
// their pseudonyms, so a value in its answer comes from elsewhere.
func (a *Admission) addKnown(values []classify.Known) {
	if len(values) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = append(a.known, values...)
	a.rules = map[Direction]*mask.Rules{
		DirectionRequest: a.active.rulesFor(a.channel, DirectionRequest).Knowing(a.known),
		DirectionPassage: a.active.rulesFor(a.channel, DirectionPassage).Knowing(a.known),
		DirectionAnswer:  a.active.rulesFor(a.channel, DirectionAnswer).Recognising(a.known),
	}
}

// rulesFor returns the rules for texts of a direction.
func (a *Admission) rulesFor(d Direction) *mask.Rules {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.rules[d]; r != nil {
		return r
	}
	return a.active.rulesFor(a.channel, d)
}

// Mask masks the fields of the request in place, or changes none. known are values that documents say are sensitive: they are masked wherever
// they stand, in passages, too. Call it with the fields once, when all of them have been found, and before [Admission.MaskPassage]; a search, which finds
// documents for fields that are masked, calls it with what these say alone. Error: CodeBlockedContent naming class and field.
func (a *Admission) Mask(known []classify.Known, fields []Field) error {
	a.addKnown(known)
	return a.maskFields(fields)
}

// MaskQuery masks a text of the request for a search, before Mask is called. Mask gives it the same pseudonyms. It counts nothing. Error:
// CodeBlockedContent.
func (a *Admission) MaskQuery(text string) (string, error) {
	text, err := a.screening.screen(text, DirectionRequest, "", func(safety.Hit) {})
	if err != nil {
		return "", err
	}
	masked, spans := a.pseudonyms.Mask(a.rulesFor(DirectionRequest), text)
	for _, s := range spans {
		a.raise(s)
		if s.Action == mask.ActionBlock {
			return "", fault.New(fault.CodeBlockedContent, string(s.Class))
		}
	}
	return masked, nil
}

// Examine says what the policy would do to the values in a text if it were sent in a request: one finding for each class and action, sorted. Nothing is
// masked, and no value is blocked: a text is only looked at. The findings count as those of the request.
func (a *Admission) Examine(text string) []Finding {
	_, spans := a.pseudonyms.Mask(a.rulesFor(DirectionRequest), text)
	found := map[Finding]int{}
	for _, s := range spans {
		a.count(DirectionRequest, s.Class, s.Action, "")
		found[findingOf(DirectionRequest, s.Class, s.Action)]++
	}
	_, _ = a.screening.screen(text, DirectionRequest, "", func(h safety.Hit) {
		a.countHit(DirectionRequest, h)
		found[hitFinding(DirectionRequest, h)]++
	})
	out := make([]Finding, 0, len(found))
	for f, n := range found {
		f.Count = n
		out = append(out, f)
	}
	return sorted(out)
}

// Examined returns the classes whose values are looked for in requests, sorted.
func (a *Admission) Examined() []string {
	var out []string
	for _, t := range a.active.detectors.Types() {
		if a.active.policy.lookedFor(a.channel, t.Class, DirectionRequest) != mask.ActionAllow {
			out = append(out, string(t.Class))
		}
	}
	slices.Sort(out)
	return out
}

// maskFields masks the fields of the request in place, or changes none.
func (a *Admission) maskFields(fields []Field) error {
	a.noteCanaries(fields)
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
	text, err := a.screening.screen(text, d, path, func(h safety.Hit) { a.countHit(d, h) })
	if err != nil {
		return "", err
	}
	masked, spans := a.pseudonyms.Mask(a.rulesFor(d), text)
	for _, s := range spans {
		if !shown {
			a.raise(s)
		}
		a.count(d, s.Class, effectiveAction(s.Action, shown), s.Code)
		if s.Action == mask.ActionBlock && err == nil {
			masked, err = "", fault.New(fault.CodeBlockedContent, string(s.Class)).WithParam(path)
		}
	}
	return masked, err
}

// effectiveAction returns what an action really does to a value. A pseudonym hides a value from engines. Where no engine reads the text, the
// value is restored before anybody sees the pseudonym, so it was only observed.
func effectiveAction(action mask.Action, shown bool) mask.Action {
	if shown && action == mask.ActionToken {
		return mask.ActionObserve
	}
	return action
}

// count counts a value of a class; code is that of its pseudonym, if it has one.
func (a *Admission) count(d Direction, c classify.Class, action mask.Action, code string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := findingOf(d, c, action)
	if action == mask.ActionToken && code != "" && !slices.Contains(a.findingsByCode[code], f) {
		a.findingsByCode[code] = append(a.findingsByCode[code], f)
	}
	a.counts[f]++
	a.guard.metrics.findings.WithLabelValues(string(d), classLabel(c), string(action)).Inc()
}

// findingOf is a finding without its counts.
func findingOf(d Direction, c classify.Class, action mask.Action) Finding {
	return Finding{Direction: string(d), Class: string(c), Detector: classify.Detector(c), Action: string(action)}
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

// MaskDisplayed masks a passage that is given to no engine: [Admission.Release] puts back every value that has a pseudonym, and shows it, so
// its finding says observe. Otherwise it is as MaskPassage.
func (a *Admission) MaskDisplayed(text string) (string, error) {
	return a.maskText(text, DirectionPassage, "rag", true)
}

// Policy returns what the decision was made under.
func (a *Admission) Policy() PolicyRef { return a.active.ref }

// LabelMode returns how answers are labelled for a caller whose key asks for mode, or leaves it to the policy with "".
func (a *Admission) LabelMode(mode string) string {
	if mode == identity.LabelText || mode == identity.LabelMetadata {
		return mode
	}
	return a.active.policy.Label
}

// DemandsAgreement reports whether the policy has answers go without a visible label only under an agreement, whatever keys say.
func (a *Admission) DemandsAgreement() bool { return a.active.policy.demandsAgreement() }

// AllowsCollection reports whether the policy lets answers draw on a document collection.
func (a *Admission) AllowsCollection(name string) bool {
	return identity.Matches(a.active.policy.Collections, name)
}

// SharesPrefixCache reports whether the policy lets engines reuse what they computed of a prompt for other tenants whose policy says so too.
func (a *Admission) SharesPrefixCache() bool { return a.active.policy.Prefixes == prefixesShared }

// UpstreamNonStreaming reports whether other servers may be asked for blocking answers in one piece.
func (a *Admission) UpstreamNonStreaming() bool { return a.active.policy.Upstream != upstreamStreaming }

// Signs reports whether every answer is signed, asked or not.
func (a *Admission) Signs() bool { return a.active.policy.Signature == signAlways }

// RespondBeforeRecord reports whether a blocking reply may leave while its outcome record is being written.
func (a *Admission) RespondBeforeRecord() bool { return a.active.policy.Durability == answerFirst }

// Record returns the form in which prompt and answer are to be kept: RecordMasked, RecordClear, or "" for not at all.
func (a *Admission) Record() string {
	if r := a.active.policy.Record; r == RecordMasked || r == RecordClear {
		return r
	}
	return ""
}

// Redact hides in a masked answer, before it is kept, the values that the engine brought and the answer may show: those of classes that do not
// stay in every direction.
func (a *Admission) Redact(answer string) string {
	left := a.active.detectors.Only(func(c classify.Class) bool {
		return slices.ContainsFunc(directions(), func(d Direction) bool {
			return !a.active.policy.action(a.channel, c, d).Leaves()
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
	allowed := slices.Index(classes, a.active.policy.Urgency)
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
		f.Count, f.Restored = n, a.restored[f]
		out = append(out, f)
	}
	return sorted(out)
}

// sorted sorts findings by direction, class and action.
func sorted(all []Finding) []Finding {
	slices.SortFunc(all, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.Direction, y.Direction), cmp.Compare(x.Class, y.Class), cmp.Compare(x.Action, y.Action))
	})
	return all
}

// Hides reports whether a request with the value goes on without it, or does not go on.
func (f Finding) Hides() bool {
	if strings.HasPrefix(f.Class, safetyClass) {
		return f.Action == string(safety.Block) || f.Action == string(safety.Replace)
	}
	return !mask.Action(f.Action).Leaves()
}

// Masked reports whether any value has a pseudonym.
func (a *Admission) Masked() bool { return a.pseudonyms.Len() > 0 }

// Release returns the way out of one choice's text. Each choice needs its own, which belongs to one goroutine.
func (a *Admission) Release() *Release {
	return a.release(false)
}

// ReleaseFound is Release for the text of a document that is shown as an answer. What safety blocks in it is replaced: one document must not keep the
// others from whom finds it.
func (a *Admission) ReleaseFound() *Release { return a.release(true) }

func (a *Admission) release(soften bool) *Release {
	return &Release{admission: a, direction: DirectionAnswer, safety: a.safetyStream(DirectionAnswer, soften), egress: mask.NewEgress(a.pseudonyms, a.rulesFor(DirectionAnswer),
		func(c classify.Class, action mask.Action) { a.count(DirectionAnswer, c, action, "") })}
}

// ReleaseCitation lets a masked passage, or what a citation says of one, out beside an answer: by the rules for answers, and counted as the passage that
// it is. What they block is refused, and is not counted: the answer goes out without the quote. What safety blocks is replaced.
func (a *Admission) ReleaseCitation() *Release {
	return &Release{admission: a, direction: DirectionPassage, safety: a.safetyStream(DirectionPassage, true), egress: mask.NewEgress(a.pseudonyms, a.rulesFor(DirectionAnswer),
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
	safety    *safety.Stream // behind it, on what would be shown; nil: nothing is looked for
	masked    string         // with safety: see Masked
	name      int            // bytes of names that have not left, which safety does not look at
}

// Write takes a piece of the model's text and returns what may be shown now; only what is still undecided is held back. Error:
// CodeBlockedAnswer or CodeUnsafeAnswer, after which nothing more is shown.
func (r *Release) Write(s string) (string, error) {
	out, err := r.egress.Write(s)
	if err == nil && r.safety != nil {
		out, r.masked, err = r.behindName(out, r.egress.Masked())
	}
	return out, answerFault(err)
}

// WriteName takes a name that stands before a value and was judged as a text of its own: the masking rules see the value behind it. It is returned, and
// in Masked, as if it had been written.
func (r *Release) WriteName(name string) (string, error) {
	r.name += len(name)
	return r.Write(name)
}

// behindName gives safety what follows a name.
func (r *Release) behindName(shown, masked string) (outShown, outMasked string, err error) {
	n := min(r.name, len(shown), len(masked))
	if shown[:n] != masked[:n] { // a value is in it
		n = 0
	}
	r.name -= n
	outShown, outMasked, err = r.safety.Write(shown[n:], masked[n:])
	return shown[:n] + outShown, shown[:n] + outMasked, err
}

// Held returns how many characters wait for what follows.
func (r *Release) Held() int {
	n := r.egress.Held()
	if r.safety != nil {
		n += r.safety.Held()
	}
	return n
}

// Masked returns what the last Write or Close returned, with pseudonyms where it had values of the caller's.
func (r *Release) Masked() string {
	if r.safety != nil {
		return r.masked
	}
	return r.egress.Masked()
}

// Close returns the rest. Call it once, when the text has ended. Of a text that was cut off, unsaid is what may have come next: the stop
// strings, or "" for anything.
func (r *Release) Close(unsaid ...string) (string, error) {
	out, err := r.egress.Close(unsaid...)
	if err == nil && r.safety != nil {
		out, r.masked, err = r.closeSafety(out, r.egress.Masked())
	}
	a, unknown := r.admission, r.egress.Unknown()
	a.guard.metrics.unknown.Add(float64(unknown))
	a.mu.Lock()
	defer a.mu.Unlock()
	for code, n := range r.egress.Restored() {
		for _, f := range a.findingsByCode[code] {
			a.restored[f] += n
		}
	}
	for action, n := range map[string]int{pseudonymUnknown: unknown, pseudonymCut: r.egress.Torn()} {
		if n > 0 {
			a.counts[Finding{Direction: string(r.direction), Class: "pseudonym", Detector: mask.Detector, Action: action}] += n
		}
	}
	return out, answerFault(err)
}

// closeSafety passes the last piece and ends the text.
func (r *Release) closeSafety(shown, masked string) (allShown, allMasked string, err error) {
	if shown, masked, err = r.behindName(shown, masked); err != nil {
		return "", "", err
	}
	rest, restMasked, err := r.safety.Close()
	return shown + rest, masked + restMasked, err
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
	var unsafe *safety.BlockedError
	if errors.As(err, &unsafe) {
		return fault.Wrap(err, fault.CodeUnsafeAnswer, riskPhrase(unsafe.Risk))
	}
	return err
}

// PreviewRequest asks what a policy does to a text.
type PreviewRequest struct {
	Tenant    string
	Project   string // whose policy is asked for; "": the tenant's
	Text      string
	Direction Direction // "" is the request
	Channel   string    // such as "embeddings"; "" for one without exceptions
	Document  []byte    // a policy document to be used in place of the one in force
}

// PreviewResult is what a policy does to a text.
type PreviewResult struct {
	Masked   string // as the model sees it, or as the caller sees the model's or what a search found; a value to be blocked has a pseudonym
	Restored string // Masked, were it the model's answer to this text, as the caller gets it; "" if the text is blocked
	Blocked  bool
	Spans    []Span
	Safety   []Finding // what content safety finds in it, before masking; the text that it takes out is not in Masked
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
func (g *Guard) Preview(_ context.Context, preview PreviewRequest) (PreviewResult, error) {
	active, err := g.previewPolicy(preview)
	if err != nil {
		return PreviewResult{}, err
	}
	d := cmp.Or(preview.Direction, DirectionRequest)
	if !slices.Contains(directions(), d) {
		return PreviewResult{}, fault.New(fault.CodeInvalidValue, "direction", fault.Say("governance.direction")).WithParam("direction")
	}
	if known := slices.Sorted(maps.Values(channels())); preview.Channel != "" && !slices.Contains(known, preview.Channel) {
		list := strings.Join(known, ", ")
		return PreviewResult{}, fault.New(fault.CodeInvalidValue, "channel", fault.Say("value.one_of", list)).WithParam("channel")
	}
	scope, _ := scopeOf(active.policy, "", "")
	values := g.newPseudonyms(preview.Tenant, scope)
	masked, found := values.Mask(active.rulesFor(preview.Channel, d), preview.Text)
	out := PreviewResult{Spans: []Span{}}
	text, hits, unsafe, err := g.previewSafety(active, preview.Text, d)
	if err != nil {
		return PreviewResult{}, err
	}
	out.Safety, out.Blocked = hits, unsafe
	if text != preview.Text { // spans are of the text as it was given
		masked, _ = values.Mask(active.rulesFor(preview.Channel, d), text)
	}
	out.Masked = masked
	shown := d == DirectionPassage && preview.Channel == channelSearch
	for _, f := range found {
		out.Spans = append(out.Spans, Span{string(f.Class), f.Start, f.End, f.Score, f.Why, active.policy.grade(f.Class), string(effectiveAction(f.Action, shown))})
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

// previewSafety says what content safety makes of a text: of an answer, as it would be shown, and of another, as it would go to a model. A text that is
// blocked is returned as it was.
func (g *Guard) previewSafety(active activePolicy, text string, d Direction) (out string, found []Finding, blocked bool, err error) {
	s, err := g.screening(active)
	if err != nil {
		return "", nil, false, err
	}
	counts := map[Finding]int{}
	hit := func(h safety.Hit) { counts[hitFinding(d, h)]++ }
	if d != DirectionAnswer {
		out, err = s.screen(text, d, "", hit)
	} else if stream := s.stream(false, hit); stream == nil {
		out = text
	} else {
		var rest string
		if out, _, err = stream.Write(text, text); err == nil {
			rest, _, err = stream.Close()
			out += rest
		}
	}
	if err != nil { // only a block ends it
		out, blocked = text, true
	}
	for f, n := range counts {
		f.Count = n
		found = append(found, f)
	}
	return out, sorted(found), blocked, nil
}

// previewPolicy returns the policy that a preview is of.
func (g *Guard) previewPolicy(preview PreviewRequest) (activePolicy, error) {
	if preview.Document == nil {
		return g.policy(preview.Tenant, preview.Project)
	}
	p, err := g.parse(preview.Document)
	if err != nil {
		return activePolicy{}, err
	}
	return g.apply(p, true)
}
