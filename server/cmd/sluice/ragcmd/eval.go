package ragcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/rag/eval"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// evalFlags are those of the evaluation.
type evalFlags struct {
	api, model, report, against string
	topK                        int
	asJSON                      bool
}

func (a *app) ragEvalCommand(f *ragFlags) *cobra.Command {
	e := evalFlags{}
	cmd := &cobra.Command{
		Use: "eval SET", Short: cli.Both("cli.rag_eval.short"), Long: message.Both("cli.rag_eval.long", "\n\n"), Args: cli.Exactly(1),
		Example: "  sluice rag eval questions.jsonl --collection hotline --report today.json --against yesterday.json",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.ragEval(cmd.Context(), f, &e, args[0]) },
	}
	f.collectionFlag(cmd)
	def := a.Getenv("SLUICE_URL")
	if def == "" {
		def = "http://127.0.0.1:8080"
	}
	cmd.Flags().StringVar(&e.api, "api", def, cli.Both("cli.rag_eval.api"))
	cmd.Flags().StringVar(&e.model, "model", "", cli.Both("cli.rag_eval.model"))
	cmd.Flags().IntVar(&e.topK, "top", 4, cli.Both("cli.rag_eval.top"))
	cmd.Flags().StringVar(&e.report, "report", "", cli.Both("cli.rag_eval.report"))
	cmd.Flags().StringVar(&e.against, "against", "", cli.Both("cli.rag_eval.against"))
	cmd.Flags().BoolVar(&e.asJSON, "json", false, cli.Both("cli.eval_flags.json"))
	return cmd
}

