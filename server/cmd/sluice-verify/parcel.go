package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
)

// parcelResult is the report on the export of a tenant, with the key that it rests on.
type parcelResult struct {
	evidence.ParcelReport
	Key      string `json:"key"`
	KeyGiven bool   `json:"key_given"` // false: it is the one inside the file
}

// checkParcel checks the export of a tenant, with the key inside if none is given.
func checkParcel(f io.ReaderAt, size int64, key, inside string) (outcome, error) {
	given := key != ""
	if !given {
		key = inside
	}
	verifier, err := checkpoint.NewVerifier(key)
	if err != nil && !given {
		return parcelResult{ParcelReport: evidence.ParcelReport{Problems: []evidence.Problem{{Kind: "key", Index: -1, Cause: err.Error()}}}}, nil
	}
	if err != nil {
		return nil, err
	}
	report, err := evidence.VerifyParcel(f, size, verifier)
	return parcelResult{ParcelReport: report, Key: key, KeyGiven: given}, err
}

func (r parcelResult) code() int { return exitCode(r.OK, r.KeyGiven) }

func (r parcelResult) print(w io.Writer, asJSON bool) error { return show(w, asJSON, r, r.text) }

// text is the report for people.
func (r parcelResult) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	verdict(line, r.code(), r.Problems, subject{
		proven:  "every file is as the owner of the log has signed it\n通过：每个文件均与日志所有者签名时一致",
		english: "file", chinese: "文件",
	})
	if m := r.Manifest; m.Format != "" {
		line("log / 日志: %s", clean(m.Origin))
		line("%s / 租户: %s, %s", clean(m.Kind), clean(m.About["tenant"]), m.Time.Format("2006-01-02 15:04:05 UTC"))
		line("files / 文件: %d", len(m.Files))
		line("manifest / 清单: sha256 %s", r.Digest)
	}
	for _, key := range strings.Fields(r.Key) {
		line("key / 公钥: %s", clean(key))
	}
	return b.String()
}
