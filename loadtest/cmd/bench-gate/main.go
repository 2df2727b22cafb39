// Command bench-gate compares the benchmarks of the hot paths with the committed figures; package
// gate has the rules. It is run from the top of the repository. Exit status: 0 = as good as
// committed; 1 = something is worse or differs; 2 = it could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"carillon.dev/carillon/loadtest/gate"
)

const (
	path        = "loadtest/gate/figures.json"
	rounds      = 5  // of each benchmark
	updateWith  = 10 // rounds of figures that are to be committed
	timesIfSlow = 3  // what is worse is measured so many times more
)

// errShut: a benchmark got worse.
var errShut = errors.New("worse than committed, or different: mend it, or say in the commit why it must be and run make bench-gate UPDATE=1")

func main() {
	update := flag.Bool("update", false, "write "+path+" instead of comparing with it")
	flag.Parse()
	runtime.GOMAXPROCS(1) // as the benchmarks: the calibration loop shall have what they have
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *update)
	stop()
	switch {
	case errors.Is(err, errShut):
		fmt.Fprintln(os.Stderr, "bench-gate:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench-gate:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, update bool) (err error) {
	folder, err := os.MkdirTemp("", "bench-gate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	var committed gate.Figures
	if !update {
		if committed, err = gate.Load(path); err != nil {
			return err
		}
		if committed.Go != runtime.Version() {
			fmt.Printf("committed with %s, measured with %s\n", committed.Go, runtime.Version())
		}
	}
	b, err := gate.Build(ctx, ".", folder)
	if err != nil {
		return err
	}
	if update {
		now, err := b.All(ctx, updateWith)
		if err != nil {
			return err
		}
		return now.Save(path)
	}
	now, err := b.All(ctx, rounds)
	if err != nil {
		return err
	}
	if now, err = b.Again(ctx, committed, now, timesIfSlow, rounds); err != nil {
		return err
	}
	rows := gate.Compare(gate.Cases, committed, now)
	if err := gate.Print(os.Stdout, rows); err != nil {
		return err
	}
	if n := gate.Count(rows, func(v gate.Verdict) bool { return v == gate.Improved }); n > 0 {
		fmt.Printf("%d improved: update the figures with make bench-gate UPDATE=1\n", n)
	}
	if n := gate.Count(rows, func(v gate.Verdict) bool { return !v.Passes() }); n > 0 {
		return fmt.Errorf("%d of %d: %w", n, len(rows), errShut)
	}
	return nil
}
