package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/client"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/node"
	"carillon.dev/carillon/executor/trace/otlp"
	"carillon.dev/carillon/schema"
)

func devCommand() *cobra.Command {
	var file, dir string
	var port, natsPort int
	var demo, workflows, auth bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole system in one process, on embedded parts",
		Long: "Run the whole system in one process, on embedded parts: the store in Pebble, NATS inside.\n\n" +
			"Without --data-dir everything is gone at the end. Targets on the loopback interface are allowed, unless executor.allow_cidrs says what is.\n" +
			"It reads the same file and environment as carillon serve (CARILLON_EXECUTOR_SLOTS and so on), and refuses what cannot be in one process.\n" +
			"With --auth requests need an API key, as in production; it prints one of an admin, which is good for this process.\n" +
			"With --demo it also receives calls, and starts 20 jobs a second for a minute.\n" +
			"With --demo-workflows it runs three workflows, shows their steps, and ends: with success if each ended as it should.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	cmd.Flags().StringVar(&dir, "data-dir", "", "keep everything in this `folder`")
	cmd.Flags().IntVar(&port, "port", config.DevPort, "port of the API, on 127.0.0.1; 0 takes a free one")
	cmd.Flags().IntVar(&natsPort, "nats-port", 0, "port for workers, on 127.0.0.1, without a password; 0 takes a free one (default none)")
	cmd.Flags().Int("slots", 0, "attempts under way at once (default 2048)")
	cmd.Flags().BoolVar(&auth, "auth", false, "ask for API keys, and print a first one")
	cmd.Flags().BoolVar(&demo, "demo", false, "run jobs one can watch, for a minute")
	cmd.Flags().BoolVar(&workflows, "demo-workflows", false, "run three workflows one can watch, and end")
	cmd.Flags().String("admin-listen", "", "`host:port` for profiles (/debug/pprof/); none unless set")
	cmd.Flags().Bool("executor-noop", false, "for measurements: every run succeeds at once, and nothing is called")
	_ = cmd.Flags().MarkHidden("executor-noop") // the flag exists: no error
	cmd.Flags().String("log-level", "", "debug, info, warn or error (default warn with a demo, else info)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		base := config.Dev()
		if demo || workflows {
			base.Log.Level = "warn"
		}
		set := changed(cmd, map[string]string{
			"slots": "executor.slots", "admin-listen": "admin.listen", "executor-noop": "executor.noop", "log-level": "log.level",
		})
		if cmd.Flags().Changed("port") {
			set["api.listen"] = config.DevListen(port)
		}
		cfg, err := config.LoadDev(base, file, os.Environ(), set)
		traces, fault := otlp.FromEnv(os.Getenv)
		if auth {
			if demo || workflows {
				err = errors.Join(err, errors.New("--auth and a demo: a demo has no key"))
			}
			cfg.API.Auth = config.AuthRequired
		}
		if err := checkDev(cfg, errors.Join(err, fault), port, natsPort, demo, workflows); err != nil {
			return err
		}
		if dir == "" {
			if dir, err = os.MkdirTemp("", "carillon-dev-"); err != nil {
				return fmt.Errorf("make a folder: %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		}
		tuneGC()
		log := cli.NewLogger(cmd.ErrOrStderr(), cfg.Log)
		defer cli.FlushLog(log)
		reg := newRegistry()
		place, nats := node.Place{Dir: dir}, ""
		if cmd.Flags().Changed("nats-port") {
			// before the node is ready
			place.NATSPort, place.NATS = natsPort, func(url string) { nats = url }
		}
		opts := node.Options{Opener: node.Embedded(cfg, place, version, log, reg), Version: version, Logger: log, Registry: reg, Traces: traces}
		key := ""
		if auth {
			opts.Opener.Store = withKey(opts.Opener.Store, func(secret string) { key = secret })
		}
		play := runDemo
		switch {
		case workflows:
			play = runWorkflowDemo
		case !demo:
			opts.Ready = func(api string) { hello(cmd, api, nats, key) }
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
			err := play(ctx, cmd.OutOrStdout(), api)
			switch {
			case ctx.Err() != nil: // told to stop: no hints and no score
				return <-ended
			case err == nil && demo:
				hello(cmd, api, nats, "")
				return <-ended
			}
			cancel()
			return errors.Join(err, <-ended)
		}
	}
	return cmd
}

// checkDev reports every fault of the flags together with loading, the faults of the configuration.
func checkDev(cfg config.Config, loading error, port, natsPort int, demo, workflows bool) error {
	faults := []error{loading}
	for _, p := range []struct {
		flag string
		port int
	}{{"--port", port}, {"--nats-port", natsPort}} {
		if p.port < 0 || p.port > math.MaxUint16 {
			faults = append(faults, fmt.Errorf("%s: %d is not between 0 and %d", p.flag, p.port, math.MaxUint16))
		}
	}
	if (demo || workflows) && cfg.Executor.Noop {
		faults = append(faults, errors.New("a demo receives calls, and --executor-noop makes none: state one of them"))
	}
	if demo && workflows {
		faults = append(faults, errors.New("--demo and --demo-workflows: state one of them"))
	}
	if err := errors.Join(faults...); err != nil {
		return cli.Usagef("%w", err)
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

// keyLife is how long the key of --auth is good: a process that a person tries things on does not
// live as long, and its folder may.
const keyLife = 7 * 24 * time.Hour

// withKey makes a key of an admin in each store that is opened, and tells it to made.
func withKey(open func(context.Context) (schema.Store, error), made func(secret string)) func(context.Context) (schema.Store, error) {
	return func(ctx context.Context) (schema.Store, error) {
		store, err := open(ctx)
		if err != nil {
			return nil, err
		}
		now := time.Now().UTC()
		k, err := client.FirstKey(ctx, store, "", request.KeyRequest{Name: "dev-" + now.Format("20060102-150405.000"), ExpiresAt: now.Add(keyLife)})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make the key of --auth: %w", err), store.Close())
		}
		made(k.Key)
		return store, nil
	}
}

// hello prints where the API is and what to try next. nats is the address for workers, key the
// first key, "" if there is none.
func hello(cmd *cobra.Command, api, nats, key string) {
	if nats != "" {
		nats = "  workers " + nats
	}
	if key != "" {
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), `
Carillon is up, and asks for keys.  console %[1]s/console/  API %[1]s  documentation %[1]s/docs%[2]s   (Ctrl-C stops it)
Log in to the console with this key of an admin, or give it to the commands:

  export CARILLON_KEY=%[3]s
  carillon whoami

`, api, nats, key)
		return
	}
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), `
Carillon is up.  console %[1]s/console/  API %[1]s  documentation %[1]s/docs  metrics %[1]s/metrics%[2]s   (Ctrl-C stops it)
Try:

  curl -s %[1]s/v1/jobs -H 'content-type: application/json' \
    -d '{"http": {"url": "%[1]s/healthz", "method": "GET"}, "schedule": {"at": "'$(date -u -d '+5 seconds' +%%FT%%TZ)'"}}'

`, api, nats) // a closed terminal ends the process anyway
}
