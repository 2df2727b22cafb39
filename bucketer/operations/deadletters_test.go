package operations

import (
	"slices"
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
