package cassandra

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestMarks goes through the life of a run's marks.
func TestMarks(t *testing.T) {
	s := openTest(t)
	e := entryAt(t, somewhere(), 4, unique("marks"), nil)
	none, to, later := schema.EntryID{}, schema.MakeEntryID(e.Due(), 4, 1), schema.MakeEntryID(e.Due(), 4, 2)
	mark := schema.Cancel{At: time.Now().UTC().Truncate(time.Millisecond), By: "somebody"}

	if _, err := s.CancelRun(t.Context(), e.ID, none, mark, e.Expires); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("CancelRun without a row: got %v, want ErrNotFound", err)
	}
	if _, err := s.Marks(t.Context(), e.ID); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Marks without a row: got %v, want ErrNotFound", err)
	}
	put(t, s, e)
	for _, step := range []struct {
		name string
		do   func() (schema.Marks, error)
		want schema.Marks
		err  error
	}{
		{"not marked", func() (schema.Marks, error) { return s.Marks(t.Context(), e.ID) }, schema.Marks{}, nil},
		{
			"moved as another was read", func() (schema.Marks, error) { return s.MoveRun(t.Context(), e.ID, later, to, e.Expires) },
			schema.Marks{},
			schema.ErrConflict,
		},
		{"moved", func() (schema.Marks, error) { return s.MoveRun(t.Context(), e.ID, none, to, e.Expires) }, schema.Marks{MovedTo: to}, nil},
		{
			"moved by who had read it unmoved", func() (schema.Marks, error) { return s.MoveRun(t.Context(), e.ID, none, later, e.Expires) },
			schema.Marks{MovedTo: to},
			schema.ErrConflict,
		},
		{"moved again", func() (schema.Marks, error) { return s.MoveRun(t.Context(), e.ID, to, later, e.Expires) }, schema.Marks{MovedTo: later}, nil},
		{
			"cancelled by who had read it before", func() (schema.Marks, error) { return s.CancelRun(t.Context(), e.ID, to, mark, e.Expires) },
			schema.Marks{MovedTo: later},
			schema.ErrConflict,
		},
		{
			"cancelled", func() (schema.Marks, error) { return s.CancelRun(t.Context(), e.ID, later, mark, e.Expires) },
			schema.Marks{MovedTo: later, Cancelled: &mark},
			nil,
		},
		{
			"cancelled twice", func() (schema.Marks, error) { return s.CancelRun(t.Context(), e.ID, later, mark, e.Expires) },
			schema.Marks{MovedTo: later, Cancelled: &mark},
			schema.ErrConflict,
		},
		{"read", func() (schema.Marks, error) { return s.Marks(t.Context(), e.ID) }, schema.Marks{MovedTo: later, Cancelled: &mark}, nil},
	} {
		got, err := step.do()
		if !errors.Is(err, step.err) || !reflect.DeepEqual(got, step.want) {
			t.Fatalf("%s: got %+v, %v, want %+v, %v", step.name, got, err, step.want, step.err)
		}
	}
	got, err := s.Entries(t.Context(), e.ID.Partition(), schema.IDRange{}, 10)
	if err != nil || len(got) != 1 || got[0].Marks.MovedTo != later || got[0].Marks.Cancelled == nil {
		t.Errorf("Entries: got %+v, %v, want the entry with its marks", got, err)
	}
}

