package enginecmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/engine/simulate"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

type simulateFlags struct {
	profileFlags

	profile, listen, file, model, version, role string
	count, context                              int
	seed                                        uint64
	faults                                      []string
}

func (a *app) simulateCommand() *cobra.Command {
	f := &simulateFlags{}
	cmd := &cobra.Command{
		Use: "simulate", Short: cli.Both("cli.simulate.short"), Args: cli.Exactly(0), Long: message.Both("cli.simulate.long", "\n\n"),
		Example: `  sluice simulate --profile vllm --listen 127.0.0.1:9001 --count 3
  sluice simulate --profile tgi --fault overload:5 --fault slow:2:3s
  sluice simulate --file fleet.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fleet, err := f.fleet()
			if err != nil {
				return err
			}
			return a.serveFleet(cmd.Context(), fleet)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.profile, "profile", "openai", cli.Both("cli.simulate.profile"))
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:9001", cli.Both("cli.simulate.listen"))
	cmd.Flags().IntVar(&f.count, "count", 1, cli.Both("cli.simulate.count"))
	cmd.Flags().StringVar(&f.file, "file", "", cli.Both("cli.simulate.file"))
	cmd.Flags().StringVar(&f.model, "model", "simulated", cli.Both("cli.simulate.model"))
	cmd.Flags().IntVar(&f.context, "context", 8192, cli.Both("cli.simulate.context"))
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, cli.Both("cli.simulate.seed"))
	cmd.Flags().StringVar(&f.version, "version", "", cli.Both("cli.simulate.version"))
	cmd.Flags().StringVar(&f.role, "role", "", cli.Both("cli.simulate.role"))
	cmd.Flags().StringArrayVar(&f.faults, "fault", nil, cli.Both("cli.simulate.fault"))
	for _, other := range []string{"profile", "listen", "count", "model", "context", "seed", "version", "role", "fault"} {
		cmd.MarkFlagsMutuallyExclusive("file", other)
	}
	return cmd
}

func (f *simulateFlags) fleet() ([]simulate.Instance, error) {
	if f.file != "" {
		s, err := f.open()
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(f.file)
		if err != nil {
			return nil, err
		}
		fleet, err := simulate.ReadFleet(data, s)
		if err != nil {
			return nil, cli.Failed("cli.simulate.unread", f.file, err)
		}
		return fleet, nil
	}
	p, err := f.get(f.profile)
	if err != nil {
		return nil, err
	}
	faults, err := readFaults(f.faults)
	if err != nil {
		return nil, err
	}
	host, text, err := net.SplitHostPort(f.listen)
	port, wrong := strconv.Atoi(text)
	if err != nil || wrong != nil || f.count < 1 {
		return nil, cli.Misuse("cli.simulate.address", f.listen)
	}
	c := simulate.Config{Profile: p, Model: simulate.DefaultModel(), Machine: simulate.DefaultMachine(), Version: f.version, Role: f.role, Faults: faults}
	c.Model.Name, c.Model.Context = f.model, f.context
	var out []simulate.Instance
	for i := range f.count {
		c.Seed = f.seed + uint64(i)
		at := port
		if port != 0 { // 0 lets the system pick one for each
			at += i
		}
		out = append(out, simulate.Instance{Listen: net.JoinHostPort(host, strconv.Itoa(at)), Config: c})
	}
	return out, nil
}

// readFaults reads kind[:every[:delay or chunks]].
func readFaults(texts []string) ([]simulate.Fault, error) {
	var out []simulate.Fault
	for _, text := range texts {
		parts := strings.Split(text, ":")
		f := simulate.Fault{Kind: simulate.FaultKind(parts[0])}
		ok := slices.Contains(simulate.FaultKinds(), f.Kind) && len(parts) <= 3
		if len(parts) > 1 {
			n, err := strconv.Atoi(parts[1])
			ok = ok && err == nil && n >= 0
			f.Every = n
		}
		if len(parts) > 2 {
			n, notNumber := strconv.Atoi(parts[2])
			d, notTime := time.ParseDuration(parts[2])
			ok = ok && (notNumber == nil || notTime == nil)
			f.After, f.Delay = n, d
		}
		if !ok {
			return nil, cli.Misuse("cli.simulate.no_fault", text)
		}
		out = append(out, f)
	}
	return out, nil
}

// serveFleet serves until the context ends.
func (a *app) serveFleet(ctx context.Context, fleet []simulate.Instance) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, in := range fleet {
		s, err := simulate.New(in.Config)
		if err != nil {
			return cli.Misuse("cli.shared.bad_flags", err)
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", in.Listen)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
		g.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			s.Close()
			return server.Close()
		})
		fmt.Fprintln(a.Stdout, a.Say("cli.simulate.serving", in.Config.Profile.Name, "http://"+listener.Addr().String()))
	}
	return g.Wait()
}
