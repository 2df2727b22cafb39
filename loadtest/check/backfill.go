package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// DefaultMaxConcurrent bounds the unfinished runs of a backfill that states nothing (the API's
// default).
const DefaultMaxConcurrent = 5

// BackfillGrace is how long after the acknowledgement of its cancel a backfill may still ask for
// runs. The step under way is completed, and a node works at one for half a minute at most.
const BackfillGrace = 30 * time.Second

// FaultCrowded: more runs of backfills were unfinished at a time than they may have together.
const FaultCrowded Kind = "crowded"

// Backfill is one request to run a stretch of a job's past again, repeated under one key until it
// was answered or abandoned.
type Backfill struct {
	Ref Ref `json:"ref"` // of the job
	// From ≤ nominal time < To, as it was asked for; To is stated, and has passed by Requested.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// MaxConcurrent as it was asked for; 0 = DefaultMaxConcurrent.
	MaxConcurrent int `json:"max_concurrent,omitempty"`
	// Requested, Acked and Refused are those of a JobEvent.
	Requested time.Time `json:"requested"`
	Acked     time.Time `json:"acked,omitzero"`
	Refused   bool      `json:"refused,omitempty"`
	// CancelRequested and CancelAcked are those of its cancel; zero = none was asked for, or not
	// answered.
	CancelRequested time.Time `json:"cancel_requested,omitzero"`
	CancelAcked     time.Time `json:"cancel_acked,omitzero"`
	// Read is the operation as it was read last; nil = it could not be read.
	Read *BackfillView `json:"read,omitempty"`
}

// BackfillView is the part of the operation that is judged; its JSON is that of the API.
type BackfillView struct {
	ID      string `json:"id"`
	State   string `json:"state"` // running, done or cancelled
	Matched int    `json:"matched"`
	Changed int    `json:"changed"`
	Failed  int    `json:"failed"`
}

// BackfillReport is the judgement on backfills. A target is a nominal time for which a backfill had
// to ask for a run: all of a complete backfill; of one that a cancel (its own or the job's) cut
// short, as many as the operation says.
//
//	Targets = Done + Missed + Unfinished + Unreadable, always
//
// Other runs of a backfill that was not cut short are unexpected in [RecurringReport], which also
// counts early ones and ghosts.
type BackfillReport struct {
	Asked        int `json:"asked"`
	Acknowledged int `json:"acknowledged"`
	Refused      int `json:"refused"`
	Cancelled    int `json:"cancelled"` // their cancel was acknowledged

	Targets int `json:"targets"`
	// Done: started and ended in succeeded or failed (DoneFailed), or cancelled with its job while
	// under way.
	Done       int `json:"done"`
	DoneFailed int `json:"done_failed"`
	Missed     int `json:"missed"`
	Unfinished int `json:"unfinished"`
	Unreadable int `json:"unreadable"`
	// Besides are runs that need not have been.
	Besides int `json:"besides"`
	// Crowded counts jobs with more unfinished runs at a time than their backfills may have
	// together; Most is the highest number.
	Crowded int `json:"crowded"`
	Most    int `json:"most"`
	// Untrue counts operations whose own account is wrong.
	Untrue int `json:"untrue"`
}

func (r *BackfillReport) failed() bool {
	return r.Missed+r.Unfinished+r.Unreadable+r.Crowded+r.Untrue > 0
}

// filled are the nominal times of one backfill, as far as they are known.
type filled struct {
	*Backfill
	schedules []*phase // of which one was in force when it was begun; nil: any
	cut       bool     // by a cancel: it need not have come to its end
}

// limit returns how many of its runs may be unfinished at a time.
func (f *filled) limit() int { return cmp.Or(f.MaxConcurrent, DefaultMaxConcurrent) }

// filledOf returns what is known of a backfill: whose schedule may have been in force, and whether
// it was cut short.
func (j *recurringJob) filledOf(b *Backfill) filled {
	f := filled{Backfill: b}
	answered := b.Acked
	if answered.IsZero() {
		answered = time.UnixMilli(never)
	}
	unclear := false
	for i := range j.phases {
		p := &j.phases[i]
		switch {
		case p.asked.After(answered):
		case p.acked.IsZero():
			unclear = true
		default:
			if !p.acked.After(b.Requested) { // it was in force by then, and nothing before it
				f.schedules, unclear = nil, false
			}
			f.schedules = append(f.schedules, p)
		}
		if p.cancels && (p.acked.IsZero() || p.acked.After(b.Requested)) {
			f.cut = true
		}
	}
	if unclear {
		f.schedules = nil
	}
	f.cut = f.cut || !b.CancelRequested.IsZero()
	return f
}

