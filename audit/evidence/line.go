package evidence

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/sluice-project/sluice/audit/record"
)

// A record is a line of records.jsonl. The bytes between head and tail are those that the leaf hash covers, so the line is cut at fixed
// places and is never parsed as JSON and written again.
const (
	lineHead = `{"index":`
	lineMid  = `,"record":`
	lineTail = "}\n"
	maxLine  = len(lineHead) + 19 + len(lineMid) + record.MaxPayload + len(lineTail)
)

var errLine = errors.New("the line is not of the form " + lineHead + "N" + lineMid + "…}")

func appendLine(b []byte, r Sealed) []byte {
	b = append(b, lineHead...)
	b = strconv.AppendInt(b, r.Index, 10)
	b = append(b, lineMid...)
	b = append(b, r.Payload...)
	return append(b, lineTail...)
}

// parseLine is the inverse of appendLine. The payload is part of line.
func parseLine(line []byte) (Sealed, error) {
	rest, ok := bytes.CutPrefix(line, []byte(lineHead))
	if !ok {
		return Sealed{}, errLine
	}
	digits, rest, ok := bytes.Cut(rest, []byte(lineMid))
	if !ok {
		return Sealed{}, errLine
	}
	index, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || index < 0 || strconv.FormatInt(index, 10) != string(digits) {
		return Sealed{}, errLine
	}
	payload, ok := bytes.CutSuffix(rest, []byte(lineTail))
	if !ok || len(payload) > record.MaxPayload || bytes.IndexByte(payload, '\n') >= 0 {
		return Sealed{}, errLine
	}
	return Sealed{index, payload}, nil
}
