package managecmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) instancesCommand(flags *cli.RemoteFlags) *cobra.Command {
	cmd := &cobra.Command{Use: "instances", Short: cli.Both("cli.engine_instances.short")}
	cmd.AddCommand(
		a.listInstancesCommand(flags), a.addInstanceCommand(flags), a.weighInstanceCommand(flags), a.drainInstanceCommand(flags, "drain", true),
		a.drainInstanceCommand(flags, "resume", false), a.removeInstanceCommand(flags),
	)
	return cmd
}

func (a *app) listInstancesCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.instances_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.InstanceList
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/instances", nil, &out); err != nil {
				return err
			}
			return a.printInstances(out.Items)
		},
	}
}

func (a *app) printInstances(all []adminapi.Instance) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "POOL\tNAME\tKIND\tSTATE\tWEIGHT\tRUNNING\tZONE\tVERSION\tMODELS\tCAUSE")
	for _, i := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", i.Pool, i.Name, i.Kind, i.State, i.Weight, i.Running, valueOr(i.Zone), valueOr(i.Version), strings.Join(i.Models, ","), valueOr(i.Cause))
	}
	return w.Flush()
}

func (a *app) addInstanceCommand(flags *cli.RemoteFlags) *cobra.Command {
	var models []string
	var modelsFile, dialect, key, place, zone, power string
	var roles []string
	var weight int
	cmd := &cobra.Command{
		Use: "add POOL NAME URL", Short: cli.Both("cli.instances_add.short"), Long: cli.Both("cli.instances_add.long"), Args: cli.Exactly(3),
		Example: "  sluice engine instances add chat gpu-2 http://10.2.0.7:8000/v1 --dialect vllm --key gpu --model qwen2.5-7b-instruct",
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.NewInstance{Name: args[1], BaseUrl: args[2], Models: []adminapi.InstanceModel{}}
			for _, m := range models {
				in.Models = append(in.Models, adminapi.InstanceModel{Id: m})
			}
			if modelsFile != "" {
				if err := readModels(modelsFile, &in.Models); err != nil {
					return err
				}
			}
			if len(in.Models) == 0 {
				return cli.Misuse("cli.instances_add.no_model")
			}
			for to, from := range map[**string]string{&in.Dialect: dialect, &in.Key: key, &in.Zone: zone, &in.Place: place} {
				if from != "" {
					*to = &from
				}
			}
			if power != "" {
				p := adminapi.NewInstancePower(power)
				in.Power = &p
			}
			if len(roles) > 0 {
				in.Roles = &roles
			}
			if weight > 0 {
				in.Weight = &weight
			}
			var out adminapi.Instance
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/pools/"+url.PathEscape(args[0])+"/instances", in, &out); err != nil {
				return err
			}
			return a.printInstances([]adminapi.Instance{out})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&models, "model", nil, cli.Both("cli.instances_add.model"))
	f.StringVar(&modelsFile, "models-file", "", cli.Both("cli.instances_add.models_file"))
	f.StringVar(&dialect, "dialect", "", cli.Both("cli.instances_add.dialect"))
	f.StringVar(&key, "key", "", cli.Both("cli.instances_add.key"))
	f.StringVar(&place, "place", "", cli.Both("cli.instances_add.place"))
	f.StringVar(&zone, "zone", "", cli.Both("cli.instances_add.zone"))
	f.StringSliceVar(&roles, "role", nil, cli.Both("cli.instances_add.role"))
	f.StringVar(&power, "power", "", cli.Both("cli.instances_add.power"))
	f.IntVar(&weight, "weight", 0, cli.Both("cli.instances_add.weight"))
	return cmd
}

// readModels adds the models that a file lists. It refuses members that the API does not have: a misspelt ability would not be there.
func readModels(path string, into *[]adminapi.InstanceModel) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return cli.Failed("cli.instances_add.unread", err)
	}
	var more []adminapi.InstanceModel
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&more); err != nil {
		return cli.Failed("cli.instances_add.unread", fmt.Errorf("%s: %w", path, err))
	}
	*into = append(*into, more...)
	return nil
}

func (a *app) changeInstance(cmd *cobra.Command, flags *cli.RemoteFlags, args []string, change adminapi.InstanceChange) error {
	var out adminapi.Instance
	path := "/pools/" + url.PathEscape(args[0]) + "/instances/" + url.PathEscape(args[1])
	if err := a.Ask(cmd.Context(), *flags, http.MethodPatch, path, change, &out); err != nil {
		return err
	}
	return a.printInstances([]adminapi.Instance{out})
}

func (a *app) weighInstanceCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "weigh POOL NAME WEIGHT", Short: cli.Both("cli.instances_weigh.short"), Args: cli.Exactly(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[2])
			if err != nil {
				return cli.Misuse("cli.instances_weigh.number", args[2])
			}
			return a.changeInstance(cmd, flags, args, adminapi.InstanceChange{Weight: &n})
		},
	}
}

func (a *app) drainInstanceCommand(flags *cli.RemoteFlags, use string, draining bool) *cobra.Command {
	short := cli.Both("cli.instances_drain.short")
	if !draining {
		short = cli.Both("cli.instances_resume.short")
	}
	return &cobra.Command{
		Use: use + " POOL NAME", Short: short, Args: cli.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeInstance(cmd, flags, args, adminapi.InstanceChange{Draining: &draining})
		},
	}
}

func (a *app) removeInstanceCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "remove POOL NAME", Short: cli.Both("cli.instances_remove.short"), Args: cli.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/pools/" + url.PathEscape(args[0]) + "/instances/" + url.PathEscape(args[1])
			if err := a.Ask(cmd.Context(), *flags, http.MethodDelete, path, nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.instances_remove.done", args[0]+"/"+args[1]))
			return nil
		},
	}
}
