package logs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// follower goes on with a FollowLogs from wherever it was.
type follower struct {
	w     *world
	q     *logs.Query
	pos   logs.FollowPosition
	ended bool
	all   []logs.Item
	letGo int
}

func (w *world) follow(q *logs.Query) *follower {
	return &follower{w: w, q: q, pos: logs.FollowPosition{Seen: q.From}}
}

// next returns what has come since, in pages of limit.
func (f *follower) next(limit int) string {
	f.w.T.Helper()
	var came []logs.Item
	for range 1000 {
		page, next, err := f.w.e.FollowLogs(context.Background(), f.q, f.pos, limit)
		if err != nil {
			f.w.T.Fatalf("FollowLogs = %v", err)
		}
		if len(page.Items) > limit {
			f.w.T.Fatalf("FollowLogs at most %d = %d items", limit, len(page.Items))
		}
		came = append(came, page.Items...)
		f.letGo += page.Looked.LetGo
		if next == nil {
			f.ended = true
			break
		}
		f.pos = f.carried(*next)
		if !page.Looked.Behind {
			break
		}
	}
	f.all = append(f.all, came...)
	f.w.unique(f.all)
	return strings.Join(words(came), " ")
}

// carried returns a position as a cursor carries it.
func (f *follower) carried(pos logs.FollowPosition) (out logs.FollowPosition) {
	f.w.T.Helper()
	text, err := json.Marshal(pos)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil || len(text) > 5000 {
		f.w.T.Fatalf("position of %d bytes, %v", len(text), err)
	}
	return out
}

func TestFollow(t *testing.T) {
	for _, limit := range []int{1, 2, 500} {
		inWorld(t, func(t *testing.T, w *world) {
			before := w.submit("t", nil)
			w.ran(before, 1, succeeded, "before")
			time.Sleep(time.Minute)
			f := w.follow(&logs.Query{Tenant: "t", From: time.Now().Add(-10 * time.Second)})
			if got := f.next(limit); got != "" {
				t.Errorf("at first: %q", got)
			}
			e := w.submit("t", nil)
			a := w.Running(e, 1)
			w.report(&a, 1, 0, "a", "b")
			w.ran(w.submit("u", nil), 1, refused, "of another tenant")
			time.Sleep(4 * time.Second)
			if got := f.next(limit); got != "1:a 1:b" {
				t.Errorf("limit %d: of a run under way: %q", limit, got)
			}
			if got := f.next(limit); got != "" {
				t.Errorf("limit %d: once more: %q", limit, got)
			}
			w.report(&a, 2, 3, "c")
			other := w.submit("t", nil)
			w.ran(other, 1, refused, "x")
			w.ended(a, schema.Record{Outcome: schema.Failed, Error: "no route"}, 3)
			time.Sleep(4 * time.Second)
			if got := f.next(limit); got != "1:c 1-3 1!no route 1:x 1!refused" {
				t.Errorf("limit %d: later: %q", limit, got)
			}
			time.Sleep(time.Hour) // it is tried again much later
			w.ran(e, 2, succeeded, "d")
			if got := f.next(limit); got != "2:d" {
				t.Errorf("limit %d: of the next attempt: %q", limit, got)
			}
			if len(f.pos.Open) != 0 || f.ended {
				t.Errorf("limit %d: it follows %+v, ended %t; want none, and on", limit, f.pos.Open, f.ended)
			}
		})
	}
}

// TestFollowOfOneRunEnds: when the run has ended and all of it was told.
func TestFollowOfOneRunEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		e := w.submit("t", nil)
		f := w.follow(&logs.Query{Tenant: "t", Run: e.Run()})
		if got := f.next(10); got != "" || f.ended {
			t.Errorf("of a run that waits: %q, ended %t", got, f.ended)
		}
		w.ran(e, 1, refused, "a")
		if got := f.next(10); got != "1:a 1!refused" || !f.ended {
			t.Errorf("of a run that has ended: %q, ended %t", got, f.ended)
		}
	})
}