// TestOneOfManyCancels: of many at once one succeeds.
func TestOneOfManyCancels(t *testing.T) {
	s := openTest(t)
	e := entryAt(t, somewhere(), 4, unique("race"), nil)
	put(t, s, e)
	var wg sync.WaitGroup
	won := make([]bool, 8)
	for i := range won {
		wg.Go(func() {
			_, err := s.CancelRun(t.Context(), e.ID, schema.EntryID{}, schema.Cancel{At: time.Now(), By: fmt.Sprint(i)}, e.Expires)
			won[i] = err == nil
			if err != nil && !errors.Is(err, schema.ErrConflict) {
				t.Errorf("CancelRun: got %v, want nil or ErrConflict", err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, w := range won {
		if w {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of %d cancels succeeded, want 1", n, len(won))
	}
}

// TestRowsOfMarksAloneAreSkipped: a mark outlives its entry where its life was given longer; it is
// no entry.
func TestRowsOfMarksAloneAreSkipped(t *testing.T) {
	s := openTest(t)
	start := somewhere()
	ghost, e := entryAt(t, start, 4, unique("ghost"), nil), entryAt(t, start.Add(time.Second), 4, unique("ghost"), nil)
	put(t, s, ghost, e)
	if _, err := s.MoveRun(t.Context(), ghost.ID, schema.EntryID{}, e.ID, ghost.Expires); err != nil {
		t.Fatal(err)
	}
	p := ghost.ID.Partition()
	err := s.session.Query(`DELETE spec, payload FROM runs USING TIMESTAMP ? WHERE bucket = ? AND shard = ? AND entry_id = ?`,
		ghost.Spec.Accepted, int64(p.Bucket), int(p.Shard), uuid(ghost.ID)).Exec()
	if err != nil {
		t.Fatalf("take the spec away: %v", err)
	}
	if ids, err := s.EntryIDs(t.Context(), p, schema.IDRange{}, 1); err != nil || len(ids) != 1 || ids[0] != e.ID {
		t.Errorf("EntryIDs: got %v, %v, want only %s", ids, err, e.ID)
	}
	if got, err := s.Entries(t.Context(), p, schema.IDRange{}, 1); err != nil || len(got) != 1 || got[0].ID != e.ID {
		t.Errorf("Entries: got %d, %v, want only %s", len(got), err, e.ID)
	}
	if got, err := s.EntriesByID(t.Context(), p, []schema.EntryID{ghost.ID}); err != nil || len(got) != 0 {
		t.Errorf("EntriesByID: got %d, %v, want none", len(got), err)
	}
	if _, err := s.Marks(t.Context(), ghost.ID); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Marks: got %v, want ErrNotFound", err)
	}
	if _, err := s.CancelRun(t.Context(), ghost.ID, e.ID, schema.Cancel{}, ghost.Expires); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("CancelRun: got %v, want ErrNotFound", err)
	}
}

// TestAttemptCellsAreSeparate: writing the session and then the record leaves both, in either
// order.
func TestAttemptCellsAreSeparate(t *testing.T) {
	s := openTest(t)
	start := somewhere()
	run, other := schema.MakeEntryID(start, 6, 1), schema.MakeEntryID(start, 6, 2)
	now := time.Now().UTC().Truncate(time.Millisecond)
	expires := now.Add(time.Hour)
	fence := schema.MakeFence(now)
	session := &schema.SessionRef{Executor: "e", ID: "s", Started: now, Entry: run}
	record := &schema.Record{Entry: run, Started: now, Finished: now, Outcome: schema.Succeeded, Output: "done"}
	rows := []schema.Attempt{
		{Run: run, Number: 2, Fence: fence, Record: record, Written: now.UnixMicro() + 7, Expires: expires},
		{Run: run, Number: 1, Fence: fence, Session: session, Written: now.UnixMicro(), Expires: expires},
		{Run: other, Number: 0, Record: &schema.Record{Outcome: schema.Missed, Finished: now}, Written: now.UnixMicro(), Expires: expires},
		{Run: other, Number: 9, Written: now.UnixMicro(), Expires: expires}, // says nothing
	}
	if err := s.PutAttempts(t.Context(), rows); err != nil {
		t.Fatalf("PutAttempts: %v", err)
	}
	again := []schema.Attempt{
		{Run: run, Number: 2, Fence: fence, Session: session, Written: now.UnixMicro(), Expires: expires},
	}
	if err := s.PutAttempts(t.Context(), again); err != nil {
		t.Fatalf("PutAttempts: %v", err)
	}
	want := []schema.Attempt{
		{Run: run, Number: 1, Fence: fence, Session: session, Written: now.UnixMicro()},
		{Run: run, Number: 2, Fence: fence, Session: session, Record: record, Written: now.UnixMicro() + 7},
		{Run: other, Number: 0, Record: &schema.Record{Outcome: schema.Missed, Finished: now}, Written: now.UnixMicro()},
	}
	got, err := s.Attempts(t.Context(), run.Partition(), []schema.RunID{other, run})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Attempts: got %+v, %v, want %+v", got, err, want)
	}
	if got, err := s.Attempts(t.Context(), run.Partition(), []schema.RunID{schema.MakeEntryID(start, 6, 3)}); err != nil || len(got) != 0 {
		t.Errorf("Attempts of a run without any: got %v, %v, want none", got, err)
	}
}

// TestPartsOverPages: parts come back in order, over pages, whatever the order of writing.
func TestPartsOverPages(t *testing.T) {
	cfg := testConfig(t)
	cfg.PageBytes = schema.PartSize // one part a page
	s := openWith(t, cfg)
	run := schema.MakeEntryID(somewhere(), 6, 1)
	var want []schema.Part
	for attempt := 2; attempt >= 1; attempt-- {
		for number := 5; number >= 1; number-- {
			p := schema.Part{PartKey: schema.PartKey{Attempt: attempt, Fence: 1 << 40, Number: number}, Data: bytes.Repeat([]byte{byte('a' + number)}, schema.PartSize)}
			want = append([]schema.Part{p}, want...)
			if err := s.PutPart(t.Context(), run, schema.OutputPart, p, time.Now().UnixMicro(), time.Now().Add(time.Hour)); err != nil {
				t.Fatalf("PutPart: %v", err)
			}
		}
	}
	got, err := s.Parts(t.Context(), run, schema.OutputPart, schema.PartKey{}, 100)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Parts: got %d, %v, want the %d that were written", len(got), err, len(want))
	}
	if got, err := s.Parts(t.Context(), run, schema.OutputPart, want[2].PartKey, 4); err != nil || !reflect.DeepEqual(got, want[3:7]) {
		t.Errorf("Parts after %+v, at most 4: got %d, %v, want the four after it", want[2].PartKey, len(got), err)
	}
}

// TestSessions goes through the life of an executor's session.
func TestSessions(t *testing.T) {
	s := openTest(t)
	executor, at := unique("executor"), time.Now().UTC()
	session := func(id string, d time.Duration) schema.Session {
		return schema.Session{Executor: executor, ID: id, Expires: at.Add(d).Truncate(time.Millisecond)}
	}
	none := schema.Session{}
	if _, err := s.Session(t.Context(), executor); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Session before any: got %v, want ErrNotFound", err)
	}
	for _, step := range []struct {
		name    string
		was, is schema.Session
		want    error
		stands  schema.Session
	}{
		{"renewed before it is made", session("a", 0), session("a", 1), schema.ErrConflict, none},
		{"made", none, session("a", time.Second), nil, session("a", time.Second)},
		{"made twice", none, session("b", time.Second), schema.ErrConflict, session("a", time.Second)},
		{"renewed", session("a", time.Second), session("a", time.Minute), nil, session("a", time.Minute)},
		{"renewed from what was before", session("a", time.Second), session("a", time.Hour), schema.ErrConflict, session("a", time.Minute)},
		{"declared dead from what was before", session("a", time.Second), none, schema.ErrConflict, session("a", time.Minute)},
		{"replaced", session("a", time.Minute), session("b", time.Minute), nil, session("b", time.Minute)},
		{"declared dead", session("b", time.Minute), none, nil, none},
		{"made anew", none, session("c", time.Second), nil, session("c", time.Second)},
	} {
		if err := s.SwapSession(t.Context(), step.was, step.is); !errors.Is(err, step.want) {
			t.Fatalf("%s: SwapSession: got %v, want %v", step.name, err, step.want)
		}
		got, err := s.Session(t.Context(), executor)
		if step.stands.ID == "" && !errors.Is(err, schema.ErrNotFound) || step.stands.ID != "" && (err != nil || !reflect.DeepEqual(got, step.stands)) {
			t.Fatalf("%s: Session: got %+v, %v, want %+v", step.name, got, err, step.stands)
		}
	}
}

// TestKeys: the first claim stands, for that tenant and key.
func TestKeys(t *testing.T) {
	s := openTest(t)
	tenant, until := unique("keys"), time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	first := schema.KeyRecord{
		BodyHash: "one", Entry: schema.MakeEntryID(somewhere(), 1, 1), Text: []byte(`{"a":1}`),
		Payload: []byte{0, 1, 2}, Expires: until,
	}
	second := schema.KeyRecord{BodyHash: "two", Entry: schema.MakeEntryID(somewhere(), 1, 2), Text: []byte(`{}`), Expires: until}
	for _, step := range []struct {
		name, key string
		claim     schema.KeyRecord
		want      schema.KeyRecord
		mine      bool
	}{
		{"first", "k", first, first, true},
		{"another", "k", second, first, false},
		{"the first again", "k", first, first, true},
		{"another key, no payload", "l", second, second, true},
		{"read back without payload", "l", first, second, false},
	} {
		got, mine, err := s.RegisterKey(t.Context(), tenant, step.key, step.claim, until)
		if err != nil || mine != step.mine || !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: ClaimKey: got %+v, %v, %v, want %+v, %v", step.name, got, mine, err, step.want, step.mine)
		}
	}
}

