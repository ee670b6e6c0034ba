package toolcall

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// Options are what a Parser has to know of a request.
type Options struct {
	Names    []string // of the tools that were offered
	Parallel bool     // several calls in one answer; without it all but the first are text
	// Guaranteed: a grammar holds calls to [Dialect.Grammar] once they have begun, so arguments are passed on as they come.
	Guaranteed bool
	Seed       uint64 // of the request; it decides the IDs
	Choice     int
}

// Delta is a new part of a call. The parts of one call have its Index; ID and Name come with the first.
type Delta struct {
	Index     int
	ID, Name  string
	Arguments string
}

// Parser splits an answer into text and calls. What it returns in total does not depend on the pieces in which the answer comes. It
// serves one answer and one goroutine.
type Parser struct {
	dialect Dialect
	opt     Options
	marker  string

	phase     phase
	input     string          // not looked at yet, or too short to be decided
	final     bool            // nothing follows the input
	begun     bool            // there was text, a marker or a call
	onlySpace bool            // nothing but space came since the beginning or the last call
	space     strings.Builder // of that kind; dropped between calls and at the end
	held      strings.Builder // of a call that may yet turn out to be text

	list  bool // the call stands in a JSON list
	id    bool // a [CALL_ID] was there
	name  strings.Builder
	call  *object
	sent  int  // bytes of the open call's arguments that were passed on
	open  bool // the call's first part was passed on, and not its last
	calls int

	text   strings.Builder
	deltas []Delta
}

type phase uint8

const (
	inText    phase = iota
	opened          // a call or a list of calls is expected
	inName          // of Mistral's form without an object for the name
	inID            // of that form
	afterName       // of that form
	inObject
	afterCall // what else belongs to the syntax
)

// Parser returns a parser of one answer. With the dialect None everything is text.
func (d Dialect) Parser(opt Options) *Parser {
	p := &Parser{dialect: d, opt: opt, onlySpace: true}
	if m := d.Markers(); len(m) > 0 {
		p.marker = m[0]
	}
	return p
}

// ID is the ID of a call: the same for the same seed, choice and index.
func ID(seed uint64, choice, index int) string {
	key := binary.LittleEndian.AppendUint64([]byte("call"), seed)
	key = binary.LittleEndian.AppendUint64(key, uint64(choice))
	key = binary.LittleEndian.AppendUint64(key, uint64(index))
	sum := sha256.Sum256(key)
	return "call_" + hex.EncodeToString(sum[:12])
}

// Calls is the number of calls so far, an open one included.
func (p *Parser) Calls() int {
	if p.open {
		return p.calls + 1
	}
	return p.calls
}

// Open says that the answer ended inside a call that was passed on in part. Only a Guaranteed parser of an answer that was cut says so.
func (p *Parser) Open() bool { return p.open }

// Calling reports whether the parser stands in a call or between its parts. Text that may yet begin a call, and is held back for that, is text until it has.
func (p *Parser) Calling() bool { return p.phase != inText }

// Write takes a piece of the answer and returns what is certain with it.
func (p *Parser) Write(piece string) (text string, deltas []Delta) {
	if p.dialect == None {
		return piece, nil
	}
	p.input += piece
	for p.step() {
	}
	return p.take()
}

// Close ends the answer and returns what was held back.
func (p *Parser) Close() (text string, deltas []Delta) {
	if p.opt.Guaranteed && !p.open && (p.phase != inText || p.calls > 0) { // a limit cut a call or what stands around it
		p.held.Reset()
		p.input, p.phase = "", inText
	}
	p.final = true
	for p.step() {
	}
	if p.phase != inText && p.phase != afterCall && !p.open {
		p.fail()
	}
	if p.calls == 0 && !p.open {
		p.text.WriteString(p.space.String())
	}
	p.space.Reset()
	return p.take()
}

func (p *Parser) take() (string, []Delta) {
	text, deltas := p.text.String(), p.deltas
	p.text.Reset()
	p.deltas = nil
	return text, deltas
}

// step consumes input as far as one phase reaches, and says whether to go on.
func (p *Parser) step() bool {
	switch p.phase {
	case inText:
		return p.stepText()
	case opened:
		return p.stepOpened()
	case inName, inID:
		return p.stepWord()
	case afterName:
		return p.stepAfterName()
	case inObject:
		return p.stepObject()
	case afterCall:
		return p.stepAfterCall()
	}
	return false
}

// emit passes text on, with the space before it.
func (p *Parser) emit(s string) {
	if s == "" {
		return
	}
	p.text.WriteString(p.space.String() + s)
	p.space.Reset()
	p.onlySpace, p.begun = false, true
}

// consume moves n bytes of the input to the call.
func (p *Parser) consume(n int) {
	p.held.WriteString(p.input[:n])
	p.input = p.input[n:]
}

// spaces is the length of the white space that the input begins with.
func (p *Parser) spaces() int {
	n := 0
	for n < len(p.input) && isSpace(p.input[n]) {
		n++
	}
	return n
}

// match says whether the input begins with s, and whether it may once there is more of it.
func (p *Parser) match(s string) (found, maybe bool) {
	if strings.HasPrefix(p.input, s) {
		return true, false
	}
	return false, !p.final && strings.HasPrefix(s, p.input)
}

// fail makes text of what looked like a call.
func (p *Parser) fail() {
	held := p.held.String()
	p.held.Reset()
	if p.open { // a guarantee was broken; what was passed on cannot be taken back
		held, p.open, p.sent = "", false, 0
		p.calls++
	}
	p.phase, p.list, p.call = inText, false, nil
	p.emit(held)
	p.begun = true
}

