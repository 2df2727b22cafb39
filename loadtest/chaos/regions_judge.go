package chaos

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
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
	// Recurring is about the recurring jobs, Other about the home without a fault.
	Recurring check.RecurringReport `json:"check_recurring"`
	Other     check.Report          `json:"check_other"`
	Bytes     map[string]int64      `json:"link_bytes"` // by link, in the whole run
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
	links, err := r.regions.Control().Links(ctx)
	if err != nil {
		return err
	}
	res := &RegionsResult{Regions: r.cfg.Scenario.plan().Regions, DelayMS: float64(regionsDelay.Milliseconds()), Rows: map[string]int{}, Bytes: map[string]int64{}}
	for _, l := range links {
		res.Bytes[l.From+toWord+l.To] = l.Bytes
		if l.Lost > 0 {
			r.record(func(rep *Report) { rep.DroppedPackets += int(l.Lost) })
		}
	}
	r.record(func(rep *Report) { rep.Regions = res })
	if res.Epochs, err = r.epochs(ctx); err != nil {
		return err
	}
	if err := r.alike(ctx, res); err != nil {
		return err
	}
	var calls []check.Sighting
	for i, h := range r.homes() {
		args := []string{"--tenant", tenantOf(h.name), "--states", r.statesFile()}
		report, name := &r.report.Check, "check"
		if i > 0 {
			report, name = &res.Other, "check-"+h.name
		} else {
			args = append(args, r.unseenArgs()...)
		}
		var sources []string
		for _, s := range r.sources() {
			if s == h.name || strings.HasPrefix(s, h.name+"-") {
				sources = append(sources, s)
				args = append(args, "--asked", r.askedFile(s), "--acks", r.acksFile(s))
			}
		}
		if err := judging(r).by(ctx, name, h.sink, args, out, report); err != nil {
			return err
		}
		seen, _, err := journal.ReadSeenFile(h.sink.Record)
		if err != nil {
			return err
		}
		calls = append(calls, seen...)
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
	if err := r.judgeRepeating(ctx, out, &res.Recurring); err != nil {
		return err
	}
	seen, _, err := journal.ReadSeenFile(r.third.Record)
	if err != nil {
		return err
	}
	calls = append(calls, seen...)
	res.Starts = check.JudgeRegions(calls, res.Epochs, homeOfRun(r.cfg.Cluster.Shards), r.regionOf)
	r.measure(res, calls)
	return nil
}

// unseenArgs name the spans in which a region that was cut off went on by its lease. What it wrote
// in them the region that took its home over did not see: such runs may run again, guarded or not,
// and are not judged otherwise.
func (r regionsCourse) unseenArgs() []string {
	var args []string
	for _, e := range r.report.Events {
		if e.Act == ActRegionCut {
			args = append(args, "--lost", e.Began.Add(-replicated).Format(time.RFC3339Nano)+","+e.Ended.Add(check.LeaseLife).Format(time.RFC3339Nano))
		}
	}
	return args
}

// judgeEverywhere judges the jobs of durability everywhere by the record of the sink, also in the spans
// of which other jobs are excused.
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
// those of at_most_once that were called more than once. One of at_most_once may end as lost without a
// call: its executor died after it claimed it.
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
func (r regionsCourse) judgeRepeating(ctx context.Context, out io.Writer, into *check.RecurringReport) error {
	args := []string{"--tenant", repeating, "--events", r.eventsFile(), "--end", r.lastDue.Format(time.RFC3339Nano)}
	for _, e := range r.report.Events {
		if e.Act == ActRegionKill {
			args = append(args, "--kill", e.Began.Format(time.RFC3339Nano))
		}
	}
	return judging(r).by(ctx, "check-"+repeating, r.third, args, out, into)
}

