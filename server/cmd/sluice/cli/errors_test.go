package cli

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestErrorsSpeakTheReadersLanguage: also an error inside another one, and those of the domain and of the server.
func TestErrorsSpeakTheReadersLanguage(t *testing.T) {
	away := Failed("cli.remote.no_answer", io.ErrUnexpectedEOF)
	for _, c := range []struct {
		err    error
		en, zh string
		misuse bool
	}{
		{Misuse("cli.user_edit.no_change"), "want --role or --label", "需要 --role 或 --label", true},
		{
			Failed("cli.remote.sign_in", "http://x", away),
			"sign in at http://x: the server does not answer; is it running? (unexpected EOF)",
			"登录 http://x：服务器没有应答；它在运行吗？（unexpected EOF）", false,
		},
		{fmt.Errorf("step: %w", Misuse("cli.user_edit.no_change")), "step: want --role or --label", "step: want --role or --label", true},
		{fault.Wrap(io.EOF, fault.CodeInvalidKey), "", "", false},
		{&ProblemError{Problem: adminapi.Problem{Detail: "d", Code: "c", RequestId: "r"}}, "d (code c, request r)", "d（代码 c，请求 r）", false},
		{ErrInterrupted, "interrupted", "已中断", false},
		{io.EOF, "EOF", "EOF", false},
	} {
		if c.en == "" {
			f := fault.Public(c.err)
			c.en, c.zh = f.Error(), f.Message(message.Chinese)+"：EOF"
		}
		if en, zh := Text(c.err, message.English), Text(c.err, message.Chinese); en != c.en || zh != c.zh || IsMisuse(c.err) != c.misuse {
			t.Errorf("%q, %q, misuse %t; want %q, %q, %t", en, zh, IsMisuse(c.err), c.en, c.zh, c.misuse)
		}
	}
	if outer := Failed("cli.remote.sign_in", "http://x", away); !errors.Is(outer, io.ErrUnexpectedEOF) || !errors.Is(outer, away) {
		t.Error("the cause is lost")
	}
}
