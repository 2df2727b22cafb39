package check

import (
	"fmt"
	"slices"
	"time"
)

// times are the nominal times of a job between two of its changes, in ms since the Unix epoch.
type times struct {
	rules      []rule
	start, end int64 // of the schedule: in [start, end); end 0 = none
}

// rule is the instants of one of the schedules of a job.
type rule struct {
	every, anchor int64 // 0 = cron
	cron          *cron
	zone          *time.Location
	exclude       []string // dates of the zone
}

func timesOf(v *JobView) (times, error) {
	var t times
	if !v.Start.IsZero() {
		t.start = ceilMS(v.Start)
	}
	if !v.End.IsZero() {
		t.end = ceilMS(v.End)
	}
	stated := v.Schedules
	if len(stated) == 0 {
		stated = []Rule{v.Schedule}
	}
	for i := range stated {
		r, err := ruleOf(&stated[i])
		if err != nil {
			return t, err
		}
		t.rules = append(t.rules, r)
	}
	return t, nil
}

func ruleOf(s *Rule) (r rule, err error) {
	r = rule{every: time.Duration(s.Every).Milliseconds(), anchor: s.Anchor.UnixMilli(), exclude: s.Exclude}
	if len(r.exclude) > 0 {
		if r.zone, err = time.LoadLocation(s.Timezone); err != nil {
			return r, fmt.Errorf("its time zone: %w", err)
		}
	}
	switch {
	case r.every > 0 && s.Cron == "":
		return r, nil
	case r.every == 0 && s.Cron != "":
		r.cron, err = parseCron(s.Cron, s.Timezone)
		return r, err
	}
	return r, fmt.Errorf("its schedule has neither an interval nor a cron expression")
}

// each calls visit for every nominal time in [from, to), once and in order.
func (t *times) each(from, to int64, visit func(ms int64)) {
	from = max(from, t.start)
	if t.end != 0 {
		to = min(to, t.end)
	}
	if len(t.rules) == 1 {
		t.rules[0].each(from, to, visit)
		return
	}
	var all []int64
	for i := range t.rules {
		t.rules[i].each(from, to, func(ms int64) { all = append(all, ms) })
	}
	slices.Sort(all)
	for _, ms := range slices.Compact(all) {
		visit(ms)
	}
}

func (r *rule) each(from, to int64, visit func(ms int64)) {
	if len(r.exclude) > 0 {
		all := visit
		visit = func(ms int64) {
			if !r.excludes(ms) {
				all(ms)
			}
		}
	}
	if r.cron != nil {
		r.cron.each(from, to, visit)
		return
	}
	k := (from - r.anchor) / r.every
	for r.anchor+k*r.every < from { // division cuts towards 0
		k++
	}
	for ; r.anchor+k*r.every < to; k++ {
		visit(r.anchor + k*r.every)
	}
}

// excludes reports whether a clock of the zone shows one of the excluded dates.
func (r *rule) excludes(ms int64) bool {
	return len(r.exclude) > 0 && slices.Contains(r.exclude, time.UnixMilli(ms).In(r.zone).Format(time.DateOnly))
}

// names reports whether ms is one of the nominal times.
func (t *times) names(ms int64) bool {
	if ms < t.start || t.end != 0 && ms >= t.end {
		return false
	}
	return slices.ContainsFunc(t.rules, func(r rule) bool {
		switch {
		case r.excludes(ms):
			return false
		case r.cron != nil:
			return ms%1000 == 0 && r.cron.matches(time.UnixMilli(ms))
		}
		return (ms-r.anchor)%r.every == 0
	})
}

// count returns how many nominal times lie in [from, to].
func (t *times) count(from, to int64) int {
	n := 0
	t.each(from, to+1, func(int64) { n++ })
	return n
}

// ceilMS returns the first ms at or after t.
func ceilMS(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}