// homeOfRun returns the home of a run by its id: eu has the first half of the shards, us the other.
func homeOfRun(shards int) func(string) string {
	return func(run string) string {
		id, err := schema.ParseEntryID(run)
		switch {
		case err != nil:
			return ""
		case int(id.Shard()) < shards/2:
			return lostHome
		}
		return otherHome
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

// epochs reads which region served which home when.
func (r regionsCourse) epochs(ctx context.Context) (all []check.Epoch, err error) {
	err = r.regions.Region(otherHome).EachRow(ctx, "SELECT home, epoch, region, at FROM carillon_regions.epochs", func(row [][]byte) error {
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
		return nil, fmt.Errorf("read epochs: %w", err)
	}
	return all, nil
}

// rowsOf returns the rows of a table as a region's own data centre holds them: how often each row
// is there, by its hash.
func (r *run) rowsIn(ctx context.Context, region, table string) (rows map[[16]byte]int, n int, err error) {
	rows = map[[16]byte]int{}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = r.regions.Region(region).EachRow(ctx, "SELECT JSON * FROM carillon."+table, func(row [][]byte) error {
		sum := sha256.Sum256(row[0])
		rows[[16]byte(sum[:16])]++
		n++
		return nil
	})
	return rows, n, err
}

// alike waits until both data centres hold the same rows. That they do not in time breaks a
// promise.
func (r regionsCourse) alike(ctx context.Context, res *RegionsResult) error {
	began := time.Now()
	for _, table := range comparedTables {
		differ := 0
		alike, err := wait.Poll(ctx, alikePoll, began.Add(alikeWithin), func() (bool, error) {
			here, n, err := r.rowsIn(ctx, lostHome, table)
			if err != nil {
				return false, fmt.Errorf("rows of %s in %s: %w", table, lostHome, err)
			}
			there, _, err := r.rowsIn(ctx, otherHome, table)
			if err != nil {
				return false, fmt.Errorf("rows of %s in %s: %w", table, otherHome, err)
			}
			res.Rows[table] = n
			if maps.Equal(here, there) {
				return true, nil
			}
			differ = 0
			for of, other := range map[*map[[16]byte]int]map[[16]byte]int{&here: there, &there: here} {
				for row, n := range *of {
					differ += max(0, n-other[row])
				}
			}
			return false, nil
		})
		if err != nil {
			return err
		}
		if !alike {
			r.broken("the data centres differ in %d rows of %s, %s after the last arrival", differ, table, time.Since(began).Round(time.Second))
		}
	}
	r.figure("rows of both data centres are alike", "%d rows of %d tables, after %.0f s", sumOf(res.Rows), len(comparedTables), time.Since(began).Seconds())
	return nil
}

func sumOf(rows map[string]int) (n int) {
	for _, of := range rows {
		n += of
	}
	return n
}

// lateBySpan sums up how late the runs of a home started: of those due before the first fault, and
// of the others. What was acknowledged after it was due counts from then.
func (r regionsCourse) lateBySpan(name string, sources []string, seen []check.Sighting) (res HomeResult, err error) {
	due := map[check.Ref]time.Time{}
	for _, source := range sources {
		asks, err := r.readAsked(source)
		if err != nil {
			return res, err
		}
		for _, a := range asks {
			due[a.Ref] = a.At
		}
		acks, err := journal.ReadFile(r.acksFile(source), journal.ReadAcks)
		if err != nil {
			return res, err
		}
		for _, a := range acks {
			if a.ID != "" {
				due[a.Ref] = latest(due[a.Ref], a.At)
			}
		}
	}
	first := map[check.Ref]time.Time{}
	for i := range seen {
		if at, ok := first[seen[i].Ref]; !ok || seen[i].At.Before(at) {
			first[seen[i].Ref] = seen[i].At
		}
	}
	warm, fault := r.report.FirstDue.Add(regionsWarm), r.report.FirstDue.Add(regionsFault)
	var before, after []time.Duration
	for ref, at := range first {
		switch d := due[ref]; {
		case d.Before(warm):
		case d.Before(fault):
			before = append(before, max(0, at.Sub(d)))
		default:
			after = append(after, max(0, at.Sub(d)))
		}
	}
	return HomeResult{name, check.SumLateness(before), check.SumLateness(after)}, nil
}

// measure notes what fail-overs and moves cost, and what the home without a fault noticed.
func (r regionsCourse) measure(res *RegionsResult, calls []check.Sighting) {
	homeOf := homeOfRun(r.cfg.Cluster.Shards)
	var starts []check.Sighting // of the home with the faults
	for i := range calls {
		if homeOf(calls[i].Run) == lostHome {
			starts = append(starts, calls[i])
		}
	}
	slices.SortFunc(starts, func(a, b check.Sighting) int { return a.At.Compare(b.At) })
	for _, e := range r.report.Events {
		_, to, _ := strings.Cut(e.Member, toWord)
		within := byHandWithin
		switch {
		case e.Act == ActRegionKill && r.cfg.Scenario == RegionAuto:
			to, within = otherHome, byItselfWithin
		case e.Act != ActFailOver && e.Act != ActMove:
			continue
		}
		i := slices.IndexFunc(starts, func(s check.Sighting) bool { return s.At.After(e.Began) && r.regionOf(s.From) == to })
		if i < 0 {
			r.broken("%s %s: nothing started in region %s", e.Act, e.Member, to)
			continue
		}
		took, gap := starts[i].At.Sub(e.Began), time.Duration(0)
		if i > 0 {
			gap = starts[i].At.Sub(starts[i-1].At)
		}
		r.figure(fmt.Sprintf("%s %s", e.Act, e.Member), "first start in "+to+" after %.1f s, %.1f s after the last one elsewhere", took.Seconds(), gap.Seconds())
		if e.Act != ActMove && took > within {
			r.broken("%s %s: the first start in %s came after %.1f s, of %s", e.Act, e.Member, to, took.Seconds(), within)
		}
	}
	for _, h := range res.Homes {
		r.figure("home "+h.Home, "p99 lateness %s ms before the first fault, %s ms from then on (greatest %s ms); %d and %d runs",
			number(h.Before.P99), number(h.After.P99), number(h.After.Max), h.Before.Count, h.After.Count)
		if late := untouchedLate.Seconds() * 1000; h.Home == otherHome && h.After.Max > late {
			r.broken("home %s, which had no fault: a run was %s ms late, of %s ms", h.Home, number(h.After.Max), number(late))
		}
		if h.Home == otherHome && h.After.P99 > untouchedTimes*h.Before.P99 {
			r.broken("home %s, which had no fault: p99 lateness %s ms, of %d times the %s ms of before", h.Home, number(h.After.P99), untouchedTimes, number(h.Before.P99))
		}
	}
	for _, link := range slices.Sorted(maps.Keys(res.Bytes)) {
		r.figure("link "+link, "%.1f MB", float64(res.Bytes[link])/1e6)
	}
}

func number(ms float64) string { return strconv.FormatFloat(ms, 'f', 1, 64) }

// regionsFaults names what two regions have broken.
func (r *Report) regionsFaults() []string {
	if r.Regions == nil || !r.Judged {
		return nil
	}
	var faults []string
	if n := r.Regions.Starts.Broken(); n > 0 {
		faults = append(faults, fmt.Sprintf("%d starts by a region that did not serve the home: %s", n, strings.Join(r.Regions.Starts.Examples, "; ")))
	}
	if r.Regions.Starts.Starts == 0 {
		faults = append(faults, "it is not known which region started what")
	}
	for name, of := range map[string]Report{
		"home " + otherHome: {Check: r.Regions.Other},
		"recurring jobs":    {Recurring: &RecurringResult{Check: r.Regions.Recurring}},
	} {
		for _, f := range of.verdicts() {
			faults = append(faults, name+": "+f)
		}
	}
	return faults
}
