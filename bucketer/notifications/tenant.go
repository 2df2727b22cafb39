package notifications

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// An incident may be written runs.incidentLate after its minute, and its write may take its
	// time. A minute is counted again as a whole recountAfter its end, and for the last time
	// closeAfter.
	recountAfter = 90 * time.Second
	closeAfter   = 10 * time.Minute
	// ahead is how far the clocks of others may be ahead of ours: incidents lie in minutes to come.
	ahead = 10 * time.Second
	// readFor is how long after its end a minute is read on until it is counted again.
	readFor = 15 * time.Second
	// incidentPage bounds the incidents of one read.
	incidentPage = 250
	// groupPage bounds the groups of one read.
	groupPage = 1000
	// restFactor is how much longer than a page the rest after it is, restMost bounds it: 100,000
	// incidents are read well within stepTimeout.
	restFactor = 3
	restMost   = 25 * time.Millisecond
	// cursorEvery is how often it is written how far minutes are closed.
	cursorEvery = 5 // minutes
	// historyRead is how many lines of a job's history are read at once to look for a success. The
	// search ends once so many were of runs that had ended.
	historyRead = 50
	// historyReads bounds the reads for that of a period: many runs may be listed that wait, or
	// that repeat others.
	historyReads = 20
	// resendWithin is how old a message may be whose runs a new owner looks for.
	resendWithin = 30 * time.Minute
	// maxFaults bounds the groups that fail in a step, before the others are left for the next one.
	maxFaults = 10
	// nothingFor is how long a tenant without rules and groups is left alone.
	nothingFor = 15 * time.Second
)

// minute is what was counted of a minute.
type minute struct {
	counts    map[string]int64 // by group
	after     schema.EntryID   // read up to here
	recounted bool
	again     *minute // it is being counted again; nil: it is not
}

// tenant is what an owner remembers of a tenant. One goroutine at a time works on it.
type tenant struct {
	n    *Notifier
	name string

	loaded  bool
	rules   map[string]*schema.NotificationRule
	mute    map[string]bool // rules that send nothing in this step
	groups  map[string]*group
	minutes map[schema.Bucket]*minute
	unread  map[string]bool          // names of rows of groups that cannot be understood
	cursor  schema.NotificationGroup // how far minutes are closed, as stored
	closed  schema.Bucket            // minutes before it are closed
	idle    time.Time                // nothing is done before
}

func newTenant(n *Notifier, name string) *tenant { return &tenant{n: n, name: name} }

// step reads what came, counts it, and sends what is due. After an error the next step goes on, or
// begins with what is stored.
func (t *tenant) step(ctx context.Context, now time.Time) (err error) {
	if now.Before(t.idle) {
		return nil
	}
	defer func() {
		if errors.Is(err, schema.ErrConflict) || errors.Is(err, schema.ErrUnknown) {
			t.loaded = false // another owner has written, or we do not know what stands
		}
	}()
	if err := t.readRules(ctx); err != nil {
		return err
	}
	if !t.loaded {
		if err := t.load(ctx, now); err != nil {
			return err
		}
	}
	if len(t.rules) == 0 && len(t.groups) == 0 {
		t.loaded, t.idle = false, now.Add(nothingFor)
		return nil
	}
	if err := t.count(ctx, now); err != nil {
		return err
	}
	t.mute = make(map[string]bool)
	for name, r := range t.rules {
		t.mute[name] = len(r.Mute) > 0 && isMute(r, now)
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(t.groups)) {
		err := t.advance(ctx, t.groups[name], now)
		if err != nil {
			faults = append(faults, fmt.Errorf("group %s: %w", name, err))
		}
		if len(faults) == maxFaults || errors.Is(err, schema.ErrConflict) || errors.Is(err, schema.ErrUnknown) || ctx.Err() != nil {
			break // the store is in trouble, or groups are others than we think
		}
	}
	return errors.Join(faults...)
}

// readRules reads the rules, and finds those of the groups.
func (t *tenant) readRules(ctx context.Context) error {
	all, err := t.n.rules.of(ctx, t.name)
	if err != nil {
		return err
	}
	t.rules = make(map[string]*schema.NotificationRule, len(all))
	for i := range all {
		if all[i].Fault == nil {
			t.rules[all[i].Name] = &all[i]
		}
	}
	for _, g := range t.groups {
		t.ruleOf(g)
	}
	return nil
}

func (t *tenant) ruleOf(g *group) {
	if g.rule = t.rules[g.row.Rule]; g.rule != nil && !g.rule.Began().Equal(g.row.RuleAt) {
		g.rule = nil
	}
}

