package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/workload"
)

func newGen() *cobra.Command {
	var spec workload.Spec
	var from, out string
	var atOnce bool
	cmd := &cobra.Command{
		Use:   "gen",
		Short: "Make NDJSON of one-off jobs that call a sink",
		Long: `Make NDJSON of one-off jobs, one a line, as POST /v1/imports takes them. The same flags, with an
absolute --from, make the same bytes. Job n calls <target>/<source>/<n>, so the file is also the record
of what was asked: give it to check --asked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if spec.From, err = instant(from, time.Now()); err != nil {
				return err
			}
			if atOnce {
				if cmd.Flags().Changed("spread") {
					return errors.New("--at-once and --spread exclude each other")
				}
				spec.Spread = 0
			}
			if spec.Source == "" {
				spec.Source = fmt.Sprintf("s%d", spec.Seed)
			}
			var w io.Writer = cmd.OutOrStdout()
			if out != "" {
				f, err := create(out)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, f.Close()) }()
				w = f
			}
			return spec.Write(w)
		},
	}
	f := cmd.Flags()
	f.IntVar(&spec.N, "n", 1000, "number of jobs")
	f.StringVar(&from, "from", "+20s", "first due instant, RFC 3339, or from now, as +20s")
	f.DurationVar(&spec.Spread, "spread", time.Minute, "due instants lie in this span, uniformly")
	f.BoolVar(&atOnce, "at-once", false, "all due at --from")
	f.IntVar(&spec.Immediate, "immediate", 0, "how many of the jobs state no time and run at once")
	f.IntVar(&spec.PayloadBytes, "payload", 0, "bytes of each payload; 0 = the least")
	f.Uint64Var(&spec.Seed, "seed", 1, "seed of everything random")
	f.StringVar(&spec.Source, "source", "", "name of this stream, in addresses and keys; default: s<seed>")
	f.StringVar(&spec.Target, "target", "", "base URL of the sink (required)")
	f.BoolVar(&spec.Keyed, "keyed", false, "give each job an idempotency key")
	f.StringVar(&out, "out", "", "file to write, which must not exist; default: standard output")
	required(cmd, "target")
	return cmd
}

// instant reads an RFC 3339 time, or a duration from now with a leading plus.
func instant(s string, now time.Time) (time.Time, error) {
	if rest, ok := strings.CutPrefix(s, "+"); ok {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return time.Time{}, fmt.Errorf("read --from: %w", err)
		}
		return now.Add(d).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("read --from: %w", err)
	}
	return t, nil
}
