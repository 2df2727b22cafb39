package search_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/search"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an Engine on a store in memory. The test stands for executors.
type world struct {
	*bucketertest.World
	e *engine.Engine
}

const shards = 4

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: bucketertest.NewWorld(t, schema.Settings{Shards: shards})}
		var err error
		if w.e, err = engine.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w}); err != nil {
			t.Fatal(err)
		}
		if err := w.e.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, w)
	})
}

// submit makes a one-off job of a tenant whose payload is its name, due in so long.
func (w *world) submit(tenant, name string, in time.Duration, change func(*bucketer.Job)) schema.Entry {
	w.T.Helper()
	job := bucketer.Job{Tenant: tenant, Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}, Payload: []byte(`"` + name + `"`)}
	if in > 0 {
		job.At = time.Now().Add(in)
	}
	if change != nil {
		change(&job)
	}
	r, err := w.e.Submit(context.Background(), job)
	if err != nil {
		w.T.Fatalf("Submit = %v", err)
	}
	e, ok := w.Row(r.Run)
	if !ok {
		w.T.Fatalf("run %s is not there", r.Run)
	}
	return e
}

// fails has a run fail for good, with what follows.
func (w *world) fails(e schema.Entry, text string) {
	w.T.Helper()
	a := w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Final: true, Error: text})
	w.e.FollowUp(context.Background(), []bucketer.Finished{{Entry: e, Attempt: a}}, func(_ int, err error) {
		if err != nil {
			w.T.Fatalf("FollowUp = %v", err)
		}
	})
}

// day asks for all of the tenant "t" that was due within a day.
func day() *search.Query {
	now := time.Now()
	return &search.Query{Window: runs.Window{Tenant: "t", From: now.Add(-24 * time.Hour), To: now.Add(time.Second)}}
}

func nameOf(r *runs.Run) string { return strings.Trim(string(r.Current.Payload), `"`) }

// search returns the names of all that q finds, in pages of limit, and how far it came in all. It
// checks that every page comes further.
func (w *world) search(q *search.Query, limit int) (string, search.Searched) {
	w.T.Helper()
	var pos search.Position
	var names []string
	var sum search.Searched
	for range 10_000 {
		page, searched, next, err := w.e.SearchRuns(context.Background(), q, pos, limit)
		if err != nil {
			w.T.Fatalf("SearchRuns = %v", err)
		}
		if len(page) > limit {
			w.T.Fatalf("SearchRuns at most %d = %d runs", limit, len(page))
		}
		for i := range page {
			names = append(names, nameOf(&page[i]))
		}
		later := searched.Until.Before(sum.Until)
		if q.Oldest {
			later = searched.Until.After(sum.Until)
		}
		if !sum.Until.IsZero() && !later && !searched.Until.Equal(sum.Until) {
			w.T.Errorf("SearchRuns has come to %v, and before to %v", searched.Until, sum.Until)
		}
		searched.Partitions += sum.Partitions
		if sum = searched; next == nil {
			return strings.Join(names, " "), sum
		}
		if *next == pos {
			w.T.Fatalf("SearchRuns from %+v goes on from there", pos)
		}
		pos = *next
	}
	w.T.Fatal("SearchRuns: no end after 10,000 pages")
	panic("unreachable")
}

// TestSearchGoesFromMinuteToMinute: the newest first, or the oldest, whatever the size of the
// pages, each run once.
func TestSearchGoesFromMinuteToMinute(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		time.Sleep(30 * time.Second) // not at a minute's begin
		w.submit("t", "a", 0, nil)
		time.Sleep(time.Millisecond)
		w.submit("t", "b", 0, nil)
		w.submit("u", "other", 0, nil)
		time.Sleep(5 * time.Hour)
		w.submit("t", "c", 0, nil)
		w.submit("t", "later", time.Hour, nil)
		time.Sleep(time.Minute)
		w.submit("t", "d", 0, nil)
		time.Sleep(time.Second)
		for oldest, want := range map[bool]string{false: "d c a b", true: "a b c d"} {
			for _, limit := range []int{1, 2, 3, 500} {
				q := day()
				q.From, q.Oldest = q.To.Add(-6*time.Hour), oldest
				end := q.From
				if oldest {
					end = q.To
				}
				got, searched := w.search(q, limit)
				if got != want || searched.By != search.ByScan || !searched.Until.Equal(end) {
					t.Errorf("in pages of %d: %q by %+v, want %q up to %v", limit, got, searched, want, end)
				}
			}
		}
	})
}