// TestFollowOfAWorkflow: its steps are found as they begin and end.
func TestFollowOfAWorkflow(t *testing.T) {
	for _, limit := range []int{1, 3, 500} {
		inWorld(t, func(t *testing.T, w *world) {
			job := w.workflow("etl", `{"steps":[{"name":"a","nats":{"subject":"a"}},{"name":"b","nats":{"subject":"b"}},{"name":"c","after":["a","b"],"nats":{"subject":"c"}}]}`)
			r, err := w.e.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
			if err != nil {
				t.Fatal(err)
			}
			f := w.follow(&logs.Query{Tenant: "t", Run: r.Run})
			var state *orchestration.State
			first := w.advance(&state, r.Run)
			if len(first) != 2 {
				t.Fatalf("%d steps start, want 2", len(first))
			}
			if got := f.next(limit); got != "" {
				t.Errorf("limit %d: at first: %q", limit, got)
			}
			a := w.Running(first[0], 1)
			w.report(&a, 1, 0, "a1")
			time.Sleep(time.Second)
			w.ran(first[1], 1, succeeded, "b1", "b2") // between two looks
			time.Sleep(time.Second)
			got := strings.Fields(f.next(limit)) // runs are mixed, each in its order
			if b := strings.Join(slices.DeleteFunc(slices.Clone(got), func(word string) bool { return word == "1:a1" }), " "); b != "1:b1 1:b2" || len(got) != 3 {
				t.Errorf("limit %d: of two steps: %q", limit, got)
			}
			w.report(&a, 2, 0, "a2")
			w.ended(a, succeeded, 2)
			if got := f.next(limit); got != "1:a2" {
				t.Errorf("limit %d: later: %q", limit, got)
			}
			time.Sleep(time.Second)
			last := w.advance(&state, r.Run, orchestration.StepEnd{Run: first[0].Run(), Succeeded: true}, orchestration.StepEnd{Run: first[1].Run(), Succeeded: true})
			w.ran(last[0], 1, succeeded, "c1")
			time.Sleep(time.Second)
			w.advance(&state, r.Run, orchestration.StepEnd{Run: last[0].Run(), Succeeded: true})
			if got := f.next(limit); got != "1:c1" || !f.ended {
				t.Errorf("limit %d: at the end: %q, ended %t", limit, got, f.ended)
			}
		})
	}
}

// TestFollowLetsGo: of too many runs under way the oldest are let go, and counted.
func TestFollowLetsGo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		f := w.follow(&logs.Query{Tenant: "t", From: time.Now().Add(-time.Second)})
		var live []schema.Attempt
		for n := range 40 {
			a := w.Running(w.submit("t", nil), 1)
			w.report(&a, 1, 0, fmt.Sprint(n))
			live = append(live, a)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(4 * time.Second)
		if got := f.next(500); len(strings.Fields(got)) != 40 || len(f.pos.Open) != 32 || f.letGo != 8 {
			t.Errorf("of 40 runs: %q, follows %d, let go %d; want all, 32 and 8", got, len(f.pos.Open), f.letGo)
		}
		for i := range live {
			w.report(&live[i], 2, 0, fmt.Sprint("more of ", i))
		}
		if got := f.next(500); strings.Count(got, "more") != 32 || strings.Contains(got, "more of 7 ") || !strings.Contains(got, "more of 8 ") {
			t.Errorf("later: %q, want the 32 newest", got)
		}
	})
}

// TestFollowOfAStepThatEndsBetweenTwoReads: after its workflow run was looked at, and before its
// own log. It is not found again.
func TestFollowOfAStepThatEndsBetweenTwoReads(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.workflow("one", `{"steps":[{"name":"a","nats":{"subject":"a"}}]}`)
		r, err := w.e.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
		if err != nil {
			t.Fatal(err)
		}
		f := w.follow(&logs.Query{Tenant: "t", Run: r.Run})
		var state *orchestration.State
		a := w.Running(w.advance(&state, r.Run)[0], 1)
		w.report(&a, 1, 0, "a1")
		if got := f.next(10); got != "1:a1" {
			t.Fatalf("of a step under way: %q", got)
		}
		listed, ended := false, false
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if listed = listed || op == "Entries"; listed && op == "EntriesByID" && !ended {
				ended = true
				w.ended(a, refused, 1)
			}
			return schematest.Fault{}
		})
		if got := f.next(10); got != "1!refused" || !ended {
			t.Errorf("of the step that ended meanwhile: %q, ended %t", got, ended)
		}
		if got := f.next(10); got != "" {
			t.Errorf("once more: %q", got)
		}
	})
}
