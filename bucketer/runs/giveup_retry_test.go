package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// narrow is a store that takes rows of at most schema.MaxRow, and as many of them at once as rows
// says; 0 = any number.
type narrow struct {
	bucketer.Store
	rows int
}

func (s narrow) PutEntries(ctx context.Context, entries []schema.Entry) error {
	if s.rows > 0 && len(entries) > s.rows {
		return schema.ErrTooLarge
	}
	for i := range entries {
		if entries[i].Size() > schema.MaxRow {
			return fmt.Errorf("%s: %w", entries[i].ID, schema.ErrTooLarge)
		}
	}
	return s.Store.PutEntries(ctx, entries)
}

// largest stores a run of a job whose row is as large as rows may be.
func (w *world) largest() schema.Entry {
	w.T.Helper()
	id := schema.MakeEntryID(time.Now(), 1, schema.RandomHash())
	arg := ""
	for range 2 { // the first shows how large it is without
		e, err := schema.NewEntry(id, schema.Spec{
			Tenant: "t", Nominal: id.Time(), Accepted: time.Now().UnixMicro(), Job: schema.JobID(id),
			Work: &schema.Work{Script: &schema.ScriptTarget{Command: "x", Args: []string{arg}}},
		}, nil, time.Now().Add(7*24*time.Hour))
		if err != nil {
			w.T.Fatal(err)
		}
		if arg == "" {
			arg = strings.Repeat("a", schema.MaxRow-e.Size())
			continue
		}
		if err := w.Reader.store.PutEntries(context.Background(), []schema.Entry{e}); err != nil || e.Size() != schema.MaxRow {
			w.T.Fatalf("PutEntries of %d bytes = %v, want that %d are taken", e.Size(), err, schema.MaxRow)
		}
		return e
	}
	panic("unreachable")
}

// TestRunWhoseRetryIsTooLargeFails: it was retrying for ever, as whoever met its record tried to
// write the retry, for ever.
func TestRunWhoseRetryIsTooLargeFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.use(narrow{Store: w.Store()})
		e, other := w.largest(), callTo(time.Time{})
		small, _ := w.Row(w.submit(other))
		next := func(e schema.Entry) schema.EntryID {
			return schema.MakeEntryID(time.Now().Add(time.Minute), e.ID.Shard(), schema.RandomHash())
		}
		a := w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Error: "exit status 1", Next: next(e)})
		good := w.Recorded(small, 1, schema.Record{Outcome: schema.Failed, Next: next(small)})

		w.BefallFirst(1, "PutDeadLetters", schematest.Fault{Fail: true})
		errs := w.followUp(bucketer.Finished{Entry: e, Attempt: a}, bucketer.Finished{Entry: small, Attempt: good})
		if !errors.Is(errs[0], schema.ErrUnavailable) || errs[1] != nil {
			t.Fatalf("FollowUp without a letter = %v, want ErrUnavailable and nil", errs)
		}
		if st := schema.Judge(&e, schema.Marks{}, w.mustRun(e.ID).Attempts, nil); st.Repeat == nil || st.Repeat.Number != 1 {
			t.Errorf("after a crash before the letter: standing %+v, want that attempt 1 is followed up again", st)
		}
		for range 2 {
			time.Sleep(time.Hour)
			if errs := w.followUp(bucketer.Finished{Entry: e, Attempt: a}); errs[0] != nil {
				t.Fatalf("FollowUp again = %v", errs[0])
			}
			run := w.mustRun(e.ID)
			if run.State != schema.StateFailed || len(run.Attempts) != 2 || run.Attempts[0].Record.Error != noRetry {
				t.Errorf("the run is %s with attempts %+v, want it failed with an attempt 0 that says why", run.State, run.Attempts)
			}
			l := w.letterOf(e.ID)
			if l == nil || l.Attempts != 1 || !l.Last.Final || l.Last.Error != "exit status 1; "+noRetry {
				t.Errorf("letter = %+v, want one that says why there was no other attempt", l)
			}
			lines, err := w.Counts.JobRuns(t.Context(), schema.JobID(e.ID), schema.PeriodOf(e.Due()), schema.RunID{}, 10)
			if err != nil || len(lines) != 1 || lines[0].State != schema.StateFailed {
				t.Errorf("history = %+v, %v; want that it failed", lines, err)
			}
		}
		if got := bucketertest.Value(t, w.Recorder.metrics.retriesGivenUp); got != 2 {
			t.Errorf("given up: counted %v, want as often as it was met", got)
		}
		if _, ok := w.Row(good.Record.Next); !ok {
			t.Error("the retry of the run beside it is not there")
		}
	})
}

// TestBatchOfRetriesThatIsTooLarge: the server's bound of a batch may be lower than ours, and says
// nothing of a row.
func TestBatchOfRetriesThatIsTooLarge(t *testing.T) {
	inParts(t, schema.Settings{}, func(t *testing.T, w *world, _ *parted, runs []schema.Entry) {
		w.use(narrow{Store: w.Reader.store, rows: 1})
		var finished []bucketer.Finished
		for i, e := range runs {
			next := schema.MakeEntryID(time.Now().Add(time.Minute), e.ID.Shard(), uint64(100+i)) // #nosec G115 -- small
			finished = append(finished, bucketer.Finished{Entry: e, Attempt: w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: next})})
		}
		for i, err := range w.followUp(finished...) {
			if _, ok := w.Row(finished[i].Attempt.Record.Next); err != nil || !ok {
				t.Errorf("record %d = %v, and its retry is there: %v", i, err, ok)
			}
		}
	})
}
