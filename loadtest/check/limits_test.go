package check_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check"
)

// paced is a history of n runs of one task, due at 10 s and started at the instants given, in ms,
// of which each takes took.
func paced(t *testing.T, task string, took int, starts ...int) *world {
	t.Helper()
	var limits check.Task
	if err := json.Unmarshal([]byte(task), &limits); err != nil {
		t.Fatal(err)
	}
	w := &world{check.History{SeenAll: true, Tasks: []check.Task{limits}}}
	for i, start := range starts {
		line := i + 1
		w.Asked = append(w.Asked, check.Ask{Ref: ref(line), At: at(10_000), Task: limits.Name})
		w.Acks = append(w.Acks, check.Ack{Ref: ref(line), ID: id(line), Status: 201, At: at(100)})
		w.see(line, 1, start, 200).End = at(start + took)
		w.observe(line, check.Succeeded, attempt(1, start, start+took+1, "succeeded"))
	}
	return w
}

// evenly returns n instants from 10 s on, so many µs apart.
func evenly(n, apart int) []int {
	starts := make([]int, n)
	for i := range starts {
		starts[i] = 10_000 + i*apart/1000
	}
	return starts
}

// times returns n times the same instant.
func times(n, at int) []int { return slices.Repeat([]int{at}, n) }

// TestAQuotaIsJudgedOverAllRuns: of tasks and of none.
func TestAQuotaIsJudgedOverAllRuns(t *testing.T) {
	w := paced(t, `{"name":"a","kind":"http"}`, 1000, 10_000, 10_500, 11_400)
	w.Asked[1].Task = ""
	for quota, want := range map[int]int{2: 0, 1: 2} {
		w.Quota = quota
		rep := judge(t, w.History)
		i := slices.IndexFunc(rep.Limits, func(c check.SlotCount) bool { return c.Of == check.OfTenant })
		if i < 0 || rep.Limits[i].Over != want || rep.Limits[i].Runs != 3 || rep.Failed() != (want > 0) {
			t.Errorf("with a quota of %d Judge = %+v, failed %t, want 3 runs of which %d came beyond it", quota, rep.Limits, rep.Failed(), want)
		}
	}
}

// so 12 starts fall within the slack, and one more
const slow = `{"name":"slow","rate":"2/s","kind":"http"}`

func TestRatesAreJudged(t *testing.T) {
	rows := []struct {
		name   string
		task   string
		starts []int
		over   int
	}{
		{name: "as the rate says", task: slow, starts: evenly(200, 500_000)},
		{name: "all at one instant, as many as the slack lets", task: slow, starts: times(13, 10_000)},
		{name: "one more", task: slow, starts: times(14, 10_000), over: 1},
		{name: "many more: each that is too much counts", task: slow, starts: times(20, 10_000), over: 7},
		{name: "a burst after the rate was used up", task: slow, starts: append(evenly(100, 500_000), times(12, 59_500)...)},
		{name: "one more after it", task: slow, starts: append(evenly(100, 500_000), times(13, 59_500)...), over: 1},
		{name: "what was not used does not add up", task: slow, starts: append([]int{10_000}, times(14, 100_000)...), over: 1},
		{name: "bursts with enough between them", task: slow, starts: append(times(13, 10_000), times(12, 16_000)...)},
		{name: "bursts with less between them", task: slow, starts: append(times(13, 10_000), times(12, 15_500)...), over: 1},
		{name: "a tenth too fast: found once it adds up", task: slow, starts: evenly(250, 450_000), over: 13},
		{name: "a hundredth too fast over two hours", task: `{"name":"slow","rate":"60/m"}`, starts: evenly(7200, 990_000), over: 66},
		{name: "by the hour", task: `{"name":"slow","rate":"3600/h"}`, starts: times(8, 10_000), over: 1},
		{name: "no rate", task: `{"name":"slow"}`, starts: times(500, 10_000)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := paced(t, row.task, 1, row.starts...)
			rand.Shuffle(len(w.Seen), func(i, j int) { w.Seen[i], w.Seen[j] = w.Seen[j], w.Seen[i] })
			rep := judge(t, w.History)
			if w.Tasks[0].Rate == (check.Rate{}) {
				if len(rep.Rates) > 0 || rep.Failed() {
					t.Errorf("Judge = %+v, failed %t, want no rates", rep.Rates, rep.Failed())
				}
				return
			}
			if len(rep.Rates) != 1 || rep.Rates[0].Over != row.over || rep.Rates[0].Starts != len(row.starts) || rep.Failed() != (row.over > 0) {
				t.Fatalf("Judge = %+v, failed %t, want %d of %d starts beyond the rate", rep.Rates, rep.Failed(), row.over, len(row.starts))
			}
			if found := slices.ContainsFunc(rep.Faults, func(f check.Fault) bool { return f.Kind == check.FaultRate }); found != (row.over > 0) {
				t.Errorf("faults %v, want one about the rate: %t", rep.Faults, row.over > 0)
			}
		})
	}
}

