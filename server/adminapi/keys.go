package adminapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// owner returns whose keys an operation is bound to: the caller's where he has keys.own only, "" for everybody's.
func owner(c *gin.Context) string {
	if c.GetBool(keyOwn) {
		return caller(c).ID
	}
	return ""
}

// theirKey returns a key that the caller may act on. To who may act on his own only, those of others do not exist. Whose a key is never
// changes, so the answer holds.
func (s *Server) theirKey(c *gin.Context, id string) (identity.Key, error) {
	k, err := s.deps.Identity.Key(c.Request.Context(), tenantOf(c), id)
	if err == nil && owner(c) != "" && k.Owner != owner(c) {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.key"), id)
	}
	return k, err
}

// ListKeys implements GET /keys.
func (s *Server) ListKeys(c *gin.Context, params ListKeysParams) {
	keys, err := s.deps.Identity.ListKeys(c.Request.Context(), tenantOf(c), owner(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := page(keys, params.Cursor, params.Limit)
	out := KeyPage{Items: []Key{}, Next: next}
	for _, k := range part {
		out.Items = append(out.Items, s.keyView(k))
	}
	s.reply(c, http.StatusOK, out, err)
}

func (s *Server) keyView(k identity.Key) Key {
	out := Key{
		Id: k.ID, Tenant: k.Tenant, Project: k.Project, Name: k.Name, Prefix: "sk-sluice-" + k.ID, Labels: list(k.Labels),
		LabelMode: LabelMode(k.LabelMode), State: s.keyState(k), CreatedAt: k.CreatedAt.UTC(), CreatedBy: s.person(k.CreatedBy),
		ExpiresAt: optionalTime(k.ExpiresAt), RevokedAt: optionalTime(k.RevokedAt), LastUsedAt: optionalTime(k.LastUsedAt),
		Limits: limitsView(k.Limits), Scopes: scopesView(k.Scopes), Models: list(k.Models), Networks: list(k.Networks),
		LastUsedFrom: optional(k.LastUsedFrom), RotatedAt: optionalTime(k.RotatedAt),
	}
	if !k.FormerExpiresAt.IsZero() {
		out.FormerSecret = &FormerSecret{ExpiresAt: k.FormerExpiresAt.UTC(), LastUsedAt: optionalTime(k.FormerUsedAt)}
	}
	if out.LabelMode == "" {
		out.LabelMode = LabelModePolicy
	}
	if k.Owner != "" {
		p := s.person(k.Owner)
		out.Owner = &p
	}
	return out
}

func (s *Server) keyState(k identity.Key) KeyState {
	switch {
	case !k.RevokedAt.IsZero():
		return KeyState("revoked")
	case !k.ExpiresAt.After(s.now()):
		return KeyState("expired")
	case k.Suspended:
		return KeyState("suspended")
	}
	return KeyState("active")
}

func scopesView(scopes []string) []KeyScope {
	out := make([]KeyScope, len(scopes))
	for i, s := range scopes {
		out[i] = KeyScope(s)
	}
	return out
}

func scopesOf(scopes []KeyScope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}

func limitsView(l identity.Limits) Limits {
	return Limits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Concurrent: l.Concurrent}
}

func limitsOf(l Limits) identity.Limits {
	return identity.Limits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Concurrent: l.Concurrent}
}

// labelMode returns the mode as the identities keep it: nothing where the policy decides.
func labelMode(m *LabelMode) string {
	if m == nil || *m == LabelModePolicy {
		return ""
	}
	return string(*m)
}

// person names somebody by id, and by name if the account is known.
func (s *Server) person(id string) Person {
	return Person{Id: id, Name: optional(s.deps.Identity.NameOf(id))}
}

// GetKeyDefaults implements GET /keys/defaults.
func (s *Server) GetKeyDefaults(c *gin.Context, _ GetKeyDefaultsParams) {
	s.reply(c, http.StatusOK, KeyDefaults{
		LifetimeDays: float32(s.deps.Identity.KeyLifetime().Hours() / 24), Limits: limitsView(s.deps.Identity.KeyLimits()), OwnKeys: identity.MaxOwnKeys, BaseUrl: s.deps.BaseURL(c.Request),
	}, nil)
}

