package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/journal"
)

func newImport() *cobra.Command {
	var to target
	var acks string
	var sends int
	var idle, timeout time.Duration
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a file of jobs and record when each was acknowledged",
		Long: `Import a file of jobs through POST /v1/imports and record each answer line with the time it was
read. A line that was cut or answered 503 is sent again, to the next node, if the job has a key. Without
a key its outcome stays unknown. Exit status 1 if one did.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			source, err := journal.SourceOf(args[0])
			if err != nil {
				return err
			}
			f, err := create(acks)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			w, err := journal.NewAckWriter(f, source)
			if err != nil {
				return err
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			log := newLog(cmd.ErrOrStderr())
			client, done := to.client(log)
			defer done()
			im := &api.Import{Client: client, Path: args[0], Acks: w, MaxSends: sends, Idle: idle, Log: log}
			s, err := im.Run(ctx)
			secs := max(s.Elapsed.Seconds(), 1e-9)
			_, _ = fmt.Fprintf(cmd.OutOrStdout(),
				"lines %d, created %d, existing %d, refused %d, unknown %d, not accepted %d, in %d sends and %.1f s: %.0f lines/s\n",
				s.Lines, s.Created, s.Existing, s.Refused, s.Unknown, s.Unsent, s.Sends, secs, float64(s.Created+s.Existing)/secs)
			if err == nil && !s.Complete() {
				err = fmt.Errorf("import incomplete: %w", errVerdict)
			}
			return err
		},
	}
	to.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&acks, "acks", "", "file for the answers, which must not exist (required)")
	f.IntVar(&sends, "max-sends", api.DefaultMaxSends, "how often to send at most, whole or in part")
	f.DurationVar(&idle, "idle", api.DefaultIdle, "an import that neither takes nor answers anything for so long is cut")
	f.DurationVar(&timeout, "timeout", 0, "bound of the whole; 0 = only --max-sends")
	required(cmd, "acks")
	return cmd
}
