package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/schema"
)

// comparedTables are those whose rows are the same in every data centre once nothing runs.
var comparedTables = []string{"runs", "payloads", "attempts", "run_outputs", "jobs", "job_runs", "dead_letters"}

// A RegionsResult is the part of a report about regions.
type RegionsResult struct {
	Regions int            `json:"regions"`
	DelayMS float64        `json:"delay_ms"`
	Epochs  []check.Epoch  `json:"epochs"`
	Starts  check.Regions  `json:"starts"`
	Homes   []HomeResult   `json:"homes"`
	Rows    map[string]int `json:"rows"` // compared, by table
	// Required is about the jobs that require region eu, and Away how often another one served its
	// home.
	Required check.Report `json:"check_required"`
	Away     int          `json:"away"`
	// Recurring is about the recurring jobs. What follows is by home, Others of those without a
	// fault: that of the home with the faults is Report.Check.
	Recurring check.RecurringReport       `json:"check_recurring"`
	Others    map[string]*check.Report    `json:"check_others"`
	Workflows map[string]*WorkflowsResult `json:"workflows"`
	Keyed     map[string]*KeyedResult     `json:"keyed"`
	Bytes     map[string]int64            `json:"link_bytes"` // by link, in the whole run
	// FailOvers are fail-overs and moves, in order, and PerSecond what started where.
	FailOvers []FailOver     `json:"fail_overs"`
	PerSecond []StartsSeries `json:"starts_by_second"`
}

// HomeResult is how late the runs of a home started, in milliseconds, before the first fault and
// from then on.
type HomeResult struct {
	Home   string         `json:"home"`
	Before check.Lateness `json:"before"`
	After  check.Lateness `json:"after"`
}