// names reports whether a nominal time may be of the backfill, and whether it surely lies in its
// stretch.
func (f *filled) names(nominal int64) (may, surely bool) {
	if f.Refused || nominal < ceilMS(f.From) || nominal >= ceilMS(f.To) {
		return false, false
	}
	if f.schedules == nil {
		return true, false
	}
	surely = true
	for _, p := range f.schedules {
		named := p.times.names(nominal)
		may, surely = may || named, surely && named
	}
	return may, surely
}

// must returns the nominal times for which it had to ask for a run, in order.
func (f *filled) must() (times []int64) {
	if f.Acked.IsZero() || len(f.schedules) == 0 {
		return nil // maybe never begun, or of times that nobody knows
	}
	f.schedules[0].times.each(ceilMS(f.From), ceilMS(f.To), func(ms int64) {
		if _, surely := f.names(ms); surely {
			times = append(times, ms)
		}
	})
	switch {
	case !f.cut:
		return times
	case f.Read == nil || len(f.schedules) > 1:
		return nil
	}
	return times[:min(f.Read.Changed, len(times))]
}

// backfills judges the backfills of a job by the runs that came of them.
func (j *recurringJudge) backfills(job *recurringJob, runs []*recurringRun, unreadable bool) {
	if len(job.asked) == 0 {
		return
	}
	all := make([]filled, len(job.asked))
	need := make(map[int64]int) // runs that there have to be, by nominal time
	for i, b := range job.asked {
		all[i] = job.filledOf(b)
		for _, nominal := range all[i].must() {
			need[nominal]++
		}
		j.truth(job, &all[i])
	}
	of := make(map[int64][]*recurringRun)
	for _, r := range runs {
		if r.shown == nil { // not in the history yet: nobody says for which time it is
			j.fills.Besides++
			j.fills.Unfinished++
			j.fills.Targets++
			j.fault(FaultUnfinished, job, r.id, "it ran, no schedule names it, and it is not in the history of its job at the last read")
			continue
		}
		of[r.nominal] = append(of[r.nominal], r)
		j.fill(job, r, all)
	}
	for _, nominal := range slices.Sorted(maps.Keys(of)) {
		may := 0
		for i := range all {
			if named, _ := all[i].names(nominal); named {
				may++
			}
		}
		j.fills.Besides += max(min(len(of[nominal]), may)-need[nominal], 0)
		for _, r := range of[nominal][min(may, len(of[nominal])):] {
			j.rep.Unexpected++
			j.fault(FaultUnexpected, job, r.id, "backfilled for %s, which %d backfills name, and %d runs are for", stamp(time.UnixMilli(nominal)), may, len(of[nominal]))
		}
	}
	for _, nominal := range slices.Sorted(maps.Keys(need)) {
		for n := range need[nominal] {
			j.fills.Targets++
			var r *recurringRun
			if n < len(of[nominal]) {
				r = of[nominal][n]
			}
			j.filling(job, nominal, r, unreadable)
		}
	}
	j.crowd(job, all, runs)
}

// filling puts a target into exactly one class of [BackfillReport]; r is its run, nil if there is
// none.
func (j *recurringJudge) filling(job *recurringJob, nominal int64, r *recurringRun, unreadable bool) {
	of := stamp(time.UnixMilli(nominal))
	missed := func(run, reason string) {
		j.fills.Missed++
		j.fault(FaultMissed, job, run, "backfill of %s: %s", of, reason)
	}
	switch {
	case unreadable:
		j.fills.Unreadable++
		j.fault(FaultUnreadable, job, "", "backfill of %s, and the history of its job could not be read twice", of)
	case r == nil:
		missed("", "no run was asked for")
	case r.obs.Second.Status != Found:
		missed(r.id, "it is gone from the history of its job")
	case r.shown.State == Succeeded && len(r.seen) == 0 && j.h.SeenAll:
		missed(r.id, "reported as succeeded, and the sink never saw it")
	case r.shown.State == Succeeded, r.shown.State == Failed && (r.started() || r.claimLost()), r.shown.State == Cancelled && job.cancelAsked():
		if j.fills.Done++; r.shown.State == Failed {
			j.fills.DoneFailed++
		}
	default:
		missed(r.id, "recorded as "+string(r.shown.State)+", and nobody asked for that")
	}
}

// cancelAsked reports whether the cancel of the job was requested.
func (j *recurringJob) cancelAsked() bool {
	return slices.ContainsFunc(j.events, func(e *JobEvent) bool { return e.Kind == JobCancelled && !e.Refused })
}

