package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// keptResponse is a response as it is stored, with the conversation that it belongs to.
type keptResponse struct {
	Before   []json.RawMessage `json:"before,omitempty"` // items of earlier responses
	Input    []json.RawMessage `json:"input"`
	Response json.RawMessage   `json:"response"`
}

// conversation returns all items up to the response's own.
func (k *keptResponse) conversation() ([]json.RawMessage, error) {
	var r struct{ Output []json.RawMessage }
	if err := json.Unmarshal(k.Response, &r); err != nil {
		return nil, fmt.Errorf("read a kept response: %w", err)
	}
	return append(append(k.Before, k.Input...), r.Output...), nil
}

// loadResponse reads a response of the owner. Error: CodeNotFound.
func (a *API) loadResponse(ctx context.Context, who identity.Principal, id string) (*keptResponse, error) {
	if a.replies == nil || !strings.HasPrefix(id, responseIDPrefix) || !validRequestID(id, maxNameBytes) {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.response"), truncate(id))
	}
	r, err := a.replies.Load(ctx, replies.OwnerOf(who), id)
	if err != nil {
		return nil, err
	}
	k := &keptResponse{}
	if err := json.Unmarshal(r.Body, k); err != nil {
		return nil, fmt.Errorf("read a kept response: %w", err)
	}
	return k, nil
}

// previous decodes which response a new one goes on from, and returns the items of its conversation.
func (a *API) previous(c *gin.Context, who identity.Principal, f *fields) []json.RawMessage {
	id, ok := f.text("previous_response_id")
	if !ok {
		return nil
	}
	k, err := a.loadResponse(c.Request.Context(), who, id)
	var items []json.RawMessage
	if err == nil {
		items, err = k.conversation()
	}
	if err != nil && f.err == nil {
		f.err = err
	}
	if fault.Is(err, fault.CodeNotFound) {
		f.err = fault.New(fault.CodeNotFound, fault.Say("thing.response"), truncate(id)).WithParam("previous_response_id")
	}
	return items
}

// keeper returns what keeps the response of a request, or nil where it is not to be kept: the caller has said so, or the installation does. It
// reports whether the response is kept; one that cannot be is answered all the same, and says that it is not stored.
func (a *API) keeper(c *gin.Context, who identity.Principal, f *fields, before []json.RawMessage) func(id string, response any) bool {
	_, said := f.raw("store")
	if a.replies == nil || a.cfg.ForgetResponses || said && !f.flag("store") {
		return nil
	}
	k := keptResponse{Before: before, Input: inputItems(f)}
	return func(id string, response any) bool {
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
	if int64(len(body)) > a.cfg.MaxBodyBytes { // nothing could go on from it
		return fmt.Errorf("the conversation has %d bytes, a request may have %d", len(body), a.cfg.MaxBodyBytes)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), releaseTimeout)
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
		k, err = a.loadResponse(ctx, who, id)
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
		if _, err := a.loadResponse(ctx, who, id); err != nil {
			return err
		}
		return a.replies.Delete(ctx, replies.OwnerOf(who), id)
	})
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{c.Param("id"), "response", true})
	return nil
}

// responseInput answers GET /v1/responses/{id}/input_items: all of them, the latest first as OpenAI has it unless order=asc.
func (a *API) responseInput(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	var k *keptResponse
	err := a.keptAct(c, call, func(ctx context.Context, who identity.Principal, id string) (err error) {
		k, err = a.loadResponse(ctx, who, id)
		return err
	})
	if err != nil {
		return err
	}
	items, err := namedItems(k.Input, strings.TrimPrefix(c.Param("id"), responseIDPrefix))
	if err != nil {
		return err
	}
	out := struct {
		Object  string           `json:"object"`
		Data    []map[string]any `json:"data"`
		FirstID string           `json:"first_id"`
		LastID  string           `json:"last_id"`
		HasMore bool             `json:"has_more"`
	}{Object: openai.ObjectList, Data: items}
	if c.Query("order") != "asc" {
		for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
			items[i], items[j] = items[j], items[i]
		}
	}
	if len(items) > 0 {
		out.FirstID, out.LastID = fmt.Sprint(items[0]["id"]), fmt.Sprint(items[len(items)-1]["id"])
	}
	a.writeJSON(c, http.StatusOK, out)
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
