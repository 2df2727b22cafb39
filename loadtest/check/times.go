package check

import (
	"fmt"
	"time"
)

// times are the nominal times of a job between two of its changes, in ms since the Unix epoch.
type times struct {
	every, anchor int64 // 0 = cron
	cron          *cron
	start, end    int64 // of the schedule: in [start, end); end 0 = none
}

func timesOf(v *JobView) (times, error) {
	t := times{every: time.Duration(v.Schedule.Every).Milliseconds(), anchor: v.Schedule.Anchor.UnixMilli()}
	if !v.Start.IsZero() {
		t.start = ceilMS(v.Start)
	}
	if !v.End.IsZero() {
		t.end = ceilMS(v.End)
	}
	switch {
	case t.every > 0 && v.Schedule.Cron == "":
		return t, nil
	case t.every == 0 && v.Schedule.Cron != "":
		var err error
		t.cron, err = parseCron(v.Schedule.Cron, v.Schedule.Timezone)
		return t, err
	}
	return t, fmt.Errorf("its schedule has neither an interval nor a cron expression")
}

// each calls visit for every nominal time in [from, to), in order.
func (t *times) each(from, to int64, visit func(ms int64)) {
	from = max(from, t.start)
	if t.end != 0 {
		to = min(to, t.end)
	}
	if t.cron != nil {
		t.cron.each(from, to, visit)
		return
	}
	k := (from - t.anchor) / t.every
	for t.anchor+k*t.every < from { // division cuts towards 0
		k++
	}
	for ; t.anchor+k*t.every < to; k++ {
		visit(t.anchor + k*t.every)
	}
}

// names reports whether ms is one of the nominal times.
func (t *times) names(ms int64) bool {
	if ms < t.start || t.end != 0 && ms >= t.end {
		return false
	}
	if t.cron != nil {
		return ms%1000 == 0 && t.cron.matches(time.UnixMilli(ms))
	}
	return (ms-t.anchor)%t.every == 0
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
