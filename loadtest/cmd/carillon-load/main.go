package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/api"
)

// errVerdict says that the command worked and its verdict is bad.
var errVerdict = errors.New("failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, errVerdict):
		fmt.Fprintln(os.Stderr, "carillon-load:", err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "carillon-load:", err)
		os.Exit(2)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "carillon-load",
		Short:         "Put load on Carillon and judge what came of it",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newSink(), newGen(), newImport(), newCheck(), newChaos(), newRestore(), newBench(), newSuite(), newGoals(), newPairs(), newGrowth(), newFair(), newRespond())
	return root
}

// target is the flags for reaching the API.
type target struct {
	urls          []string
	token, tenant string
}

func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&t.urls, "api", nil, "base URLs of the nodes, comma separated (required)")
	cmd.Flags().StringVar(&t.token, "token", os.Getenv("CARILLON_TOKEN"), "API key; default: $CARILLON_TOKEN")
	cmd.Flags().StringVar(&t.tenant, "tenant", "", "tenant, where the API works without keys")
	required(cmd, "api")
	cmd.Flags().Lookup("token").DefValue = "" // a secret is not shown by --help
}

// required marks a flag of cmd as required.
func required(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil { // there is no such flag
		panic(err)
	}
}

// client returns a client, and a func that closes its connections.
func (t *target) client(log *slog.Logger) (*api.Client, func()) {
	tr := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     30 * time.Second,
		// an import answers when it likes; reads have a time-out of their own
		ResponseHeaderTimeout: 0,
	}
	return &api.Client{URLs: t.urls, Token: t.token, Tenant: t.tenant, HTTP: &http.Client{Transport: tr}, Log: log}, tr.CloseIdleConnections
}

func newLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// create makes a file that must not exist yet: evidence is not overwritten.
func create(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create output: %w", err)
	}
	return f, nil
}