// load reads the groups and how far minutes are closed. All that is not closed is counted again.
func (t *tenant) load(ctx context.Context, now time.Time) error {
	t.groups, t.minutes, t.unread = make(map[string]*group), make(map[schema.Bucket]*minute), make(map[string]bool)
	t.cursor = schema.NotificationGroup{Tenant: t.name, Name: schema.NotificationCursor}
	for after := ""; ; {
		page, err := t.n.store.NotificationGroups(ctx, t.name, after, groupPage)
		if err != nil {
			return err
		}
		for i := range page {
			row := page[i]
			switch {
			case row.Fault != nil:
				t.unread[row.Name] = true
			case strings.HasPrefix(row.Name, schema.NotificationCursor):
				if row.Closed >= t.cursor.Closed {
					t.cursor = row
				}
			default:
				g := t.add(row)
				g.sent = row.Flush == 0 || row.Silent || now.Sub(row.At) > resendWithin
			}
		}
		if len(page) < groupPage {
			break
		}
		after = page[len(page)-1].Name
	}
	if t.cursor.Name = t.readable(t.cursor.Name); t.cursor.Revision == 0 && len(t.unread) > 0 {
		t.cursor.Closed = schema.BucketOf(now.Add(-closeAfter)) // what was before it is taken for counted
	}
	// What is older than the retention of incidents is not there any more, and no rule takes what
	// was before it.
	t.closed = max(t.cursor.Closed, schema.BucketOf(now.Add(-schema.IncidentRetention)))
	oldest := now
	for _, r := range t.rules {
		oldest = earlier(oldest, r.Began())
	}
	t.closed = max(t.closed, schema.BucketOf(oldest))
	t.loaded = true
	return nil
}

// readable returns a name of a row that is not one that cannot be understood. Such a row may be of
// a newer version: it stays as it is, and what it counted is counted in another one.
func (t *tenant) readable(name string) string {
	for t.unread[name] {
		name += "+"
	}
	return name
}

func (t *tenant) add(row schema.NotificationGroup) *group {
	g := &group{row: row, jobs: make(map[schema.JobID]schema.NotifiedJob), sent: true, checked: row.At}
	t.ruleOf(g)
	t.groups[row.Name] = g
	return g
}

