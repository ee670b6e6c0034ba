package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// keptResponse is a response as it is stored, with the conversation that it belongs to.
type keptResponse struct {
	Before   []json.RawMessage `json:"before,omitempty"` // items of earlier responses
	Input    []json.RawMessage `json:"input"`
	Response json.RawMessage   `json:"response"`
}

// maxKeptResponse bounds a response that is stored with its conversation, in bytes.
const maxKeptResponse = 1 << 20

// conversation returns all items up to the response's own that a prompt can have: what the model thought is left out of it, see [conversationOf.item].
func (k *keptResponse) conversation() ([]json.RawMessage, error) {
	var r struct{ Output []json.RawMessage }
	if err := json.Unmarshal(k.Response, &r); err != nil {
		return nil, fmt.Errorf("read a kept response: %w", err)
	}
	return slices.Concat(k.Before, k.Input, withoutReasoning(r.Output)), nil
}

// withoutReasoning leaves out the items that are no part of a prompt.
func withoutReasoning(items []json.RawMessage) []json.RawMessage {
	return slices.DeleteFunc(items, func(raw json.RawMessage) bool {
		m, ok := rawjson.Object(rawjson.Trim(string(raw)))
		kind, _ := m.Get("type")
		return ok && kind == `"`+itemReasoning+`"`
	})
}

// earlier is the conversation that a response goes on from.
type earlier struct {
	items   []json.RawMessage
	subject string // digest of the person whom it was made for
	held    int64  // bytes that the limiter of bodies counts
}

// loadResponse reads a response of the owner. Error: CodeNotFound.
func (a *API) loadResponse(ctx context.Context, who identity.Principal, id string) (k *keptResponse, subject string, size int64, err error) {
	if a.replies == nil || !strings.HasPrefix(id, responseIDPrefix) || !validRequestID(id, maxNameBytes) {
		return nil, "", 0, fault.New(fault.CodeNotFound, fault.Say("thing.response"), truncate(id))
	}
	r, err := a.replies.Load(ctx, replies.OwnerOf(who), id)
	if err != nil {
		return nil, "", 0, err
	}
	k = &keptResponse{}
	if err := json.Unmarshal(r.Body, k); err != nil {
		return nil, "", 0, fmt.Errorf("read a kept response: %w", err)
	}
	return k, r.Subject, int64(len(r.Body)), nil
}

// previous decodes which response a new one goes on from. What it reads counts as bytes of the request until letGo.
func (a *API) previous(c *gin.Context, who identity.Principal, f *fields, into *earlier) {
	id, ok := f.text("previous_response_id")
	if !ok {
		return
	}
	k, subject, size, err := a.loadResponse(c.Request.Context(), who, id)
	if err == nil {
		err = a.bodies.Acquire(inflight.Caller{Tenant: who.Tenant, ID: who.ID}, size)
	}
	if err == nil {
		into.subject, into.held = subject, size
		into.items, err = k.conversation()
	}
	if err != nil && f.err == nil {
		f.err = err
	}
	if fault.Is(err, fault.CodeNotFound) {
		f.err = fault.New(fault.CodeNotFound, fault.Say("thing.response"), truncate(id)).WithParam("previous_response_id")
	}
}

// letGo gives back what previous has taken.
func (a *API) letGo(who identity.Principal, e *earlier) {
	if e.held > 0 {
		a.bodies.Release(inflight.Caller{Tenant: who.Tenant, ID: who.ID}, e.held)
	}
}

// keeper returns what keeps the response of a request, or nil where it is not to be kept: the caller has said so, or the installation does. It
// reports whether the response is kept; one that cannot be is answered all the same, and says that it is not stored. A conversation that goes on for
// another person is not stored either: an erasure of the first one would not find it.
func (a *API) keeper(c *gin.Context, who identity.Principal, f *fields, before *earlier) func(id string, response any) bool {
	_, said := f.raw("store")
	if a.replies == nil || a.cfg.ForgetResponses || said && !f.flag("store") {
		return nil
	}
	k := keptResponse{Before: before.items, Input: withoutReasoning(inputItems(f))}
	return func(id string, response any) bool {
		if before.held > 0 && before.subject != c.GetString(keySubject) {
			return false
		}
		var err error
		if k.Response, err = encode(response); err == nil {
			err = a.keep(c, who, id, &k)
		}
		if err != nil {
			a.log.Error("a response was not kept", slog.String("request", c.GetString(keyRequestID)), slog.Any("error", err))
		}
		return err == nil
	}
}

