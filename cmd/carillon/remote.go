package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
)

// defaultAPI is where `carillon dev` and a node without configuration listen.
const defaultAPI = "http://127.0.0.1:8080"

// remote is what the client commands are told about the API they speak to.
type remote struct {
	urls   []string
	tenant string
	output string
}

// flags adds the flags of r to a command and those below it.
func (r *remote) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringSliceVar(&r.urls, "api", nil, "`URL`s of nodes, separated by commas (default $CARILLON_API, or "+defaultAPI+")")
	f.StringVar(&r.tenant, "tenant", "", "tenant, where the API asks for no key (default $CARILLON_TENANT, or the API's)")
	f.StringVarP(&r.output, "output", "o", "table", "table, or json")
}

// nodes returns the base URLs of the nodes.
func (r *remote) nodes() []string {
	if len(r.urls) > 0 {
		return r.urls
	}
	if env := os.Getenv("CARILLON_API"); env != "" {
		return strings.Split(env, ",")
	}
	return []string{defaultAPI}
}

// config returns the configuration of a client of urls. The key comes from the environment alone: the flags of a
// process can be read by everybody on its machine.
func (r *remote) config(urls ...string) httpapi.ClientConfig {
	tenant := r.tenant
	if tenant == "" {
		tenant = os.Getenv("CARILLON_TENANT")
	}
	return httpapi.ClientConfig{URLs: urls, Tenant: tenant, Key: os.Getenv("CARILLON_KEY")}
}

// client makes a client, having checked the flags.
func (r *remote) client() (*httpapi.Client, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	c, err := httpapi.NewClient(r.config(r.nodes()...))
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

// asks returns what a command runs: run, with a client of the API that is closed after it.
func (r *remote) asks(run func(cmd *cobra.Command, client *httpapi.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		defer client.Close()
		return run(cmd, client, args)
	}
}

// asksOf is asks for what a command does with the run that its first argument names.
func (r *remote) asksOf(run func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error) func(*cobra.Command, []string) error {
	return r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		id, err := schema.ParseEntryID(args[0])
		if err != nil {
			return usagef("%w", err)
		}
		return run(cmd, client, id)
	})
}

// all reads a whole list. One that is empty is not nil: as JSON it is [].
func all[T any](list iter.Seq2[T, error]) ([]T, error) {
	found := []T{}
	for x, err := range list {
		if err != nil {
			return nil, err
		}
		found = append(found, x)
	}
	return found, nil
}

func (r *remote) check() error {
	if r.output != "table" && r.output != "json" {
		return usagef("--output: %q is neither table nor json", r.output)
	}
	return nil
}

func (r *remote) json() bool { return r.output == "json" }

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// group makes a command of a command that only holds others.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// report writes an error for a person to read: a problem of the API with every fault on a line of its own.
func report(w io.Writer, err error) {
	var (
		p   *httpapi.Problem
		try *url.Error // what a client of HTTP answers
	)
	switch {
	case errors.As(err, &p):
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &try):
		_, _ = fmt.Fprintf(w, "carillon: no API at %s: connection refused; is `carillon dev` running?\n", origin(try.URL)) // nobody is left to tell
		return
	default:
		_, _ = fmt.Fprintf(w, "carillon: %v\n", err) // as above
		return
	}
	act, _, _ := strings.Cut(err.Error(), p.Error())
	_, _ = fmt.Fprintf(w, "carillon: %s%s\n", act, clean(headline(p)))
	for _, f := range p.Errors {
		_, _ = fmt.Fprintf(w, "  %s\n", clean(faultLine(f.Location, f.Message, f.Value)))
	}
}

// origin returns the part of a URL that says where it leads.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return u.Scheme + "://" + u.Host
}

// headline is a problem without its faults.
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

// instant reads a time as the commands take it: RFC 3339, or a span from now such as -10m.
func instant(flag, text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, usagef("--%s: %q is neither a time such as 2026-11-21T10:00:00+01:00 nor a span from now such as -10m", flag, text)
	}
	return t, nil
}

// window reads --from and --to, of which neither may be left out.
func window(from, to string, now time.Time) (begin, end time.Time, err error) {
	if begin, err = instant("from", from, now); err != nil {
		return begin, end, err
	}
	if end, err = instant("to", to, now); err != nil {
		return begin, end, err
	}
	if !begin.Before(end) {
		return begin, end, usagef("--from must be before --to")
	}
	return begin, end, nil
}
