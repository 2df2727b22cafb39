package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// MaxAny bounds the schedules of one job.
	MaxAny = 8
	// MaxDates bounds the dates that all schedules of a job exclude, together.
	MaxDates = 500
	// maxAllDates bounds them together with the dates of their calendars, each as often as it is
	// named.
	maxAllDates = 600
	// maxWalked bounds the instants that a count of several schedules looks at one by one.
	maxWalked = 1_000_000
)

// union is the instants that any of several rhythms names, each once. There is at least one.
type union []rhythm

// compileAny reads the schedules of which a job has several, or one that leaves dates out.
func compileAny(sch schema.Schedule, drawn func(field int) uint64, faults *Faults) rhythm {
	if sch.Timezone != "" || sch.Gap != "" || sch.OverlapHour != "" || !sch.Anchor.IsZero() || len(sch.Exclude) > 0 || sch.Calendar != nil {
		faults.add("any", "must say all beside start, end and jitter")
	}
	if len(sch.Any) > MaxAny {
		faults.add("any", "must be at most %d", MaxAny)
		return nil
	}
	var u union
	dates, all := 0, 0
	for i := range sch.Any {
		var of Faults
		if len(sch.Any[i].Any) > 0 {
			of.add("any", "must not hold others")
		}
		dates += len(sch.Any[i].Exclude)
		if all += len(sch.Any[i].Exclude); sch.Any[i].Calendar != nil {
			all += len(sch.Any[i].Calendar.Dates)
		}
		u = append(u, compileOne(sch.Any[i], drawn, &of))
		*faults = append(*faults, within(&sch, i, of)...)
	}
	if dates > MaxDates {
		faults.add("any", "must exclude at most %d dates together, not %d", MaxDates, dates)
	}
	if all > maxAllDates {
		faults.add("any", "must have at most %d dates together, with those of calendars, not %d: name the calendar in fewer of them", maxAllDates, all)
	}
	if len(u) == 1 {
		return u[0]
	}
	return u
}

// within locates faults of one of the schedules of sch, as "any[1].cron". Where sch was stated as
// one schedule, they are those of that.
func within(sch *schema.Schedule, i int, of Faults) Faults {
	if !sch.Listed {
		return of
	}
	out := slices.Clone(of)
	for k := range out {
		switch f := &out[k]; f.Location {
		case "start", "end", "jitter":
		case "":
			f.Location = fmt.Sprintf("any[%d]", i)
		default:
			f.Location = fmt.Sprintf("any[%d].%s", i, f.Location)
		}
	}
	return out
}

// checkAny is Check of each of the schedules by itself: each must have a time to come, and so have
// all.
func checkAny(sch schema.Schedule, now time.Time) error {
	if _, err := Compile(sch, 0); err != nil {
		return err
	}
	var faults Faults
	for i, one := range sch.Any {
		one.Start, one.End, one.Jitter = sch.Start, sch.End, sch.Jitter
		if of, ok := Check(one, now).(Faults); ok { //nolint:errorlint // Check returns nothing else
			faults = append(faults, within(&sch, i, of)...)
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

func (u union) next(from, before int64) (first int64, found bool) {
	for _, r := range u {
		if t, ok := r.next(from, before); ok {
			first, found, before = t, true, t
		}
	}
	return first, found
}

// last returns the last instant in [from, before).
func (u union) last(from, before int64) (last int64, found bool) {
	for _, r := range u {
		if n := r.count(from, before); n > 0 {
			if t, ok := r.nth(from, before, n); ok && (!found || t > last) {
				last, found = t, true
			}
		}
	}
	return last, found
}

// count counts the instants of the densest rhythm, and of the others one by one those that no other
// names. Beyond maxWalked of these, it takes all for different.
func (u union) count(from, before int64) int64 {
	var dense int
	var most, n int64
	for i, r := range u {
		here := r.count(from, before)
		if n += here; here > most {
			dense, most = i, here
		}
	}
	if n-most > maxWalked {
		return n
	}
	n = most
	for i, r := range u {
		if i == dense {
			continue
		}
		others := slices.Concat(u[:i], u[dense:dense+1])
		for t, ok := r.next(from, before); ok; t, ok = r.next(t+1, before) {
			if _, twice := others.next(t, t+1); !twice {
				n++
			}
		}
	}
	return n
}

// nth walks over the instants.
func (u union) nth(from, before, n int64) (t int64, ok bool) {
	for t, ok = u.next(from, before); ok && n > 1; n-- {
		t, ok = u.next(t+1, before)
	}
	return t, ok
}

// shortest returns the shortest distance that one of them has by itself. Instants of two may be
// nearer.
func (u union) shortest() time.Duration {
	best := u[0].shortest()
	for _, r := range u[1:] {
		best = min(best, r.shortest())
	}
	return best
}

func (u union) describe() string {
	var words []string
	for _, r := range u {
		words = append(words, r.describe())
	}
	return strings.Join(words, "; and ")
}
