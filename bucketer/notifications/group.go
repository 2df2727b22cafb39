package notifications

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

const millisecond = time.Millisecond

// starValue is the value of the group of what found no place.
const starValue = "*"

// groupName returns the name of the group of a rule with those values. A rule that begins anew has
// other groups.
func groupName(r *schema.NotificationRule, values []schema.NotificationValue) string {
	parts := []string{"group", strconv.FormatInt(r.Began().UnixMicro(), 10)}
	for _, v := range values {
		parts = append(parts, v.Name, v.Value)
	}
	return fmt.Sprintf("%s/%016x", r.Name, schema.HashOf(parts...))
}

// starName returns the name of the group of a rule of what found no place.
func starName(r *schema.NotificationRule) string {
	return groupName(r, []schema.NotificationValue{{Name: starValue, Value: starValue}})
}

// group is a group in memory.
type group struct {
	row  schema.NotificationGroup // as stored; revision 0: it is not stored yet
	rule *schema.NotificationRule // nil: it was deleted, or began anew

	first    time.Time // of incidents that came after the last message; zero: there are none
	examples []schema.NotifiedRun
	jobs     map[schema.JobID]schema.NotifiedJob
	moreJobs bool
	checked  time.Time // when it was last asked whether all is well
	sent     bool      // the runs of the last message are held
}

// see notes an incident that the group takes. It may be seen before.
func (g *group) see(n *schema.Incident, kind schema.NotificationKind) {
	at := n.ID.Time().UTC()
	if !at.After(g.row.At) {
		return // it was told, or came late
	}
	if g.first.IsZero() || at.Before(g.first) {
		g.first = at
	}
	e := schema.NotifiedRun{Run: n.Run, Kind: kind, At: at, Job: n.JobName, Task: n.Task, Step: n.Step, Error: n.Error}
	if kind == schema.NotifyLate && n.Late > 0 {
		e.Error = strings.TrimSuffix("it started "+time.Duration(n.Late).Round(time.Millisecond).String()+" after its time; "+n.Error, "; ")
	}
	if !slices.ContainsFunc(g.examples, func(o schema.NotifiedRun) bool { return o.Run == e.Run }) {
		g.examples = append(g.examples, e)
		slices.SortStableFunc(g.examples, func(a, b schema.NotifiedRun) int { return b.At.Compare(a.At) })
		g.examples = g.examples[:min(len(g.examples), schema.MaxNotifiedRuns)]
	}
	if n.Job.IsZero() {
		return
	}
	if was, ok := g.jobs[n.Job]; ok || len(g.jobs) < schema.MaxNotifiedJobs {
		if at.After(was.Last) {
			g.jobs[n.Job] = schema.NotifiedJob{ID: n.Job, Name: n.JobName, Last: at}
		}
	} else {
		g.moreJobs = true
	}
}

// account counts that there are n incidents of a minute, and reports whether that is news.
func account(row *schema.NotificationGroup, minute schema.Bucket, n int64) bool {
	more := n - row.Counted[minute]
	if more <= 0 {
		return false
	}
	counted := maps.Clone(row.Counted) // the row may be shared with what is being stored
	if counted == nil {
		counted = make(map[schema.Bucket]int64)
	}
	counted[minute] = n
	row.Counted, row.Untold = counted, row.Untold+more
	return true
}

// isFiring reports whether a message told of the group, and none that it is over.
func isFiring(row *schema.NotificationGroup) bool { return !row.Since.IsZero() && !row.Resolved }

// act is what becomes of a group.
type act int

const (
	wait    act = iota // nothing
	fire               // a message tells what happened
	check              // nothing happened since the last message: is all well?
	resolve            // a message tells that all is well
	repeat             // a message tells that it still stands
	end                // it is over without a word
)