// CreateKey implements POST /keys.
func (s *Server) CreateKey(c *gin.Context) {
	in, err := decode[NewKey](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	k, secret, err := s.deps.Identity.CreateKey(c.Request.Context(), identity.NewKey{
		Tenant: tenantOf(c), Project: deref(in.Project), Name: in.Name, Labels: deref(in.Labels), LabelMode: labelMode(in.LabelMode),
		Scopes: scopesOf(deref(in.Scopes)), Models: deref(in.Models), Networks: deref(in.Networks),
		Limits: limitsOf(deref(in.Limits)), ExpiresAt: deref(in.ExpiresAt), CreatedBy: caller(c).ID, Owner: owner(c),
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail := map[string]string{}
	for _, f := range narrowings(identity.Key{}, k) {
		if f.after != "" {
			detail[f.what] = truncate(f.after, maxResource)
		}
	}
	about(c, k.ID, detail)
	s.reply(c, http.StatusCreated, s.withSecret(c, k, secret), nil)
}

// withSecret shows a key with its secret, this once, and how to use it.
func (s *Server) withSecret(c *gin.Context, k identity.Key, secret string) CreatedKey {
	out := CreatedKey{Key: s.keyView(k), Secret: secret, BaseUrl: s.deps.BaseURL(c.Request)}
	model := s.exampleModel(c, k.Project, gateway.ActionChat)
	if model == "" {
		model = "MODEL"
	}
	out.Curl, out.Python = examples(out.BaseUrl, model)
	out.FirstCalls = s.firstCalls(c, out.BaseUrl, k.Project)
	return out
}

// defaultOverlap is for how many hours the secret before a rotation is accepted that does not say it.
const defaultOverlap = 24

// RotateKey implements POST /keys/{id}/rotate.
func (s *Server) RotateKey(c *gin.Context, id IdPath, _ RotateKeyParams) {
	in, err := decode[KeyRotation](c)
	if err == nil {
		_, err = s.theirKey(c, id)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	overlap := defaultOverlap
	if in.OverlapHours != nil {
		overlap = *in.OverlapHours
	}
	k, secret, err := s.deps.Identity.RotateKey(c.Request.Context(), tenantOf(c), id, time.Duration(overlap)*time.Hour)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, map[string]string{"overlap_hours": strconv.Itoa(overlap)})
	s.reply(c, http.StatusOK, s.withSecret(c, k, secret), nil)
}

// RetireSecret implements POST /keys/{id}/retire.
func (s *Server) RetireSecret(c *gin.Context, id IdPath, _ RetireSecretParams) {
	_, err := s.theirKey(c, id)
	if err != nil {
		s.Fail(c, err)
		return
	}
	k, err := s.deps.Identity.RetireSecret(c.Request.Context(), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.keyView(k), err)
}

// exampleModel names a model that a key of the project may ask for that; "" if there is none.
func (s *Server) exampleModel(c *gin.Context, project string, action gateway.Action) string {
	var names []string
	for _, m := range s.deps.Router.Models() {
		if m.Err == nil && action.Can(m.Info) {
			names = append(names, m.Name)
		}
	}
	if allowed := s.deps.Guard.Models(c.Request.Context(), tenantOf(c), project, names); len(allowed) > 0 {
		return allowed[0]
	}
	return ""
}

// examples shows how to use a key. The secret stands in the environment: a line that holds it ends up in histories.
func examples(base, model string) (curl, python string) {
	body := fmt.Sprintf(`{"model":%s,"messages":[{"role":"user","content":"Hello"}]}`, strconv.Quote(model))
	curl = fmt.Sprintf("curl %s/chat/completions -H \"Authorization: Bearer $SLUICE_API_KEY\" -H 'Content-Type: application/json' -d '%s'",
		base, strings.ReplaceAll(body, "'", `'\''`))
	python = fmt.Sprintf(`import os
from openai import OpenAI

client = OpenAI(base_url=%s, api_key=os.environ["SLUICE_API_KEY"])
answer = client.chat.completions.create(model=%s, messages=[{"role": "user", "content": "Hello"}])
print(answer.choices[0].message.content)
`, strconv.Quote(base), strconv.Quote(model))
	return curl, python
}

// ChangeKey implements PATCH /keys/{id}.
func (s *Server) ChangeKey(c *gin.Context, id IdPath, _ ChangeKeyParams) {
	in, err := decode[KeyChange](c)
	if err == nil {
		_, err = s.theirKey(c, id)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	change := identity.KeyChange{
		Name: in.Name, Project: in.Project, Labels: in.Labels, Models: in.Models, Networks: in.Networks, ExpiresAt: in.ExpiresAt, ByOwner: owner(c) != "",
	}
	if in.Scopes != nil {
		scopes := scopesOf(*in.Scopes)
		change.Scopes = &scopes
	}
	if in.LabelMode != nil {
		mode := labelMode(in.LabelMode)
		change.LabelMode = &mode
	}
	if in.Limits != nil {
		limits := limitsOf(*in.Limits)
		change.Limits = &limits
	}
	before, after, err := s.deps.Identity.ChangeKey(c.Request.Context(), tenantOf(c), id, change)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, keyChanges(before, after))
	s.reply(c, http.StatusOK, s.keyView(after), nil)
}

// keyChanges says in the record what was and what is.
func keyChanges(before, after identity.Key) map[string]string {
	detail := map[string]string{}
	for _, f := range append(narrowings(before, after), []changed{
		{"name", before.Name, after.Name},
		{"project", before.Project, after.Project},
		{"label_mode", before.LabelMode, after.LabelMode},
		{"limits", limitsText(before.Limits), limitsText(after.Limits)},
		{"expires_at", before.ExpiresAt.UTC().Format(time.RFC3339), after.ExpiresAt.UTC().Format(time.RFC3339)},
	}...) {
		noteChange(detail, f.what, f.before, f.after)
	}
	return detail
}

type changed struct{ what, before, after string }

// narrowings is what a key is bound to, before and after.
func narrowings(before, after identity.Key) []changed {
	return []changed{
		{"labels", strings.Join(before.Labels, ","), strings.Join(after.Labels, ",")},
		{"scopes", strings.Join(before.Scopes, ","), strings.Join(after.Scopes, ",")},
		{"models", strings.Join(before.Models, ","), strings.Join(after.Models, ",")},
		{"networks", strings.Join(before.Networks, ","), strings.Join(after.Networks, ",")},
	}
}

func limitsText(l identity.Limits) string {
	return fmt.Sprintf("requests_per_minute=%d tokens_per_minute=%d concurrent=%d", l.RequestsPerMinute, l.TokensPerMinute, l.Concurrent)
}

// RevokeKey implements POST /keys/{id}/revoke.
func (s *Server) RevokeKey(c *gin.Context, id IdPath, _ RevokeKeyParams) {
	_, err := s.theirKey(c, id)
	if err == nil {
		err = s.deps.Identity.RevokeKey(c.Request.Context(), tenantOf(c), id)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	k, err := s.theirKey(c, id)
	s.reply(c, http.StatusOK, s.keyView(k), err)
}
