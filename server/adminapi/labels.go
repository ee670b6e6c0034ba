package adminapi

import (
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/answerfile"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/internal/fault"
)

// filesAtOnce is how many files are labelled or read at one time: one may take hundreds of megabytes and seconds of a processor.
const filesAtOnce = 2

// enterFiles waits for its turn; leave ends it. Errors: CodeOverloaded if the caller went away before.
func (s *Server) enterFiles(c *gin.Context) (leave func(), err error) {
	select {
	case s.files <- struct{}{}:
		return func() { <-s.files }, nil
	case <-c.Request.Context().Done():
		return nil, fault.Wrap(c.Request.Context().Err(), fault.CodeOverloaded).WithRetryAfter(time.Second)
	}
}

// ownLabel refuses a label that was not made here for the caller's tenant, or in which somebody else is named as the propagator: a file with it would say
// what did not happen. That the text is the one that was answered with it is not checked, since a label covers none.
func (s *Server) ownLabel(c *gin.Context, x AIGC) (label.Label, error) {
	out := label.Label(x)
	if err := s.deps.Labels.VerifyWhole(out, tenantOf(c)); err != nil {
		return label.Label{}, fault.Wrap(err, fault.CodeInvalidValue, "label", fault.Say("adminapi.foreign_label")).WithParam("label")
	}
	return out, nil
}

// MakeAnswerFile implements POST /labels/answers.
func (s *Server) MakeAnswerFile(c *gin.Context) {
	in, err := decode[AnswerFileRequest](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	x, err := s.ownLabel(c, in.Label)
	if err != nil {
		s.Fail(c, err)
		return
	}
	kind := labelfile.Kind(in.Format)
	talk := answerfile.Conversation{Title: deref(in.Title), Issuer: x.ContentProducer, Made: s.now(), Lang: language(c.GetHeader("Accept-Language"))}
	for _, t := range in.Turns {
		talk.Turns = append(talk.Turns, answerfile.Turn{Asked: t.Role == AnswerTurnRoleUser, Text: t.Text})
	}
	s.sendFile(c, x.ProduceID, "answer."+string(kind), kind, func() (labelfile.Result, error) { return answerfile.Make(s.deps.Files, kind, talk, x) })
}

// LabelFile implements POST /labels/files.
func (s *Server) LabelFile(c *gin.Context) {
	in, err := decode[FileToLabel](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	kind, err := s.kindOf(c, in.Name, in.Content)
	if err != nil {
		s.Fail(c, err)
		return
	}
	if deref(in.Propagate) {
		s.passOn(c, kind, in)
		return
	}
	if in.Label == nil {
		s.Fail(c, missing("label"))
		return
	}
	x, err := s.ownLabel(c, *in.Label)
	if err != nil {
		s.Fail(c, err)
		return
	}
	chinese := language(c.GetHeader("Accept-Language")) == fault.Chinese
	s.sendFile(c, x.ProduceID, in.Name, kind, func() (labelfile.Result, error) {
		return s.deps.Files.Write(kind, in.Content, x, label.Wording(label.ChannelExport, chinese))
	})
}

// kindOf finds out the kind of a file.
func (s *Server) kindOf(c *gin.Context, name string, content []byte) (labelfile.Kind, error) {
	leave, err := s.enterFiles(c)
	if err != nil {
		return "", err
	}
	defer leave()
	return labelfile.Detect(name, content)
}

// passOn fills the propagator's fields of a file.
func (s *Server) passOn(c *gin.Context, kind labelfile.Kind, in FileToLabel) {
	id, err := uuid.NewV7()
	if err != nil {
		s.Fail(c, err)
		return
	}
	s.sendFile(c, id.String(), in.Name, kind, func() (labelfile.Result, error) {
		return s.deps.Files.Propagate(kind, in.Content, func(x label.Label) label.Label { return s.deps.Labels.Propagate(x, id.String(), tenantOf(c)) })
	})
}

// sendFile makes a file and answers with it; no browser shows it as a page of ours. The record names what it is about, and the file by its hash: who holds
// one can tell whether it is what was made here.
func (s *Server) sendFile(c *gin.Context, resource, name string, kind labelfile.Kind, produce func() (labelfile.Result, error)) {
	about(c, resource, map[string]string{"format": string(kind)})
	leave, err := s.enterFiles(c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	defer leave()
	file, err := produce()
	if err != nil {
		s.Fail(c, err)
		return
	}
	what := map[string]string{"format": string(kind), "sha256": fmt.Sprintf("%x", sha256.Sum256(file.Data))}
	if file.Signer != "" {
		what["credentials_key"] = file.Signer
	}
	about(c, resource, what)
	yes := map[bool]string{true: "yes", false: "no"}
	c.Header("X-Sluice-Label-Visible", yes[file.Visible])
	c.Header("X-Sluice-File-Signed", yes[file.Signed])
	c.Header("X-Sluice-Content-Credentials", string(file.Credentials))
	c.Header("Content-Disposition", attachment(name))
	c.Data(http.StatusOK, "application/octet-stream", file.Data)
}

// attachment says under what name a file is saved. A name that no header can carry is left out.
func attachment(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "attachment"
	}
	return mime.FormatMediaType("attachment", map[string]string{"filename": name})
}

// ReadLabels implements POST /labels/read.
func (s *Server) ReadLabels(c *gin.Context) {
	in, err := decode[FileToRead](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	leave, err := s.enterFiles(c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	defer leave()
	kind, err := labelfile.Detect(in.Name, in.Content)
	if err != nil {
		s.Fail(c, err)
		return
	}
	found, err := labelfile.Read(kind, in.Content)
	out := LabelsFound{Kind: string(kind), Visible: LabelsFoundVisible(found.Visible), Signed: found.Signed, Labels: []FoundLabel{}}
	if err == nil {
		out.ContentCredentials = s.credentialsIn(kind, in.Content)
	}
	for _, m := range found.Marks {
		view := FoundLabel{Place: m.Place, Whole: m.Whole, MadeHere: m.MadeHere(s.deps.Labels, tenantOf(c)), PassedOnHere: m.PassedOnHere(s.deps.Labels, tenantOf(c))}
		if m.Whole {
			x := AIGC(m.Label)
			view.Label = &x
		}
		out.Labels = append(out.Labels, view)
	}
	s.reply(c, http.StatusOK, out, err)
}

// credentialsIn checks the content credentials of a file; nil for none.
func (s *Server) credentialsIn(kind labelfile.Kind, data []byte) *ContentCredentials {
	r := labelfile.CheckCredentials(kind, data, s.deps.Credentials.Anchors())
	if r == nil {
		return nil
	}
	out := &ContentCredentials{State: string(r.State), Earlier: r.Earlier}
	if r.Code != "" {
		code := string(r.Code)
		out.Code = &code
	}
	if r.Signer != "" {
		out.Signer = &r.Signer
	}
	return out
}

// GetCredentialsCertificate implements GET /labels/certificate.
func (s *Server) GetCredentialsCertificate(c *gin.Context) {
	c.Header("Content-Disposition", attachment("content-credentials.pem"))
	c.Data(http.StatusOK, "text/plain; charset=utf-8", s.deps.Credentials.CertificatePEM())
}

// ListLabelWordings implements GET /labels/wordings.
func (s *Server) ListLabelWordings(c *gin.Context) {
	out := LabelWordings{}
	for _, channel := range label.Channels() {
		out.Items = append(out.Items, LabelWording{Channel: LabelWordingChannel(channel), Zh: label.Wording(channel, true), En: label.Wording(channel, false)})
	}
	s.reply(c, http.StatusOK, out, nil)
}
