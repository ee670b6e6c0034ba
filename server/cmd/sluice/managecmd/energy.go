package managecmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy/carbon"
	"github.com/sluice-project/sluice/billing/energy/meter"
	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) energyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "energy", Short: cli.Both("cli.energy.short")}
	cmd.AddCommand(a.energySourcesCommand(), a.energyFactorsCommand(), a.energyReportCommand())
	return cmd
}

// watch is how long each meter is read to see its power.
const watch = time.Second

func (a *app) energySourcesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "sources", Short: cli.Both("cli.energy_sources.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.energy_sources.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			probes, unread := []meter.Probe{}, false
			for _, c := range cfg.Energy.Meters {
				p := meter.Measure(cmd.Context(), c, watch)
				p.Configured, unread = true, unread || p.Error != ""
				probes = append(probes, p)
			}
			for _, c := range meter.Found("/") {
				if !configured(cfg.Energy.Meters, c) {
					probes = append(probes, meter.Measure(cmd.Context(), c, watch))
				}
			}
			if err := a.printSources(probes, len(cfg.Energy.Meters), asJSON); err != nil {
				return err
			}
			if unread {
				return cli.ErrFindings
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.energy.json"))
	return cmd
}

// configured reports whether a meter that was found is in the configuration.
func configured(list []meter.Config, found meter.Config) bool {
	for _, c := range list {
		if c.Kind == found.Kind && c.Chip == found.Chip {
			return true
		}
	}
	return false
}

func (a *app) printSources(probes []meter.Probe, configured int, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(a.Stdout, map[string]any{"items": probes})
	}
	rows := [][]string{{"METER", "CONFIGURED", "METHOD", "±", "OF", "POWER", "READS"}}
	for _, p := range probes {
		of, power, used := "part", "-", "no"
		if p.Node {
			of = "machine"
		}
		if p.Milliwatts != nil {
			power = fmt.Sprintf("%.1f W", float64(*p.Milliwatts)/1000)
		}
		if p.Configured {
			used = "yes"
		}
		rows = append(rows, []string{p.Kind, used, string(p.Method), fmt.Sprintf("%.1f%%", float64(p.UncertaintyPermille)/10), of, power, cmp.Or(p.Error, p.Name)})
	}
	cli.PrintColumns(a.Stdout, rows)
	if configured == 0 {
		fmt.Fprintln(a.Stdout, a.Say("cli.energy_sources.none"))
	}
	return nil
}

func (a *app) energyFactorsCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "factors", Short: cli.Both("cli.energy_factors.short"), Args: cli.Exactly(0),
		RunE: func(*cobra.Command, []string) error {
			list, err := factors(file)
			if err != nil {
				return err
			}
			rows := [][]string{{"ID", "REGION", "SCOPE", "G/KWH", "YEAR", "PUBLISHED", "SOURCE"}}
			for _, f := range list {
				region := f.Region
				if a.Lang() == message.Chinese && f.RegionZH != "" {
					region = f.RegionZH
				}
				rows = append(rows, []string{f.ID, region, f.Scope, grams(f.Milligrams), strconv.Itoa(f.Year), f.Published, f.Source})
			}
			cli.PrintColumns(a.Stdout, rows)
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "factor-file", "", cli.Both("cli.energy.factor_file"))
	return cmd
}

// maxFactorFile bounds a file of own factors.
const maxFactorFile = 1 << 20

