package bench

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A session is one system and what is measured on it, in order.
type session struct {
	protocols string // those that it is of, for errors
	layout    layout
	noop      bool   // the nodes call nobody
	nodes     int    // that dispatch and execute; 0 = as configured
	warm      target // what the runs call that warm the system up; "" = none do
	// prepare does what must be done before the system starts; undo takes it back.
	prepare func(b *bench) (undo func() error, err error)
	steps   []step
	// alone, if set, is all there is: it starts its systems itself.
	alone func(ctx context.Context, b *bench) error
}

// A step is one measurement. It keeps its results.
type step func(ctx context.Context, b *bench, sys system) error

// scenarios is the table of the protocols, in the order in which they are measured.
var scenarios = []struct {
	protocols []string
	sessions  func(c Config) []session
}{
	{[]string{"A"}, burnDowns},
	{[]string{"B", "C", "D"}, batches},
	{[]string{"E"}, kills},
	{[]string{"R"}, recurrences},
	{[]string{"F"}, inFlights},
	{[]string{"H"}, interferences},
	{[]string{"W"}, workflowRuns},
	{[]string{"import", "api"}, intakes},
	{[]string{consolesProtocol}, besideConsoles},
	{[]string{pagesProtocol}, pageSessions},
	{[]string{regionsProtocol}, regionPairs},
}

// sessions returns all that c asks for.
func sessions(c Config) []session {
	var all []session
	for _, row := range scenarios {
		if !slices.ContainsFunc(row.protocols, c.wants) {
			continue
		}
		for _, s := range row.sessions(c) {
			s.protocols = strings.Join(row.protocols, ", ")
			all = append(all, s)
		}
	}
	return all
}

func (c Config) wants(protocol string) bool { return slices.Contains(c.Protocols, protocol) }

// burnDowns is A. Each measurement has a system of its own: a dispatcher that takes over reads the
// buckets of the last minutes, and so would read rows of an earlier round.
func burnDowns(c Config) []session {
	layouts := []layout{workers}
	switch {
	case c.System == OnDev: // it starts whole
		layouts = []layout{outage}
	case c.Outage:
		layouts = []layout{workers, outage}
	}
	var all []session
	for round := range c.Rounds {
		for _, t := range c.targets() {
			if t == httpTarget && c.wants("B") { // there it is for B
				continue
			}
			for _, l := range layouts {
				all = append(all, session{layout: l, noop: t == noopTarget, steps: []step{burnDown(t, l, round+1)}})
			}
		}
	}
	return all
}

// batches is B, C and D: on one system what calls somebody, on another one B with noop.
func batches(c Config) []session {
	var calling, quiet []step
	for round := 1; round <= c.Rounds; round++ {
		if c.wants("C") {
			for _, rate := range c.Rates {
				calling = append(calling, measure(c.stream("C", rate, 0, round), nil))
			}
		}
		for _, t := range c.targets() {
			switch {
			case !c.wants("B"):
			case t == noopTarget:
				quiet = append(quiet, measure(c.herd("B", t, 0, round), nil))
			default:
				calling = append(calling, measure(c.herd("B", t, 0, round), nil))
			}
		}
	}
	if c.wants("D") {
		calling = append(calling, residents(c)...)
	}
	var all []session
	if len(calling) > 0 {
		all = append(all, session{warm: httpTarget, steps: calling})
	}
	if len(quiet) > 0 {
		all = append(all, session{noop: true, warm: noopTarget, steps: quiet})
	}
	return all
}