func (a *app) ragEval(ctx context.Context, f *ragFlags, e *evalFlags, file string) error {
	key := a.Getenv("SLUICE_API_KEY")
	switch {
	case f.collection == "":
		return cli.Misuse("cli.rag.no_collection")
	case key == "":
		return cli.Misuse("cli.chat.no_key")
	}
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	set, err := eval.Read(in)
	_ = in.Close() // nothing was written
	if err != nil {
		return cli.Failed("cli.rag_eval.no_set", file, err)
	}
	var before *eval.Report
	if e.against != "" {
		data, err := os.ReadFile(e.against)
		if err != nil {
			return err
		}
		if before, err = eval.ReadReport(data); err != nil {
			return cli.Failed("cli.rag_eval.no_report", e.against, err)
		}
	}
	if e.report != "" { // before anything is asked and billed
		out, err := os.OpenFile(e.report, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_ = out.Close() // nothing was written
	}
	asker := asker{base: strings.TrimSuffix(e.api, "/"), key: key, lang: a.Language(), collection: f.collection, model: e.model, topK: e.topK}
	report := &eval.Report{Head: set.Head, SHA256: set.SHA256, At: time.Now().UTC(), Collection: f.collection, Model: e.model, TopK: e.topK}
	if before != nil && eval.Comparable(before, report) != nil {
		return cli.Failed("cli.rag_eval.other_set", e.against)
	}
	progress := a.Progress(file)
	for i, q := range set.Questions {
		reply, err := asker.ask(ctx, q.Question)
		if err != nil { // what was asked was billed
			report.Incomplete, report.Figures = true, eval.Sum(report.Results)
			return errors.Join(err, writeReport(report, e.report))
		}
		report.Results = append(report.Results, eval.Judge(q, reply, e.topK))
		if progress != nil {
			progress(i+1, len(set.Questions))
		}
	}
	report.Figures = eval.Sum(report.Results)
	if err := writeReport(report, e.report); err != nil {
		return err
	}
	var changes []eval.Difference
	if before != nil {
		if changes, err = eval.Compare(before, report); err != nil {
			return cli.Failed("cli.rag_eval.other_set", e.against)
		}
	}
	if e.asJSON {
		if err := a.show(struct {
			*eval.Report

			Changes []eval.Difference `json:"changes,omitempty"`
		}{report, changes}); err != nil {
			return err
		}
	} else if err := a.printEval(report, changes); err != nil {
		return err
	}
	for _, c := range changes {
		if c.Worse {
			fmt.Fprintln(a.Stderr, a.Say("cli.rag_eval.worse", c.Name))
			err = cli.ErrFindings
		}
	}
	return err
}

func writeReport(r *eval.Report, file string) error {
	if file == "" {
		return nil
	}
	data, err := r.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// printEval prints the figures, the four cells, the curve and what changed.
func (a *app) printEval(r *eval.Report, changes []eval.Difference) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	f := r.Figures
	share := func(s eval.Share) string {
		return fmt.Sprintf("%.1f %%\t%.1f–%.1f\t%d/%d", 100*s.Value, 100*s.Low, 100*s.High, s.Count, s.Of)
	}
	fmt.Fprintf(w, "%s %s, %d\t\t95 %%\t\n", r.Set, r.Version, len(r.Results))
	fmt.Fprintf(w, "HIT_RATE\t%s\nMRR\t%.4f\nNDCG\t%.4f\n", share(f.HitRate), f.MRR, f.NDCG)
	fmt.Fprintf(w, "FALSE_ANSWERS\t%s\nFALSE_REFUSALS\t%s\n", share(f.FalseAnswers), share(f.FalseRefusals))
	if f.Grounded.Of > 0 {
		fmt.Fprintf(w, "GROUNDED\t%s\n", share(f.Grounded))
	}
	fmt.Fprintf(w, "P50_MILLISECONDS\t%.1f\nP95_MILLISECONDS\t%.1f\n\n", f.P50, f.P95)
	fmt.Fprintf(w, "\tRIGHT\tWRONG\nANSWERED\t%d\t%d\nREFUSED\t%d\t%d\n\n", f.AnsweredRight, f.AnsweredWrong, f.RefusedRight, f.RefusedWrong)
	fmt.Fprintln(w, "COVERAGE\tRISK\tSCORE")
	for _, p := range f.Curve {
		fmt.Fprintf(w, "%.1f\t%.3f\t%.3f\n", p.Coverage, p.Risk, p.Score)
	}
	if len(changes) > 0 {
		fmt.Fprintln(w, "\nCHANGE\tBEFORE\tAFTER\t95 %\tP\tWORSE")
	}
	for _, c := range changes {
		fmt.Fprintf(w, "%s\t%.4f\t%.4f\t%+.4f…%+.4f\t%.3f\t%v\n", c.Name, c.Before, c.After, c.Low, c.High, c.P, c.Worse)
	}
	return w.Flush()
}

// asker asks questions as the holder of a key, so that nothing is found that he may not see.
type asker struct {
	base, key, lang, collection, model string
	topK                               int
}

// hit is a passage of an answer or of a search.
type hit struct {
	Document   string `json:"document"`
	DocumentID string `json:"document_id"`
	Text       string `json:"text"`
}

// answered is what is read of an answer, or of a search.
type answered struct {
	Data    []hit
	Choices []struct {
		Message struct{ Content, Refusal *string }
	}
	Sluice struct {
		Evidence struct {
			Refusal                string
			Score                  float64
			Supported, Unsupported int
		}
	}
}

// ask searches for passages, and asks the model with them where there is one: what was found is known of a question that is refused, too. A refusal is an
// answer, whatever else fails is an error.
func (a *asker) ask(ctx context.Context, question string) (eval.Reply, error) {
	began := time.Now()
	found, err := a.post(ctx, "/v1/rag/search", map[string]any{"collection": a.collection, "query": question, "top_k": a.topK})
	got := found
	if err == nil && a.model != "" {
		began = time.Now()
		got, err = a.post(ctx, "/v1/chat/completions", map[string]any{
			"model": a.model, "temperature": 0, "rag": map[string]any{"collection": a.collection, "top_k": a.topK},
			"messages": []map[string]string{{"role": "user", "content": question}},
		})
	}
	if err != nil {
		return eval.Reply{}, err
	}
	e := got.Sluice.Evidence
	out := eval.Reply{Refusal: e.Refusal, Score: e.Score, Supported: e.Supported, Unsupported: e.Unsupported, Took: time.Since(began)}
	if a.model != "" && out.Score == 0 { // of a chat that no policy judges
		out.Score = found.Sluice.Evidence.Score
	}
	for _, h := range found.Data {
		out.Passages = append(out.Passages, eval.Passage{Document: h.Document, DocumentID: h.DocumentID, Text: h.Text})
	}
	if len(got.Choices) > 0 {
		text := ""
		if c := got.Choices[0].Message.Content; c != nil {
			text = *c
		}
		out.Answer = &text
	}
	return out, nil
}

const (
	maxTries = 6                // of a question that a full server puts off
	maxPause = time.Minute      // between two of them
	maxReply = 10 * time.Minute // a server that says nothing for so long says nothing more
)

// post sends a request, and once more when the server says to come back.
func (a *asker) post(ctx context.Context, path string, body any) (*answered, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		got, pause, err := a.postOnce(ctx, path, raw)
		if err == nil || pause == 0 || try == maxTries {
			return got, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// postOnce sends a request. Where the server says to come back it says when.
func (a *asker) postOnce(ctx context.Context, path string, body []byte) (*answered, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, maxReply)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.key)
	req.Header.Set("Accept-Language", a.lang)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, cli.Failed("cli.remote.no_answer", err)
	}
	defer func() { _ = res.Body.Close() }()
	const most = 16 << 20
	raw, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return nil, 0, cli.Failed("cli.remote.no_answer", err)
	}
	if res.StatusCode != http.StatusOK {
		var pause time.Duration
		if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
			seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // 0 where it names none
			pause = min(maxPause, time.Duration(min(max(1, seconds), 3600))*time.Second)
		}
		var e openai.ErrorBody
		if json.Unmarshal(raw, &e) == nil && e.Error.Message != "" {
			return nil, pause, cli.Failed("cli.chat.refused", e.Error.Message, res.Header.Get("X-Request-Id"))
		}
		return nil, pause, cli.Failed("cli.remote.status", res.Status)
	}
	var got answered
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, 0, fmt.Errorf("decode the answer: %w", err)
	}
	return &got, 0, nil
}
