package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
)

// newPasswordVariable holds the next password where there is no terminal to ask at.
const newPasswordVariable = "SLUICE_NEW_PASSWORD" //nolint:gosec // the name of a variable

func (a *app) userCommand() *cobra.Command {
	var flags remoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "user", Short: both("cli.user.short")}
	flags.register(cmd, a.env)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", both("cli.shared.tenant"))
	cmd.AddCommand(
		a.listUsersCommand(&flags, &tenant), a.createUserCommand(&flags, &tenant), a.editUserCommand(&flags, &tenant), a.resetPasswordCommand(&flags, &tenant),
		a.setUserCommand(&flags, &tenant, "disable", both("cli.user_disable.short"), "disabled"),
		a.setUserCommand(&flags, &tenant, "enable", both("cli.user_enable.short"), "enabled"),
		a.ownPasswordCommand(&flags),
	)
	return cmd
}

func (a *app) listUsersCommand(flags *remoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: both("cli.user_list.short"), Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tTENANT\tROLES\tLABELS\tSTATE\tLAST SIGN-IN")
			err = eachUser(cmd.Context(), r, *tenant, func(u adminapi.User) bool {
				state := "active"
				if u.MustChangePassword {
					state = "one-time password"
				}
				if u.Disabled {
					state = "disabled"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", u.Id, u.Name, u.Tenant, strings.Join(u.Roles, ","), orDash(strings.Join(u.Labels, ",")), state, timeText(u.LastSignInAt))
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
func eachUser(ctx context.Context, r *remote, tenant string, see func(u adminapi.User) bool) error {
	for cursor := ""; ; {
		var out adminapi.UserPage
		if err := r.call(ctx, http.MethodGet, "/users"+query("tenant", tenant, "cursor", cursor), nil, &out); err != nil {
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
func userPath(ctx context.Context, r *remote, tenant, meant string) (string, error) {
	id := meant
	err := eachUser(ctx, r, tenant, func(u adminapi.User) bool {
		if u.Name == strings.ToLower(strings.TrimSpace(meant)) {
			id = u.Id
		}
		return id == meant
	})
	return "/users/" + url.PathEscape(id), err
}

func (a *app) createUserCommand(flags *remoteFlags, tenant *string) *cobra.Command {
	var roles, labels []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: both("cli.user_create.short"), Args: exactly(1),
		Example: `  sluice user create wang.fang --role developer --label public`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(roles) == 0 {
				return usageError{errors.New("want --role; see GET /api/v1/roles")}
			}
			once := true
			in := adminapi.NewUser{Name: args[0], Password: rand.Text(), Roles: roles, MustChangePassword: &once}
			if len(labels) > 0 {
				in.Labels = &labels
			}
			in.Tenant = ifGiven(*tenant)
			var out adminapi.User
			if err := a.ask(cmd.Context(), *flags, http.MethodPost, "/users", in, &out); err != nil {
				return err
			}
			a.printOnce(out, in.Password)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&roles, "role", nil, both("cli.shared.role"))
	cmd.Flags().StringSliceVar(&labels, "label", nil, both("cli.shared.label"))
	return cmd
}

// printOnce prints a one-time password on standard output, and what it is for beside it.
func (a *app) printOnce(u adminapi.User, password string) {
	fmt.Fprintln(a.env.stderr, a.say("cli.user.one_time_password", u.Name, u.Tenant))
	fmt.Fprintln(a.env.stdout, password)
}

func (a *app) editUserCommand(flags *remoteFlags, tenant *string) *cobra.Command {
	var roles, labels []string
	cmd := &cobra.Command{
		Use: "edit NAME", Short: both("cli.user_edit.short"), Args: exactly(1),
		Long:    message.Both("cli.user_edit.long", "\n"),
		Example: `  sluice user edit wang.fang --role auditor --role developer`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var in adminapi.UserChange
			if cmd.Flags().Changed("role") {
				in.Roles = &roles
			}
			if cmd.Flags().Changed("label") {
				list := (&keyFlags{labels: labels}).list()
				in.Labels = &list
			}
			if in.Roles == nil && in.Labels == nil {
				return usageError{errors.New("want --role or --label")}
			}
			return a.changeUser(cmd.Context(), *flags, *tenant, args[0], http.MethodPatch, "", in, "changed")
		},
	}
	cmd.Flags().StringSliceVar(&roles, "role", nil, both("cli.shared.role"))
	cmd.Flags().StringSliceVar(&labels, "label", nil, both("cli.shared.label"))
	return cmd
}

func (a *app) setUserCommand(flags *remoteFlags, tenant *string, act, short, done string) *cobra.Command {
	return &cobra.Command{
		Use: act + " NAME", Short: short, Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeUser(cmd.Context(), *flags, *tenant, args[0], http.MethodPost, "/"+act, nil, done)
		},
	}
}

func (a *app) changeUser(ctx context.Context, flags remoteFlags, tenant, meant, method, act string, in any, done string) error {
	r, err := a.login(ctx, flags)
	if err != nil {
		return err
	}
	path, err := userPath(ctx, r, tenant, meant)
	if err != nil {
		return err
	}
	var out adminapi.User
	if err := r.call(ctx, method, path+act+query("tenant", tenant), in, &out); err != nil {
		return err
	}
	fmt.Fprintf(a.env.stdout, "%s %s: %s\n", done, out.Name, strings.Join(out.Roles, ","))
	return nil
}

func (a *app) resetPasswordCommand(flags *remoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "reset-password NAME", Short: both("cli.user_reset_password.short"), Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			path, err := userPath(cmd.Context(), r, *tenant, args[0])
			if err != nil {
				return err
			}
			var out adminapi.PasswordReset
			if err := r.call(cmd.Context(), http.MethodPost, path+"/password-reset"+query("tenant", *tenant), nil, &out); err != nil {
				return err
			}
			a.printOnce(out.User, out.Password)
			return nil
		},
	}
}

func (a *app) ownPasswordCommand(flags *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "password", Short: both("cli.user_password.short"), Args: exactly(0),
		Long: message.Both("cli.user_password.long", "\n", newPasswordVariable),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			next, err := a.newPassword(cmd.Context())
			if err != nil {
				return err
			}
			in := adminapi.PasswordChange{CurrentPassword: r.credentials.Password, NewPassword: next}
			if err := r.call(cmd.Context(), http.MethodPost, "/me/password", in, nil); err != nil {
				return err
			}
			fmt.Fprintf(a.env.stdout, "changed the password of %s\n", flags.user)
			return nil
		},
	}
}

// newPassword takes the next password from the environment, or asks for it twice.
func (a *app) newPassword(ctx context.Context) (string, error) {
	if next := a.env.get(newPasswordVariable); next != "" {
		return next, nil
	}
	file, ok := a.env.stdin.(*os.File)
	if !ok || !isTerminal(file) {
		return "", usageError{errors.New("no new password: set " + newPasswordVariable + " or run in a terminal")}
	}
	var typed [2]string
	for i, prompt := range []string{a.say("cli.user.new_password"), a.say("cli.user.once_more")} {
		fmt.Fprint(a.env.stderr, prompt)
		raw, err := readPassword(ctx, int(file.Fd()))
		fmt.Fprintln(a.env.stderr)
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		typed[i] = string(raw)
	}
	if typed[0] != typed[1] {
		return "", usageError{errors.New("the two passwords differ")}
	}
	return typed[0], nil
}
