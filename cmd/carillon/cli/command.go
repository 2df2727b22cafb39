package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
)

// Program makes the program carillon of these commands.
func Program(version string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "carillon",
		Short:         "Start very large numbers of jobs on time",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.SetFlagErrorFunc(badFlag)
	cmd.AddCommand(commands...)
	return cmd
}

// Execute runs a command and returns the exit code: 0 success, 1 failure, 2 a command line that
// makes no sense, or that of Exit. It reports an error on stderr.
func Execute(ctx context.Context, cmd *cobra.Command, stderr io.Writer) int {
	began := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	Report(stderr, err)
	var (
		usage *usageError
		exit  *exitError
	)
	switch {
	case !began || errors.As(err, &usage):
		return 2
	case errors.As(err, &exit):
		return exit.code
	}
	return 1
}

// exitError ends the program with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Unwrap() error { return e.err }

func (e *exitError) Error() string { return e.err.Error() }

// Exit makes an error that ends the program with that exit code.
func Exit(code int, err error) error { return &exitError{code, err} }

// usageError says that a command line makes no sense.
type usageError struct{ err error }

func (e *usageError) Unwrap() error { return e.err }

func (e *usageError) Error() string { return e.err.Error() }

// Usagef makes an error of a command line that makes no sense: exit code 2.
func Usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// Group makes a command of a command that only holds others. A command that it does not hold is
// refused, with those that come near it.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// unknownCommand says that a command holds none of that name.
func unknownCommand(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		text += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef("%s", text)
}

// Report writes an error for a person to read. A problem of the API has each fault on its own line.
func Report(w io.Writer, err error) {
	var (
		p   *httpapi.Problem
		try *url.Error // of the HTTP client
	)
	switch {
	case errors.As(err, &p):
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &try):
		_, _ = fmt.Fprintf(w, "carillon: no API at %s: connection refused; is `carillon dev` running?\n", origin(try.URL))
		return
	default:
		_, _ = fmt.Fprintf(w, "carillon: %v\n", err)
		return
	}
	act, _, _ := strings.Cut(err.Error(), p.Error())
	_, _ = fmt.Fprintf(w, "carillon: %s%s\n", act, Clean(headline(p)))
	for _, f := range p.Errors {
		_, _ = fmt.Fprintf(w, "  %s\n", Clean(faultLine(f.Location, f.Message, f.Value)))
	}
}

// origin returns scheme and host of a URL.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return u.Scheme + "://" + u.Host
}

// headline returns a problem without its faults.
func headline(p *httpapi.Problem) string {
	line := fmt.Sprintf("%s (%d)", p.Title, p.Status)
	if p.Detail != "" {
		line += ": " + strings.TrimSpace(p.Detail)
	}
	return line
}

func faultLine(location, message string, value any) string {
	if location != "" {
		message = location + ": " + message
	}
	if value != nil {
		message += fmt.Sprintf(" (got %v)", value)
	}
	return message
}