// factors returns the shipped factors and those of a file.
func factors(file string) ([]carbon.Factor, error) {
	if file == "" {
		return carbon.Factors(nil)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	own, err := io.ReadAll(io.LimitReader(f, maxFactorFile+1)) // a pipe has no size to ask for
	switch {
	case err != nil:
		return nil, err
	case len(own) > maxFactorFile:
		return nil, cli.Failed("cli.energy.factors_too_large", file, maxFactorFile)
	}
	list, err := carbon.Factors(own)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// energyQuestion is what a report is asked for.
type energyQuestion struct {
	tenant, month, location, market, file string
	pue                                   float64
	embodied                              float64 // grams
	json                                  bool
}

func (a *app) energyReportCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var q energyQuestion
	cmd := &cobra.Command{
		Use: "report", Short: cli.Both("cli.energy_report.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.energy_report.long", "\n"),
		Example: `  sluice energy report --month 2026-10
  sluice energy report --month 2026-10 --location cn-guangdong-2023 --market cn-residual-2023 --pue 1.25`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.month == "" {
				return cli.Misuse("cli.energy_report.no_month")
			}
			if !(q.pue >= 1 && q.pue <= 10) {
				return cli.Misuse("cli.energy_report.bad_pue")
			}
			if !(q.embodied >= 0 && q.embodied <= 1e9) {
				return cli.Misuse("cli.energy_report.bad_embodied")
			}
			r, err := a.energyReport(cmd.Context(), flags, q)
			if err != nil {
				return err
			}
			return a.printEnergy(r, q.json)
		},
	}
	flags.Register(cmd, a.App)
	f := cmd.Flags()
	f.StringVar(&q.tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	f.StringVar(&q.month, "month", "", cli.Both("cli.energy_report.month"))
	f.StringVar(&q.location, "location", "", cli.Both("cli.energy_report.location"))
	f.StringVar(&q.market, "market", "", cli.Both("cli.energy_report.market"))
	f.StringVar(&q.file, "factor-file", "", cli.Both("cli.energy.factor_file"))
	f.Float64Var(&q.pue, "pue", 1, cli.Both("cli.energy_report.pue"))
	f.Float64Var(&q.embodied, "embodied-grams", 0, cli.Both("cli.energy_report.embodied"))
	f.BoolVar(&q.json, "json", false, cli.Both("cli.energy.json"))
	return cmd
}

// energyReport is a month of a tenant. Its rows sum to the statement of the month.
type energyReport struct {
	Tenant    string              `json:"tenant"`
	Month     string              `json:"month"`
	State     string              `json:"state"`
	Statement string              `json:"statement_sha256"`
	PUE       float64             `json:"pue"`
	Location  *carbon.Factor      `json:"location_factor,omitempty"`
	Market    *carbon.Factor      `json:"market_factor,omitempty"`
	Embodied  float64             `json:"embodied_grams"`
	Rows      []billing.EnergyRow `json:"rows"`
	SCI       *float64            `json:"sci_grams_per_1000_tokens,omitempty"`
}

// energyReport makes the report of the statement of the month.
func (a *app) energyReport(ctx context.Context, flags cli.RemoteFlags, q energyQuestion) (energyReport, error) {
	list, err := factors(q.file)
	if err != nil {
		return energyReport{}, err
	}
	location, err := wanted(list, q.location)
	if err != nil {
		return energyReport{}, err
	}
	market, err := wanted(list, q.market)
	if err != nil {
		return energyReport{}, err
	}
	remote, err := a.Login(ctx, flags)
	if err != nil {
		return energyReport{}, err
	}
	content, err := remote.Fetch(ctx, "/billing/statements/"+url.PathEscape(q.month)+cli.Query("tenant", q.tenant, "format", "json"))
	if err != nil {
		return energyReport{}, err
	}
	var signed statement.Signed
	if err := json.Unmarshal(content, &signed); err != nil {
		return energyReport{}, fmt.Errorf("read the statement: %w", err)
	}
	s, err := statement.Parse(signed.Statement, signed.Digest)
	if err != nil {
		return energyReport{}, fmt.Errorf("read the statement: %w", err)
	}
	out := energyReport{
		Tenant: s.Tenant, Month: s.Month, State: string(s.State), Statement: signed.Digest, PUE: q.pue, Location: location, Market: market, Embodied: q.embodied,
	}
	if out.Rows, err = billing.EnergyRows(s.Usage, location, market, int64(math.Round(q.pue*1000))); err != nil {
		return energyReport{}, err
	}
	out.SCI = billing.SCI(out.Rows, q.embodied)
	return out, nil
}

func wanted(list []carbon.Factor, id string) (*carbon.Factor, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // no factor is wanted, which is no error
	}
	f, err := carbon.Find(list, id)
	return &f, err
}

func (a *app) printEnergy(r energyReport, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(a.Stdout, r)
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.energy_report.head", r.Tenant, r.Month, r.State, r.Statement))
	rows := [][]string{{"MODEL", "METHOD", "REQUESTS", "OUTPUT TOKENS", "J", "J/REQUEST", "J/1000 TOKENS", "TOKENS/J", "REQUESTS/KJ", "G CO2 LOCATION", "G CO2 MARKET"}}
	for _, e := range r.Rows {
		method, joules := e.Method, fmt.Sprintf("%.3f", float64(e.Microjoules)/1e6)
		if method == "" {
			method, joules = a.Say("statement.energy_unknown"), "-"
		}
		rows = append(rows, []string{
			cmp.Or(e.Model, "-"), method, strconv.FormatInt(e.Requests, 10), strconv.FormatInt(e.Tokens, 10), joules,
			number(e.JoulesPerRequest), number(e.JoulesPer1000), number(e.TokensPerJoule), number(e.RequestsPerKJ), micrograms(e.Location), micrograms(e.Market),
		})
	}
	cli.PrintColumns(a.Stdout, rows)
	fmt.Fprintln(a.Stdout, a.Say("cli.energy_report.boundary"))
	for _, f := range []*carbon.Factor{r.Location, r.Market} {
		if f != nil {
			fmt.Fprintln(a.Stdout, a.Say("cli.energy_report.factor", f.ID, grams(f.Milligrams), f.Scope, f.Year, f.Source, f.Published, strconv.FormatFloat(r.PUE, 'g', -1, 64)))
		}
	}
	switch {
	case r.Location == nil:
		fmt.Fprintln(a.Stdout, a.Say("cli.energy_report.no_factor"))
	case r.SCI == nil:
		fmt.Fprintln(a.Stdout, a.Say("cli.energy_report.no_sci"))
	default:
		fmt.Fprintln(a.Stdout, a.Say("cli.energy_report.sci", number(r.SCI), strconv.FormatFloat(r.Embodied, 'g', -1, 64)))
	}
	return nil
}

func number(n *float64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatFloat(*n, 'g', 5, 64)
}

func micrograms(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(*n)/1e6)
}

// grams writes milligrams as grams.
func grams(mg int64) string { return strconv.FormatFloat(float64(mg)/1000, 'f', -1, 64) }
