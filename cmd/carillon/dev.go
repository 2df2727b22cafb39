package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/node"
)

func devCommand() *cobra.Command {
	var dir, admin string
	var port int
	var demo, noop bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole system in one process, on embedded parts",
		Long: "Run the whole system in one process, on embedded parts: the store in Pebble, NATS inside.\n\n" +
			"Without --data-dir everything is gone at the end. Targets on the loopback interface are allowed.\n" +
			"With --demo it also receives calls, and starts 20 jobs a second for a minute.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "keep everything in this `folder`")
	cmd.Flags().IntVar(&port, "port", 8080, "port of the API, on 127.0.0.1; 0 takes a free one")
	cmd.Flags().BoolVar(&demo, "demo", false, "run jobs one can watch, for a minute")
	cmd.Flags().StringVar(&admin, "admin-listen", "", "`host:port` for profiles (/debug/pprof/); none unless set")
	cmd.Flags().BoolVar(&noop, "executor-noop", false, "for measurements: every run succeeds at once, and nothing is called")
	_ = cmd.Flags().MarkHidden("executor-noop") // it exists
	cmd.Flags().String("log-level", "", "debug, info, warn or error (default warn with --demo, else info)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		cfg := config.Default()
		cfg.Node.Name = "dev"
		cfg.API.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		cfg.Admin.Listen = admin
		cfg.Executor.AllowCIDRs = []string{"127.0.0.0/8", "::1/128"}
		cfg.Executor.Noop = noop
		if demo {
			cfg.Log.Level = "warn"
		}
		if level := cmd.Flags().Lookup("log-level").Value.String(); level != "" {
			cfg.Log.Level = level
		}
		if err := checkDev(cfg, port, demo); err != nil {
			return err
		}
		if dir == "" {
			if dir, err = os.MkdirTemp("", "carillon-dev-"); err != nil {
				return fmt.Errorf("make a folder: %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		}
		tuneGC()
		log := newLogger(cmd.ErrOrStderr(), cfg.Log)
		reg := newRegistry()
		opts := node.Options{Opener: node.Embedded(cfg, dir, version, log, reg), Version: version, Logger: log, Registry: reg}
		if !demo {
			opts.Ready = func(api string) { hello(cmd, api) }
			return hintPort(node.New(cfg, opts).Run(cmd.Context()), cfg.API.Listen)
		}
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		ready := make(chan string, 1)
		opts.Ready = func(api string) { ready <- api }
		ended := make(chan error, 1)
		go func() { ended <- hintPort(node.New(cfg, opts).Run(ctx), cfg.API.Listen) }()
		select {
		case err := <-ended:
			return err
		case api := <-ready:
			err := runDemo(ctx, cmd.OutOrStdout(), api)
			switch {
			case ctx.Err() != nil: // told to stop: nobody wants to hear what to try next, or what became of the rest
				return <-ended
			case err == nil:
				hello(cmd, api)
				return <-ended
			}
			cancel()
			return errors.Join(err, <-ended)
		}
	}
	return cmd
}

// checkDev reports every fault of what dev was told.
func checkDev(cfg config.Config, port int, demo bool) error {
	cfg.Cassandra.Hosts, cfg.NATS.URLs = []string{"embedded"}, []string{"embedded"} // dev has its own
	faults := []error{cfg.Validate()}
	if port < 0 || port > math.MaxUint16 {
		faults = append(faults, fmt.Errorf("--port: %d is not between 0 and %d", port, math.MaxUint16))
	}
	if demo && cfg.Executor.Noop {
		faults = append(faults, errors.New("--demo receives calls, and --executor-noop makes none: state one of them"))
	}
	if err := errors.Join(faults...); err != nil {
		return &usageError{err}
	}
	return nil
}

// hintPort says what to do if the API's port is taken.
func hintPort(err error, listen string) error {
	var op *net.OpError
	if errors.Is(err, syscall.EADDRINUSE) && errors.As(err, &op) && op.Addr != nil && op.Addr.String() == listen {
		return fmt.Errorf("%w (--port 0 takes a free one)", err)
	}
	return err
}

// hello says where the system is and what to try next.
func hello(cmd *cobra.Command, api string) {
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), `
Carillon is up.  API %[1]s  documentation %[1]s/docs  metrics %[1]s/metrics   (Ctrl-C stops it)
Try:

  curl -s %[1]s/v1/jobs -H 'content-type: application/json' \
    -d '{"http": {"url": "%[1]s/healthz", "method": "GET"}, "schedule": {"at": "'$(date -u -d '+5 seconds' +%%FT%%TZ)'"}}'

`, api) // the terminal went away: so will we
}
