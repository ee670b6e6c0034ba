package adminapi

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/wrapkey"
)

// GetKeyring implements GET /keyring.
func (s *Server) GetKeyring(c *gin.Context) {
	st, err := s.deps.Rotator.Status(c.Request.Context())
	s.reply(c, http.StatusOK, keyringView(st), err)
}

// RotateKeyring implements POST /keyring/rotate. The record says how much is to be re-wrapped.
func (s *Server) RotateKeyring(c *gin.Context) {
	st, err := s.deps.Rotator.Begin(c.Request.Context())
	if err == nil {
		detail := map[string]string{}
		for _, p := range st.Kinds {
			detail[p.Kind] = strconv.FormatInt(p.Total, 10)
		}
		about(c, "epoch/"+strconv.FormatInt(st.Active, 10), detail)
	}
	s.reply(c, http.StatusCreated, keyringView(st), err)
}

func keyringView(st wrapkey.Status) Keyring {
	out := Keyring{
		Epoch: st.Active, Rotating: st.Running, BegunAt: optionalTime(st.Begun), FinishedAt: optionalTime(st.Finished),
		DestroyAfter: optionalTime(st.DestroyAfter), Progress: []KeyringProgress{}, Epochs: []KeyringEpoch{},
	}
	for _, p := range st.Kinds {
		out.Progress = append(out.Progress, KeyringProgress{Kind: KeyringProgressKind(p.Kind), Total: p.Total, Done: p.Done, Left: p.Left, Unreadable: p.Unreadable})
	}
	for _, e := range st.Epochs {
		out.Epochs = append(out.Epochs, KeyringEpoch{
			Number: e.Number, State: KeyringEpochState(e.State), CreatedAt: optionalTime(e.Created), DestroyedAt: optionalTime(e.Destroyed),
		})
	}
	return out
}
