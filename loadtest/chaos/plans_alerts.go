package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/alerts"
	"carillon.dev/carillon/loadtest/nats"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

// Scenarios in which a Prometheus watches, and it is judged which alerts fire. What they may and
// must fire is stated in deploy/monitoring/faults.yaml. No job fails by itself, so that only the
// fault is seen.
const (
	AlertsCalm      Scenario = "alerts-calm"
	AlertsNode      Scenario = "alerts-node"
	AlertsCassandra Scenario = "alerts-cassandra"
	AlertsNATS      Scenario = "alerts-nats"
	AlertsClock     Scenario = "alerts-clock"
	AlertsStream    Scenario = "alerts-stream"
	AlertsTarget    Scenario = "alerts-target"
)

// The acts of these scenarios.
const (
	// ActWatch starts the Prometheus.
	ActWatch Act = "start Prometheus"
	// ActSqueeze holds all streams at a size at which they take no message, for squeezedFor. Nodes
	// give them their own size back each minute.
	ActSqueeze Act = "hold streams full at"
	// ActStuck has jobs due at once whose target answers none of their calls.
	ActStuck Act = "have calls made to a target that hangs"
)

const (
	// alertsFaster is by how much the rules are faster.
	alertsFaster = 10
	// alertsFrom is when the Prometheus starts: after runs have gone for a while, since the first
	// ones of new processes are late.
	alertsFrom   seconds = 20
	squeezedFor          = 80 * time.Second
	squeezeEvery         = 100 * time.Millisecond
	// stuckCalls are enough for each of two nodes to open its circuit.
	stuckCalls   = 60
	stuckSource  = "stuck"
	stuckTimeout = "1s"
)

var one = cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2}

// watchedBy declares a scenario with alerts.
func watchedBy(name Scenario, members cluster.Spec, span, late time.Duration, does string, faults chain) Plan {
	load := steady(span, late, func(cluster.Spec) []chain {
		return []chain{append(chain{do(alertsFrom, ActWatch, "")}, faults...)}
	})
	load.Kinds = unfailing
	return Plan{
		Name: name, Takes: span + 3*time.Minute, Members: members, Alerts: true, Load: load,
		Does: does, Promises: "the alerts fire that deploy/monitoring/faults.yaml states, and no others",
	}
}

var alertPlans = []Plan{
	watchedBy(AlertsCalm, one, 140*time.Second, 10*time.Second, "nothing; a Prometheus watches, as in all alerts-…", chain{agree(130)}),
	watchedBy(AlertsNode, one, 150*time.Second, deathCosts, "one node of two is killed, and is back after 60 s",
		append(away(ActKill, "carillon-2", 40, 100), agree(102))),
	watchedBy(AlertsCassandra, one, 210*time.Second, 100*time.Second+startsAgain+recovers, "Cassandra is killed, and is back after 100 s",
		append(away(ActKill, "cassandra-1", 40, 140), agree(150))),
	watchedBy(AlertsNATS, one, 190*time.Second, 100*time.Second+onlyNATS+recovers, "NATS is killed, and is back after 100 s",
		append(away(ActKill, "nats-1", 40, 140), agree(145))),
	alertsClock,
	watchedBy(AlertsStream, one, 160*time.Second, squeezedFor+recovers, "the streams take no message for 80 s: they are full",
		chain{do(40, ActSqueeze, "nats-1"), agree(125)}),
	watchedBy(AlertsTarget, one, 160*time.Second, deathCosts, "a target does not answer 60 calls; its circuit opens", chain{do(40, ActStuck, "")}),
}

var alertsClock = func() Plan {
	p := watchedBy(AlertsClock, namespaced(cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 3}), 2*time.Minute, cutRests+deathCosts,
		"the clock of one node of three is set 1.5 s ahead for 40 s",
		chain{do(40, ActClock, "carillon-2 to 1.5s"), do(80, ActClock, "carillon-2 to 0s"), agree(80)})
	p.Off = 450 * time.Millisecond
	return p
}()