// residents is D. What it compares with is measured anew: the first batches of B and C find colder
// caches.
func residents(c Config) []step {
	have := 0
	var steps []step
	for _, want := range c.Resident {
		var how *Load // the import of the rows that came last
		if more := want - have; more > 0 {
			steps = append(steps, func(ctx context.Context, b *bench, sys system) (err error) {
				// Due within the two hours after the next one, so that none is dispatched
				// meanwhile.
				j := b.jobs(more, time.Now().Add(time.Hour).Truncate(time.Second), 2*time.Hour, httpTarget, nowhere)
				how, err = j.take(ctx, b, sys)
				return err
			})
		}
		have = want
		for round := range c.Rounds {
			for _, w := range []batch{c.stream("D", c.Rates[0], have, round+1), c.herd("D", httpTarget, have, round+1)} {
				steps = append(steps, measure(w, func(r *Result) { r.Settled = how }))
			}
		}
	}
	return append(steps, func(_ context.Context, b *bench, sys system) error {
		grew := onSystem(b.results, sys.name())
		if len(Grew(grew)) == 0 {
			return nil
		}
		return PlotGrowth(filepath.Join(b.cfg.Out, "D-"+sys.name()+"-growth.svg"), grew)
	})
}

// kills is E: a dispatcher that is a process of its own, and a node of every role.
func kills(c Config) []session {
	var all []session
	for round := range c.Rounds {
		for _, row := range []struct {
			variant string
			layout  layout
			nodes   int
		}{{"dispatcher", oneKind, 0}, {"node", together, 2}} {
			w := c.stream("E", c.Rates[0], 0, round+1)
			w.variant, w.killAfter = row.variant, c.Span/2
			all = append(all, session{layout: row.layout, nodes: row.nodes, warm: httpTarget, steps: []step{measure(w, nil)}})
		}
	}
	return all
}

// recurrences is R: with Jobs, these first, and those that are due at one instant (daily.go); then
// a rate of runs of recurring jobs, and the same rate of one-off runs before it, on a system of its
// own each round since the jobs stay in the store.
func recurrences(c Config) []session {
	calls, variant := httpTarget, ""
	if c.InProcess {
		calls, variant = noopTarget, "in-process "
	}
	var all []session
	for round := range c.Rounds {
		var steps []step
		if c.Jobs > 0 {
			w := c.hour(round + 1)
			w.target, w.variant = calls, variant+w.variant
			steps = append(steps, measure(w, nil), c.mend(round+1))
		}
		all = append(all, session{noop: c.InProcess, warm: calls, steps: append(steps, func(ctx context.Context, b *bench, sys system) error {
			w := c.stream("R", c.Rates[0], c.Jobs, round+1)
			w.target, w.variant = calls, variant+"one-off"
			once, err := runAndKeep(ctx, b, sys, w, nil)
			if err != nil {
				return err
			}
			w.variant, w.recurring = variant+"recurring", true
			_, err = runAndKeep(ctx, b, sys, w, func(again *Result) { again.AgainstOneOff = against(again, once) })
			return err
		})})
	}
	return all
}

// inFlights is F: each target in turn, each round on a system of its own.
func inFlights(c Config) []session {
	var all []session
	for round := range c.Rounds {
		for _, t := range c.targets() {
			if t == noopTarget {
				continue // no run stays in flight
			}
			f := newFlight(c, t, round+1)
			all = append(all, session{layout: apart, warm: httpTarget, prepare: f.prepare, steps: []step{f.measure}})
		}
	}
	return all
}

// interferences is H: pairs, alone and beside, of each kind. Each pair has a system of its own:
// what a failing target leaves is deferred for half an hour and would run beside the next pair.
func interferences(c Config) []session {
	var all []session
	for round := range c.Rounds {
		for _, kind := range c.Harm {
			all = append(all, session{warm: httpTarget, steps: []step{warmInterference, interfere(kind, round+1)}})
		}
	}
	return all
}

// intakes is import and api: jobs are taken in while nothing runs.
func intakes(c Config) []session {
	s := session{noop: true, warm: noopTarget}
	for round := range c.Rounds {
		if c.wants("import") {
			for _, v := range importVariants {
				s.steps = append(s.steps, func(ctx context.Context, b *bench, sys system) error { return intake{b}.imports(ctx, sys, v, round+1) })
			}
		}
		if c.wants("api") {
			s.steps = append(s.steps, func(ctx context.Context, b *bench, sys system) error { return intake{b}.creations(ctx, sys, round+1) })
		}
	}
	return []session{s}
}
