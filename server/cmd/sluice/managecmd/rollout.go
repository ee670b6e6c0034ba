package managecmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/workflows"
)

func (a *app) rolloutCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "rollout", Short: cli.Both("cli.rollout.short")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.AddCommand(
		a.startRolloutCommand(&flags), a.listRolloutsCommand(&flags), a.getRolloutCommand(&flags), a.verifyRolloutCommand(&flags),
		a.tellRolloutCommand(&flags, "approve", cli.Both("cli.rollout_approve.short")), a.tellRolloutCommand(&flags, "abort", cli.Both("cli.rollout_abort.short")),
	)
	return cmd
}

func (a *app) startRolloutCommand(flags *cli.RemoteFlags) *cobra.Command {
	var minRequests, dwell, deadline int
	var accept, gates, without []string
	var preset, results string
	cmd := &cobra.Command{
		Use: "start MODEL CANDIDATE", Short: cli.Both("cli.rollout_start.short"), Args: cli.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.NewRollout{
				Model: args[0], Candidate: args[1], MinRequests: ifPositive(minRequests), DwellSeconds: ifPositive(dwell), DeadlineSeconds: ifPositive(deadline),
			}
			if len(accept) > 0 {
				in.AcceptLosses = &accept
			}
			if preset != "" {
				in.Preset = (*adminapi.RolloutPreset)(&preset)
			}
			if err := addGates(&in, gates, without, results); err != nil {
				return err
			}
			var out adminapi.Rollout
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/rollouts", in, &out); err != nil {
				return err
			}
			return a.printRollout(out)
		},
	}
	cmd.Flags().IntVar(&minRequests, "min-requests", 0, cli.Both("cli.rollout_start.min_requests"))
	cmd.Flags().IntVar(&dwell, "dwell", 0, cli.Both("cli.rollout_start.dwell"))
	cmd.Flags().IntVar(&deadline, "deadline", 0, cli.Both("cli.rollout_start.deadline"))
	cmd.Flags().StringVar(&preset, "preset", "", cli.Both("cli.rollout_start.preset"))
	cmd.Flags().StringArrayVar(&gates, "gate", nil, cli.Both("cli.rollout_start.gate"))
	cmd.Flags().StringArrayVar(&without, "without", nil, cli.Both("cli.rollout_start.without"))
	cmd.Flags().StringVar(&results, "results", "", cli.Both("cli.rollout_start.results"))
	cmd.Flags().StringSliceVar(&accept, "accept-loss", nil, cli.Both("cli.rollout_start.accept_loss"))
	return cmd
}

// addGates reads the gates of the flags and the results of a file.
func addGates(in *adminapi.NewRollout, gates, without []string, results string) error {
	var own []adminapi.NewRolloutGate
	for _, text := range gates {
		name, margin, ok := strings.Cut(text, "=")
		metric, quantile, has := strings.Cut(name, ":")
		m, err := strconv.ParseFloat(margin, 64)
		if !ok || err != nil {
			return cli.Misuse("cli.rollout_start.pair", "--gate "+text)
		}
		gate := adminapi.NewRolloutGate{Metric: adminapi.RolloutGateMetric(metric), Margin: &m}
		if has {
			q, err := strconv.ParseFloat(quantile, 64)
			if err != nil {
				return cli.Misuse("cli.rollout_start.pair", "--gate "+text)
			}
			gate.Quantile = &q
		}
		own = append(own, gate)
	}
	if len(own) > 0 {
		in.Gates = &own
	}
	var removed []adminapi.RemovedRolloutGate
	for _, text := range without {
		gate, reason, ok := strings.Cut(text, "=")
		if !ok {
			return cli.Misuse("cli.rollout_start.pair", "--without "+text)
		}
		removed = append(removed, adminapi.RemovedRolloutGate{Gate: gate, Reason: reason})
	}
	if len(removed) > 0 {
		in.Without = &removed
	}
	if results == "" {
		return nil
	}
	body, err := os.ReadFile(results)
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	var suites []adminapi.SuiteResults
	if err := json.Unmarshal(body, &suites); err != nil {
		return fmt.Errorf("decode results: %w", err)
	}
	in.Results = &suites
	return nil
}

// verifyRolloutCommand computes the verdicts of a rollout again, on this machine, from the evidence that the server keeps.
func (a *app) verifyRolloutCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "verify ID", Short: cli.Both("cli.rollout_verify.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			var out adminapi.Rollout
			if err := r.Call(cmd.Context(), http.MethodGet, "/rollouts/"+url.PathEscape(args[0])+"?sealed=true", nil, &out); err != nil {
				return err
			}
			return verifyHistory(a.Stdout, deref(out.History), func(receipt string) (json.RawMessage, error) {
				var entry adminapi.AuditEntry
				err := r.Call(cmd.Context(), http.MethodGet, "/audit/records/"+url.PathEscape(receipt), nil, &entry)
				return entry.Event, err
			})
		},
	}
}

