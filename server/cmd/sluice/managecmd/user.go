package managecmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// newPasswordVariable holds the next password where there is no terminal to ask at.
const newPasswordVariable = "SLUICE_NEW_PASSWORD" //nolint:gosec // the name of a variable

func (a *app) userCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "user", Short: cli.Both("cli.user.short")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.AddCommand(
		a.listUsersCommand(&flags, &tenant), a.createUserCommand(&flags, &tenant), a.editUserCommand(&flags, &tenant), a.resetPasswordCommand(&flags, &tenant),
		a.setUserCommand(&flags, &tenant, "disable", "disable", cli.Both("cli.user_disable.short"), "cli.user_disable.done"),
		a.setUserCommand(&flags, &tenant, "enable", "enable", cli.Both("cli.user_enable.short"), "cli.user_enable.done"),
		a.setUserCommand(&flags, &tenant, "reset-factor", "second-factor-reset", cli.Both("cli.user_reset_factor.short"), "cli.user_reset_factor.done"),
		a.inviteCommand(&flags, &tenant), a.invitationsCommand(&flags, &tenant), a.withdrawCommand(&flags, &tenant),
		a.ownPasswordCommand(&flags), a.ownFactorCommand(&flags),
	)
	return cmd
}

func (a *app) listUsersCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.user_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tTENANT\tROLES\tLABELS\tSTATE\tSECOND FACTOR\tLAST SIGN-IN")
			err = eachUser(cmd.Context(), r, *tenant, func(u adminapi.User) bool {
				state := "active"
				if u.MustChangePassword {
					state = "one-time password"
				}
				if u.Disabled {
					state = "disabled"
				}
				factor := "-"
				if u.SecondFactor {
					factor = "yes"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", u.Id, u.Name, u.Tenant, strings.Join(u.Roles, ","), orDash(strings.Join(u.Labels, ",")), state, factor, timeText(u.LastSignInAt))
				return true
			})
			if err != nil {
				return err
			}
			return w.Flush()
		},
	}
}

// eachUser goes through the users of a tenant until see has seen enough.
func eachUser(ctx context.Context, r *cli.Remote, tenant string, see func(u adminapi.User) bool) error {
	for cursor := ""; ; {
		var out adminapi.UserPage
		if err := r.Call(ctx, http.MethodGet, "/users"+cli.Query("tenant", tenant, "cursor", cursor), nil, &out); err != nil {
			return err
		}
		for _, u := range out.Items {
			if !see(u) {
				return nil
			}
		}
		if out.Next == nil {
			return nil
		}
		cursor = *out.Next
	}
}

// userPath returns the path of the user that is meant by a name, or by an id.
func userPath(ctx context.Context, r *cli.Remote, tenant, meant string) (string, error) {
	id := meant
	err := eachUser(ctx, r, tenant, func(u adminapi.User) bool {
		if u.Name == strings.ToLower(strings.TrimSpace(meant)) {
			id = u.Id
		}
		return id == meant
	})
	return "/users/" + url.PathEscape(id), err
}

func (a *app) createUserCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var roles, labels []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: cli.Both("cli.user_create.short"), Args: cli.Exactly(1),
		Example: `  sluice user create wang.fang --role developer --label public`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(roles) == 0 {
				return cli.Misuse("cli.user_create.no_role")
			}
			once := true
			in := adminapi.NewUser{Name: args[0], Password: rand.Text(), Roles: roles, MustChangePassword: &once}
			if len(labels) > 0 {
				in.Labels = &labels
			}
			in.Tenant = cli.IfGiven(*tenant)
			var out adminapi.User
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/users", in, &out); err != nil {
				return err
			}
			a.printOnce(out, in.Password)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&roles, "role", nil, cli.Both("cli.shared.role"))
	cmd.Flags().StringSliceVar(&labels, "label", nil, cli.Both("cli.shared.label"))
	return cmd
}

