package adminapi

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/answerfile"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/internal/fault"
)

// ownLabel refuses a label that was not made here for the caller's tenant: a file with it would say that it was.
func (s *Server) ownLabel(c *gin.Context, x AIGC) (label.Label, error) {
	out := label.Label(x)
	if err := s.deps.Labels.Verify(out, tenantOf(c)); err != nil {
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
	about(c, x.ProduceID, map[string]string{"format": string(in.Format)})
	talk := answerfile.Conversation{Title: deref(in.Title), Issuer: x.ContentProducer, Made: s.now(), Lang: language(c.GetHeader("Accept-Language"))}
	for _, t := range in.Turns {
		talk.Turns = append(talk.Turns, answerfile.Turn{Asked: t.Role == AnswerTurnRoleUser, Text: t.Text})
	}
	kind := labelfile.Kind(in.Format)
	file, err := answerfile.Make(kind, talk, x)
	s.sendFile(c, kind, file, err)
}

// LabelFile implements POST /labels/files.
func (s *Server) LabelFile(c *gin.Context) {
	in, err := decode[FileToLabel](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	kind, err := labelfile.Detect(in.Name, in.Content)
	if err != nil {
		s.Fail(c, err)
		return
	}
	if deref(in.Propagate) {
		s.passOn(c, kind, in.Content)
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
	about(c, x.ProduceID, map[string]string{"format": string(kind)})
	chinese := language(c.GetHeader("Accept-Language")) == fault.Chinese
	file, err := labelfile.Write(kind, in.Content, x, label.Wording(label.ChannelExport, chinese))
	s.sendFile(c, kind, file, err)
}

// passOn fills the propagator's fields of a file.
func (s *Server) passOn(c *gin.Context, kind labelfile.Kind, content []byte) {
	id, err := uuid.NewV7()
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id.String(), map[string]string{"format": string(kind)})
	file, err := labelfile.Propagate(kind, content, func(x label.Label) label.Label { return s.deps.Labels.Propagate(x, id.String(), tenantOf(c)) })
	s.sendFile(c, kind, file, err)
}

// sendFile answers with a file, which no browser shows as a page of ours.
func (s *Server) sendFile(c *gin.Context, kind labelfile.Kind, file labelfile.Result, err error) {
	if err != nil {
		s.Fail(c, err)
		return
	}
	shown := "no"
	if file.Visible {
		shown = "yes"
	}
	c.Header("X-Sluice-Label-Visible", shown)
	c.Header("Content-Disposition", `attachment; filename="answer.`+string(kind)+`"`)
	c.Data(http.StatusOK, "application/octet-stream", file.Data)
}

// ReadLabels implements POST /labels/read.
func (s *Server) ReadLabels(c *gin.Context) {
	in, err := decode[FileToRead](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	kind, err := labelfile.Detect(in.Name, in.Content)
	if err != nil {
		s.Fail(c, err)
		return
	}
	found, err := labelfile.Read(kind, in.Content)
	out := LabelsFound{Kind: string(kind), Visible: LabelsFoundVisible(found.Visible), Signed: found.Signed, Labels: []FoundLabel{}}
	for _, m := range found.Marks {
		view := FoundLabel{Place: m.Place, Whole: m.Whole, MadeHere: m.MadeHere(s.deps.Labels, tenantOf(c))}
		if m.Whole {
			x := AIGC(m.Label)
			view.Label = &x
		}
		out.Labels = append(out.Labels, view)
	}
	s.reply(c, http.StatusOK, out, err)
}

// ListLabelWordings implements GET /labels/wordings.
func (s *Server) ListLabelWordings(c *gin.Context) {
	out := LabelWordings{}
	for _, channel := range label.Channels() {
		out.Items = append(out.Items, LabelWording{Channel: LabelWordingChannel(channel), Zh: label.Wording(channel, true), En: label.Wording(channel, false)})
	}
	s.reply(c, http.StatusOK, out, nil)
}