// verifyHistory verifies what every step was left on, and that the audit record of the transition, which record reads, names it: whoever can write the
// tables of rollouts cannot change that unseen. It prints one line a transition and returns what does not agree.
func verifyHistory(out io.Writer, history []adminapi.RolloutTransition, record func(receipt string) (json.RawMessage, error)) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	var bad []error
	steps := map[string]workflows.Evaluation{}
	verify := func(h adminapi.RolloutTransition) (state string, err error) {
		hash, body := deref(h.Evidence), ""
		if h.Look != nil {
			body = deref(h.Look.Sealed)
		}
		l, err := workflows.VerifySealed(body, hash)
		if err != nil {
			return "", err
		}
		steps[hash] = l
		if err := l.VerifyEarlier(steps); err != nil {
			return "", err
		}
		state = string(l.Decision.Outcome)
		// The evidence may hold and the move still not follow from it: only what passes may go forward.
		if forward := h.To == workflows.PhaseCompleted || strings.HasPrefix(h.To, workflows.PhaseCanary); forward && l.Decision.Outcome != workflows.Pass {
			return "", cli.Failed("cli.rollout_verify.unfounded", h.From, h.To, state)
		}
		event, err := record(deref(h.Receipt))
		if err != nil {
			return "", err
		}
		var recorded struct {
			Detail map[string]string `json:"detail"`
		}
		if err := json.Unmarshal(event, &recorded); err != nil {
			return "", fmt.Errorf("decode record: %w", err)
		}
		if got := recorded.Detail["evidence"]; got != hash {
			return "", cli.Failed("cli.rollout_verify.other_record", got, hash)
		}
		return state, nil
	}
	for _, h := range history {
		if h.From == workflows.PhaseStarting {
			continue // nothing was left
		}
		state, err := verify(h)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", h.From, err))
			state = err.Error()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.From, h.To, deref(h.Evidence), state)
	}
	return errors.Join(append(bad, w.Flush())...)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// ifPositive returns nil for what a flag did not set.
func ifPositive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

func (a *app) listRolloutsCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.rollout_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.RolloutPage
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/rollouts", nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tMODEL\tSTABLE\tCANDIDATE\tPHASE\tSHARE\tSTARTED")
			for _, x := range out.Items {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d%%\t%s\n", x.Id, x.Model, x.Stable, x.Candidate, x.Phase, x.ShareBasis/100, x.StartedAt.Format(time.RFC3339))
			}
			return w.Flush()
		},
	}
}

func (a *app) getRolloutCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: cli.Both("cli.rollout_get.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out adminapi.Rollout
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/rollouts/"+url.PathEscape(args[0]), nil, &out); err != nil {
				return err
			}
			return a.printRollout(out)
		},
	}
}

func (a *app) tellRolloutCommand(flags *cli.RemoteFlags, verb, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID REASON", Short: short, Args: cli.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/rollouts/"+url.PathEscape(args[0])+"/"+verb, adminapi.Reason{Reason: args[1]}, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.rollout.told", verb, args[0]))
			return nil
		},
	}
}

func (a *app) printRollout(x adminapi.Rollout) error {
	fmt.Fprintln(a.Stdout, a.Say("cli.rollout.line", x.Id, x.Model, x.Stable, x.Candidate, x.Phase, x.ShareBasis/100))
	if x.Preset != nil && *x.Preset == adminapi.Trial {
		fmt.Fprintln(a.Stdout, a.Say("cli.rollout.trial"))
	}
	if x.Reason != nil {
		fmt.Fprintf(a.Stdout, "%s\n", *x.Reason)
	}
	if x.Evidence != nil {
		if err := a.printRolloutEvidence(*x.Evidence); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	if x.History != nil {
		fmt.Fprintln(w, "\n"+a.Say("cli.rollout.transitions"))
		for _, h := range *x.History {
			stable, candidate := "-", "-"
			if h.Look != nil { // what the step was left on
				stable, candidate = arm(h.Look.Stable), arm(h.Look.Candidate)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.At.Format(time.RFC3339), h.From, h.To, h.Actor, stable, candidate, h.Reason)
		}
	}
	return w.Flush()
}

// printRolloutEvidence shows the last look at a rollout: counts of both versions, and each check with its limit and its state.
func (a *app) printRolloutEvidence(evaluation adminapi.RolloutEvidence) error {
	fmt.Fprintln(a.Stdout, "\n"+a.Say("cli.rollout.seen", evaluation.At.Format(time.RFC3339), evaluation.Stage, arm(evaluation.Stable), arm(evaluation.Candidate)))
	if len(evaluation.Metrics) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, a.Say("cli.rollout.checks"))
	for _, m := range evaluation.Metrics {
		needs := "-"
		if m.Needs != nil {
			needs = fmt.Sprintf("%d + %d", m.Needs.Stable, m.Needs.Candidate)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Title, sample(m, m.Baseline), sample(m, m.Candidate), m.LimitText, a.checkState(m.State), interval(m), needs)
	}
	return w.Flush()
}

func (a *app) checkState(s adminapi.RolloutCheckState) string {
	switch s {
	case adminapi.Holds:
		return a.Say("cli.rollout.holds")
	case adminapi.Broken:
		return a.Say("cli.rollout.broken")
	case adminapi.Unproven:
		return a.Say("cli.rollout.not_proven")
	case adminapi.TooLittleData:
		return a.Say("cli.rollout.too_little")
	}
	return string(s)
}

func arm(a adminapi.RolloutArm) string { return fmt.Sprintf("%d/%d", a.Errors, a.Requests) }

// interval writes how much worse the candidate is, in percent of stable's value or in points.
func interval(m adminapi.RolloutMetric) string {
	if m.Interval == nil {
		return "-"
	}
	return fmt.Sprintf("%+.2f%%…%+.2f%%", 100*m.Interval.Low, 100*m.Interval.High)
}

func sample(m adminapi.RolloutMetric, s adminapi.RolloutSample) string {
	switch {
	case s.Value == nil:
		return "-"
	case m.Unit == adminapi.RolloutMetricUnitUs:
		return fmt.Sprintf("%.4g ms", *s.Value/1000)
	case m.Unit == adminapi.RolloutMetricUnitTokens:
		return fmt.Sprintf("%.4g", *s.Value)
	case m.Unit == adminapi.RolloutMetricUnitNanos:
		return fmt.Sprintf("%.4g", *s.Value/1e9)
	}
	return fmt.Sprintf("%.4g%%", *s.Value*100)
}