// TestCursorsOnlyRise: each register by itself, within an epoch; a newer epoch counts alone.
func TestCursorsOnlyRise(t *testing.T) {
	s := openTest(t)
	const shard = schema.MaxShards - 6 // beyond those that the migration made
	epoch := time.Now().UnixMicro()    // newer than every other run of this test
	at := schema.BucketOf(time.Now())
	for _, step := range []struct {
		name                string
		epoch               int64
		dispatched, settled schema.Bucket
		want                schema.Cursor
	}{
		{"first", epoch, at, at - 5, schema.Cursor{Shard: shard, Epoch: epoch, Dispatched: at, Settled: at - 5}},
		{"both rise", epoch, at + 2, at, schema.Cursor{Shard: shard, Epoch: epoch, Dispatched: at + 2, Settled: at}},
		{"one would fall", epoch, at + 1, at + 1, schema.Cursor{Shard: shard, Epoch: epoch, Dispatched: at + 2, Settled: at + 1}},
		{"the other would fall", epoch, at + 3, at - 7, schema.Cursor{Shard: shard, Epoch: epoch, Dispatched: at + 3, Settled: at + 1}},
		{"newer epoch, further back", epoch + 1, at - 9, at - 9, schema.Cursor{Shard: shard, Epoch: epoch + 1, Dispatched: at - 9, Settled: at - 9}},
		{"older epoch", epoch, at + 9, at + 9, schema.Cursor{Shard: shard, Epoch: epoch + 1, Dispatched: at - 9, Settled: at - 9}},
	} {
		if err := s.AdvanceCursor(t.Context(), schema.Cursor{Shard: shard, Epoch: step.epoch, Dispatched: step.dispatched, Settled: step.settled}); err != nil {
			t.Fatalf("%s: AdvanceCursor: %v", step.name, err)
		}
		if got, err := s.Cursor(t.Context(), shard); err != nil || got != step.want {
			t.Fatalf("%s: Cursor: got %+v, %v, want %+v", step.name, got, err, step.want)
		}
	}
	all, err := s.Cursors(t.Context())
	if err != nil || len(all) < 2 {
		t.Fatalf("Cursors: got %d, %v, want those of the migration and one", len(all), err)
	}
	for i, c := range all {
		if i > 0 && c.Shard <= all[i-1].Shard {
			t.Errorf("Cursors: shard %d after %d", c.Shard, all[i-1].Shard)
		}
	}
	if last := all[len(all)-1]; last.Shard < shard {
		t.Errorf("Cursors: last is %+v, want shard %d or later", last, shard)
	}
	if _, err := s.Cursor(t.Context(), schema.MaxShards-8); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Cursor of a shard without: got %v, want ErrNotFound", err)
	}
	// above all registers; not the partition, which would swallow the next run's
	for _, e := range []int64{epoch, epoch + 1} {
		err := s.session.Query(`DELETE FROM cursors USING TIMESTAMP ? WHERE shard = ? AND epoch = ?`, (at + 99).End().UnixMicro(), shard, e).Exec()
		if err != nil {
			t.Errorf("tidy up: %v", err)
		}
	}
}