func TestWhatCountsAsAStart(t *testing.T) {
	rows := []struct {
		name  string
		forge func(*world)
		over  int
	}{
		{"later attempts do", func(w *world) {
			w.Seen[0].Status = 500
			w.see(1, 2, 10_400, 200)
			w.both(1, func(r *check.Run) {
				r.Attempts = []check.Attempt{attempt(1, 10_000, 10_002, "failed"), attempt(2, 10_400, 10_402, "succeeded")}
			})
		}, 1},
		{"calls of an attempt that was executed twice do", func(w *world) { w.see(1, 1, 10_001, 200) }, 1},
		{"those of another task do not", func(w *world) {
			w.Asked = append(w.Asked, check.Ask{Ref: ref(90), At: at(10_000), Task: "other"})
			w.Acks = append(w.Acks, check.Ack{Ref: ref(90), ID: id(90), Status: 201, At: at(100)})
			w.succeed(90, 10_000)
		}, 0},
		{"those of a job of unknown outcome do", func(w *world) {
			w.Asked = append(w.Asked, check.Ask{Ref: ref(90), At: at(10_000), Task: "slow"})
			w.Acks = append(w.Acks, check.Ack{Ref: ref(90), Status: 503, At: at(100)})
			w.succeed(90, 10_000)
		}, 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := paced(t, slow, 1, times(13, 10_000)...)
			row.forge(w)
			if rep := judge(t, w.History); rep.Rates[0].Over != row.over || rep.Failed() != (row.over > 0) {
				t.Errorf("Judge = %+v, failed %t, want %d starts beyond the rate; faults: %v", rep.Rates, rep.Failed(), row.over, rep.Faults)
			}
		})
	}
}

func TestRatesAreSummedUp(t *testing.T) {
	// of which one was deferred by less than a tenth of a second
	starts := append(evenly(10, 500_000), 10_099, 10_100)
	rep := judge(t, paced(t, slow, 1, starts...).History)
	want := []check.RateCount{{
		Task: "slow", Rate: check.Rate{Count: 2, Per: time.Second}, Runs: 12, Starts: 12, Deferred: 10, Seconds: 4.5, Burst: 2,
	}}
	if diff := cmp.Diff(want, rep.Rates); diff != "" {
		t.Errorf("Rates (-want +got):\n%s", diff)
	}
	if got := fmt.Sprintf("%.2f", rep.Rates[0].PerSecond()); got != "2.44" {
		t.Errorf("PerSecond = %s, want 2.44: 11 starts after the first in 4.5 s", got)
	}
	var text bytes.Buffer
	if err := rep.WriteText(&text); err != nil || !strings.Contains(text.String(), "slow   2/s    12      12        10") {
		t.Errorf("WriteText = %v, want a table of rates:\n%s", err, text.String())
	}
	text.Reset()
	if err := rep.WriteJSON(&text); err != nil || !strings.Contains(text.String(), `"rate": "2/s"`) {
		t.Errorf("WriteJSON = %v, want the rate as the API writes it:\n%s", err, text.String())
	}
}

// An attempt whose process died between its record and its call arrives nowhere, and takes part of
// the rate.
func TestAttemptsThatNeverArrivedAreCounted(t *testing.T) {
	w := paced(t, slow, 1, 10_000, 20_000)
	for line := 1; line <= 2; line++ {
		w.both(line, func(r *check.Run) {
			r.Attempts = []check.Attempt{attempt(1, 10_000*line, 10_000*line+1, check.OutcomeLost), attempt(2, 10_000*line+400, 10_000*line+402, "succeeded")}
		})
	}
	w.sighting(2).Attempt = 2 // of the second run, only the second attempt arrived
	if got := judge(t, w.History).Rates[0]; got.Starts != 2 || got.Uncalled != 1 {
		t.Errorf("Rates = %+v, want 2 starts and 1 attempt that never arrived", got)
	}
}

