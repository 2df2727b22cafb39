package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/console"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// pagesProtocol is how long pages take with rows resident.
	pagesProtocol = "pages"

	// The rows fall due over pagesSpan, from when they should all have come. So runs begin meanwhile,
	// and the lists are of runs that were and of runs that will be.
	pagesSpan = 4 * time.Hour
	// pagesAfter lies between the first due instant and the first page: some runs have begun then.
	pagesAfter = 5 * time.Second
	// An import of so many rows is expected to take pagesFactor times as long as at the last one's rate.
	pagesFactor = 1.1
	// pagesJobs are the jobs of the list of jobs; they run a day later.
	pagesJobs, pagesJobsAtOnce = 200, 16
	// pagesWarm is how often each page is asked for after the first time.
	pagesWarm = 10
)

// A Page is how long a page took, in ms. Cold is the first time after the start of the node. The
// store is not started anew, but in carillon dev, which holds it.
type Page struct {
	Page string    `json:"page"`
	Cold float64   `json:"cold_ms"`
	Warm []float64 `json:"warm_ms"` // in the order in which they were asked for
	// Items and Due are what the last answer shows: items of lists, and runs in coming minutes.
	Items int   `json:"items,omitempty"`
	Due   int64 `json:"due,omitempty"`
}

// worst is the longest time.
func (p *Page) worst() float64 { return max(p.Cold, slices.Max(p.Warm)) }

// pageRow is a page that is asked for.
type pageRow struct {
	name  string
	view  console.View
	whole bool // with the files of the page, and who asks
	list  bool // it must have items
}

// The pages, in the order in which they are asked for. The Overview comes first: it is all cold then.
var pageRows = []pageRow{
	{"Overview", console.Overview, true, false},
	{"runs", console.Runs, false, true},
	{string(console.NextHour), console.NextHour, false, true},
	{string(console.NextDay), console.NextDay, false, true},
	{string(console.Jobs), console.Jobs, false, true},
	{string(console.Upcoming), console.Upcoming, false, true},
	{string(console.Newest), console.Newest, false, true},
	{string(console.Sought), console.Sought, false, false},
	{string(console.Onward), console.Onward, false, true},
}

// pageSessions are the sessions of the protocol: the rows come once, and each round starts the nodes
// anew.
func pageSessions(c Config) []session {
	f := &filled{rows: c.Resident[len(c.Resident)-1]}
	steps := []step{f.fill}
	for round := 1; round <= c.Rounds; round++ {
		steps = append(steps, func(ctx context.Context, b *bench, sys system) error { return f.measure(ctx, b, sys, round) })
	}
	return []session{{layout: later, noop: true, steps: steps}}
}

// filled is a system with rows in it.
type filled struct {
	rows int
	from time.Time // when the first of them is due
	how  *Load
}

// fill starts the nodes, warms them up, creates the jobs and imports the rows.
func (f *filled) fill(ctx context.Context, b *bench, sys system) (err error) {
	if err := sys.work(ctx); err != nil {
		return err
	}
	if err := b.warm(ctx, sys, noopTarget); err != nil {
		return err
	}
	node := sys.intake()[0]
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	err = api.Each(ctx, b.cfg.Log, "jobs", pagesJobs, pagesJobsAtOnce, func(ctx context.Context, i int) error {
		return b.putJob(ctx, node, "", fmt.Sprintf("page-%d", i+1), fmt.Sprintf(`{"http":{"url":%q},"schedule":{"every":"24h","anchor":%q},"start":%q}`, nowhere, tomorrow, tomorrow))
	})
	if err != nil {
		return err
	}
	f.from = time.Now().Add(b.lead(f.rows, b.perS, pagesFactor, leadLeast)).Truncate(time.Second)
	if f.how, err = b.jobs(f.rows, f.from, pagesSpan, noopTarget, nowhere).take(ctx, b, sys); err != nil {
		return err
	}
	if err := wait.Until(ctx, f.from.Add(pagesAfter)); err != nil {
		return err
	}
	return b.quiet(ctx, sys)
}

// measure starts the nodes anew, and asks for each page once, and again and again.
func (f *filled) measure(ctx context.Context, b *bench, sys system, round int) error {
	if err := errors.Join(sys.rest(ctx), sys.work(ctx)); err != nil {
		return err
	}
	if err := wait.For(ctx, b.cfg.Quiet); err != nil {
		return err
	}
	r := b.result(ctx, sys, pagesProtocol, "cold and warm", noopTarget, round)
	r.Resident, r.Settled, r.Span = f.rows, f.how, pagesSpan.Seconds()
	r.noteLate(f.how.Ended, f.from)
	for _, row := range pageRows {
		p, err := row.ask(ctx, sys.intake()[0])
		if err != nil {
			return err
		}
		r.N += 1 + len(p.Warm)
		r.Pages = append(r.Pages, p)
		if row.view == console.Upcoming {
			r.Notes = append(r.Notes, fmt.Sprintf("of the hour that begins in two, %s runs are estimated in the minutes that were counted by then; due in all are about %s", grouped(p.Due), grouped(int64(float64(f.rows)*time.Hour.Seconds()/pagesSpan.Seconds()))))
		}
	}
	return b.keep(r)
}