func TestSearchSelects(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fails(w.submit("t", "a", 0, func(j *bucketer.Job) { j.Labels, j.CreatedBy = map[string]string{"team": "a"}, "ci" }), "No route to host")
		time.Sleep(time.Minute)
		b := w.submit("t", "b", 0, func(j *bucketer.Job) { j.Labels = map[string]string{"team": "b"} })
		w.Recorded(b, 1, schema.Record{Outcome: schema.Failed, Error: "no route"})
		w.Recorded(b, 2, schema.Record{Outcome: schema.Succeeded})
		time.Sleep(time.Minute)
		c := w.submit("t", "c", 0, nil)
		w.Recorded(c, 1, schema.Record{Outcome: schema.Failed, Error: "no route"})
		w.Recorded(c, 2, schema.Record{Outcome: schema.Failed, Final: true, Error: "refused"})
		time.Sleep(time.Minute)
		spec := schema.JobSpec{Tenant: "t", Name: "j", Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}, Schedule: &schema.Schedule{Every: schema.Duration(time.Hour)}, Payload: []byte(`"job"`)}
		job, _, err := w.e.CreateJob(t.Context(), spec, "", "")
		if err == nil {
			_, err = w.e.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
		}
		if err != nil {
			t.Fatal(err)
		}
		w.submit("t", "soon", time.Minute, nil)
		time.Sleep(time.Second)
		for name, row := range map[string]struct {
			change func(q *search.Query)
			want   string
		}{
			"all":                 {func(*search.Query) {}, "job c b a"},
			"a label":             {func(q *search.Query) { q.Labels = map[string]string{"team": "a"} }, "a"},
			"one-off jobs":        {func(q *search.Query) { q.OneOff = true }, "c b a"},
			"who made it":         {func(q *search.Query) { q.CreatedBy = "ci" }, "a"},
			"an error":            {func(q *search.Query) { q.Error = "NO route" }, "b a"},
			"an error that ended": {func(q *search.Query) { q.Error, q.States = "no route", []schema.State{schema.StateSucceeded} }, "b"},
			"an error of none":    {func(q *search.Query) { q.Error = "none" }, ""},
			"in words of ours": {func(q *search.Query) {
				q.Error, q.Says = "it refused", func(r *schema.Record) string { return "it " + r.Error }
			}, "c"},
			"what comes":           {func(q *search.Query) { q.To = q.To.Add(10 * time.Minute) }, "soon job c b a"},
			"what comes has none":  {func(q *search.Query) { q.To, q.Error = q.To.Add(10*time.Minute), "r" }, "c b a"},
			"nothing of the other": {func(q *search.Query) { q.Tenant = "u" }, ""},
		} {
			for _, limit := range []int{1, 500} {
				q := day()
				q.From = q.To.Add(-time.Hour)
				row.change(q)
				if got, _ := w.search(q, limit); got != row.want {
					t.Errorf("%s, in pages of %d: %q, want %q", name, limit, got, row.want)
				}
			}
		}
	})
}

// TestFailedRunsAreFoundByDeadLetters: no partition of the window is scanned for them.
func TestFailedRunsAreFoundByDeadLetters(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var resolved schema.RunID
		for n := range 130 { // more than a page of letters
			e := w.submit("t", fmt.Sprint(n), 0, func(j *bucketer.Job) { j.Labels = map[string]string{"odd": fmt.Sprint(n % 2)} })
			w.fails(e, fmt.Sprint("error ", n))
			if n == 3 {
				resolved = e.Run()
			}
			w.fails(w.submit("u", "other", 0, nil), "error 1")
			time.Sleep(time.Second)
			if n == 64 {
				time.Sleep(20 * time.Hour)
			}
		}
		if _, err := w.e.Discard(t.Context(), "t", resolved, ""); err != nil {
			t.Fatal(err)
		}
		ended := w.submit("t", "well", 0, nil)
		w.Recorded(ended, 1, schema.Record{Outcome: schema.Succeeded})
		var want []string
		for n := 129; n >= 0; n-- {
			want = append(want, fmt.Sprint(n))
		}
		failed := func() *search.Query {
			q := day()
			q.States = []schema.State{schema.StateFailed}
			return q
		}
		for _, limit := range []int{1, 7, 100, 500} {
			w.Counts.Reset()
			q := failed()
			got, searched := w.search(q, limit)
			if got != strings.Join(want, " ") || searched.By != search.ByFailed || !searched.Until.Equal(q.From) {
				t.Errorf("in pages of %d: %q by %+v, want all, the newest first", limit, got, searched)
			}
			if n := w.Counts.Tally("Entries").Calls; n > 0 {
				t.Errorf("in pages of %d: %d scans of partitions", limit, n)
			}
		}
		q := failed()
		q.Error, q.Labels = "ERROR 12", map[string]string{"odd": "1"}
		if got, _ := w.search(q, 2); got != "129 127 125 123 121" {
			t.Errorf("by label and error: %q", got)
		}
		q = failed()
		q.To = q.To.Add(-time.Hour)
		q.From = q.To.Add(-time.Hour)
		if got, _ := w.search(q, 2); got != "" {
			t.Errorf("of an hour without runs: %q", got)
		}
		// What dead letters do not tell is scanned for.
		for name, change := range map[string]func(q *search.Query){
			"two states":           func(q *search.Query) { q.States = append(q.States, schema.StateMissed) },
			"the oldest first":     func(q *search.Query) { q.Oldest = true },
			"before they are kept": func(q *search.Query) { q.From = q.From.Add(-schema.DeadLetterRetention) },
		} {
			q := failed()
			change(q)
			_, searched, _, err := w.e.SearchRuns(t.Context(), q, search.Position{}, 1)
			if err != nil || searched.By != search.ByScan {
				t.Errorf("%s: by %+v, %v; want a scan", name, searched, err)
			}
		}
	})
}

