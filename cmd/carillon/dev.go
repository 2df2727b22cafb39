package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

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
			return node.New(cfg, opts).Run(cmd.Context())
		}
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		ready := make(chan string, 1)
		opts.Ready = func(api string) { ready <- api }
		ended := make(chan error, 1)
		go func() { ended <- node.New(cfg, opts).Run(ctx) }()
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

// hello says where the system is and what to try next.
func hello(cmd *cobra.Command, api string) {
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), `
Carillon is up.  API %[1]s  documentation %[1]s/docs  metrics %[1]s/metrics   (Ctrl-C stops it)
Try:

  curl -s %[1]s/v1/jobs -H 'content-type: application/json' \
    -d '{"http": {"url": "%[1]s/healthz", "method": "GET"}, "schedule": {"at": "'$(date -u -d '+5 seconds' +%%FT%%TZ)'"}}'

`, api) // the terminal went away: so will we
}
