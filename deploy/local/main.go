// Command local runs real Carillon clusters on this machine: Cassandra, NATS and Carillon nodes as
// processes of their own on loopback addresses or in regions, without containers. See package
// cluster for how.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/deploy/local/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, errorText(err))
	}
	os.Exit(exitCode(err))
}

// errorText returns the text that is printed for an error.
func errorText(err error) string {
	if errors.Is(err, cluster.ErrNoCluster) {
		return cluster.ErrNoCluster.Error()
	}
	return "Error: " + err.Error()
}

// A childError says that the user's command has failed.
type childError struct{ err *exec.ExitError }

func (e childError) Error() string { return "the command failed: " + e.err.Error() }

// exitCode returns 0 without an error, the exit code of the user's command if that failed, else 1.
func exitCode(err error) int {
	var child childError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &child):
		return max(1, child.err.ExitCode()) // -1 if a signal ended it
	default:
		return 1
	}
}

// command returns the whole command line.
func command() *cobra.Command {
	var dir string
	root := &cobra.Command{
		Use:           "local",
		Short:         "Run real Cassandra, NATS and Carillon processes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&dir, "dir", filepath.Join(".local", "cluster"), "folder of the cluster: data, logs, pid files")
	root.AddCommand(
		upCommand(&dir), downCommand(&dir), statusCommand(&dir),
		memberCommand(&dir, "kill", "End a member with SIGKILL, as a crash would", (*cluster.Cluster).Kill),
		memberCommand(&dir, "stop", "Ask a member to stop, and wait until it has", (*cluster.Cluster).Stop),
		memberCommand(&dir, "freeze", "Stop a member in mid-step (SIGSTOP)", (*cluster.Cluster).Freeze),
		memberCommand(&dir, "thaw", "Let a frozen member go on (SIGCONT)", (*cluster.Cluster).Thaw),
		memberCommand(&dir, "start", "Start a stopped member with its data", (*cluster.Cluster).StartMember),
		cutCommand(&dir), healCommand(&dir), delayCommand(&dir), hubCommand(),
		nodetoolCommand(&dir), execCommand(), jarsCommand(),
	)
	return root
}

// specFlags adds the flags that describe a cluster to cmd; the function returned reads them, and
// has valid judge them.
func specFlags(cmd *cobra.Command, defaults cluster.Spec) func(valid func(cluster.Spec) error) (cluster.Spec, error) {
	spec := defaults
	var roles []string
	var profile, commitLog string
	f := cmd.Flags()
	f.IntVar(&spec.Cassandra, "cassandra", defaults.Cassandra, "Cassandra nodes: 0, 1 or 3; of a region 1 to 3")
	f.IntVar(&spec.NATS, "nats", defaults.NATS, "NATS servers: 0, 1 or 3")
	f.IntVar(&spec.Nodes, "nodes", defaults.Nodes, "Carillon nodes")
	f.StringArrayVar(&roles, "roles", nil, `roles of the Carillon nodes: "bucketer,executor" for all, "2=executor" for one; may be repeated (default all roles)`)
	f.StringVar(&profile, "profile", string(cluster.ProfileTest), "Cassandra: test (small, starts fast) or load (2 GiB of heap a node)")
	f.StringVar(&commitLog, "commitlog", string(cluster.CommitLogPeriodic), "Cassandra: periodic, or group (acknowledged = on disk)")
	f.DurationVar(&spec.NATSSync, "nats-sync", 0, "NATS: after how long a message is on disk; negative = before its acknowledgement (default the server's)")
	f.IntVar(&spec.Shards, "shards", defaults.Shards, "shards of a new keyspace, about one for every 200 runs a second (default 16)")
	return func(valid func(cluster.Spec) error) (cluster.Spec, error) {
		spec.Profile, spec.CommitLog = cluster.Profile(profile), cluster.CommitLog(commitLog)
		var err error
		if spec.Roles, err = parseRoles(roles, spec.Nodes); err != nil {
			return cluster.Spec{}, err
		}
		if err := valid(spec); err != nil {
			return cluster.Spec{}, err
		}
		if spec.Cassandra > 0 {
			return spec, cluster.Available()
		}
		return spec, nil
	}
}

func upCommand(dir *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, or what is stopped of it, and wait until it is ready",
		Args:  cobra.NoArgs,
	}
	spec := specFlags(cmd, cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 1})
	profiles := cmd.Flags().Bool("profiles", false, "the Carillon nodes serve profiles (/debug/pprof/), at the ports from 19081 on")
	regions := regionsFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if regions.Regions > 0 || cluster.HasRegions(*dir) {
			return upRegions(cmd, *dir, *regions, spec, *profiles)
		}
		s, err := spec(cluster.Spec.Validate)
		if err != nil {
			return err
		}
		s.Profiles = *profiles
		c, err := cluster.Up(cmd.Context(), cluster.Options{Dir: *dir, Say: progress(cmd)}, s)
		if err != nil {
			return err
		}
		return report(cmd.OutOrStdout(), c.Status())
	}
	return cmd
}

// A status is of a cluster, or of one of regions.
type status interface {
	WriteTable(w io.Writer) error
	WriteJSON(w io.Writer) error
	API() string
	Regional() []cluster.RegionAPI // nil: there are no regions
}