// ask asks a node for a page, the first time and then pagesWarm times.
func (row pageRow) ask(ctx context.Context, node string) (Page, error) {
	c := console.New(console.Config{Node: node, View: row.view})
	defer c.Close()
	ask := c.Ask
	if row.whole {
		ask = c.Open
	}
	p := Page{Page: row.name}
	for i := range 1 + pagesWarm {
		began := time.Now()
		seen, err := ask(ctx)
		took := float64(time.Since(began).Microseconds()) / 1000
		switch {
		case err != nil:
			return p, fmt.Errorf("ask for %s: %w", row.name, err)
		case row.list && seen.Items == 0:
			return p, fmt.Errorf("ask for %s: it is empty", row.name)
		case i == 0:
			p.Cold = took
		default:
			p.Warm = append(p.Warm, took)
		}
		p.Items, p.Due = seen.Items, seen.Due
	}
	return p, nil
}

// slowestPage returns of each round on a system the longest time of the named pages, in ms.
func slowestPage(system string, named ...string) func([]*Result) []float64 {
	return func(all []*Result) []float64 {
		var times []float64
		for _, r := range all {
			if r.Protocol != pagesProtocol || r.System != system {
				continue
			}
			longest := 0.0
			for i := range r.Pages {
				if p := &r.Pages[i]; slices.Contains(named, p.Page) {
					longest = max(longest, p.worst())
				}
			}
			if longest > 0 {
				times = append(times, longest)
			}
		}
		return times
	}
}

// pagesResident says with how many rows pages were measured.
func pagesResident(system string) func([]*Result) string {
	return func(all []*Result) string {
		rows := each(all, is(pagesProtocol, system, ""), func(r *Result) string { return grouped(int64(r.Resident)) })
		return strings.Join(rows, ", ") + " rows"
	}
}

// pageGoals are the goals of the console on one system of Carillon.
func pageGoals(system, prefix string) []goal {
	return []goal{
		{what: prefix + "pages: the Overview as a whole", unit: "ms", bar: 1000, aim: 300, of: slowestPage(system, "Overview"), under: pagesResident(system)},
		{
			what: prefix + "pages: the first page of runs, and of jobs", unit: "ms", bar: 1000, aim: 200,
			of: slowestPage(system, "runs", string(console.NextHour), string(console.NextDay), string(console.Jobs)), under: pagesResident(system),
		},
		{what: prefix + "pages: GET /v1/stats/upcoming", unit: "ms", bar: 50, aim: 40, of: slowestPage(system, string(console.Upcoming)), under: pagesResident(system)},
		{
			what: prefix + "consoles: CPU a run of the nodes, ten open at 2,000/s against none", unit: "×", bar: 1 + withinConsoles, aim: 1.02,
			of: dearer(system, func(r *Result) float64 { return r.CPU[nodeKind] }),
		},
		{
			what: prefix + "consoles: lateness p99, ten open against the worst of five rounds without", unit: "×", bar: 1, aim: 1, by: "make bench-console",
			of: laterThanWithout(system),
		},
	}
}

// wholeGoals are of a cluster, whose store and queue are processes of their own.
var wholeGoals = []goal{{
	what: "consoles: CPU a run of nodes, Cassandra and NATS together, ten open at 2,000/s against none", unit: "×", bar: 1 + withinConsoles, aim: 1.02,
	of: dearer("carillon", systemCPU),
}}

// writePages writes a table of the protocol: medians and worst of all rounds. It writes nothing
// without one.
func writePages(b *strings.Builder, all []*Result) {
	head := "\n| pages, ms | rows, rounds | cold: median, worst | warm: median, worst | items |\n|---|---|---|---|---|\n"
	for _, system := range []string{"carillon", "carillon-dev"} {
		for _, row := range pageRows {
			var cold, warm []float64
			rows, rounds, items := 0, 0, 0
			for _, r := range all {
				if r.System != system {
					continue
				}
				for i := range r.Pages {
					if p := &r.Pages[i]; p.Page == row.name {
						cold, warm = append(cold, p.Cold), append(warm, p.Warm...)
						rows, rounds, items = r.Resident, rounds+1, p.Items
					}
				}
			}
			c, ok := figureOf(cold, false)
			if !ok {
				continue
			}
			w, _ := figureOf(warm, false)
			b.WriteString(head)
			head = ""
			fmt.Fprintf(b, "| %s (%s) | %s, %d | %s, %s | %s, %s | %d |\n", row.name, system, rowsOf(rows), rounds,
				amount(c.value, ""), amount(c.worst, ""), amount(w.value, ""), amount(w.worst, ""), items)
		}
	}
}

// String returns the times in a line.
func (p *Page) String() string {
	warm, _ := figureOf(p.Warm, false)
	return fmt.Sprintf("%s: cold %s, warm %s, at most %s", p.Page, amount(p.Cold, "ms"), amount(warm.value, "ms"), amount(warm.worst, "ms"))
}