// printOnce prints a one-time password on standard output, and what it is for beside it.
func (a *app) printOnce(u adminapi.User, password string) {
	fmt.Fprintln(a.Stderr, a.Say("cli.user.one_time_password", u.Name, u.Tenant))
	fmt.Fprintln(a.Stdout, password)
	if u.OneTimeUntil != nil {
		fmt.Fprintln(a.Stderr, a.Say("cli.user.one_time_until", timeText(u.OneTimeUntil)))
	}
}

func (a *app) editUserCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var roles, labels []string
	cmd := &cobra.Command{
		Use: "edit NAME", Short: cli.Both("cli.user_edit.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.user_edit.long", "\n"),
		Example: `  sluice user edit wang.fang --role auditor --role developer`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var in adminapi.UserChange
			if cmd.Flags().Changed("role") {
				in.Roles = &roles
			}
			if cmd.Flags().Changed("label") {
				list := notEmpty(labels)
				in.Labels = &list
			}
			if in.Roles == nil && in.Labels == nil {
				return cli.Misuse("cli.user_edit.no_change")
			}
			return a.changeUser(cmd.Context(), *flags, *tenant, args[0], http.MethodPatch, "", in, "cli.user_edit.done")
		},
	}
	cmd.Flags().StringSliceVar(&roles, "role", nil, cli.Both("cli.shared.role"))
	cmd.Flags().StringSliceVar(&labels, "label", nil, cli.Both("cli.shared.label"))
	return cmd
}

func (a *app) setUserCommand(flags *cli.RemoteFlags, tenant *string, name, act, short string, done message.ID) *cobra.Command {
	return &cobra.Command{
		Use: name + " NAME", Short: short, Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeUser(cmd.Context(), *flags, *tenant, args[0], http.MethodPost, "/"+act, nil, done)
		},
	}
}

func (a *app) changeUser(ctx context.Context, flags cli.RemoteFlags, tenant, meant, method, act string, in any, id message.ID) error {
	r, err := a.Login(ctx, flags)
	if err != nil {
		return err
	}
	path, err := userPath(ctx, r, tenant, meant)
	if err != nil {
		return err
	}
	var out adminapi.User
	if err := r.Call(ctx, method, path+act+cli.Query("tenant", tenant), in, &out); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, a.Say(id, out.Name, strings.Join(out.Roles, ",")))
	return nil
}

func (a *app) resetPasswordCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "reset-password NAME", Short: cli.Both("cli.user_reset_password.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			path, err := userPath(cmd.Context(), r, *tenant, args[0])
			if err != nil {
				return err
			}
			var out adminapi.PasswordReset
			if err := r.Call(cmd.Context(), http.MethodPost, path+"/password-reset"+cli.Query("tenant", *tenant), nil, &out); err != nil {
				return err
			}
			a.printOnce(out.User, out.Password)
			return nil
		},
	}
}

func (a *app) ownPasswordCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "password", Short: cli.Both("cli.user_password.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.user_password.long", "\n", newPasswordVariable),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			next, err := a.newPassword(cmd.Context())
			if err != nil {
				return err
			}
			in := adminapi.PasswordChange{CurrentPassword: r.Credentials.Password, NewPassword: next}
			if err := r.Call(cmd.Context(), http.MethodPost, "/me/password", in, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.user_password.done", flags.User))
			return nil
		},
	}
}

// newPassword takes the next password from the environment, or asks for it twice.
func (a *app) newPassword(ctx context.Context) (string, error) {
	if next := a.Getenv(newPasswordVariable); next != "" {
		return next, nil
	}
	file, ok := a.Stdin.(*os.File)
	if !ok || !cli.IsTerminal(file) {
		return "", cli.Misuse("cli.user_password.none", newPasswordVariable)
	}
	var typed [2]string
	for i, prompt := range []string{a.Say("cli.user.new_password"), a.Say("cli.user.once_more")} {
		fmt.Fprint(a.Stderr, prompt)
		raw, err := cli.ReadPassword(ctx, int(file.Fd()))
		fmt.Fprintln(a.Stderr)
		if err != nil {
			return "", cli.Failed("cli.shared.password_unread", err)
		}
		typed[i] = string(raw)
	}
	if typed[0] != typed[1] {
		return "", cli.Misuse("cli.user_password.differ")
	}
	return typed[0], nil
}
