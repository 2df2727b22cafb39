package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/flow"
	"carillon.dev/carillon/loadtest/peers/measure"
	"carillon.dev/carillon/loadtest/peers/peer"
	"carillon.dev/carillon/loadtest/process"
)

// measureTimeout bounds a measurement, besides its span and its wait.
const measureTimeout = 20 * time.Minute

// measureCommand is one measurement of one peer.
func measureCommand() *cobra.Command {
	var cfg measure.Config
	var system, sink, checkout, temporal string
	var rate float64
	cmd := &cobra.Command{
		Use:   "measure",
		Short: "Measure one peer once and print the result as a line of JSON",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg.Log = newLog()
			if cfg.Protocol == measure.Stream && rate > 0 {
				cfg.N = int(rate * cfg.Span.Seconds())
			}
			if cfg.Target == measure.Pace {
				cfg.Rate = int(rate)
				cfg.N = int(rate * cfg.Span.Seconds() / flow.ChainSteps)
			}
			// Of what a peer's client says only what is wrong is of interest.
			said := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			p, err := peer.New(system, peer.Means{Log: said, Goscheduler: checkout, Temporal: temporal})
			if err != nil {
				return err
			}
			cfg.StartSink = func(ctx context.Context, dir string) (*measure.Sink, error) { return startSink(ctx, sink, dir) }
			dir, err := os.MkdirTemp(cfg.Dir, "carillon-peers-")
			if err != nil {
				return fmt.Errorf("make folder: %w", err)
			}
			cfg.Dir = dir
			defer func() {
				if err == nil || cmd.Context().Err() != nil { // done, or told to stop
					err = errors.Join(err, os.RemoveAll(dir))
				} else {
					cfg.Log.Warn("what is left of a measurement that failed", "folder", dir)
				}
			}()
			ctx, cancel := context.WithTimeout(cmd.Context(), measureTimeout+cfg.Span+cfg.Wait)
			defer cancel()
			r, err := measure.Run(ctx, p, cfg)
			if err != nil {
				return err
			}
			r.Commit, r.Machine, r.Command = process.Commit(ctx), process.Machine(), strings.Join(os.Args, " ")
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&system, "system", "", "one of "+strings.Join(peer.Names(), ", "))
	f.StringVar(&cfg.Protocol, "protocol", "", "A, B or C; of a system that runs workflows W")
	f.StringVar(&cfg.Target, "target", measure.Noop, "what runs of B and C do: noop or http; the part of W: chains or pace")
	f.IntVar(&cfg.N, "n", 100_000, "runs of A and B, chains of W")
	f.Float64Var(&rate, "rate", 0, "runs due a second in C; steps a second in pace")
	f.DurationVar(&cfg.Span, "span", time.Minute, "over which runs of C fall due, and chains of pace start")
	f.IntVar(&cfg.Open, "open", 0, "chains that are open at once (default 2000)")
	f.IntVar(&cfg.Payload, "payload", 0, "bytes of padding of each job and call")
	f.IntVar(&cfg.Warm, "warm", 0, "runs before the measurement (default 100000); of W steps, at most 1000")
	f.DurationVar(&cfg.Wait, "wait", 2*time.Minute, "for runs after the last due instant")
	f.IntVar(&cfg.Round, "round", 1, "number of the round, and seed of the instants")
	f.StringVar(&cfg.Dir, "dir", "/var/tmp", "for the data of servers; on a disk")
	f.StringVar(&sink, "sink", "", "carillon-load, which is the sink; needed by --target http")
	checkoutFlag(cmd, &checkout)
	temporalFlag(cmd, &temporal)
	return cmd
}

// checkoutFlag adds the flag that names a checkout of goscheduler.
func checkoutFlag(cmd *cobra.Command, checkout *string) {
	cmd.Flags().StringVar(checkout, "goscheduler", os.Getenv("GOSCHEDULER"), "checkout of github.com/myntra/goscheduler, which is built; default: $GOSCHEDULER")
}

// temporalFlag adds the flag that names the program temporal.
func temporalFlag(cmd *cobra.Command, program *string) {
	cmd.Flags().StringVar(program, "temporal", filepath.Join(".local", "bin", "temporal"), "program temporal, whose dev server is measured")
}

// startSink starts carillon-load as a sink.
func startSink(ctx context.Context, program, dir string) (*measure.Sink, error) {
	if program == "" {
		return nil, errors.New("start sink: --sink must name carillon-load")
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, fmt.Errorf("start sink: %w", err)
	}
	s, err := process.StartSink(ctx, program, dir)
	if err != nil {
		return nil, err
	}
	return &measure.Sink{URL: s.URL, Record: s.Record, PID: s.PID, End: s.End}, nil
}