const crew = `{"name":"crew","max_concurrent":2}`

// Runs 1 to 6 of crew, two at a time, each for a second.
func crewed(t *testing.T) *world {
	t.Helper()
	return paced(t, crew, 1000, 10_000, 10_000, 11_000, 11_000, 12_000, 12_000)
}

func TestRunsAtOnceAreJudged(t *testing.T) {
	// longer lets run 1 take until end; gone is when its caller hung up (0: it did not).
	longer := func(w *world, end, gone int, outcome check.Outcome) {
		s := w.sighting(1)
		if s.End = at(end); gone > 0 {
			s.Gone, s.Status = at(gone), 0
		}
		w.both(1, func(r *check.Run) { r.Attempts[0].Outcome = outcome })
	}
	// alone leaves run 1 and two more, which start at a given instant.
	alone := func(w *world, start int) {
		for line := 4; line <= 6; line++ {
			w.unsee(line)
			w.unobserve(line)
			w.unack(line)
		}
		w.Asked = w.Asked[:3]
		for _, line := range []int{2, 3} {
			s := w.sighting(line)
			s.At, s.End = at(start), at(start+1000)
		}
	}
	type counts struct{ Over, Doubled, Outlived, Most int }
	rows := []struct {
		name  string
		forge func(*world)
		want  counts
	}{
		{"one ends as another begins", func(*world) {}, counts{0, 0, 0, 2}},
		{"a third for a microsecond", func(w *world) { s := w.sighting(1); s.End = s.End.Add(time.Microsecond) }, counts{1, 0, 0, 3}},
		{"work whose end nobody saw", func(w *world) { s := w.sighting(6); s.End = time.Time{}; s.At = at(10_500) }, counts{2, 0, 0, 3}},
		{"the same with a gap in the record", func(w *world) { w.sighting(6).End = time.Time{}; w.SeenAll = false }, counts{0, 0, 0, 2}},
		{"a run beside itself, above the limit", func(w *world) { w.see(1, 1, 10_999, 200) }, counts{1, 1, 0, 3}},
		{"a run beside itself, within the limit", func(w *world) { alone(w, 20_000); w.see(1, 2, 10_999, 200) }, counts{0, 1, 0, 2}},
		{"a run after itself", func(w *world) { alone(w, 20_000); w.see(1, 2, 11_000, 200) }, counts{0, 0, 0, 2}},

		{"its executor died: the slot stands for 7 s", func(w *world) { alone(w, 16_999); longer(w, 20_000, 10_500, "lost") }, counts{1, 0, 1, 3}},
		{"its executor died: and no longer", func(w *world) { alone(w, 17_000); longer(w, 20_000, 10_500, "lost") }, counts{0, 0, 1, 2}},
		{"its executor died: the work was over before", func(w *world) { alone(w, 15_000); longer(w, 15_000, 10_500, "lost") }, counts{0, 0, 0, 2}},
		{"its executor died late: until it did", func(w *world) { alone(w, 18_999); longer(w, 20_000, 19_000, "lost") }, counts{1, 0, 1, 3}},
		{"its executor died late: and no longer", func(w *world) { alone(w, 19_000); longer(w, 20_000, 19_000, "lost") }, counts{0, 0, 1, 2}},
		{"its executor died, and nobody recorded that", func(w *world) { alone(w, 16_999); longer(w, 20_000, 10_500, "") }, counts{1, 0, 1, 3}},

		{"timed out: the slot is free when the caller has gone", func(w *world) { alone(w, 13_000); longer(w, 20_000, 13_000, "timed_out") }, counts{0, 0, 0, 2}},
		{"timed out: the sink noticed a little later", func(w *world) { alone(w, 12_000); longer(w, 20_000, 13_000, "timed_out") }, counts{0, 0, 0, 2}},
		{"timed out: not before", func(w *world) { alone(w, 11_999); longer(w, 20_000, 13_000, "timed_out") }, counts{1, 0, 0, 3}},
		{"the record is that of the second call under the number", func(w *world) {
			alone(w, 16_999)
			longer(w, 20_000, 10_500, "succeeded")
			w.see(1, 1, 30_000, 200)
		}, counts{1, 0, 1, 3}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := crewed(t)
			row.forge(w)
			rep := judge(t, w.History)
			c := rep.Limits[0]
			if got := (counts{c.Over, c.Doubled, c.Outlived, c.Most}); got != row.want {
				t.Errorf("Judge = %+v, want %+v; faults: %v", got, row.want, rep.Faults)
			}
			found := func(kind check.Kind) bool {
				return slices.ContainsFunc(rep.Faults, func(f check.Fault) bool { return f.Kind == kind })
			}
			if c.Twice != 0 || found(check.FaultTwice) || found(check.FaultOver) != (c.Over > 0) || c.Over > 0 && !rep.Failed() {
				t.Errorf("failed %t, faults %v, want %d beyond the limit", rep.Failed(), rep.Faults, c.Over)
			}
		})
	}
}