// next says what becomes of a group at now. first is the instant of the first incident that is not
// told, zero if it is not known. mute: the rule sends nothing now.
func next(row *schema.NotificationGroup, r *schema.NotificationRule, now, first time.Time, mute bool) act {
	fires := isFiring(row)
	due := row.At.Add(r.GroupInterval.Std())
	if !fires {
		if row.Untold == 0 {
			return wait
		}
		if first = earlier(row.First, first); first.IsZero() {
			first = row.At // they came late: it is long over
		}
		due = first.Add(r.GroupWait.Std())
	}
	switch {
	case now.Before(due) || mute:
		return wait
	case row.Untold > 0:
		return fire
	}
	return check
}

// earlier returns the earlier of two instants, zero if both are unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// after says what becomes of a group that fires and of which nothing happened for a group_interval:
// well says that all its jobs have succeeded since; there are none of one-off runs.
func after(row *schema.NotificationGroup, r *schema.NotificationRule, now time.Time, well bool) act {
	switch {
	case len(row.Jobs) == 0 && !row.MoreJobs:
		return end
	case well:
		return resolve
	case now.Before(row.At.Add(r.RepeatInterval.Std())):
		return wait
	}
	return repeat
}

// flushed returns the row of a group once a message was decided at now.
func (g *group) flushed(a act, now time.Time) schema.NotificationGroup {
	row := g.row
	row.At, row.Flush, row.Told, row.Silent = now.UTC().Truncate(millisecond), row.Flush+1, 0, false
	row.Sinks = len(g.rule.Sinks)
	switch a {
	case fire:
		if !isFiring(&row) {
			row.Since, row.Total, row.Jobs, row.MoreJobs = earlier(row.First, g.first), 0, nil, false
			if row.Since.IsZero() {
				row.Since = row.At
			}
		}
		row.Told, row.Untold, row.First = row.Untold, 0, time.Time{}
		row.Total += row.Told
		row.Resolved, row.Silent = false, asksOnlyRecovered(g.rule)
		row.Examples = g.examples
		row.Jobs, row.MoreJobs = g.allJobs()
	case repeat:
		row.Silent = asksOnlyRecovered(g.rule)
	case resolve:
		row.Silent = !g.rule.SendResolved && !asksRecovered(g.rule)
		row.Resolved, row.Jobs, row.MoreJobs = true, nil, false
	case end:
		row.Resolved, row.Silent = true, true
	}
	return row
}

// allJobs returns the jobs that have not succeeded since: those of the row and those that came.
func (g *group) allJobs() (jobs []schema.NotifiedJob, more bool) {
	all := make(map[schema.JobID]schema.NotifiedJob, len(g.row.Jobs))
	if isFiring(&g.row) {
		more = g.row.MoreJobs
		for _, j := range g.row.Jobs {
			all[j.ID] = j
		}
	}
	for id, j := range g.jobs {
		if was, ok := all[id]; ok && was.Last.After(j.Last) {
			continue
		}
		all[id] = j
	}
	jobs = slices.SortedFunc(maps.Values(all), func(a, b schema.NotifiedJob) int {
		if c := b.Last.Compare(a.Last); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID[:]), string(b.ID[:]))
	})
	if len(jobs) > schema.MaxNotifiedJobs {
		jobs, more = jobs[:schema.MaxNotifiedJobs], true
	}
	return jobs, more || g.moreJobs
}

// told forgets what the message has told.
func (g *group) told(row schema.NotificationGroup) {
	g.row, g.first, g.examples, g.jobs, g.moreJobs, g.sent = row, time.Time{}, nil, map[schema.JobID]schema.NotifiedJob{}, false, row.Silent
	g.checked = row.At
}

// prune returns the row without counts of minutes that nobody counts any more.
func prune(row schema.NotificationGroup, closed schema.Bucket) schema.NotificationGroup {
	counted := maps.Clone(row.Counted)
	maps.DeleteFunc(counted, func(m schema.Bucket, _ int64) bool { return m < closed })
	row.Counted = counted
	return row
}

// revised returns the row with the next revision.
func revised(row schema.NotificationGroup, now time.Time) schema.NotificationGroup {
	// Two concurrent changes must not draw the same revision: one would be taken for the other.
	row.Revision = max(row.Revision, now.UnixMicro()) + 1 + rand.Int64N(1<<20) // #nosec G404 -- not a secret
	return row
}
