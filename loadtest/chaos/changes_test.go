package chaos

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestKnownPairsAsksWithAnswers(t *testing.T) {
	ref := func(n int) check.Ref { return check.Ref{Source: "main", Line: n} }
	got := known(
		[]check.Ask{{Ref: ref(1), At: noon.Add(time.Second)}, {Ref: ref(2)}, {Ref: ref(3), At: noon}, {Ref: ref(4), At: noon}},
		[]check.Ack{{Ref: ref(3), ID: "c", Status: 201}, {Ref: ref(2), ID: "b", Status: 201}, {Ref: ref(1), Status: 503}, {Ref: ref(1), ID: "a", Status: 200}},
	)
	want := []knownJob{{"c", noon}, {"a", noon.Add(time.Second)}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("known = %v, want %v: without the immediate one and the one that was not acknowledged", got, want)
	}
}

func TestPlanChanges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var jobs []knownJob
	for i := range 6000 {
		jobs = append(jobs, knownJob{fmt.Sprint(i), noon.Add(time.Duration(i) * 10 * time.Millisecond)})
	}
	plan := planChanges(jobs, 300, noon, 48*time.Second, rand.New(rand.NewPCG(seed, 0)))
	if len(plan) < 290 {
		t.Fatalf("planChanges of 300 = %d, want nearly all", len(plan))
	}
	due, used, moved := map[string]time.Time{}, map[string]bool{}, 0
	for _, j := range jobs {
		due[j.id] = j.due
	}
	for i, c := range plan {
		ahead := due[c.run].Sub(c.at)
		if used[c.run] || ahead < changeNear || ahead > changeFar {
			t.Errorf("change %d of run %s comes %s before it is due (used before: %t), want %s to %s, once", i, c.run, ahead, used[c.run], changeNear, changeFar)
		}
		used[c.run] = true
		if i > 0 && c.at.Before(plan[i-1].at) {
			t.Errorf("change %d is out of order", i)
		}
		if c.kind == check.Reschedule {
			moved++
			if d := c.due.Sub(c.at); d < moveNear-time.Millisecond || d > moveFar {
				t.Errorf("change %d moves a run %s ahead, want %s to %s", i, d, moveNear, moveFar)
			}
		}
	}
	if moved < len(plan)/2-10 || moved > len(plan)/2+10 {
		t.Errorf("%d of %d changes are reschedules, want half", moved, len(plan))
	}
	if got := planChanges(jobs[:3], 300, noon.Add(-time.Second), time.Second, rand.New(rand.NewPCG(seed, 0))); len(got) > 3 {
		t.Errorf("planChanges of 3 jobs = %d changes, want each job at most once", len(got))
	}
	if got := planChanges(nil, 300, noon, time.Second, rand.New(rand.NewPCG(seed, 0))); len(got) != 0 {
		t.Errorf("planChanges of no jobs = %v, want none", got)
	}
}

func TestChangesAreWrittenDownAsTheyWereAnswered(t *testing.T) {
	cancel := plannedChange{run: "r1", kind: check.Cancel}
	move := plannedChange{run: "r2", kind: check.Reschedule, due: noon}
	dead := nobody(t)
	rows := []struct {
		name    string
		change  plannedChange
		answers []int
		first   string // a node that is asked before; "" = none
		want    ChangeCount
		asked   string // last request
		lines   int
		acked   bool
		fails   bool
	}{
		{name: "a cancel", change: cancel, answers: []int{200}, want: ChangeCount{Cancels: 1}, asked: "DELETE /v1/jobs/r1", lines: 1, acked: true},
		{name: "a reschedule", change: move, answers: []int{200}, want: ChangeCount{Reschedules: 1}, asked: `PATCH /v1/jobs/r2 {"schedule":{"at":"2026-11-21T12:00:00.000Z"}}`, lines: 1, acked: true},
		{name: "refused", change: cancel, answers: []int{409}, want: ChangeCount{Refused: 1}, asked: "DELETE /v1/jobs/r1"},
		{name: "in doubt, then accepted", change: cancel, answers: []int{503, 200}, want: ChangeCount{Cancels: 1}, asked: "DELETE /v1/jobs/r1", lines: 1, acked: true},
		{name: "hung up, then refused: perhaps because of ourselves", change: cancel, answers: []int{0, 409}, want: ChangeCount{Unknown: 1}, asked: "DELETE /v1/jobs/r1", lines: 1},
		{name: "too many, then refused: never taken", change: cancel, answers: []int{429, 409}, want: ChangeCount{Refused: 1}, asked: "DELETE /v1/jobs/r1"},
		{name: "nobody there, then refused: never taken", change: cancel, first: dead, answers: []int{409}, want: ChangeCount{Refused: 1}, asked: "DELETE /v1/jobs/r1"},
		{name: "an answer that should not be", change: cancel, answers: []int{404}, asked: "DELETE /v1/jobs/r1", fails: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			n := &node{answers: row.answers}
			srv := httptest.NewServer(n)
			defer srv.Close()
			tr := &http.Transport{DisableKeepAlives: true}
			var out bytes.Buffer
			c := &changer{urls: []string{srv.URL}, http: &http.Client{Transport: tr}, out: &out}
			if row.first != "" {
				c.urls = []string{row.first, srv.URL}
			}
			row.change.at = time.Now()
			got, err := c.run(t.Context(), []plannedChange{row.change})
			if (err != nil) != row.fails || got != row.want {
				t.Errorf("run(%v) = %+v, %v, want %+v, error %t", row.change, got, err, row.want, row.fails)
			}
			if len(n.asked) == 0 || n.asked[len(n.asked)-1] != row.asked {
				t.Errorf("run(%v) asked %q, want %q at last", row.change, n.asked, row.asked)
			}
			changes, err := journal.ReadChanges(&out)
			if err != nil || len(changes) != row.lines {
				t.Fatalf("ReadChanges = %v, %v, want %d", changes, err, row.lines)
			}
			for _, ch := range changes {
				if ch.Acked.IsZero() == row.acked || ch.Requested.IsZero() || ch.Run != row.change.run || !ch.Due.Equal(row.change.due) {
					t.Errorf("wrote %+v, want the change of %+v, acknowledged %t", ch, row.change, row.acked)
				}
			}
		})
	}
}
