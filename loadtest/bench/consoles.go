package bench

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/console"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// consolesProtocol is C with and without open consoles; its variants are the halves of a pair.
	consolesProtocol           = "consoles"
	withoutConsoles, withThese = "without", "with"

	// The job that a console looks at is another tenant's, so that its runs are none of those that are
	// measured. It runs in both halves, each watchedEvery, and asks the node itself.
	watchedTenant, watchedName, watchedEvery = "watching", "watched", "5s"
)

// openViews are what consoles have open, in turn: of ten, four the overview, three the runs, two the
// cluster and one a job.
var openViews = []console.View{
	console.Overview, console.Runs, console.Cluster, console.Overview, console.Runs, console.Job, console.Overview, console.Runs, console.Cluster, console.Overview,
}

// Consoles are pages that were open in a half of a pair.
type Consoles struct {
	Open     int     `json:"open"`
	Views    string  `json:"views"`
	Requests int     `json:"requests"`
	PerS     float64 `json:"requests_per_s"`
	Failed   int     `json:"failed"` // requests that were refused or got no answer
	Fault    string  `json:"fault,omitempty"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
	Bytes    float64 `json:"bytes_per_s"` // of the answers
}

// besideConsoles are the sessions of the protocol: rounds of two halves on one system, of which now
// the one and now the other comes first.
func besideConsoles(c Config) []session {
	steps := []step{watchedJob}
	for round := 1; round <= c.Rounds; round++ {
		halves := []string{withoutConsoles, withThese}
		if round%2 == 0 {
			halves = []string{withThese, withoutConsoles}
		}
		for _, half := range halves {
			w := c.stream(consolesProtocol, c.Rates[0], 0, round)
			if w.variant = half; half == withThese {
				w.consoles = c.Consoles
			}
			steps = append(steps, measure(w, nil))
		}
	}
	return []session{{warm: httpTarget, steps: steps}}
}

// watchedJob makes the job that consoles look at.
func watchedJob(ctx context.Context, b *bench, sys system) error {
	node := sys.intake()[0]
	return b.putJob(ctx, node, watchedTenant, watchedName, fmt.Sprintf(`{"http":{"url":%q,"method":"GET"},"schedule":{"every":%q}}`, node+"/healthz", watchedEvery))
}

// putJob creates or replaces a job by its name.
func (b *members) putJob(ctx context.Context, node, tenant, name, body string) error {
	a, err := api.Ask(ctx, b.client, api.Request{
		Method: http.MethodPut, URL: node + "/v1/jobs/" + name, Type: "application/json", Body: []byte(body),
		Header: map[string]string{"Carillon-Tenant": tenant}, Timeout: api.RequestTimeout,
	})
	if err == nil && a.Status/100 != 2 {
		err = fmt.Errorf("answered %d: %.300s", a.Status, a.Body)
	}
	if err != nil {
		return fmt.Errorf("create job %s: %w", name, err)
	}
	return nil
}

// openWithin is how long it takes until all consoles are open: they are not asked for in step.
const openWithin = 2 * time.Second

// watchers are consoles that are open.
type watchers struct {
	began time.Time
	open  []console.View
	tally console.Tally
	stop  func() // closes them; may be called again
}

// watch opens n consoles, each on the next of the nodes.
func watch(ctx context.Context, nodes []string, n int) *watchers {
	ctx, cancel := context.WithCancel(ctx)
	w := &watchers{began: time.Now()}
	var wg sync.WaitGroup
	for i := range n {
		view := openViews[i%len(openViews)]
		w.open = append(w.open, view)
		cfg := console.Config{Node: nodes[i%len(nodes)], View: view, Tally: &w.tally}
		if view == console.Job {
			cfg.Tenant, cfg.Job = watchedTenant, watchedName
		}
		wg.Go(func() {
			c := console.New(cfg)
			defer c.Close()
			if wait.For(ctx, time.Duration(i)*openWithin/time.Duration(n)) == nil {
				c.Stay(ctx)
			}
		})
	}
	w.stop = func() { cancel(); wg.Wait() }
	return w
}

// end closes the consoles and returns what they were answered; nil if there were none.
func (w *watchers) end() *Consoles {
	lasted := time.Since(w.began).Seconds()
	w.stop()
	if len(w.open) == 0 {
		return nil
	}
	seen := w.tally.Summary()
	c := &Consoles{
		Open: len(w.open), Views: viewsText(w.open), Requests: len(seen.Took) + seen.Failed, Failed: seen.Failed, Fault: seen.Fault,
		Bytes: float64(seen.Bytes) / lasted,
	}
	c.PerS = float64(c.Requests) / lasted
	if l := exact(seen.Took, "client"); l != nil {
		c.P50, c.P99, c.Max = l.P50, l.P99, l.Max
	}
	return c
}

// viewsText says how many have which view open: "4 overview, 3 runs".
func viewsText(open []console.View) string {
	var order []console.View
	counts := map[console.View]int{}
	for _, v := range open {
		if counts[v]++; counts[v] == 1 {
			order = append(order, v)
		}
	}
	var parts []string
	for _, v := range order {
		parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
	}
	return strings.Join(parts, ", ")
}

// String returns them in a line.
func (c *Consoles) String() string {
	text := fmt.Sprintf("%d consoles open (%s): %.1f requests/s, %s/s, answered in p50 %s, p99 %s, at most %s", c.Open, c.Views, c.PerS,
		bytesText(c.Bytes), amount(c.P50, "ms"), amount(c.P99, "ms"), amount(c.Max, "ms"))
	if c.Failed > 0 {
		text += fmt.Sprintf("; %d FAILED, the first: %s", c.Failed, c.Fault)
	}
	return text
}

// A consoleRound is both halves of a round.
type consoleRound struct{ without, with *Result }

// consoleRounds returns the rounds on a system of which both halves were measured, at one rate.
func consoleRounds(all []*Result, system string) []consoleRound {
	byRound := map[int]consoleRound{}
	for _, r := range all {
		if r.Protocol != consolesProtocol || r.System != system {
			continue
		}
		pair := byRound[r.Round]
		if r.Consoles == nil {
			pair.without = r
		} else {
			pair.with = r
		}
		byRound[r.Round] = pair
	}
	var whole []consoleRound
	for _, round := range slices.Sorted(maps.Keys(byRound)) {
		if pair := byRound[round]; pair.without != nil && pair.with != nil {
			whole = append(whole, pair)
		}
	}
	return whole
}

// withinConsoles is by which part CPU a run may be more with consoles open.
const withinConsoles = 0.05

// consolePairs compares the halves by what a run costs, and how late it is.
func consolePairs(all []*Result, system string) []Pairs {
	figures := append(costFigures[:len(costFigures):len(costFigures)],
		costFigure{"Carillon CPU µs a run, as measured", true, func(r *Result) (float64, bool) { return r.CPU[nodeKind], r.CPU[nodeKind] > 0 }},
		costFigure{"CPU µs a run of all but sink and load", true, func(r *Result) (float64, bool) { return systemCPU(r), r.CPU["cassandra"] > 0 }},
		costFigure{"lateness p99, ms", true, func(r *Result) (float64, bool) { return p99(r), true }},
	)
	var pairs []Pairs
	rounds := consoleRounds(all, system)
	for _, f := range figures {
		p := Pairs{What: system + ", " + f.name, Lower: f.lower, Within: withinConsoles}
		if strings.HasPrefix(f.name, "lateness") {
			p.Within = 0 // its spread alone
		}
		for _, round := range rounds {
			without, has := f.of(round.without)
			with, had := f.of(round.with)
			if has && had {
				p.Before, p.After = append(p.Before, without), append(p.After, with)
			}
		}
		if len(p.Before) > 0 {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// dearer returns of each round the CPU of a run with consoles open as a multiple of that without. A
// half with missed runs, or whose consoles were refused something, is as dear as can be.
func dearer(system string, cpu func(r *Result) float64) func([]*Result) []float64 {
	return func(all []*Result) []float64 {
		var ratios []float64
		for _, round := range consoleRounds(all, system) {
			if !round.counts() {
				continue
			}
			ratio := math.Inf(1)
			if was := cpu(round.without); was > 0 && round.without.Missed+round.with.Missed+round.with.Consoles.Failed == 0 {
				ratio = cpu(round.with) / was
			}
			ratios = append(ratios, ratio)
		}
		return ratios
	}
}

// consolesOpen and consolesRate are those of the goals.
const consolesOpen, consolesRate = 10, 2000

// counts reports whether a round is of the size of the goals.
func (r consoleRound) counts() bool {
	return r.with.Consoles.Open >= consolesOpen && r.with.Rate == consolesRate
}

// laterThanWithout returns of each round p99 with consoles open, as a multiple of the worst without;
// nothing, if there are fewer rounds than have a spread. Less than a millisecond counts as one.
func laterThanWithout(system string) func([]*Result) []float64 {
	return func(all []*Result) []float64 {
		worst := 1.0
		var with []float64
		for _, round := range consoleRounds(all, system) {
			if round.counts() {
				worst, with = max(worst, p99(round.without)), append(with, p99(round.with))
			}
		}
		if len(with) < fewestPairs {
			return nil
		}
		for i := range with {
			with[i] /= worst
		}
		return with
	}
}

// writeConsoles writes a table of the protocol; nothing if it was not measured.
func writeConsoles(b *strings.Builder, all []*Result) {
	var pairs []Pairs
	var notes []string
	for _, system := range []string{"carillon", "carillon-dev"} {
		pairs = append(pairs, consolePairs(all, system)...)
		for _, round := range consoleRounds(all, system) {
			notes = append(notes, fmt.Sprintf("\n%s, round %d: %s.\n", system, round.with.Round, round.with.Consoles))
		}
	}
	if len(pairs) == 0 {
		return
	}
	b.WriteString("\n" + pairsTable("| consoles | without: each round, median | with: each round, median | difference; spread without | |", pairs))
	b.WriteString(strings.Join(notes, ""))
}