// TestTasks: put, replace, list in pages, delete.
func TestTasks(t *testing.T) {
	s := openTest(t)
	tenant, at := unique("tasks"), time.Now().UTC().Truncate(time.Millisecond)
	task := func(name, description string, d time.Duration) schema.Task {
		return schema.Task{
			Tenant: tenant, Name: name, Description: description, CreatedAt: at, UpdatedAt: at.Add(d),
			Work: schema.Work{NATS: &schema.NATSTarget{Subject: "s"}},
		}
	}
	for _, step := range []schema.Task{task("c", "", 0), task("a", "new", 2*time.Microsecond), task("a", "old, put late", time.Microsecond), task("b", "", 0)} {
		if err := s.PutTask(t.Context(), step); err != nil {
			t.Fatalf("PutTask: %v", err)
		}
	}
	if got, err := s.Task(t.Context(), tenant, "a"); err != nil || got.Description != "new" || got.Tenant != tenant || got.Work.NATS == nil {
		t.Errorf("Task: got %+v, %v, want the one updated last", got, err)
	}
	names := func(after string, limit int) (out string) {
		t.Helper()
		tasks, err := s.Tasks(t.Context(), tenant, after, limit)
		if err != nil {
			t.Errorf("Tasks: %v", err)
		}
		for _, task := range tasks {
			out += task.Name
		}
		return out
	}
	for _, test := range []struct {
		after string
		limit int
		want  string
	}{{"", 10, "abc"}, {"", 2, "ab"}, {"b", 10, "c"}, {"c", 10, ""}, {"", 0, ""}} {
		if got := names(test.after, test.limit); got != test.want {
			t.Errorf("Tasks(%q, %d): got %q, want %q", test.after, test.limit, got, test.want)
		}
	}
	for range 2 { // the second time it is gone already
		if err := s.DeleteTask(t.Context(), tenant, "a", at.Add(time.Second)); err != nil {
			t.Errorf("DeleteTask: %v", err)
		}
	}
	if _, err := s.Task(t.Context(), tenant, "a"); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Task after DeleteTask: got %v, want ErrNotFound", err)
	}
}

