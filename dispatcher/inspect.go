package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// inspector finds out by their rows where entries stand. Its methods run in workers: they touch
// none of the shard's fields that change.
type inspector struct{ *shard }

// inspected is an entry whose rows were read.
type inspected struct {
	entry    schema.Entry
	checked  time.Time // before its rows were read
	standing schema.Standing
	session  schema.SessionRef // of the attempt under way, if there is one

	marks     schema.Marks     // of the run
	untouched bool             // the run has no attempt: nobody had it in hand
	begun     bool             // an executor had it in hand
	verdict   bucketer.Verdict // of its job
}

// ids reads and inspects entries by id. Those that have left the store are left out.
func (w *inspector) ids(ctx context.Context, ids []schema.EntryID) ([]inspected, error) {
	checked := w.d.now()
	entries, err := w.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	return w.entries(ctx, entries, checked)
}

// read reads entries by id, in the order of their ids.
func (w *inspector) read(ctx context.Context, ids []schema.EntryID) (entries []schema.Entry, err error) {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, schema.EntryID.Compare) // by partition
	ids = slices.Compact(ids)
	for len(ids) > 0 {
		p := ids[0].Partition()
		n := 1
		for n < len(ids) && n < readBatch && ids[n].Partition() == p {
			n++
		}
		rows, err := w.d.store.EntriesByID(ctx, p, ids[:n])
		if err != nil {
			return nil, err
		}
		entries, ids = append(entries, rows...), ids[n:]
	}
	slices.SortFunc(entries, func(a, b schema.Entry) int { return a.ID.Compare(b.ID) })
	return entries, nil
}

// stretch reads the entries of r, about limit of them, and inspects those for which there is room.
func (w *inspector) stretch(ctx context.Context, b schema.Bucket, r schema.IDRange, limit int, room *shardstate.Room) ([]inspected, error) {
	var entries []schema.Entry
	checked := w.d.now()
	for len(entries) < limit {
		page, err := w.d.store.Entries(ctx, schema.Partition{Bucket: b, Shard: w.id}, r, scanPage)
		if err != nil {
			return nil, err
		}
		entries = append(entries, page...)
		if len(page) < scanPage {
			break
		}
		r.After = page[len(page)-1].ID
	}
	entries = slices.DeleteFunc(entries, func(e schema.Entry) bool { return e.Fault == nil && !room.Admit(&e) })
	return w.entries(ctx, entries, checked)
}

// entries inspects entries that were read at checked: the attempts and marks of their runs, which
// sessions live, and what their jobs say. The jobs are planned on before.
func (w *inspector) entries(ctx context.Context, entries []schema.Entry, checked time.Time) ([]inspected, error) {
	runs := make(map[schema.Partition][]schema.RunID)
	later := make(map[schema.Partition][]schema.RunID) // of later starts: their marks lie with the run
	for i := range entries {
		e := &entries[i]
		run := e.Run()
		runs[run.Partition()] = append(runs[run.Partition()], run)
		if run != e.ID {
			later[run.Partition()] = append(later[run.Partition()], run)
		}
	}
	attempts := make(map[schema.RunID][]schema.Attempt)
	for p, ids := range runs {
		some, err := w.d.writer.Attempts(ctx, p, ids)
		if err != nil {
			return nil, err
		}
		for run, a := range some {
			attempts[run] = a
		}
	}
	marks := make(map[schema.RunID]schema.Marks)
	for p, ids := range later {
		for part := range slices.Chunk(ids, readBatch) {
			rows, err := w.d.store.EntriesByID(ctx, p, part)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				marks[row.ID] = row.Marks
			}
		}
	}
	all := make([]inspected, len(entries))
	for i := range entries {
		e := &entries[i]
		of := attempts[e.Run()]
		live, err := w.d.live.Of(ctx, of)
		if err != nil {
			return nil, err
		}
		m := e.Marks
		if e.Run() != e.ID {
			m = marks[e.Run()]
		}
		all[i] = inspected{entry: *e, checked: checked, standing: schema.Judge(e, m, of, live), marks: m, untouched: len(of) == 0}
		all[i].standing.EndByCancel(e, m, of)
		for _, a := range of {
			if a.Record == nil && a.Session != nil && live(*a.Session) {
				all[i].session = *a.Session
			}
			all[i].begun = all[i].begun || a.Number > 0
		}
	}
	return all, w.planInspected(ctx, all)
}

// planOn has the jobs of entries that were read planned on, before the entries are published. The
// verdicts are nil if no entry is of a job with a next run: one-off jobs cost nothing.
func (w *inspector) planOn(ctx context.Context, entries []schema.Entry) ([]bucketer.Verdict, error) {
	if !slices.ContainsFunc(entries, func(e schema.Entry) bool { return e.FirstOfJob() }) {
		return nil, nil
	}
	return w.d.writer.PlanOn(ctx, entries, w.d.now())
}

// planInspected does the same for inspected entries. Where an executor had the run in hand its job
// was planned on before: the run had been published.
func (w *inspector) planInspected(ctx context.Context, all []inspected) error {
	var entries []schema.Entry
	var whose []int
	for i := range all {
		if m := &all[i]; m.entry.FirstOfJob() && m.untouched {
			e := m.entry
			e.Marks = m.marks
			entries, whose = append(entries, e), append(whose, i)
		}
	}
	verdicts, err := w.planOn(ctx, entries)
	for k, v := range verdicts {
		all[whose[k]].verdict = v
	}
	return err
}

// checkedAt returns when an envelope's entry was checked. Zero has the executor look: it must learn
// until when the run may start.
func checkedAt(v bucketer.Verdict, read time.Time) time.Time {
	if v == bucketer.Doubtful {
		return time.Time{}
	}
	return read
}
