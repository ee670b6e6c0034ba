package kernel

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
)

// The instructions that Go's assembler lacks are words with a mnemonic behind them: each must be what it says.
func TestWordsAreWhatTheySay(t *testing.T) {
	files, err := filepath.Glob("*_arm64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no arm64 assembly: %v", err)
	}
	word := regexp.MustCompile(`^\tWORD \$0x([0-9a-f]{8}) // (.+)$`)
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if !strings.Contains(line, "WORD") || seen[line] {
				continue
			}
			seen[line] = true
			m := word.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("%s:%d: a word without mnemonic: %s", file, i+1, line)
			}
			code, err := strconv.ParseUint(m[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := disassemble(uint32(code)); err != nil || got != m[2] {
				t.Errorf("%s:%d: %#08x is %q (%v), not %q", file, i+1, code, got, err, m[2])
			}
		}
	}
	if len(seen) < 500 {
		t.Errorf("only %d words", len(seen))
	}
}

// disassemble decodes an instruction. The decoder does not know SDOT: its fields are taken apart here, by the architecture manual:
// 0|1|001111|10|L|M|Rm|1110|H|0|Rn|Rd with the index H:L.
func disassemble(code uint32) (string, error) {
	if code&0xFFC0F400 == 0x4F80E000 {
		return fmt.Sprintf("sdot v%d.4s, v%d.16b, v%d.4b[%d]", code&31, code>>5&31, code>>16&31, code>>11&1<<1|code>>21&1), nil
	}
	inst, err := arm64asm.Decode(binary.LittleEndian.AppendUint32(nil, code))
	if err != nil {
		return "", err
	}
	return strings.NewReplacer("#0x80, LSL #24", "#128, lsl #24").Replace(decimal(arm64asm.GNUSyntax(inst))), nil
}

// decimal writes immediate operands as the assembly does.
func decimal(s string) string {
	return regexp.MustCompile(`#0x[0-9a-f]+`).ReplaceAllStringFunc(s, func(h string) string {
		v, err := strconv.ParseUint(h[3:], 16, 64)
		if err != nil {
			return h
		}
		return "#" + strconv.FormatUint(v, 10)
	})
}