// TestTime: the server's clock is about ours, on one machine.
func TestTime(t *testing.T) {
	s := openTest(t)
	before := time.Now().Add(-time.Second)
	got, err := s.Time(t.Context())
	if err != nil || got.Before(before) || got.After(time.Now().Add(time.Second)) {
		t.Errorf("Time: got %s, %v, want about now", got, err)
	}
}

// TestStatementsOfTheHotPath: a hundred rows of a partition are one statement, to write as to read.
func TestStatementsOfTheHotPath(t *testing.T) {
	s, reg := openCounted(t)
	before := counted(t, reg)
	start, tenant := somewhere(), unique("hot")
	now := time.Now()
	var entries []schema.Entry
	var attempts []schema.Attempt
	var runs []schema.RunID
	for i := range 100 {
		e := entryAt(t, start.Add(time.Duration(i)*time.Millisecond), 9, tenant, []byte(`{"n":1}`))
		entries, runs = append(entries, e), append(runs, e.ID)
		attempts = append(attempts, schema.Attempt{
			Run: e.ID, Number: 1, Fence: schema.MakeFence(now), Written: now.UnixMicro(), Expires: now.Add(time.Hour),
			Record: &schema.Record{Entry: e.ID, Finished: now, Outcome: schema.Succeeded},
		})
	}
	p := entries[0].ID.Partition()
	put(t, s, entries...)
	if got, err := s.Entries(t.Context(), p, schema.IDRange{}, 1000); err != nil || len(got) != 100 {
		t.Fatalf("Entries: got %d, %v, want 100", len(got), err)
	}
	if err := s.PutAttempts(t.Context(), attempts); err != nil {
		t.Fatalf("PutAttempts: %v", err)
	}
	if got, err := s.Attempts(t.Context(), p, runs); err != nil || len(got) != 100 {
		t.Fatalf("Attempts: got %d, %v, want 100", len(got), err)
	}
	want := map[string]int{"insert_entry": 1, "select_entries": 1, "insert_attempt": 1, "select_attempts": 1}
	got := counted(t, reg)
	for name, n := range before {
		if got[name] -= n; got[name] == 0 {
			delete(got, name)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("statements: got %v, want %v", got, want)
	}
}