// TestASearchIsBounded: an answer looks into no more partitions than it may, all of a node into no
// more a second than they may, and none takes much longer than it may.
func TestASearchIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.submit("t", "a", 0, nil)
		time.Sleep(23 * time.Hour)
		w.Counts.Reset()
		_, searched, next, err := w.e.SearchRuns(t.Context(), day(), search.Position{}, 500)
		if err != nil || next == nil {
			t.Fatalf("SearchRuns = %v, %v; want a position", next, err)
		}
		if n := w.Counts.Tally("Entries").Calls; n > 2048 || n < 1000 || searched.Partitions != n {
			t.Errorf("SearchRuns looked into %d partitions, and says %d; want at most 2048", n, searched.Partitions)
		}
		time.Sleep(time.Minute)
		began := time.Now()
		got, searched := w.search(day(), 500)
		took := time.Since(began)
		if got != "a" || searched.Partitions < 23*60*shards {
			t.Errorf("SearchRuns = %q, %+v", got, searched)
		}
		if least := time.Duration(searched.Partitions-schema.MaxShards) * time.Second / 2000; least <= 0 || took < least-10*time.Millisecond {
			t.Errorf("%d partitions took %v, want at least %v", searched.Partitions, took, least)
		}
	})
}

// TestASearchOfASlowStoreEnds: an answer comes after some seconds, and comes further each time.
func TestASearchOfASlowStoreEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.submit("t", "a", 0, nil)
		time.Sleep(2 * time.Minute)
		q := day()
		q.From = q.To.Add(-5 * time.Minute)
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "Entries" {
				return schematest.Fault{Delay: 4 * time.Second}
			}
			return schematest.Fault{}
		})
		began := time.Now()
		if _, _, next, err := w.e.SearchRuns(t.Context(), q, search.Position{}, 500); err != nil || next == nil || time.Since(began) > 30*time.Second {
			t.Errorf("SearchRuns = %v, %v after %v; want a position soon", next, err, time.Since(began))
		}
		if got, _ := w.search(q, 500); got != "a" {
			t.Errorf("all of it: %q", got)
		}
		w.Befall(func(_ context.Context, op string) schematest.Fault { return schematest.Fault{Fail: op == "Entries"} })
		if page, _, _, err := w.e.SearchRuns(t.Context(), q, search.Position{}, 500); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("SearchRuns of a store that fails = %+v, %v; want ErrUnavailable", page, err)
		}
	})
}

// damaged is a store of which some rows cannot be understood.
type damaged struct {
	schema.Store
	bad map[schema.EntryID]bool
}

func (d *damaged) spoil(rows []schema.Entry, err error) ([]schema.Entry, error) {
	for i := range rows {
		if d.bad[rows[i].ID] {
			rows[i] = schema.Entry{ID: rows[i].ID, Fault: schema.ErrNotUnderstood}
		}
	}
	return rows, err
}

func (d *damaged) Entries(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.Entry, error) {
	return d.spoil(d.Store.Entries(ctx, p, r, limit))
}

func (d *damaged) EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error) {
	return d.spoil(d.Store.EntriesByID(ctx, p, ids))
}

func (d *damaged) DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error) {
	letters, err := d.Store.DeadLetters(ctx, tenant, day, before, limit)
	for i := range letters {
		if l := &letters[i]; strings.Contains(l.Last.Error, "letter") {
			*l = schema.DeadLetter{Tenant: l.Tenant, Run: l.Run, Fault: schema.ErrNotUnderstood}
		}
	}
	return letters, err
}