// Clocks reports whether nodes have clocks that can be set.
func (p Plan) Clocks() bool { return p.Name.setsClocks() }

// setsClocks reports whether nodes of the scenario have clocks that can be set.
func (s Scenario) setsClocks() bool { return s == WrongClock || s == AlertsClock || s == RegionClock }

// unfailing are quick jobs of every guarantee that succeed.
func unfailing(mix Mix) []workload.Kind {
	var kinds []workload.Kind
	for i, parts := range []int{mix.AtLeastOnce, mix.AtMostOnce, mix.EffectivelyOnce} {
		for range parts {
			for _, manner := range []string{"", "work-200ms"} {
				kinds = append(kinds, workload.Kind{Manner: manner, Guarantee: string(guarantees[i]), Timeout: "10s"})
			}
		}
	}
	return mixed(kinds)
}

// alertActs are the acts of these scenarios.
var alertActs = acts{
	ActWatch: func(ctx context.Context, r *run, _ string) (string, error) { return "", r.watchAlerts(ctx) },
	ActSqueeze: func(ctx context.Context, r *run, _ string) (string, error) {
		urls := r.cluster().NATSURLs()
		times, was, until := 0, int64(0), time.Now().Add(squeezedFor)
		for time.Now().Before(until) {
			changed, before, err := nats.Resize(ctx, urls[0], 1)
			if err != nil {
				return "", err
			}
			if changed {
				times, was = times+1, before
			}
			if err := wait.For(ctx, squeezeEvery); err != nil {
				return "", err
			}
		}
		_, _, err := nats.Resize(ctx, urls[0], was)
		return fmt.Sprintf("%d times, since nodes gave the room back; then %d bytes again", times, was), err
	},
	ActStuck: func(ctx context.Context, r *run, _ string) (string, error) {
		spec := r.jobs(stuckSource, stuckCalls, time.Now().Add(2*time.Second), lateSoon)
		spec.Target = r.sink.URLs[1]
		spec.Kinds = []workload.Kind{{Manner: "hang", Timeout: stuckTimeout, Retry: &workload.Retry{MaxAttempts: 1}}}
		return "", r.importJobs(ctx, spec)
	},
}

// watchAlerts starts the Prometheus of a scenario with alerts.
func (r *run) watchAlerts(ctx context.Context) error {
	top, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	r.monitoring = filepath.Join(top, "deploy", "monitoring")
	program, err := alerts.Available(top)
	if err != nil {
		return err
	}
	var targets []string
	for _, base := range r.cluster().APIs() {
		u, err := url.Parse(base)
		if err != nil {
			return fmt.Errorf("watch alerts: %w", err)
		}
		targets = append(targets, u.Host)
	}
	r.alerts, err = alerts.Start(ctx, alerts.Options{
		Program: program, Rules: filepath.Join(r.monitoring, "rules"), Dir: r.cfg.Dir, Targets: targets, Factor: alertsFaster, HTTP: r.http,
	})
	return err
}

// judgeAlerts compares what has fired with what is stated.
func (r *run) judgeAlerts(ctx context.Context) (err error) {
	f, err := os.Open(filepath.Join(r.monitoring, "faults.yaml"))
	if err != nil {
		return fmt.Errorf("judge alerts: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	table, err := alerts.ReadTable(f)
	if err != nil {
		return err
	}
	row, err := table.Of(string(r.cfg.Scenario))
	if err != nil {
		return err
	}
	if r.alerts == nil {
		return errors.New("judge alerts: no Prometheus was started")
	}
	fired, err := r.alerts.Fired(ctx)
	if err != nil {
		return err
	}
	for _, a := range fired {
		r.figure(fmt.Sprintf("%s (%s), which %s fire", a.Alert, a.Severity, row.Expects(a.Alert)),
			"from %.0f s after the first due instant on, for %.0f s", a.First.Sub(r.report.FirstDue).Seconds(), a.For.Seconds())
	}
	if len(fired) == 0 {
		r.figure("alerts", "none fired")
	}
	for _, fault := range row.Judge(fired) {
		r.broken("%s", fault)
	}
	return nil
}
