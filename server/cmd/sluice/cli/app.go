package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/progress"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/config"
)

// App is what a command takes from the operating system and from the flags that every command has.
type App struct {
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Version string // of the program

	ConfigPath string // --config
	Data       string // --data
}

// Getenv returns an environment variable.
func (a *App) Getenv(name string) string {
	for _, kv := range a.Environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// Language returns what to ask a server to answer in: SLUICE_LANG, else the locale's language.
func (a *App) Language() string {
	for _, name := range []string{"SLUICE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		if v := a.Getenv(name); v != "" {
			if strings.HasPrefix(v, "zh") {
				return "zh-CN"
			}
			break
		}
	}
	return "en"
}

// Lang is that language as the catalogues name it.
func (a *App) Lang() message.Lang {
	if a.Language() == "zh-CN" {
		return message.Chinese
	}
	return message.English
}

// Say returns the text id in the reader's language.
func (a *App) Say(id message.ID, args ...any) string {
	return message.Say(id, args...).In(a.Lang())
}

// Load reads the configuration with the command-line overrides.
func (a *App) Load(overrides map[string]any) (*config.Config, error) {
	all := map[string]any{}
	for k, v := range overrides {
		all[k] = v
	}
	if a.Data != "" {
		abs, err := filepath.Abs(a.Data)
		if err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		all["data"] = abs
	}
	cfg, err := config.Load(a.ConfigPath, a.Environ, all)
	if err != nil {
		return nil, err
	}
	if file, ok := a.Stdin.(*os.File); ok && IsTerminal(file) {
		cfg.KeySource.Ask = func(ctx context.Context, number, threshold int) (string, error) {
			fmt.Fprint(a.Stderr, a.Say("cli.keys.ask_share", number, threshold)+" ")
			typed, err := ReadPassword(ctx, int(file.Fd()))
			fmt.Fprintln(a.Stderr)
			return string(typed), err
		}
	}
	return cfg, nil
}

// Site loads the configuration of an installation whose database is there, and a log for what goes wrong.
func (a *App) Site() (*config.Config, *slog.Logger, error) {
	cfg, err := a.Load(nil)
	if err == nil {
		err = server.DatabaseExists(cfg)
	}
	return cfg, slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), err
}

// Progress returns a function that keeps one line of a terminal up to date, or nil where nobody looks.
func (a *App) Progress(what string) func(done, total int) {
	if !IsTerminal(a.Stderr) {
		return nil
	}
	line := progress.New(a.Stderr, what, a.Say("cli.progress.left"), time.Now)
	return func(done, total int) {
		if done >= total {
			line.Clear()
			return
		}
		line.Update(int64(done), int64(total))
	}
}

// Confirm asks a question, unless yes answers it already, and reports whether the answer was yes.
func (a *App) Confirm(yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if !IsTerminal(a.Stdin) { // where nobody has pressed a key, the line has not ended
		fmt.Fprintln(a.Stderr)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, Failed("cli.shared.answer_unread", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// IsTerminal reports whether somebody sits at f.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