func (a *API) keep(c *gin.Context, who identity.Principal, id string, k *keptResponse) error {
	body, err := encode(k)
	if err != nil {
		return err
	}
	if limit := min(a.cfg.MaxBodyBytes, maxKeptResponse); int64(len(body)) > limit {
		return fmt.Errorf("with its conversation it has %d bytes, %d may be kept", len(body), limit)
	}
	ctx, cancel := afterwards(c)
	defer cancel()
	return a.replies.Save(ctx, replies.OwnerOf(who), replies.Reply{ID: id, Subject: c.GetString(keySubject), Body: body})
}

// inputItems are the items of a request's input; a text is a message of the user.
func inputItems(f *fields) []json.RawMessage {
	raw, _ := f.raw("input")
	items, ok := rawjson.Items(raw)
	if !ok {
		return []json.RawMessage{json.RawMessage(`{"type":"message","role":"user","content":[{"type":"input_text","text":` + raw + `}]}`)}
	}
	out := make([]json.RawMessage, len(items))
	for i, item := range items {
		out[i] = json.RawMessage(item)
	}
	return out
}

// items decodes those of an earlier conversation.
func (m *conversationOf) items(f *fields, items []json.RawMessage) {
	for _, raw := range items {
		it := &fields{path: "previous_response_id"}
		var ok bool
		if it.m, ok = rawjson.Object(rawjson.Trim(string(raw))); ok {
			m.item(it)
		}
		if f.join(it); f.err != nil {
			return
		}
	}
}

// keptAct lets a caller do something with a response of his.
func (a *API) keptAct(c *gin.Context, call *gateway.Call, do func(ctx context.Context, who identity.Principal, id string) error) error {
	id := c.Param("id")
	if validRequestID(id, maxNameBytes) { // else it is none, and not for records
		call.Resource = id
	}
	return a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error { return do(ctx, who, id) })
}

// showResponse answers GET /v1/responses/{id}.
func (a *API) showResponse(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	var k *keptResponse
	err := a.keptAct(c, call, func(ctx context.Context, who identity.Principal, id string) (err error) {
		k, _, _, err = a.loadResponse(ctx, who, id)
		return err
	})
	if err == nil {
		a.writeJSON(c, http.StatusOK, k.Response)
	}
	return err
}

// deleteResponse answers DELETE /v1/responses/{id}.
func (a *API) deleteResponse(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	err := a.keptAct(c, call, func(ctx context.Context, who identity.Principal, id string) error {
		if _, _, _, err := a.loadResponse(ctx, who, id); err != nil {
			return err
		}
		return a.replies.Delete(ctx, replies.OwnerOf(who), id)
	})
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, wireDeleted{c.Param("id"), "response", true})
	return nil
}

// responseInput answers GET /v1/responses/{id}/input_items: all of them, the latest first as OpenAI has it unless order=asc.
func (a *API) responseInput(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	order, err := pageOrder(c.Request.URL.Query())
	if err != nil {
		return err
	}
	var k *keptResponse
	err = a.keptAct(c, call, func(ctx context.Context, who identity.Principal, id string) (err error) {
		k, _, _, err = a.loadResponse(ctx, who, id)
		return err
	})
	if err != nil {
		return err
	}
	items, err := namedItems(k.Input, strings.TrimPrefix(c.Param("id"), responseIDPrefix))
	if err != nil {
		return err
	}
	if order == "desc" {
		slices.Reverse(items)
	}
	a.writeJSON(c, http.StatusOK, newPage(items, false, func(item map[string]any) string { return fmt.Sprint(item["id"]) }))
	return nil
}

// namedItems gives items that came without an id or a type theirs.
func namedItems(in []json.RawMessage, response string) ([]map[string]any, error) {
	out := make([]map[string]any, len(in))
	for i, raw := range in {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, fmt.Errorf("read a kept item: %w", err)
		}
		if out[i]["id"] == nil {
			out[i]["id"] = fmt.Sprintf("in_%s_%d", response, i)
		}
		if out[i]["type"] == nil {
			out[i]["type"] = itemMessage
		}
	}
	return out, nil
}
