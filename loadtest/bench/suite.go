package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"
)

// The suites.
const (
	// Small takes about 50 minutes on two cores, ten minutes of it to warm up. It measures every goal
	// once, at a small size, and leaves out what has no goal.
	Small = "small"
	// Full takes hours: everything, at its size.
	Full = "full"
)

// sizes are the differences between suites.
type sizes struct {
	burn     int      // runs of A
	burns    []string // its targets
	outage   bool     // A also where nothing was dispatched before
	burnDev  int
	herd     int // runs of B
	imports  int // lines of import
	rates    []int
	ratesDev []int
	span     time.Duration
	killSpan time.Duration
	resident []int
	herds    []string      // targets of B
	recur    int           // runs a second of R …
	recurs   time.Duration // … over this span
	every    time.Duration // the interval of its jobs
	flight   int           // runs of F
	flights  []string      // its targets
	ramp     time.Duration // over which they begin
	hold     time.Duration
	beside   int           // new runs while they are in flight
	harms    []string      // what the targets of H do
	harm     int           // runs a second of H
	harmSpan time.Duration // over which they fall due
	chains   int           // of W, on a cluster …
	devs     int           // … and on carillon dev
	pace     time.Duration // the span of its pace
}

var suites = map[string]sizes{
	Small: {
		burn: 100_000, burns: []string{string(noopTarget)}, burnDev: 200_000, herd: 100_000, imports: 200_000,
		rates: []int{2000, 6000, 10_000}, ratesDev: []int{2000}, span: 15 * time.Second,
		killSpan: 20 * time.Second, resident: []int{0, 500_000}, herds: []string{string(httpTarget)},
		recur: 5000, recurs: 20 * time.Second, every: 10 * time.Second,
		flight: 10_000, flights: []string{string(httpTarget)}, ramp: 7 * time.Second, hold: 30 * time.Second, beside: 1000,
		harm: 500, harms: []string{"hang"}, harmSpan: 10 * time.Second,
		chains: 6000, devs: 20_000, pace: 15 * time.Second,
	},
	Full: {
		burn: 500_000, burns: []string{string(noopTarget), string(natsTarget)}, outage: true, burnDev: 1_000_000, herd: 100_000, imports: 1_000_000,
		rates: []int{2000, 1000, 5000, 6000, 8000, 10_000}, ratesDev: []int{2000, 1000, 5000, 6000, 8000, 10_000}, span: time.Minute,
		killSpan: time.Minute, resident: []int{0, 1_000_000, 10_000_000}, herds: []string{string(httpTarget), string(noopTarget)},
		recur: 5000, recurs: time.Minute, every: 10 * time.Second,
		flight: 100_000, flights: []string{string(h2Target), string(natsTarget), string(httpTarget)}, ramp: 30 * time.Second, hold: time.Minute, beside: 2000,
		harm: 500, harms: harmKinds, harmSpan: time.Minute,
		chains: 20_000, devs: 50_000, pace: time.Minute,
	},
}

// Suite returns the parts of a suite. Of base it takes the cluster, rounds, programs and folders.
func Suite(name string, base Config) ([]Config, error) {
	size, ok := suites[name]
	if !ok {
		return nil, fmt.Errorf("there is no suite %q; there are %s and %s", name, Small, Full)
	}
	part := func(system string, n int, targets []string, protocols ...string) Config {
		c := base
		c.System, c.N, c.Targets, c.Protocols = system, n, targets, protocols
		c.Rates, c.Span, c.Resident = size.rates, size.span, size.resident
		return c
	}
	kills := part(OnCluster, size.herd, nil, "E")
	kills.Span = size.killSpan
	recurs := part(OnCluster, size.herd, nil, "R")
	recurs.Rates, recurs.Span, recurs.Every = []int{size.recur}, size.recurs, size.every
	flights := part(OnCluster, size.flight, size.flights, "F")
	flights.Ramp, flights.Hold, flights.Beside = size.ramp, size.hold, size.beside
	harms := part(OnCluster, size.herd, nil, "H")
	harms.Rates, harms.Span, harms.Harm = []int{size.harm}, size.harmSpan, size.harms
	flows := func(system string, chains int) Config {
		c := part(system, size.herd, nil, "W")
		c.Chains, c.Span = chains, size.pace
		return c
	}
	burns := part(OnCluster, size.burn, size.burns, "A")
	burns.Outage = size.outage
	dev := part(OnDev, size.herd, []string{string(httpTarget)}, "B", "C", "D")
	dev.Rates = size.ratesDev
	parts := []Config{
		burns,
		part(OnCluster, size.herd, size.herds, "B", "C", "D"),
		kills,
		recurs,
		flights,
		harms,
		part(OnCluster, size.imports, nil, "import", "api"),
		part(OnDev, size.burnDev, []string{string(noopTarget)}, "B"),
		dev,
		flows(OnCluster, size.chains),
		flows(OnDev, size.devs),
		part(OnCluster, size.herd, nil, consolesProtocol, pagesProtocol),
		part(OnDev, size.herd, nil, consolesProtocol, pagesProtocol),
	}
	for i := range parts {
		parts[i].Dir = filepath.Join(base.Dir, fmt.Sprintf("part-%d", i+1))
	}
	return parts, nil
}

// Some returns the parts with these numbers, counted from 1, in the order of the suite; all without
// numbers. The error names every number that has no part.
func Some(parts []Config, numbers []int) ([]Config, error) {
	if len(numbers) == 0 {
		return parts, nil
	}
	var some []Config
	for i, p := range parts {
		if slices.Contains(numbers, i+1) {
			some = append(some, p)
		}
	}
	var faults []error
	for _, n := range numbers {
		if n < 1 || n > len(parts) {
			faults = append(faults, fmt.Errorf("there is no part %d; there are 1 to %d", n, len(parts)))
		}
	}
	return some, errors.Join(faults...)
}

// RunSuite measures all parts and prints the table of goals. It goes on after a part that fails.
func RunSuite(ctx context.Context, parts []Config, out io.Writer) error {
	var faults []error
	for _, p := range parts {
		faults = append(faults, p.Validate())
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	began := time.Now()
	var all []*Result
	for i, p := range parts {
		p = p.withDefaults()
		p.Log.Info("measuring", "part", fmt.Sprintf("%d of %d", i+1, len(parts)), "protocols", p.Protocols, "system", p.System, "since", time.Since(began).Round(time.Second))
		results, err := Run(ctx, p, out)
		all = append(all, results...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.Log.Error("a part failed: going on", "part", p.Protocols, "system", p.System, "err", err)
			faults = append(faults, err)
		}
	}
	_, _ = fmt.Fprintf(out, "\nIn %s:\n\n", time.Since(began).Round(time.Second))
	return errors.Join(append(faults, WriteGoals(out, all))...)
}
