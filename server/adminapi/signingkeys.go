package adminapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/signature"
)

// ListSigningKeys implements GET /signing-keys.
func (s *Server) ListSigningKeys(c *gin.Context, _ ListSigningKeysParams) {
	keys, err := s.deps.SigningKeys.List(tenantOf(c))
	out := SigningKeyList{Items: []SigningKey{}}
	for _, k := range keys {
		out.Items = append(out.Items, signingKeyView(k))
	}
	s.reply(c, http.StatusOK, out, err)
}

// RotateSigningKey implements POST /signing-keys/rotate.
func (s *Server) RotateSigningKey(c *gin.Context, _ RotateSigningKeyParams) {
	k, err := s.deps.SigningKeys.Rotate(c.Request.Context(), tenantOf(c))
	if err == nil {
		about(c, k.ID, nil)
	}
	s.reply(c, http.StatusCreated, signingKeyView(k), err)
}

// RevokeSigningKey implements POST /signing-keys/{id}/revoke.
func (s *Server) RevokeSigningKey(c *gin.Context, id IdPath, _ RevokeSigningKeyParams) {
	k, err := s.deps.SigningKeys.Revoke(c.Request.Context(), tenantOf(c), id)
	s.reply(c, http.StatusOK, signingKeyView(k), err)
}

func signingKeyView(k signature.Key) SigningKey {
	return SigningKey{
		Id: k.ID, Algorithm: SigningKeyAlgorithm(k.Algorithm), CreatedAt: k.Created.UTC(), RetiredAt: optionalTime(k.Retired), RevokedAt: optionalTime(k.Revoked),
	}
}
