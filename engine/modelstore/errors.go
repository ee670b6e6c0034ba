package modelstore

import (
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// PullError says that no source gave an artefact.
type PullError struct {
	Artefact string
	File     string
	Attempts []Attempt
}

// Attempt is what became of one source.
type Attempt struct {
	Source string
	Err    error
}

// Error implements error: every source with its reason, and what to do.
func (e *PullError) Error() string { return e.Message(fault.English) }

// Unwrap returns the reasons.
func (e *PullError) Unwrap() []error {
	out := make([]error, len(e.Attempts))
	for i, a := range e.Attempts {
		out[i] = a.Err
	}
	return out
}

// Message returns the text in the given language; the reasons themselves are English.
func (e *PullError) Message(l fault.Lang) string {
	var out strings.Builder
	if l == fault.Chinese {
		fmt.Fprintf(&out, "无法获取 %s（%s）。已依次尝试：", e.Artefact, e.File)
	} else {
		fmt.Fprintf(&out, "cannot fetch %s (%s). Tried in this order:", e.Artefact, e.File)
	}
	for _, a := range e.Attempts {
		fmt.Fprintf(&out, "\n  %s: %v", a.Source, a.Err)
	}
	if l == fault.Chinese {
		fmt.Fprintf(&out, "\n请检查网络、代理（HTTPS_PROXY）、HF_ENDPOINT 或 pip 镜像配置；也可在能联网的机器上下载后执行：sluice pull %s --from file:/路径", e.Artefact)
	} else {
		fmt.Fprintf(&out, "\nCheck the network, the proxy (HTTPS_PROXY), HF_ENDPOINT or pip's mirror; or fetch the file on a connected machine and run: sluice pull %s --from file:/path", e.Artefact)
	}
	return out.String()
}

// DigestError says that a file is not the one the catalogue names.
type DigestError struct {
	Artefact, File string
	Want, Got      string // hexadecimal SHA-256
	WantSize, Size int64
}

// Error implements error.
func (e *DigestError) Error() string { return e.Message(fault.English) }

// Message returns the text in the given language.
func (e *DigestError) Message(l fault.Lang) string {
	if l == fault.Chinese {
		return fmt.Sprintf("%s 的文件 %s 校验失败：应为 %d 字节、SHA-256 %s，实际为 %d 字节、SHA-256 %s。文件已损坏或被替换；请重新执行 sluice pull %s，或换用其他来源（--from）。",
			e.Artefact, e.File, e.WantSize, e.Want, e.Size, e.Got, e.Artefact)
	}
	return fmt.Sprintf("the file %s of %s has the wrong checksum: expected %d bytes with SHA-256 %s, got %d bytes with SHA-256 %s; it is damaged or was replaced; run sluice pull %s again, or name another source with --from",
		e.File, e.Artefact, e.WantSize, e.Want, e.Size, e.Got, e.Artefact)
}

// MissingError says that an artefact has not been pulled, or that a file of it is gone or incomplete.
type MissingError struct{ Artefact, Path string }

// Error implements error.
func (e *MissingError) Error() string { return e.Message(fault.English) }

// Message returns the text in the given language.
func (e *MissingError) Message(l fault.Lang) string {
	if l == fault.Chinese {
		return fmt.Sprintf("%s 尚未就绪：%s 缺失或不完整。请执行：sluice pull %s", e.Artefact, e.Path, e.Artefact)
	}
	return fmt.Sprintf("%s is not there: %s is missing or incomplete; run: sluice pull %s", e.Artefact, e.Path, e.Artefact)
}
