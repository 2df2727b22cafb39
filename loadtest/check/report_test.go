package check_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check"
)

func TestLateness(t *testing.T) {
	w := &world{check.History{SeenAll: true}}
	// 1000 runs, asked for 10,000 ms: line n is reported n ms late and seen 2n ms late.
	for n := 1; n <= 1000; n++ {
		w.Asked = append(w.Asked, check.Ask{Ref: ref(n), At: at(10_000)})
		w.Acks = append(w.Acks, check.Ack{Ref: ref(n), ID: id(n), Status: 201, At: at(0)})
		w.see(n, 1, 10_000+2*n, 200)
		if n%2 == 0 {
			w.observe(n, check.Succeeded, attempt(1, 10_000, 20_000, "succeeded"))
			w.both(n, func(r *check.Run) { r.LatenessMS = num(float64(n)) })
		} else { // worked out from the start
			w.observe(n, check.Succeeded, attempt(1, 10_000+n, 20_000, "succeeded"))
		}
	}
	rep := judge(t, w.History)
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > want/500 {
			t.Errorf("%s = %.3f ms, want %.3f", name, got, want)
		}
	}
	near("Reported.P50", rep.Reported.P50, 500)
	near("Reported.P90", rep.Reported.P90, 900)
	near("Reported.P99", rep.Reported.P99, 990)
	near("Reported.P999", rep.Reported.P999, 999)
	near("Reported.Max", rep.Reported.Max, 1000)
	near("Seen.P50", rep.Seen.P50, 1000)
	near("Seen.Max", rep.Seen.Max, 2000)
	if rep.Reported.Count != 1000 || rep.Seen.Count != 1000 {
		t.Errorf("Count = %d reported, %d seen, want 1000 of each", rep.Reported.Count, rep.Seen.Count)
	}
}

func TestLatenessIsMeasuredFromTheInstantInForce(t *testing.T) {
	one := func(forge func(*world)) *world {
		w := &world{}
		w.Asked = []check.Ask{{Ref: ref(1), At: at(10_000)}}
		w.Acks = []check.Ack{{Ref: ref(1), ID: id(1), Status: 201, At: at(100)}}
		forge(w)
		w.observe(1, check.Succeeded, attempt(1, w.ms(), w.ms()+1, "succeeded"))
		return w
	}
	move := func(due, acked int) func(*world) {
		return func(w *world) {
			w.Changes = []check.Change{{Run: id(1), Kind: check.Reschedule, Due: at(due), Requested: at(acked - 10), Acked: at(acked)}}
		}
	}
	rows := []struct {
		name  string
		forge func(*world)
		seen  int
		want  float64
	}{
		{"from the asked instant", func(*world) {}, 10_250, 250},
		{"from the acknowledgement, if that came later", func(w *world) { w.Acks[0].At = at(10_200) }, 10_250, 50},
		{"0 if it started before the acknowledgement was read", func(w *world) { w.Acks[0].At = at(10_300) }, 10_250, 0},
		{"an immediate job, from its acknowledgement", func(w *world) { w.Asked[0].At = time.Time{} }, 140, 40},
		{"from the new instant", move(20_000, 5_000), 20_250, 250},
		{"from the new and earlier instant", move(7_000, 5_000), 10_250, 3_250},
		{"from the old instant within the grace", move(20_000, 9_000), 10_250, 250},
		{"from the later of two instants in force", move(9_500, 9_000), 10_250, 250},
		{"from the acknowledgement of a reschedule into the past", move(1_000, 5_000), 5_250, 250},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := one(func(w *world) {
				row.forge(w)
				w.see(1, 1, row.seen, 200)
			})
			rep := judge(t, w.History)
			for name, l := range map[string]check.Lateness{"Seen": rep.Seen, "Reported": rep.Reported} {
				if l.Count != 1 || math.Abs(l.Max-row.want) > row.want/500 {
					t.Errorf("%s = %+v, want one of %.0f ms", name, l, row.want)
				}
			}
		})
	}
}

// ms is the arrival of the only sighting, in ms after t0.
func (w *world) ms() int { return int(w.Seen[0].At.Sub(t0).Milliseconds()) }