// judge judges each home, who started what, and whether the data centres hold the same rows.
func (r regionsCourse) judge(ctx context.Context, out io.Writer) error {
	for _, judge := range []func(context.Context, io.Writer) error{
		r.readLinks, r.readEpochs, r.judgeRows, r.judgeHomes, r.judgeRepeating, r.judgeFlows, r.judgeRequired, r.judgeStarts,
	} {
		if err := judge(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// readLinks notes what links carried and lost.
func (r regionsCourse) readLinks(ctx context.Context, _ io.Writer) error {
	links, err := r.regions.Control().Links(ctx)
	if err != nil {
		return err
	}
	r.record(func(rep *Report) {
		for _, l := range links {
			rep.Regions.Bytes[l.From+toWord+l.To] = l.Bytes
			rep.DroppedPackets += int(l.Lost)
		}
	})
	return nil
}

// judgeHomes has the one-off jobs of each home judged.
func (r regionsCourse) judgeHomes(ctx context.Context, out io.Writer) error {
	res := r.report.Regions
	for _, h := range r.homes() {
		args := []string{"--tenant", tenantOf(h.name), "--states", r.statesFile()}
		report, name := &r.report.Check, "check"
		if h.name == lostHome {
			// What a region wrote that was cut off and went on by its lease, the one that took its
			// home over did not see: such runs may run again, guarded or not, and are not judged
			// otherwise.
			args = append(args, lossArgs(r.losses(ActRegionCut))...)
		} else {
			report, name = &check.Report{}, "check-"+h.name
			res.Others[h.name] = report
		}
		sources := r.sourcesOf(h.name)
		for _, s := range sources {
			args = append(args, "--asked", r.askedFile(s), "--acks", r.acksFile(s))
		}
		if err := judging(r).by(ctx, name, h.sink, args, out, report); err != nil {
			return err
		}
		seen, _, err := journal.ReadSeenFile(h.sink.Record)
		if err != nil {
			return err
		}
		if h.name == lostHome {
			if err := r.judgeEverywhere(seen); err != nil {
				return err
			}
		}
		late, err := r.lateBySpan(h.name, sources, seen)
		if err != nil {
			return err
		}
		res.Homes = append(res.Homes, late)
	}
	return nil
}

// sourcesOf returns the sources of a home's jobs.
func (r regionsCourse) sourcesOf(home string) (sources []string) {
	for _, s := range r.sources() {
		if s == home || strings.HasPrefix(s, home+"-") {
			sources = append(sources, s)
		}
	}
	return sources
}

// judgeStarts judges which region started what, by the calls of everything, and measures
// fail-overs.
func (r regionsCourse) judgeStarts(context.Context, io.Writer) error {
	var calls []check.Sighting
	for _, sink := range r.sinks() {
		seen, _, err := journal.ReadSeenFile(sink.Record)
		if err != nil {
			return err
		}
		calls = append(calls, seen...)
	}
	res, homeOf := r.report.Regions, homeOfRun(r.cfg.Cluster.Shards, r.homeNames())
	res.Starts = check.JudgeRegions(calls, res.Epochs, homeOf, r.regionOf)
	res.PerSecond = startsBySecond(calls, r.report.FirstDue, homeOf, r.regionOf)
	r.measure(calls)
	return nil
}

// judgeEverywhere judges the jobs of durability everywhere by the record of the sink, also in the
// spans of which other jobs are excused.
func (r regionsCourse) judgeEverywhere(seen []check.Sighting) error {
	asks, err := r.readAsked(everywhereSource)
	if err != nil {
		return err
	}
	acks, err := journal.ReadFile(r.acksFile(everywhereSource), journal.ReadAcks)
	if err != nil {
		return err
	}
	acked, uncalled, twice := countEverywhere(asks, acks, seen)
	r.figure("durability everywhere", "%d jobs acknowledged; %d never called, %d at_most_once called again", acked, uncalled, twice)
	if uncalled > 0 || twice > 0 {
		r.broken("durability everywhere: of %d jobs that were acknowledged %d were never called, and %d at_most_once were called again", acked, uncalled, twice)
	}
	return nil
}

// countEverywhere counts the jobs that were acknowledged, those of them that were never called, and
// those of at_most_once that were called more than once. One of at_most_once may end as lost
// without a call: its executor died after it claimed it.
func countEverywhere(asks []check.Ask, acks []check.Ack, seen []check.Sighting) (acked, uncalled, twice int) {
	calls, known := map[check.Ref]int{}, map[check.Ref]bool{}
	for i := range seen {
		calls[seen[i].Ref]++
	}
	for _, a := range acks {
		known[a.Ref] = known[a.Ref] || a.ID != ""
	}
	for _, a := range asks {
		switch n := calls[a.Ref]; {
		case !known[a.Ref]:
			continue
		case n == 0 && a.Guarantee != check.AtMostOnce:
			uncalled++
		case n > 1 && a.Guarantee == check.AtMostOnce:
			twice++
		}
		acked++
	}
	return acked, uncalled, twice
}

// judgeRepeating judges the recurring jobs.
func (r regionsCourse) judgeRepeating(ctx context.Context, out io.Writer) error {
	args := []string{"--tenant", repeating, "--events", r.eventsFile(), "--end", r.lastDue.Format(time.RFC3339Nano)}
	for _, e := range r.report.Events {
		if e.Act == ActRegionKill {
			args = append(args, "--kill", e.Began.Format(time.RFC3339Nano))
		}
	}
	return judging(r).by(ctx, "check-"+repeating, r.apart[repeating], args, out, &r.report.Regions.Recurring)
}

// homeOfRun returns the home of a run by its id: each home has as many shards as the others, in
// order, as deploy/local lays them out.
func homeOfRun(shards int, homes []string) func(string) string {
	return func(run string) string {
		id, err := schema.ParseEntryID(run)
		if err != nil {
			return ""
		}
		for i, home := range homes {
			if int(id.Shard()) < (i+1)*shards/len(homes) {
				return home
			}
		}
		return ""
	}
}

// regionOf returns the region whose addresses are like addr: those of a region differ in their last
// number alone, and a call may come from any of them.
func (r *run) regionOf(addr string) string {
	network, _, _ := cutLastDot(addr)
	for _, name := range r.regions.Names() {
		for _, member := range r.regions.Region(name).CQL() {
			if at, _, found := cutLastDot(member); found && at == network {
				return name
			}
		}
	}
	return ""
}

// cutLastDot divides an address, perhaps with a port, at its last dot.
func cutLastDot(addr string) (before, after string, found bool) {
	i := strings.LastIndexByte(addr, '.')
	if i < 0 {
		return "", "", false
	}
	return addr[:i], addr[i+1:], true
}

// readEpochs reads which region served which home when.
func (r regionsCourse) readEpochs(ctx context.Context, _ io.Writer) error {
	var all []check.Epoch
	err := r.regions.Region(otherHome).EachRow(ctx, "SELECT home, epoch, region, at FROM carillon_regions.epochs", func(row [][]byte) error {
		number := int64(0)
		for _, b := range row[1] {
			number = number<<8 | int64(b)
		}
		at := int64(0)
		for _, b := range row[3] {
			at = at<<8 | int64(b)
		}
		all = append(all, check.Epoch{Home: string(row[0]), Number: number, Region: string(row[2]), At: time.UnixMilli(at).UTC()})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read epochs: %w", err)
	}
	r.report.Regions.Epochs = all
	return nil
}

// rowsIn returns the rows of a table, as JSON, as a region's own data centre holds them: how often
// each row is there, and how many there are.
func (r *run) rowsIn(ctx context.Context, region, table string) (rows map[string]int, n int, err error) {
	rows = map[string]int{}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = r.regions.Region(region).EachRow(ctx, "SELECT JSON * FROM carillon."+table, func(row [][]byte) error {
		rows[string(row[0])]++
		n++
		return nil
	})
	return rows, n, err
}

// judgeRows waits until all data centres hold the same rows. That they do not in time breaks a
// promise.
func (r regionsCourse) judgeRows(ctx context.Context, _ io.Writer) error {
	began, res := time.Now(), r.report.Regions
	names := r.homeNames()
	for _, table := range comparedTables {
		var differ []string
		// Each table is looked at, also if the time went by with one before it.
		until := latest(began.Add(alikeWithin), time.Now().Add(alikePoll))
		alike, err := wait.Poll(ctx, alikePoll, until, func() (bool, error) {
			here, n, err := r.rowsIn(ctx, names[0], table)
			if err != nil {
				return false, fmt.Errorf("rows of %s in %s: %w", table, names[0], err)
			}
			res.Rows[table], differ = n, nil
			for _, other := range names[1:] {
				there, _, err := r.rowsIn(ctx, other, table)
				if err != nil {
					return false, fmt.Errorf("rows of %s in %s: %w", table, other, err)
				}
				differ = append(differ, differences(names[0], here, other, there)...)
			}
			return len(differ) == 0, nil
		})
		if err != nil {
			return err
		}
		if !alike {
			r.broken("the data centres differ in %d rows of %s, %s after the last arrival", len(differ), table, time.Since(began).Round(time.Second))
			for _, row := range differ[:min(len(differ), mostExamples)] {
				r.log.Warn("rows of the data centres differ", "table", table, "only", row)
			}
		}
	}
	r.figure("rows of all data centres are alike", "%d rows of %d tables, after %.0f s", sumOf(res.Rows), len(comparedTables), time.Since(began).Seconds())
	return nil
}

// differences returns the rows that one side has, and the other has not as often, in order, each
// with the name of the side that has it.
func differences(here string, a map[string]int, there string, b map[string]int) (all []string) {
	add := func(side string, rows, others map[string]int) {
		for row, times := range rows {
			for range times - others[row] {
				all = append(all, side+": "+row)
			}
		}
	}
	add(here, a, b)
	add(there, b, a)
	slices.Sort(all)
	return all
}

func sumOf(rows map[string]int) (n int) {
	for _, of := range rows {
		n += of
	}
	return n
}

// regionsFaults names what regions have broken.
func (r *Report) regionsFaults() []string {
	res := r.Regions
	if res == nil || !r.Judged {
		return nil
	}
	var faults []string
	if n := res.Starts.Broken(); n > 0 {
		faults = append(faults, fmt.Sprintf("%d starts by a region that did not serve the home: %s", n, strings.Join(res.Starts.Examples, "; ")))
	}
	if res.Starts.Starts == 0 {
		faults = append(faults, "it is not known which region started what")
	}
	of := func(name string, all []string) {
		for _, f := range all {
			faults = append(faults, name+": "+f)
		}
	}
	for _, home := range slices.Sorted(maps.Keys(res.Others)) {
		of("home "+home, (&Report{Check: *res.Others[home]}).verdicts())
	}
	of("recurring jobs", (&Report{Recurring: &RecurringResult{Check: res.Recurring}}).verdicts())
	of("jobs that require their region", res.requiredFaults())
	flows := res.flowsFaults()
	for _, home := range slices.Sorted(maps.Keys(flows)) {
		of("workflows of home "+home, flows[home])
	}
	for _, home := range slices.Sorted(maps.Keys(res.Keyed)) {
		if f := res.Keyed[home].fault(); f != "" {
			of("home "+home, []string{f})
		}
	}
	return faults
}
