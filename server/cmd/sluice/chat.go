package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) chatCommand() *cobra.Command {
	var base, model string
	var maxTokens int
	cmd := &cobra.Command{
		Use:   "chat [TEXT…]",
		Short: cli.Both("cli.chat.short"),
		Args:  cobra.ArbitraryArgs,
		Long:  message.Both("cli.chat.long", " "),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := a.Getenv("SLUICE_API_KEY")
			if key == "" {
				return cli.Misuse("cli.chat.no_key")
			}
			c := conversation{applicant: applicant{strings.TrimSuffix(base, "/"), key, a.Language()}, receipt: func(id string) string { return a.Say("cli.chat.receipt", id) }, request: openai.ChatRequest{
				Model: model, MaxTokens: maxTokens, Stream: true, Temperature: 0.7,
			}}
			if !cmd.Flags().Changed("model") {
				if err := c.chooseModel(cmd.Context()); err != nil {
					return err
				}
			}
			if len(args) > 0 {
				return c.say(cmd.Context(), strings.Join(args, " "), a.Stdout, a.Stderr)
			}
			return a.chat(cmd.Context(), &c)
		},
	}
	def := a.Getenv("SLUICE_URL")
	if def == "" {
		def = "http://127.0.0.1:8080"
	}
	cmd.Flags().StringVar(&base, "url", def, cli.Both("cli.shared.url"))
	cmd.Flags().StringVar(&model, "model", "smollm2-135m-instruct", cli.Both("cli.chat.model"))
	cmd.Flags().IntVar(&maxTokens, "max-tokens", 512, cli.Both("cli.chat.max_tokens"))
	return cmd
}

// chat answers line by line.
func (a *app) chat(ctx context.Context, c *conversation) error {
	lines := bufio.NewScanner(a.Stdin)
	for prompt := cli.IsTerminal(a.Stdin); ; {
		if prompt {
			fmt.Fprint(a.Stderr, "> ")
		}
		more, err := cli.UnlessDone(ctx, func() (bool, error) { return lines.Scan(), lines.Err() }, func() {})
		if err != nil || !more {
			return err
		}
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := c.say(ctx, lines.Text(), a.Stdout, a.Stderr); err != nil {
			return err
		}
	}
}

// conversation keeps the turns, so that the session's pseudonyms and the rollout arm stay the same.
type conversation struct {
	applicant

	receipt func(id string) string // puts it into words
	request openai.ChatRequest
}

// applicant calls the business API as the holder of a key.
type applicant struct{ base, key, lang string }

// chooseModel keeps the default model if the caller may use it, else takes the only one that chats.
func (c *conversation) chooseModel(ctx context.Context) error {
	res, err := c.send(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var list struct {
		Data []struct {
			ID     string
			Sluice struct{ Capabilities []string }
		}
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&list); err != nil {
		return fmt.Errorf("decode the list of models: %w", err)
	}
	var names []string
	for _, m := range list.Data {
		if slices.Contains(m.Sluice.Capabilities, "chat") {
			names = append(names, m.ID)
		}
	}
	switch {
	case slices.Contains(names, c.request.Model):
	case len(names) == 1:
		c.request.Model = names[0]
	default:
		return cli.Misuse("cli.chat.choose_model", strings.Join(names, ", "))
	}
	return nil
}

// send sends a request as the holder of the key. An answer other than 200 is an error with the server's sentence.
func (c *applicant) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	return c.stream(ctx, method, path, "application/json", bytes.NewReader(body))
}

// stream is send for a body that need not be in memory.
func (c *applicant) stream(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Accept-Language", c.lang)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, cli.Failed("cli.remote.no_answer", err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var e openai.ErrorBody
	if json.Unmarshal(raw, &e) == nil && e.Error.Message != "" {
		return nil, cli.Failed("cli.chat.refused", e.Error.Message, res.Header.Get("X-Request-Id"))
	}
	return nil, cli.Failed("cli.remote.status", res.Status)
}

func (c *conversation) say(ctx context.Context, text string, out, errOut io.Writer) error {
	c.request.Messages = append(c.request.Messages, openai.ChatMessage{Role: "user", Content: &text})
	body, err := json.Marshal(c.request)
	if err != nil {
		return err
	}
	res, err := c.send(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := copyAnswer(res.Body, out)
	fmt.Fprintln(out)
	if err != nil {
		return err
	}
	c.request.Messages = append(c.request.Messages, openai.ChatMessage{Role: "assistant", Content: &answer})
	if receipt := res.Header.Get("X-Sluice-Receipt"); receipt != "" {
		fmt.Fprintln(errOut, c.receipt(receipt))
	}
	return nil
}

// copyAnswer prints the stream's text as it comes and returns it whole.
func copyAnswer(body io.Reader, out io.Writer) (string, error) {
	var answer strings.Builder
	events := openai.NewEventReader(body, 1<<20)
	for {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			return answer.String(), cli.Failed("cli.chat.ended_early")
		}
		if err != nil {
			return answer.String(), err
		}
		if string(event.Data) == openai.Done {
			return answer.String(), nil
		}
		var chunk openai.ChatChunk
		if err := json.Unmarshal(event.Data, &chunk); err != nil {
			return answer.String(), fmt.Errorf("decode event: %w", err)
		}
		if chunk.Error != nil {
			return answer.String(), errors.New(chunk.Error.Message)
		}
		for _, choice := range chunk.Choices {
			if choice.Delta.Content == nil {
				continue
			}
			answer.WriteString(*choice.Delta.Content)
			if _, err := io.WriteString(out, *choice.Delta.Content); err != nil {
				return answer.String(), err
			}
		}
	}
}