// Whatever is thrown at the judge, each acknowledged run is in one class, the order does not
// matter, and what is spelled out agrees with what is counted.
func TestAccountsAddUp(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	states := []check.State{
		check.Pending, check.Running, check.Retrying, check.Succeeded, check.Failed, check.Cancelled, check.Missed, "",
	}
	outcomes := []check.Outcome{"", "succeeded", "failed", "timed_out", "cancelled", "lost", "superseded"}
	for range 300 {
		w := clean()
		for range rng.IntN(12) {
			line := 1 + rng.IntN(jobs)
			ms := rng.IntN(700_000)
			switch rng.IntN(9) {
			case 0:
				w.unsee(line)
			case 1:
				w.unobserve(2)
			case 2:
				w.see(line, rng.IntN(6), ms, 200+rng.IntN(400))
			case 3:
				w.ask(line).At = at(ms)
			case 4:
				w.unack(line)
			case 5:
				w.SeenAll = !w.SeenAll
			case 6:
				w.Changes = append(w.Changes, check.Change{
					Run: id(line), Kind: []check.ChangeKind{check.Cancel, check.Reschedule}[rng.IntN(2)],
					Due: at(rng.IntN(700_000)), Requested: at(ms), Acked: at(ms + 10),
				})
			default:
				o := &w.Runs[rng.IntN(len(w.Runs))]
				for _, r := range []*check.Reading{&o.First, &o.Second} {
					r.Status = check.ReadStatus(rng.IntN(3))
					r.Run.State = states[rng.IntN(len(states))]
					r.Run.Attempts = append(r.Run.Attempts, attempt(rng.IntN(6), ms, ms+rng.IntN(50), outcomes[rng.IntN(len(outcomes))]))
				}
			}
		}
		rep := judge(t, w.History)
		classes := rep.Done + rep.Cancelled + rep.MissedByPolicy + rep.Missed + rep.Unfinished + rep.NotDue + rep.Unreadable
		if rep.Acknowledged != classes {
			t.Fatalf("Acknowledged = %d, want the sum of the classes, %d: %+v", rep.Acknowledged, classes, rep)
		}
		if rep.Asked != rep.Acknowledged+rep.Refused+rep.Unknown {
			t.Fatalf("Asked = %d, want acknowledged + refused + unknown: %+v", rep.Asked, rep)
		}
		for kind, n := range map[check.Kind]int{
			check.FaultMissed: rep.Missed, check.FaultEarly: rep.Early, check.FaultGhost: rep.Ghosts,
			check.FaultUnexpected: rep.Unexpected, check.FaultDuplicateOutcome: rep.DuplicateOutcomes,
			check.FaultUnfinished: rep.Unfinished, check.FaultUnreadable: rep.Unreadable + rep.UnreadableOthers,
		} {
			if got := countFaults(rep, kind); got != min(n, check.MaxFaults) {
				t.Fatalf("%d faults of kind %q spelled out, %d counted", got, kind, n)
			}
		}

		rng.Shuffle(len(w.Asked), func(i, j int) { w.Asked[i], w.Asked[j] = w.Asked[j], w.Asked[i] })
		rng.Shuffle(len(w.Acks), func(i, j int) { w.Acks[i], w.Acks[j] = w.Acks[j], w.Acks[i] })
		rng.Shuffle(len(w.Runs), func(i, j int) { w.Runs[i], w.Runs[j] = w.Runs[j], w.Runs[i] })
		if diff := cmp.Diff(rep, judge(t, w.History)); diff != "" {
			t.Fatalf("Judge of the same history in another order (-was +is):\n%s", diff)
		}
	}
}

func countFaults(rep check.Report, kind check.Kind) int {
	n := 0
	for _, f := range rep.Faults {
		if f.Kind == kind {
			n++
		}
	}
	return n
}

func TestFaultsAreBounded(t *testing.T) {
	w := clean()
	for n := range 3 * check.MaxFaults {
		w.observe(1000+n, check.Succeeded)
	}
	rep := judge(t, w.History)
	if rep.Unexpected != 3*check.MaxFaults {
		t.Errorf("Unexpected = %d, want %d", rep.Unexpected, 3*check.MaxFaults)
	}
	if got := countFaults(rep, check.FaultUnexpected); got != check.MaxFaults {
		t.Errorf("%d faults spelled out, want %d", got, check.MaxFaults)
	}
}

func TestReportAsText(t *testing.T) {
	w := clean()
	w.sighting(onTime).At = at(9_990)
	rep := judge(t, w.History)
	var b bytes.Buffer
	if err := rep.WriteText(&b); err != nil {
		t.Fatalf("WriteText: %v", err)
	}
	for _, want := range []string{"missed", "early                 1", "p99.9", "run-01", "s1/1", "FAILED"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("WriteText has no %q:\n%s", want, b.String())
		}
	}
	if testing.Verbose() {
		t.Logf("\n%s", b.String())
	}
}

func TestReportAsJSON(t *testing.T) {
	rep := judge(t, clean().History)
	var b bytes.Buffer
	if err := rep.WriteJSON(&b); err != nil {
		t.Fatalf("WriteJSON: %v", err)
	}
	var got struct {
		check.Report
		Failed *bool `json:"failed"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("Unmarshal: %v", err)
	}
	if diff := cmp.Diff(rep, got.Report); diff != "" {
		t.Errorf("report read back (-wrote +read):\n%s", diff)
	}
	if got.Failed == nil || *got.Failed {
		t.Errorf("failed = %v, want false", got.Failed)
	}
}

func TestParseRef(t *testing.T) {
	rows := []struct {
		path string
		want check.Ref
		ok   bool
	}{
		{"/s1/42", check.Ref{Source: "s1", Line: 42}, true},
		{"/hook/s1/42", check.Ref{Source: "s1", Line: 42}, true},
		{"s1/42", check.Ref{Source: "s1", Line: 42}, true},
		{"", check.Ref{}, false},
		{"/", check.Ref{}, false},
		{"/42", check.Ref{}, false},
		{"/s1/0", check.Ref{}, false},
		{"/s1/x", check.Ref{}, false},
	}
	for _, row := range rows {
		t.Run(row.path, func(t *testing.T) {
			if got, ok := check.ParseRef(row.path); got != row.want || ok != row.ok {
				t.Errorf("ParseRef(%q) = %+v, %t, want %+v, %t", row.path, got, ok, row.want, row.ok)
			}
		})
	}
}

func BenchmarkJudge(b *testing.B) {
	w := &world{check.History{SeenAll: true}}
	for n := 1; n <= 100_000; n++ {
		w.Asked = append(w.Asked, check.Ask{Ref: ref(n), At: at(10_000)})
		w.Acks = append(w.Acks, check.Ack{Ref: ref(n), ID: id(n), Status: 201, At: at(0)})
		w.succeed(n, 10_000+n%100)
	}
	for b.Loop() {
		if _, err := check.Judge(w.History); err != nil {
			b.Fatal(err)
		}
	}
}
