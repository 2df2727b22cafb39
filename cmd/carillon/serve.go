package main

import (
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/node"
	"carillon.dev/carillon/executor/trace/otlp"
)

func serveCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node of a cluster, on Cassandra and NATS",
		Long: "Run a node of a cluster, on Cassandra and NATS.\n\nWhat is set by a flag is in force before the environment (CARILLON_API_LISTEN and so on), and that before the file.\n" +
			"A node that cannot reach Cassandra or NATS waits for them, and is not ready until then.\n\n" +
			"SIGHUP has it read its configuration again, as a change of a file does within 10 s: log level, keys of secrets and scripts are in force then;\n" +
			"the log names what needs a restart.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (YAML)")
	cmd.Flags().StringSlice("roles", nil, "what the node does: bucketer, dispatcher, executor")
	cmd.Flags().String("name", "", "name of the node, unique in the cluster")
	cmd.Flags().String("listen", "", "`host:port` of the API")
	cmd.Flags().Int("slots", 0, "attempts under way at once of an executor (default 2048)")
	cmd.Flags().String("admin-listen", "", "`host:port` for profiles (/debug/pprof/); none unless set")
	cmd.Flags().String("log-level", "", "debug, info, warn or error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		source := config.Source{File: file, Environ: os.Environ(), Flags: changed(cmd, map[string]string{
			"roles": "roles", "name": "node.name", "listen": "api.listen", "slots": "executor.slots", "admin-listen": "admin.listen",
			"log-level": "log.level",
		})}
		cfg, files, err := source.Load()
		if err != nil {
			return err
		}
		traces, err := otlp.FromEnv(os.Getenv)
		if err != nil {
			return err
		}
		tuneGC()
		log, level := cli.NewLeveledLogger(cmd.ErrOrStderr(), cfg.Log)
		defer cli.FlushLog(log)
		reg := newRegistry()
		return node.New(cfg, node.Options{
			Opener: node.Cluster(cfg, version, log, reg), Version: version, Logger: log, Registry: reg, Traces: traces,
			Reload: &node.Reload{Source: source, Files: files, Level: level, Asked: takeHangups(cmd.Context())},
		}).Run(cmd.Context())
	}
	return cmd
}

// tuneGC sets the heap target to four times the live heap, unless GOGC is set. The live heap of a
// node is small, and most of what it allocates is garbage of runs.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// changed returns the values of the flags that were given, by configuration key; keys maps flags to
// those.
func changed(cmd *cobra.Command, keys map[string]string) map[string]any {
	set := make(map[string]any)
	for flag, key := range keys {
		if !cmd.Flags().Changed(flag) {
			continue
		}
		if list, err := cmd.Flags().GetStringSlice(flag); err == nil {
			set[key] = list
			continue
		}
		set[key] = cmd.Flags().Lookup(flag).Value.String()
	}
	return set
}

func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}