// TestASearchPassesOverWhatIsDamaged: a row that cannot be understood hides no other, and a dead
// letter that cannot be understood hides no run.
func TestASearchPassesOverWhatIsDamaged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := &damaged{w.Store(), map[schema.EntryID]bool{}}
		var err error
		if w.e, err = engine.New(bucketer.Config{Store: d, Hints: w, Signals: w}); err == nil {
			err = w.e.Refresh(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "bad", "letter", "z"} {
			e := w.submit("t", name, 0, func(j *bucketer.Job) { j.Labels = map[string]string{"team": "a"} })
			w.fails(e, "of the "+name)
			d.bad[e.ID] = name == "bad"
			time.Sleep(time.Second)
		}
		for want, change := range map[string]func(q *search.Query){
			"a letter z": func(*search.Query) {},
			"z letter a": func(q *search.Query) { q.States = []schema.State{schema.StateFailed} },
		} {
			q := day()
			q.Labels = map[string]string{"team": "a"}
			change(q)
			if got, _ := w.search(q, 1); got != want {
				t.Errorf("SearchRuns = %q, want %q", got, want)
			}
		}
	})
}

// TestCounts: each run once, where it is on its way.
func TestCounts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 3 {
			w.Recorded(w.submit("t", "a", 0, nil), 1, schema.Record{Outcome: schema.Succeeded})
		}
		w.fails(w.submit("t", "a", 0, func(j *bucketer.Job) { j.Labels = map[string]string{"team": "a"} }), "refused")
		w.submit("u", "a", 0, nil)
		time.Sleep(30 * time.Minute)
		w.Running(w.submit("t", "a", 0, nil), 1)
		e := w.submit("t", "a", 0, nil)
		w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: schema.MakeEntryID(time.Now().Add(time.Minute), e.ID.Shard(), 3)})
		w.submit("t", "a", 0, func(j *bucketer.Job) { j.Labels = map[string]string{"team": "a"} })
		w.submit("t", "a", 4*time.Minute, nil)
		w.submit("t", "a", 20*time.Minute, nil)
		cancelled := w.submit("t", "a", 20*time.Minute, nil)
		if _, err := w.e.Cancel(t.Context(), "t", cancelled.Run(), ""); err != nil {
			t.Fatal(err)
		}
		put := w.submit("t", "a", 0, nil)
		w.Recorded(put, 0, schema.Record{Outcome: schema.Replaced, Reason: schema.Deferred, Cause: schema.CauseRate, To: schema.MakeEntryID(time.Now().Add(time.Minute), put.ID.Shard(), 4)})
		for range 2 {
			w.Recorded(w.submit("t", "a", 0, nil), 0, schema.Record{Outcome: schema.Replaced, Reason: "concurrency: a run of the job was under way"})
		}
		time.Sleep(time.Second)
		count := func(change func(*search.Query)) string {
			q := day()
			q.From, q.To = q.To.Add(-time.Hour), q.To.Add(time.Hour)
			change(q)
			var pos search.Position
			sum := map[string]int64{}
			for range 100 {
				c, _, next, err := w.e.CountRuns(t.Context(), q, pos)
				if err != nil {
					t.Fatalf("CountRuns = %v", err)
				}
				for phase, n := range c.Phases {
					sum[string(phase)] += n
				}
				for state, n := range c.States {
					sum["is "+string(state)] += n
				}
				for what, n := range c.Waits {
					sum["waits for "+what] += n
				}
				if next == nil {
					return fmt.Sprint(sum)
				}
				pos = *next
			}
			t.Fatal("CountRuns never ends")
			return ""
		}
		for name, row := range map[string]struct {
			change func(*search.Query)
			want   string
		}{
			"all": {
				func(*search.Query) {},
				"map[delayed:2 done:5 due_soon:1 is cancelled:1 is failed:1 is pending:6 is retrying:1 is running:1 is succeeded:3 ready:4 running:1 waits for concurrency:2 waits for rate:1]",
			},
			"a label":        {func(q *search.Query) { q.Labels = map[string]string{"team": "a"} }, "map[done:1 is failed:1 is pending:1 ready:1]"},
			"another tenant": {func(q *search.Query) { q.Tenant = "u" }, "map[is pending:1 ready:1]"},
			"nobody":         {func(q *search.Query) { q.Tenant = "v" }, "map[]"},
		} {
			if got := count(row.change); got != row.want {
				t.Errorf("%s: %s, want %s", name, got, row.want)
			}
		}
	})
}