// TestAnExecutorWithHalfOfTheSlotsIsKilled: 20 runs of a task may be under way. Ten lines are those
// of an executor that is killed at 10.3 s, whose calls the receiver works on for 9 s; the other one
// begins ten each second, and more from a given instant on.
func TestAnExecutorWithHalfOfTheSlotsIsKilled(t *testing.T) {
	rows := []struct {
		name       string
		more, from int // so many besides, from then on, ms
		other      int // so many of another task beside them
		over, most int
	}{
		{"the other keeps to its own", 0, 0, 0, 0, 20},
		{"all slots once its session is dead", 10, 17_000, 0, 0, 20},
		{"one more than all", 11, 17_000, 0, 1, 21},
		{"one slot too soon", 1, 16_000, 0, 1, 21},
		{"all slots too soon", 10, 16_000, 0, 10, 30},
		{"runs of another task need none", 0, 0, 30, 0, 20},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			starts := times(10, 10_000)
			for at := 10_000; at < 20_000; at += 1000 {
				starts = append(starts, times(10, at)...)
			}
			starts = append(starts, times(row.more, row.from)...)
			w := paced(t, `{"name":"half","max_concurrent":20}`, 1000, starts...)
			for line := 1; line <= 10; line++ {
				s := w.sighting(line)
				s.Gone, s.End, s.Status = at(10_300), at(19_000), 0
				w.both(line, func(r *check.Run) { r.Attempts[0].Outcome = check.OutcomeLost })
				w.see(line, 2, 25_000, 200).End = at(25_500)
				w.both(line, func(r *check.Run) { r.Attempts = append(r.Attempts, attempt(2, 25_000, 25_501, "succeeded")) })
			}
			w.Tasks = append(w.Tasks, check.Task{Name: "other", MaxConcurrent: 40})
			for line := len(starts) + 1; line <= len(starts)+row.other; line++ {
				w.Asked = append(w.Asked, check.Ask{Ref: ref(line), At: at(10_000), Task: "other"})
				w.Acks = append(w.Acks, check.Ack{Ref: ref(line), ID: id(line), Status: 201, At: at(100)})
				w.see(line, 1, 10_000, 200).End = at(11_000)
				w.observe(line, check.Succeeded, attempt(1, 10_000, 11_001, "succeeded"))
			}
			rand.Shuffle(len(w.Seen), func(i, j int) { w.Seen[i], w.Seen[j] = w.Seen[j], w.Seen[i] })
			rep := judge(t, w.History)
			late := 90 + row.more // started a second or more after they were due
			want := []check.SlotCount{
				{Of: "half", Limit: 20, Runs: len(starts), Calls: len(starts) + 10, Most: row.most, Waited: late, Outlived: 10, Over: row.over},
				{Of: "other", Limit: 40, Runs: row.other, Calls: row.other, Most: row.other},
			}
			if diff := cmp.Diff(want, rep.Limits); diff != "" || rep.Failed() != (row.over > 0) {
				t.Errorf("Limits (-want +got), failed %t:\n%s\nfaults: %v", rep.Failed(), diff, rep.Faults)
			}
		})
	}
}

func TestTasksThatContradictThemselves(t *testing.T) {
	w := paced(t, slow, 1, 10_000)
	w.Tasks = append(w.Tasks, w.Tasks[0])
	if _, err := check.Judge(w.History); !errors.Is(err, check.ErrHistory) {
		t.Errorf("Judge of a task named twice = %v, want ErrHistory", err)
	}
	for _, rate := range []string{"2", "2/d", "0/s", "-1/s", "x/s", ""} {
		var task check.Task
		if err := json.Unmarshal(fmt.Appendf(nil, `{"name":"a","rate":%q}`, rate), &task); err == nil {
			t.Errorf("a task with the rate %q is read as %+v, want an error", rate, task)
		}
	}
}
