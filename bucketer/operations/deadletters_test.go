package operations

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// What is replayed and fails again lies before where the operation goes on: it is not replayed
// without end.
func TestOperationsOnDeadLetters(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 250
		began := time.Now()
		for range n {
			w.dead(callTo(time.Time{}))
			time.Sleep(time.Minute)
		}
		o := w.operations("n1")
		all := schema.OperationFilter{From: began.Add(-time.Hour), To: time.Now().Add(24 * time.Hour)}
		dry := asked(ActionReplay, all)
		dry.DryRun = true
		wantCounts(t, "a dry run", w.works(w.begin(o, dry).Operation.ID, o), schema.Progress{Matched: n})
		half := all
		half.To = began.Add(n / 2 * time.Minute)
		wantCounts(t, "discard", w.works(w.begin(o, asked(ActionDiscard, half)).Operation.ID, o), schema.Progress{Matched: n / 2, Changed: n / 2})
		wantCounts(t, "replay", w.works(w.begin(o, asked(ActionReplay, all)).Operation.ID, o), schema.Progress{Matched: n / 2, Changed: n / 2})
		wantCounts(t, "replay again", w.works(w.begin(o, asked(ActionReplay, all)).Operation.ID, o), schema.Progress{})
		if k := bucketertest.Kinds(w.Entries(10 * time.Hour)); k[schema.KindRun] != n+n/2 {
			t.Errorf("kinds = %v, want %d runs and %d replays", k, n, n/2)
		}
		synctest.Wait()
	})
}

// Whichever action it is, the letters of other tasks, and of none, are left as they are.
func TestOperationsOnDeadLettersOfOneTask(t *testing.T) {
	for action, ending := range map[string]schema.ResolutionKind{ActionReplay: schema.ResolvedReplayed, ActionDiscard: schema.ResolvedDiscarded} {
		t.Run(action, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				const n = 60
				began := time.Now()
				for _, task := range []string{"mail", "mails"} {
					if err := w.Counts.PutTask(t.Context(), schema.Task{Tenant: "t", Name: task, Work: *callTo(time.Time{}).Work, UpdatedAt: began}); err != nil {
						t.Fatal(err)
					}
				}
				tasks := make(map[schema.RunID]string)
				for i := range n {
					job := callTo(time.Time{})
					if job.Task = []string{"mail", "mails", ""}[i%3]; job.Task != "" {
						job.Work = nil
					}
					tasks[w.dead(job)] = job.Task
					time.Sleep(time.Hour) // over several days
				}
				o := w.operations("n1")
				mail := schema.OperationFilter{From: began.Add(-time.Hour), To: time.Now().Add(time.Hour), Task: "mail"}
				dry := asked(action, mail)
				dry.DryRun = true
				wantCounts(t, "a dry run", w.works(w.begin(o, dry).Operation.ID, o), schema.Progress{Matched: n / 3})
				wantCounts(t, action, w.works(w.begin(o, asked(action, mail)).Operation.ID, o), schema.Progress{Matched: n / 3, Changed: n / 3})
				became := make(map[string]map[schema.ResolutionKind]int)
				for run, task := range tasks {
					if became[task] == nil {
						became[task] = make(map[schema.ResolutionKind]int)
					}
					switch l := w.letterOf(run); {
					case l == nil:
						became[task]["gone"]++
					case l.Resolution == nil:
						became[task]["waiting"]++
					default:
						became[task][l.Resolution.Kind]++
					}
				}
				for task, want := range map[string]schema.ResolutionKind{"mail": ending, "mails": "waiting", "": "waiting"} {
					if became[task][want] != n/3 {
						t.Errorf("what became of the letters of task %q: %v, want %d %s", task, became[task], n/3, want)
					}
				}
				left := w.listed(runs.DeadLetterQuery{Tenant: "t", From: mail.From, To: mail.To}, 50)
				if len(left) != n-n/3 || slices.ContainsFunc(left, func(run schema.RunID) bool { return tasks[run] == "mail" }) {
					t.Errorf("%d letters wait, want the %d of the other tasks", len(left), n-n/3)
				}
			})
		})
	}
}

// An operation on the letters of one error leaves the others as they are, and no build that knows no
// patterns can go on with it.
func TestOperationsOnDeadLettersOfOneError(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 250
		began := time.Now()
		expired := make(map[schema.RunID]bool)
		for i := range n {
			text := fmt.Sprintf("no customer %d", 1000+i)
			if i%5 == 0 {
				text = fmt.Sprintf("card %d is expired", 1000+i)
			}
			expired[w.deadBy(callTo(time.Time{}), text)] = i%5 == 0
			time.Sleep(time.Second)
		}
		o := w.operations("n1")
		filter := schema.OperationFilter{From: began.Add(-time.Hour), To: time.Now().Add(time.Hour), ErrorPattern: "no customer <n>"}
		begun := w.begin(o, asked(ActionDiscard, filter))
		if begun.Matched != n-n/5 || !begun.All {
			t.Errorf("Begin counted %d, all %v; want %d", begun.Matched, begun.All, n-n/5)
		}
		// As a build before patterns reads it: where it goes on.
		var place runs.DeadLetterPosition
		if at := w.progress(o, begun.Operation.ID).At; at == "" || json.Unmarshal([]byte(at), &place) == nil {
			t.Errorf("the operation goes on at %q, which a build that knows no patterns can read", at)
		}
		wantCounts(t, "discard", w.works(begun.Operation.ID, o), schema.Progress{Matched: n - n/5, Changed: n - n/5})
		left := w.listed(runs.DeadLetterQuery{Tenant: "t", From: filter.From, To: filter.To}, 50)
		if len(left) != n/5 || slices.ContainsFunc(left, func(run schema.RunID) bool { return !expired[run] }) {
			t.Errorf("%d letters wait, want the %d of the other error", len(left), n/5)
		}
		synctest.Wait()
	})
}

