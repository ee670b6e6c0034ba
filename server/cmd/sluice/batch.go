package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// batchView is a batch as the business API shows it.
type batchView struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	Endpoint  string `json:"endpoint"`
	Input     string `json:"input_file_id"`
	Output    string `json:"output_file_id"`
	Error     string `json:"error_file_id"`
	CreatedAt int64  `json:"created_at"`
	Counts    struct {
		Total     int64 `json:"total"`
		Completed int64 `json:"completed"`
		Failed    int64 `json:"failed"`
	} `json:"request_counts"`
	Errors *struct {
		Data []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Line    int64  `json:"line"`
		} `json:"data"`
	} `json:"errors"`
}

// batchCommand has the commands about batches of the holder of an API key.
func (a *app) batchCommand() *cobra.Command {
	base := a.Getenv("SLUICE_URL")
	if base == "" {
		base = "http://127.0.0.1:8080"
	}
	cmd := &cobra.Command{Use: "batch", Short: cli.Both("cli.batch.short"), Long: cli.Both("cli.batch.long")}
	cmd.PersistentFlags().StringVar(&base, "url", base, cli.Both("cli.shared.url"))
	as := func() (*applicant, error) {
		key := a.Getenv("SLUICE_API_KEY")
		if key == "" {
			return nil, cli.Misuse("cli.chat.no_key")
		}
		return &applicant{strings.TrimSuffix(base, "/"), key, a.Language()}, nil
	}
	cmd.AddCommand(a.createBatchCommand(as), a.listBatchesCommand(as), a.showBatchCommand(as), a.cancelBatchCommand(as), a.batchResultsCommand(as))
	return cmd
}

func (a *app) createBatchCommand(as func() (*applicant, error)) *cobra.Command {
	var endpoint string
	cmd := &cobra.Command{
		Use: "create FILE", Short: cli.Both("cli.batch_create.short"), Args: cli.Exactly(1),
		Example: "  sluice batch create night.jsonl --endpoint /v1/embeddings",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := as()
			if err != nil {
				return err
			}
			file, err := c.upload(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			body, err := json.Marshal(map[string]string{"input_file_id": file, "endpoint": endpoint, "completion_window": "24h"})
			if err != nil {
				return err
			}
			var b batchView
			if err := c.batch(cmd.Context(), http.MethodPost, "/v1/batches", body, &b); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, b.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "/v1/chat/completions", cli.Both("cli.batch_create.endpoint"))
	return cmd
}

// upload sends a file, in pieces, and returns its id.
func (c *applicant) upload(ctx context.Context, path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", cli.Failed("cli.batch.unread", err)
	}
	defer func() { _ = in.Close() }()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		part, err := form.CreateFormFile("file", filepath.Base(path))
		if err == nil {
			_, err = io.Copy(part, in)
		}
		if err == nil {
			err = errors.Join(form.WriteField("purpose", "batch"), form.Close())
		}
		_ = w.CloseWithError(err)
	}()
	defer func() { _ = r.Close() }() // ends the writer where the server has refused
	res, err := c.stream(ctx, http.MethodPost, "/v1/files", form.FormDataContentType(), r)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	var f struct {
		ID string `json:"id"`
	}
	return f.ID, json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&f)
}

// batch asks for something that is answered with JSON.
func (c *applicant) batch(ctx context.Context, method, path string, body []byte, out any) error {
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return json.NewDecoder(io.LimitReader(res.Body, 16<<20)).Decode(out)
}

func (a *app) listBatchesCommand(as func() (*applicant, error)) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.batch_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := as()
			if err != nil {
				return err
			}
			var page struct {
				Data []batchView `json:"data"`
			}
			if err := c.batch(cmd.Context(), http.MethodGet, "/v1/batches?limit=100", nil, &page); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tSTATUS\tENDPOINT\tLINES\tCOMPLETED\tFAILED\tCREATED")
			for _, b := range page.Data {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", b.ID, b.Status, b.Endpoint, b.Counts.Total, b.Counts.Completed, b.Counts.Failed, time.Unix(b.CreatedAt, 0).UTC().Format(time.RFC3339))
			}
			return w.Flush()
		},
	}
}

func (a *app) showBatchCommand(as func() (*applicant, error)) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: cli.Both("cli.batch_show.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.printBatch(cmd.Context(), as, http.MethodGet, "/v1/batches/"+url.PathEscape(args[0]))
		},
	}
}

func (a *app) cancelBatchCommand(as func() (*applicant, error)) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: cli.Both("cli.batch_cancel.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.printBatch(cmd.Context(), as, http.MethodPost, "/v1/batches/"+url.PathEscape(args[0])+"/cancel")
		},
	}
}

// printBatch asks for a batch and shows it, with what is wrong with its lines.
func (a *app) printBatch(ctx context.Context, as func() (*applicant, error), method, path string) error {
	c, err := as()
	if err != nil {
		return err
	}
	var b batchView
	if err := c.batch(ctx, method, path, nil, &b); err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	for _, pair := range [][2]string{
		{"id", b.ID},
		{"status", b.Status},
		{"endpoint", b.Endpoint},
		{"lines", fmt.Sprint(b.Counts.Total)},
		{"completed", fmt.Sprint(b.Counts.Completed)},
		{"failed", fmt.Sprint(b.Counts.Failed)},
		{"input", b.Input},
		{"output", b.Output},
		{"errors", b.Error},
	} {
		fmt.Fprintf(w, "%s\t%s\n", pair[0], pair[1])
	}
	if b.Errors != nil {
		for _, p := range b.Errors.Data {
			fmt.Fprintf(w, "%s\t%s\t%s\n", a.Say("cli.batch_show.line", p.Line), p.Code, p.Message)
		}
	}
	return w.Flush()
}

func (a *app) batchResultsCommand(as func() (*applicant, error)) *cobra.Command {
	var failures bool
	cmd := &cobra.Command{
		Use: "results ID", Short: cli.Both("cli.batch_results.short"), Args: cli.Exactly(1),
		Example: "  sluice batch results batch_0192ab34cd56 > answers.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := as()
			if err != nil {
				return err
			}
			var b batchView
			if err := c.batch(cmd.Context(), http.MethodGet, "/v1/batches/"+url.PathEscape(args[0]), nil, &b); err != nil {
				return err
			}
			file := b.Output
			if failures {
				file = b.Error
			}
			if file == "" {
				return cli.Failed("cli.batch_results.none", b.Status)
			}
			res, err := c.send(cmd.Context(), http.MethodGet, "/v1/files/"+file+"/content", nil)
			if err != nil {
				return err
			}
			defer func() { _ = res.Body.Close() }()
			if _, err := io.Copy(a.Stdout, res.Body); err != nil {
				return cli.Failed("cli.remote.no_answer", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&failures, "failed", false, cli.Both("cli.batch_results.failed"))
	return cmd
}