// report shows what is up, and ends with a line for the shell by which the client finds it.
func report(w io.Writer, s status) error {
	if err := s.WriteTable(w); err != nil {
		return err
	}
	for i, r := range s.Regional() {
		if i == 0 {
			_, _ = fmt.Fprintln(w) // the last write has the error
		}
		if _, err := fmt.Fprintf(w, "region %s: API %s (no key), its jobs may call %s\n", r.Region, r.API, r.Calls); err != nil {
			return err
		}
	}
	api := s.API()
	if api == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nexport CARILLON_API=%s\n", api)
	return err
}

// progress returns a function that prints a line of progress.
func progress(cmd *cobra.Command) func(string) {
	return func(line string) { cmd.PrintErrln(line) }
}

func downCommand(dir *string) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop every member; data stays for the next up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := openAny(cluster.Options{Dir: *dir, Say: progress(cmd)})
			if errors.Is(err, cluster.ErrNoCluster) {
				cmd.PrintErrln("nothing to stop:", err)
				return nil
			}
			if err != nil {
				return err
			}
			if err := c.Down(cmd.Context()); err != nil || !purge {
				return err
			}
			return c.Purge(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove data and logs too")
	return cmd
}

func statusCommand(dir *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show every member with its state, pid and address",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := map[string]func(status) error{
				"table": func(s status) error { return s.WriteTable(cmd.OutOrStdout()) },
				"json":  func(s status) error { return s.WriteJSON(cmd.OutOrStdout()) },
			}[output]
			if !ok {
				return fmt.Errorf("output %q is neither table nor json", output)
			}
			if cluster.HasRegions(*dir) {
				r, err := cluster.OpenRegions(cluster.Options{Dir: *dir})
				if err != nil {
					return err
				}
				return write(r.Status(cmd.Context()))
			}
			c, err := cluster.Open(cluster.Options{Dir: *dir})
			if err != nil {
				return err
			}
			return write(c.Status())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// memberCommand is a command that does one thing to the members named.
func memberCommand(dir *string, use, short string, act func(*cluster.Cluster, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use + " NAME…",
		Short: short,
		Long:  short + ". With regions, names are such as eu/carillon-1.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			for _, name := range names {
				c, member, err := openMember(*dir, name)
				if err != nil {
					return err
				}
				if err := act(c, cmd.Context(), member); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func nodetoolCommand(dir *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "nodetool NAME ARGUMENT…",
		Short:   "Run Cassandra's nodetool on a node",
		Example: "  nodetool cassandra-1 repair -full",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, member, err := openMember(*dir, args[0])
			if err != nil {
				return err
			}
			argv, err := c.Nodetool(cmd.Context(), member, args[1:]...)
			if err != nil {
				return err
			}
			return run(cmd, nil, argv)
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after the name are nodetool's
	return cmd
}

func execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec [FLAGS] -- COMMAND…",
		Short: "Run a command with a cluster that ends with it",
		Long: "Run a command with a fresh cluster of its own, which is gone when the command ends. The command finds it by\n" +
			cluster.CassandraEnv + " (ip:port) and " + cluster.NATSEnv + " (URL). Without Java or Maven\n" +
			"there is no Cassandra for it, after a loud line; with CI=true that is an error.",
		Example: "  exec -- go test ./...",
		Args:    cobra.MinimumNArgs(1),
	}
	spec := specFlags(cmd, cluster.Spec{Cassandra: 1, NATS: 1})
	cmd.RunE = func(cmd *cobra.Command, argv []string) (err error) {
		s, err := spec(cluster.Spec.Validate)
		if errors.Is(err, cluster.ErrUnavailable) && os.Getenv("CI") != "true" {
			cmd.PrintErrln("LEFT OUT: what needs a real Cassandra:", err)
			s.Cassandra, err = 0, nil
		}
		if err != nil {
			return err
		}
		if s.Cassandra+s.NATS == 0 {
			return run(cmd, nil, argv)
		}
		dir, err := os.MkdirTemp("", "carillon-exec-*")
		if err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		c, err := cluster.Up(cmd.Context(), cluster.Options{Dir: dir, Attached: true, Say: progress(cmd)}, s)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(cmd.Context()))) }()
		return run(cmd, c.TestEnv(), argv)
	}
	return cmd
}

// run runs argv with env added to the environment, on this program's terminal. When the context
// ends the command is asked to stop.
func run(cmd *cobra.Command, env, argv []string) error {
	child := exec.CommandContext(cmd.Context(), argv[0], argv[1:]...)
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	child.Env = append(os.Environ(), env...)
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	err := child.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return childError{exit}
	}
	return err
}

func jarsCommand() *cobra.Command {
	var update bool
	cmd := &cobra.Command{
		Use:   "jars",
		Short: "Bring Cassandra's jars into the cache and check them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if update {
				paths, n, err := cluster.UpdateSums(cmd.Context())
				if err == nil {
					cmd.Printf("%d sums in %s: look at the difference before you commit it\n", n, strings.Join(paths, " and "))
				}
				return err
			}
			path, err := cluster.Jars(cmd.Context(), progress(cmd))
			if err == nil {
				cmd.Println(path)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&update, "update-sums", false, "write the committed list of sums anew from what Maven brings")
	return cmd
}
