package enginecmd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// app has the commands of this package.
type app struct{ *cli.App }

// Commands returns the commands about engines.
func Commands(shared *cli.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{a.profilesCommand(), a.simulateCommand(), a.conformCommand()}
}

// profileFlags are the flags of commands that read profiles.
type profileFlags struct{ files []string }

func (f *profileFlags) register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringSliceVar(&f.files, "profiles", nil, cli.Both("cli.profiles.files"))
}

func (f *profileFlags) open() (*profile.Set, error) {
	s, err := profile.New(f.files...)
	if err != nil {
		return nil, cli.Failed("cli.profiles.unread", err)
	}
	return s, nil
}

func (f *profileFlags) get(name string) (*profile.Profile, error) {
	s, err := f.open()
	if err != nil {
		return nil, err
	}
	if !s.Has(name) {
		return nil, cli.Misuse("cli.profiles.none", name)
	}
	p, err := s.Get(name)
	if err != nil {
		return nil, cli.Failed("cli.profiles.unread", err)
	}
	return p, nil
}

func (a *app) profilesCommand() *cobra.Command {
	f := &profileFlags{}
	cmd := &cobra.Command{Use: "profiles", Short: cli.Both("cli.profiles.short")}
	f.register(cmd)
	cmd.AddCommand(a.profilesList(f), a.profilesShow(f), a.profilesLint(f))
	return cmd
}

func (a *app) profilesList(f *profileFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: cli.Both("cli.profiles_list.short"), Args: cli.Exactly(0),
		RunE: func(*cobra.Command, []string) error {
			s, err := f.open()
			if err != nil {
				return err
			}
			var all []*profile.Profile
			rows := [][]string{{"NAME", "TITLE", "KIND", "FAMILY", "BASIS", "GRADE"}}
			for _, name := range s.Names() {
				p, err := s.Get(name)
				if err != nil {
					return cli.Failed("cli.profiles.unread", err)
				}
				all = append(all, p)
				rows = append(rows, []string{p.Name, p.Title, p.Kind, p.Family, string(p.Basis), p.Grade().String()})
			}
			if asJSON {
				return cli.PrintJSON(a.Stdout, all)
			}
			cli.PrintColumns(a.Stdout, rows)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.shared.json"))
	return cmd
}

func (a *app) profilesShow(f *profileFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: cli.Both("cli.profiles_show.short"), Args: cli.Exactly(1), Long: message.Both("cli.profiles_show.long", "\n"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := f.get(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(a.Stdout, p)
			}
			out, err := yaml.Marshal(p)
			if err != nil {
				return fmt.Errorf("show profile: %w", err)
			}
			_, err = a.Stdout.Write(out)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.shared.json"))
	return cmd
}

func (a *app) profilesLint(f *profileFlags) *cobra.Command {
	return &cobra.Command{
		Use: "lint FILE…", Short: cli.Both("cli.profiles_lint.short"), Args: cli.AtLeast(1), Long: message.Both("cli.profiles_lint.long", "\n"),
		Example: "  sluice profiles lint my-engine.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := f.open()
			if err != nil {
				return err
			}
			found := 0
			for _, path := range args {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				for _, err := range lint(s, path, data) {
					found++
					fmt.Fprintf(a.Stdout, "%s: %v\n", path, err)
				}
			}
			if found > 0 {
				return cli.ErrFindings
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.profiles_lint.clean", len(args)))
			return nil
		},
	}
}

// lint returns what is wrong with a file.
func lint(s *profile.Set, path string, data []byte) []error {
	p, err := s.Parse(data)
	if err != nil {
		return []error{err}
	}
	errs := p.Lint()
	if name := strings.TrimSuffix(filepath.Base(path), ".yaml"); name != p.Name {
		errs = append(errs, fmt.Errorf("profile: %q must be the name of its file", p.Name))
	}
	c := p.Claimed // Contract would have it at E1 already
	errs = append(errs, overclaimed("contract.features", c.Features)...)
	errs = append(errs, overclaimed("contract.lowbit", c.LowBit)...)
	errs = append(errs, overclaimed("contract.exec.modes", c.Exec.Modes)...)
	errs = append(errs, overclaimed("contract.spec", c.Spec)...)
	errs = append(errs, overclaimed("contract.context.long_context_modes", c.Context.Long)...)
	errs = append(errs, overclaimed("contract.lora", map[string]capability.Cell{"dynamic": c.LoRA.Dynamic})...)
	for i, m := range c.Models {
		at := "contract.models[" + strconv.Itoa(i) + "]."
		errs = append(errs, append(overclaimed(at+"features", m.Features), overclaimed(at+"lowbit", m.LowBit)...)...)
	}
	return errs
}

// overclaimed returns an error for each cell with a grade that a file cannot bear out: it is a document.
func overclaimed[K ~string](where string, cells map[K]capability.Cell) []error {
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(cells)) {
		if cells[k].Grade > capability.E1 {
			errs = append(errs, fmt.Errorf("%s.%s: a file bears out no more than E1", where, k))
		}
	}
	return errs
}