// An operation on the letters with a text leaves the others as they are, and no build that does not
// know such a filter can go on with it, whatever else that says.
func TestOperationsOnDeadLettersWithAText(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 120
		began := time.Now()
		declined := make(map[schema.RunID]bool)
		for i := range n {
			job, text := callTo(time.Time{}), "database timeout"
			job.Labels = map[string]string{"team": "billing"}
			if i%3 == 0 {
				text = "the card was Declined"
			}
			declined[w.deadBy(job, text)] = i%3 == 0
			time.Sleep(time.Second)
		}
		o := w.operations("n1")
		filter := schema.OperationFilter{From: began.Add(-time.Hour), To: time.Now().Add(time.Hour), Error: "card was declined"}
		detailed := filter
		detailed.Label, detailed.ErrorPattern = "team=billing", "the card was Declined"
		for _, f := range []schema.OperationFilter{filter, detailed} {
			dry := asked(ActionDiscard, f)
			dry.DryRun = true
			begun := w.begin(o, dry)
			if begun.Matched != n/3 || !begun.All {
				t.Errorf("Begin of %+v counted %d, all %v; want %d", f, begun.Matched, begun.All, n/3)
			}
			var place runs.DeadLetterPosition
			for _, known := range []string{"", patternPlace, filterPlace} {
				if at := strings.TrimPrefix(w.progress(o, begun.Operation.ID).At, known); at == "" || json.Unmarshal([]byte(at), &place) == nil {
					t.Errorf("the operation goes on at %q, which a build that knows no texts can read", at)
				}
			}
			wantCounts(t, "a dry run", w.works(begun.Operation.ID, o), schema.Progress{Matched: n / 3})
		}
		wantCounts(t, "discard", w.works(w.begin(o, asked(ActionDiscard, filter)).Operation.ID, o), schema.Progress{Matched: n / 3, Changed: n / 3})
		left := w.listed(runs.DeadLetterQuery{Tenant: "t", From: filter.From, To: filter.To}, 50)
		if len(left) != n-n/3 || slices.ContainsFunc(left, func(run schema.RunID) bool { return declined[run] }) {
			t.Errorf("%d letters wait, want the %d of the other error", len(left), n-n/3)
		}
		synctest.Wait()
	})
}

// An operation on the letters of a job, or with labels, leaves the others as they are, and no build
// that knows neither can go on with it.
func TestOperationsOnDeadLettersOfOneJobOrLabel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 60
		began := time.Now()
		billing := make(map[schema.RunID]bool)
		var last schema.RunID
		for i := range n {
			job := callTo(time.Time{})
			switch i % 3 {
			case 0:
				job.Labels = map[string]string{"team": "billing", "env": "live"}
			case 1:
				job.Labels = map[string]string{"team": "billing", "env": "test"}
			}
			last = w.dead(job)
			billing[last] = i%3 == 0
			time.Sleep(time.Hour)
		}
		o := w.operations("n1")
		filter := schema.OperationFilter{From: began.Add(-time.Hour), To: time.Now().Add(time.Hour), Label: "team=billing", Labels: []string{"env=live"}}
		begun := w.begin(o, asked(ActionDiscard, filter))
		if begun.Matched != n/3 || !begun.All {
			t.Errorf("Begin counted %d, all %v; want %d", begun.Matched, begun.All, n/3)
		}
		// As builds before labels read it: with patterns, and before those.
		var place runs.DeadLetterPosition
		for _, known := range []string{"", patternPlace} {
			if at := strings.TrimPrefix(w.progress(o, begun.Operation.ID).At, known); at == "" || json.Unmarshal([]byte(at), &place) == nil {
				t.Errorf("the operation goes on at %q, which a build that knows no labels can read", at)
			}
		}
		wantCounts(t, "discard", w.works(begun.Operation.ID, o), schema.Progress{Matched: n / 3, Changed: n / 3})
		left := w.listed(runs.DeadLetterQuery{Tenant: "t", From: filter.From, To: filter.To}, 50)
		if len(left) != n-n/3 || slices.ContainsFunc(left, func(run schema.RunID) bool { return billing[run] }) {
			t.Errorf("%d letters wait, want the %d that have not both labels", len(left), n-n/3)
		}
		one := schema.OperationFilter{From: filter.From, To: filter.To, Job: schema.JobOf(last).String()}
		dry := asked(ActionReplay, one)
		dry.DryRun = true
		wantCounts(t, "a dry run", w.works(w.begin(o, dry).Operation.ID, o), schema.Progress{Matched: 1})
		wantCounts(t, "replay of one job", w.works(w.begin(o, asked(ActionReplay, one)).Operation.ID, o), schema.Progress{Matched: 1, Changed: 1})
		if l := w.letterOf(last); l == nil || l.Resolution == nil {
			t.Errorf("the letter of the job is %+v, want it replayed", l)
		}
		synctest.Wait()
	})
}