// count reads the minutes that are not closed, and closes those that are old.
func (t *tenant) count(ctx context.Context, now time.Time) error {
	for m := t.closed; m <= schema.BucketOf(now.Add(ahead)); m++ {
		if t.minutes[m] == nil {
			t.minutes[m] = &minute{counts: make(map[string]int64)}
		}
		over := now.Sub(m.Start().Add(schema.BucketSpan))
		switch c := t.minutes[m]; {
		case over >= closeAfter:
			if err := t.recount(ctx, m); err != nil {
				return err
			}
			if err := t.closeMinute(ctx, m, now); err != nil {
				return err
			}
		case over >= recountAfter && !c.recounted:
			if err := t.recount(ctx, m); err != nil {
				return err
			}
		case over <= readFor:
			if err := t.read(ctx, m, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// recount reads a minute from its beginning.
func (t *tenant) recount(ctx context.Context, m schema.Bucket) error {
	was := t.minutes[m]
	if was.again == nil {
		was.again = &minute{counts: make(map[string]int64), recounted: true}
	}
	if err := t.read(ctx, m, was.again); err != nil {
		return err // the next step goes on where this one ended
	}
	t.minutes[m] = was.again
	return nil
}

// read counts the incidents of a minute from where the last read ended. It rests between pages, so
// that it leaves room for what runs beside it: there is no hurry.
func (t *tenant) read(ctx context.Context, m schema.Bucket, c *minute) error {
	for {
		began := time.Now()
		page, err := t.n.store.Incidents(ctx, t.name, m, c.after, incidentPage)
		if err != nil {
			return err
		}
		for i := range page {
			for _, rule := range t.rules {
				if kind, ok := takes(rule, &page[i]); ok {
					g := t.groupOf(rule, &page[i], kind, m)
					c.counts[g.row.Name]++
					g.see(&page[i], kind)
				}
			}
			c.after = page[i].ID
		}
		if len(page) < incidentPage {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(restFactor*time.Since(began), restMost)):
		}
	}
}

// groupOf returns the group of a rule that takes an incident of a minute.
func (t *tenant) groupOf(r *schema.NotificationRule, n *schema.Incident, kind schema.NotificationKind, m schema.Bucket) *group {
	values := valuesOf(r, n, kind)
	name, star := t.readable(groupName(r, values)), t.readable(starName(r))
	own, rest := t.groups[name], t.groups[star]
	inRest := rest != nil && rest.row.Counted[m] > 0
	switch {
	case own != nil && (own.row.Counted[m] > 0 || !inRest):
		return own
	case rest != nil && inRest:
		return rest
	case len(t.groups) < schema.MaxNotificationGroups:
	case rest != nil:
		return rest
	default:
		name, values = star, []schema.NotificationValue{{Name: starValue, Value: starValue}}
	}
	return t.add(schema.NotificationGroup{Tenant: t.name, Name: name, Rule: r.Name, RuleAt: r.Began(), Values: values})
}

// closeMinute writes into the groups what was counted of a minute, and forgets it. Nobody counts it
// any more.
func (t *tenant) closeMinute(ctx context.Context, m schema.Bucket, now time.Time) error {
	for name, n := range t.minutes[m].counts {
		g := t.groups[name]
		if row := g.row; account(&row, m, n) {
			if !isFiring(&row) {
				row.First = earlier(row.First, g.first) // its group_wait goes on from there
			}
			if err := t.swap(ctx, g, row, now); err != nil {
				return err
			}
		}
	}
	delete(t.minutes, m)
	t.closed = m + 1
	if t.closed < t.cursor.Closed+cursorEvery {
		return nil
	}
	row := revised(t.cursor, now)
	row.Closed = t.closed
	if err := t.n.store.SwapNotificationGroup(ctx, t.cursor.Revision, row); err != nil {
		return err
	}
	t.cursor = row
	return nil
}

// swap replaces the row of a group.
func (t *tenant) swap(ctx context.Context, g *group, row schema.NotificationGroup, now time.Time) error {
	row = revised(prune(row, t.cursor.Closed), now)
	if err := t.n.store.SwapNotificationGroup(ctx, g.row.Revision, row); err != nil {
		return err
	}
	g.row = row
	return nil
}

// advance does what is due for a group.
func (t *tenant) advance(ctx context.Context, g *group, now time.Time) error {
	if g.rule == nil {
		if err := t.sendByAnother(ctx, g); err != nil {
			return err
		}
		return t.drop(ctx, g)
	}
	if err := t.send(ctx, g); err != nil {
		return err
	}
	row := g.row
	for m, c := range t.minutes {
		account(&row, m, c.counts[g.row.Name])
	}
	a := next(&row, g.rule, now, g.first, t.mute[g.row.Rule])
	if a == check {
		if now.Before(g.checked.Add(g.rule.GroupInterval.Std())) {
			return nil
		}
		well, err := t.isWell(ctx, g)
		if err != nil {
			return err
		}
		g.checked = now
		a = after(&row, g.rule, now, well)
	}
	if a == wait {
		if !isFiring(&row) && row.Untold == 0 && len(prune(row, t.cursor.Closed).Counted) == 0 && !t.counts(g) {
			return t.drop(ctx, g)
		}
		return nil
	}
	counted := *g
	counted.row = row
	is := counted.flushed(a, now)
	is.Shard = t.shard(&is)
	if err := t.swap(ctx, g, is, now); err != nil {
		return err
	}
	g.told(g.row)
	return t.send(ctx, g)
}

// shard returns where the runs of a message lie, 0 while that is not known.
func (t *tenant) shard(row *schema.NotificationGroup) schema.Shard {
	settings, err := t.n.core.InForce()
	if err != nil {
		return row.Shard
	}
	return t.n.rules.shardOf(row, settings.Shards)
}

// counts reports whether incidents of the group lie in minutes that are not closed.
func (t *tenant) counts(g *group) bool {
	for _, c := range t.minutes {
		if c.counts[g.row.Name] > 0 {
			return true
		}
	}
	return false
}

// send writes the runs of the last message, unless they are held.
func (t *tenant) send(ctx context.Context, g *group) error {
	if g.sent {
		return nil
	}
	if _, err := t.n.rules.send(ctx, &g.row, g.rule, false); err != nil {
		return err
	}
	g.sent = true
	return nil
}

// sendByAnother writes the runs of the last message of a group whose rule began anew, unless they
// are held: to the sinks that the rule has now. A deleted rule has none.
func (t *tenant) sendByAnother(ctx context.Context, g *group) error {
	rule := t.rules[g.row.Rule]
	if g.sent || rule == nil {
		return nil
	}
	_, err := t.n.rules.send(ctx, &g.row, rule, false)
	return err
}

// drop removes a group of which there is nothing more to tell.
func (t *tenant) drop(ctx context.Context, g *group) error {
	if g.row.Revision > 0 {
		if err := t.n.store.DeleteNotificationGroup(ctx, t.name, g.row.Name, g.row.Revision); err != nil {
			return err
		}
	}
	delete(t.groups, g.row.Name)
	for _, c := range t.minutes {
		for ; c != nil; c = c.again {
			delete(c.counts, g.row.Name)
		}
	}
	return nil
}

// isWell reports whether each job of a group has succeeded since its last incident.
func (t *tenant) isWell(ctx context.Context, g *group) (bool, error) {
	if g.row.MoreJobs {
		return false, nil
	}
	for _, j := range g.row.Jobs {
		well, err := t.hasSucceeded(ctx, j)
		if err != nil || !well {
			return false, err
		}
	}
	return true, nil
}

// hasSucceeded reports whether a run of the job succeeded after its last incident, as its history
// says.
func (t *tenant) hasSucceeded(ctx context.Context, j schema.NotifiedJob) (bool, error) {
	now := t.n.core.Now()
	for period := schema.PeriodOf(now); period >= schema.PeriodOf(now)-1; period-- {
		var before schema.RunID
		for ended, reads := 0, 0; ended < historyRead && reads < historyReads; reads++ {
			lines, err := t.n.store.JobRuns(ctx, j.ID, period, before, historyRead)
			if err != nil {
				return false, fmt.Errorf("history of job %s: %w", j.ID, err)
			}
			for i := range lines {
				line := &lines[i]
				if line.State == schema.StateSucceeded && line.Finished.After(j.Last) {
					return true, nil
				}
				if before = line.Run; line.State != schema.StatePending {
					ended++
				}
			}
			if len(lines) < historyRead {
				break
			}
		}
	}
	return false, nil
}