// fill judges one run of a backfill: its executions, its ends, and its start.
func (j *recurringJudge) fill(job *recurringJob, r *recurringRun, all []filled) {
	j.attempts(job, r)
	due := time.UnixMilli(r.due)
	// It is due when it is asked for: not before the first backfill that names it, nor long after
	// the cancel of the last.
	var from, until time.Time
	open := false
	for i := range all {
		f := &all[i]
		if may, _ := f.names(r.nominal); !may {
			continue
		}
		if from.IsZero() || f.Requested.Before(from) {
			from = f.Requested
		}
		open = open || f.CancelAcked.IsZero()
		if f.CancelAcked.After(until) {
			until = f.CancelAcked
		}
	}
	if from.IsZero() {
		return // none names it: unexpected
	}
	first, began := r.firstStart()
	switch {
	case due.Before(from.Truncate(time.Millisecond).Add(-j.h.Off)):
		j.rep.Early++
		j.fault(FaultEarly, job, r.id, "due %s, and its backfill was asked for %s", stamp(due), stamp(from))
	case began && first.Before(due):
		j.rep.Early++
		j.fault(FaultEarly, job, r.id, "started %s, due %s", stamp(first), stamp(due))
	case !open && due.After(until.Add(BackfillGrace)):
		j.rep.Ghosts++
		j.fault(FaultGhost, job, r.id, "due %s, the cancel of its backfill acknowledged %s", stamp(due), stamp(until))
	}
	for _, e := range job.events {
		if end := e.Acked.Add(ChangeGrace + j.h.Off); e.Kind == JobCancelled && !e.Acked.IsZero() && began && first.After(end) {
			j.rep.Ghosts++
			j.fault(FaultGhost, job, r.id, "started %s, the cancel of its job acknowledged %s", stamp(first), stamp(e.Acked))
			return
		}
	}
}

// crowd counts the unfinished runs at a time, each from its due time to its end.
func (j *recurringJudge) crowd(job *recurringJob, all []filled, runs []*recurringRun) {
	type turn struct {
		at    int64
		delta int // +1 a run, −1 its end
		room  int // of a backfill that begins
	}
	var turns []turn
	for i := range all {
		if !all[i].Refused {
			turns = append(turns, turn{at: all[i].Requested.Add(-j.h.Off).UnixMilli(), room: all[i].limit()})
		}
	}
	for _, r := range runs {
		named := slices.ContainsFunc(all, func(f filled) bool { may, _ := f.names(r.nominal); return may })
		if named && r.shown != nil && !r.shown.FinishedAt.IsZero() {
			turns = append(turns, turn{at: r.due, delta: 1}, turn{at: max(r.shown.FinishedAt.Add(-j.h.Off).UnixMilli(), r.due), delta: -1})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.room, a.room), cmp.Compare(a.delta, b.delta))
	})
	now, room, most := 0, 0, 0
	var over string
	for _, t := range turns {
		now, room = now+t.delta, room+t.room
		if most = max(most, now); now > room && over == "" {
			over = fmt.Sprintf("%d runs of backfills were unfinished at %s, of %d that may be", now, stamp(time.UnixMilli(t.at)), room)
		}
	}
	j.fills.Most = max(j.fills.Most, most)
	if over != "" {
		j.fills.Crowded++
		j.fault(FaultCrowded, job, "", "%s", over)
	}
}

// truth counts a backfill and judges its operation's account.
func (j *recurringJudge) truth(job *recurringJob, f *filled) {
	j.fills.Asked++
	switch {
	case f.Refused:
		j.fills.Refused++
		return
	case f.Acked.IsZero():
		return
	}
	j.fills.Acknowledged++
	if !f.CancelAcked.IsZero() {
		j.fills.Cancelled++
	}
	untrue := func(format string, args ...any) {
		j.fills.Untrue++
		j.fault(FaultUnexpected, job, "", "backfill from %s to %s: "+format, append([]any{stamp(f.From), stamp(f.To)}, args...)...)
	}
	if f.Read == nil {
		j.fills.Targets++
		j.fills.Unreadable++
		j.fault(FaultUnreadable, job, "", "the operation of its backfill could not be read")
		return
	}
	named := 0
	if len(f.schedules) == 1 {
		f.schedules[0].times.each(ceilMS(f.From), ceilMS(f.To), func(int64) { named++ })
	}
	switch op := f.Read; {
	case op.State == "running":
		j.fills.Targets++
		j.fills.Unfinished++
		j.fault(FaultUnfinished, job, "", "backfill from %s to %s: running at the last read", stamp(f.From), stamp(f.To))
	case len(f.schedules) == 1 && op.Matched != named:
		untrue("it says that %d times match, and the schedule names %d", op.Matched, named)
	case op.State == "cancelled" && f.CancelRequested.IsZero():
		untrue("it is cancelled, and nobody asked for that")
	case op.State == "done" && !f.cut && op.Changed != op.Matched:
		untrue("it is done, and has asked for %d runs of %d", op.Changed, op.Matched)
	case !f.CancelAcked.IsZero() && op.State != "cancelled":
		untrue("its cancel was acknowledged, and it is %s", op.State)
	}
}
