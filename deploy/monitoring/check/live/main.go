// Command live asks every panel of every dashboard of a real Prometheus that scrapes a real
// Carillon, under a load in which things go wrong: an error, no series or only NaN is a fault of
// the dashboard.
//
// It starts all of it on the loopback interface, keeps everything in a folder that is gone at the
// end, and ends what it has started. It is run in deploy/monitoring/check by make monitoring.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"carillon.dev/carillon/deploy/monitoring/check"
)

type options struct {
	system                      string // dev or cluster
	carillon, local, prometheus string // programs
	top                         string // deploy/monitoring
	span                        time.Duration
	keep                        bool
}

func main() {
	var o options
	flag.StringVar(&o.system, "system", "dev", "dev: one process on embedded parts; cluster: Cassandra, NATS and two nodes")
	flag.StringVar(&o.carillon, "carillon", "", "program carillon")
	flag.StringVar(&o.local, "local", "", "program carillon-local, for a cluster")
	flag.StringVar(&o.prometheus, "prometheus", "prometheus", "program prometheus")
	flag.StringVar(&o.top, "top", "..", "folder deploy/monitoring")
	flag.DurationVar(&o.span, "span", 50*time.Second, "how long there is load")
	flag.BoolVar(&o.keep, "keep", false, "leave the folder with logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	err := run(ctx, o)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	boards, err := check.ReadDashboards(filepath.Join(o.top, "dashboards"))
	if err != nil {
		return err
	}
	if len(boards) == 0 {
		return errors.New("there are no dashboards")
	}
	dir, err := os.MkdirTemp("", "carillon-monitoring-*")
	if err != nil {
		return err
	}
	defer func() {
		if o.keep {
			say("logs and data are in %s", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()

	say("starting Carillon (%s)", o.system)
	sys, err := startSystem(ctx, o, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.stop(context.WithoutCancel(ctx))) }()
	prom, err := startPrometheus(ctx, o, dir, sys.targets())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prom.stop()) }()
	began := time.Now()
	say("Prometheus scrapes %v every second; load for %v", sys.targets(), o.span)
	if err := load(ctx, sys, o.span); err != nil {
		return err
	}
	if err := prom.rest(ctx, 4*time.Second); err != nil { // for the last scrapes and rules
		return err
	}
	say("asking")
	j := judge{api: prom.url, from: began, to: time.Now(), tenant: loadTenant, cluster: o.system == "cluster"}
	answers, err := j.all(ctx, boards)
	if err != nil {
		return err
	}
	report(os.Stdout, answers)
	seen, err := j.proofs(ctx)
	if err != nil {
		return err
	}
	reportProofs(os.Stdout, seen)
	alerts, err := j.alerts(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\nAlerts that were pending or fired: %s\n", alerts)
	return verdict(answers, seen)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