func (p *Parser) stepText() bool {
	if p.onlySpace {
		n := p.spaces()
		p.space.WriteString(p.input[:n])
		p.input = p.input[n:]
	}
	if p.input == "" {
		return false
	}
	if p.dialect == Llama && !p.begun && p.input[0] == '{' {
		p.phase, p.begun = opened, true
		return true
	}
	i := strings.Index(p.input, p.marker)
	if i < 0 {
		i = len(p.input) - overlap(p.input, p.marker)
		if p.final {
			i = len(p.input)
		}
		p.emit(p.input[:i])
		p.input = p.input[i:]
		return false
	}
	p.emit(p.input[:i])
	p.input = p.input[i:]
	p.consume(len(p.marker))
	p.phase, p.begun = opened, true
	return true
}

// overlap is the length of the longest end of s that begins marker without being it.
func overlap(s, marker string) int {
	for n := min(len(s), len(marker)-1); n > 0; n-- {
		if strings.HasSuffix(s, marker[:n]) {
			return n
		}
	}
	return 0
}

func (p *Parser) stepOpened() bool {
	p.consume(p.spaces())
	if p.input == "" {
		return false
	}
	switch c := p.input[0]; {
	case c == '{':
		p.phase, p.call = inObject, &object{strict: p.dialect == Llama}
	case c == '[' && !p.list && p.dialect != Llama:
		p.consume(1)
		p.list = true
	case isWord(c) && !p.list && (p.dialect == Mistral || p.dialect == MistralArgs):
		p.phase, p.id = inName, false
		p.name.Reset()
	default:
		p.fail()
	}
	return true
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '-' || c == '.'
}

// stepWord reads a name or an ID.
func (p *Parser) stepWord() bool {
	n := 0
	for n < len(p.input) && isWord(p.input[n]) {
		n++
	}
	if p.phase == inName {
		p.name.WriteString(p.input[:n])
	}
	p.consume(n)
	if p.input == "" {
		return false
	}
	p.phase = afterName
	return true
}

func (p *Parser) stepAfterName() bool {
	p.consume(p.spaces())
	if p.input == "" {
		return false
	}
	if found, maybe := p.match(mistralArgs); found {
		p.consume(len(mistralArgs))
		return true
	} else if maybe {
		return false
	}
	if found, maybe := p.match(mistralID); found && !p.id {
		p.consume(len(mistralID))
		p.phase, p.id = inID, true
		return true
	} else if maybe {
		return false
	}
	if p.input[0] != '{' || !p.offered(p.name.String()) {
		p.fail()
		return true
	}
	p.phase, p.call = inObject, &object{bare: true, name: p.name.String(), hasName: true}
	return true
}

func (p *Parser) offered(name string) bool {
	return slices.Contains(p.opt.Names, name) && (p.opt.Parallel || p.calls == 0)
}

func (p *Parser) stepObject() bool {
	n := 0
	for n < len(p.input) && p.call.state != finished && p.call.step(p.input[n]) {
		n++
	}
	p.consume(n)
	switch {
	case p.call.hasName && !p.offered(p.call.name):
		p.fail()
	case p.call.state == finished:
		p.finish()
	case p.input != "":
		p.fail()
	default:
		p.stream()
		return false
	}
	return true
}

// stream passes on what there is of the arguments if nothing can go wrong any more.
func (p *Parser) stream() {
	if !p.opt.Guaranteed || !p.call.hasName || p.call.text != "" {
		return
	}
	if arguments := p.call.arguments(); len(arguments) > p.sent {
		p.begin()
		p.deltas = append(p.deltas, Delta{Index: p.calls, Arguments: arguments[p.sent:]})
		p.sent = len(arguments)
	}
}

func (p *Parser) begin() {
	if !p.open {
		p.deltas = append(p.deltas, Delta{Index: p.calls, ID: ID(p.opt.Seed, p.opt.Choice, p.calls), Name: p.call.name})
		p.open, p.sent = true, 0
	}
}

// finish passes on the rest of a call.
func (p *Parser) finish() {
	if !p.call.hasName {
		p.fail()
		return
	}
	p.begin()
	if rest := p.call.arguments()[p.sent:]; rest != "" {
		p.deltas = append(p.deltas, Delta{Index: p.calls, Arguments: rest})
	}
	p.calls++
	p.open, p.sent, p.call = false, 0, nil
	p.held.Reset()
	p.space.Reset()
	p.onlySpace = true
	p.phase = afterCall
}

func (p *Parser) stepAfterCall() bool {
	n := p.spaces()
	p.space.WriteString(p.input[:n])
	p.input = p.input[n:]
	if p.input == "" {
		return false
	}
	c := p.input[0]
	switch {
	case p.list && c == ']':
		p.list, p.input = false, p.input[1:]
		p.space.Reset()
		return true
	case p.list && c == ',', p.dialect == Llama && (c == ';' || c == '{'):
		p.held.WriteString(p.space.String())
		p.space.Reset()
		if c != '{' {
			p.consume(1)
		}
		p.phase = opened
		return true
	case p.dialect == Hermes && !p.list:
		found, maybe := p.match(hermesClose)
		if maybe {
			return false
		}
		if found {
			p.input = p.input[len(hermesClose):]
			p.space.Reset()
		}
	}
	p.phase, p.list = inText, false
	return true
}
