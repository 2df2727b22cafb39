package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// The last letterAttempts earlier attempts are told in a dead letter, each with up to letterError
// bytes of its error.
const (
	letterAttempts = 100
	letterError    = 512
)

// bearsOnDeadLetter reports whether a record may make a dead letter of its run, or unmake one. A step
// has none: its workflow run has.
func bearsOnDeadLetter(f *bucketer.Finished) bool {
	rec := f.Attempt.Record
	return rec != nil && f.Entry.Spec.Step == nil && (rec.Ruined() || rec.Doubt)
}

// writeFor looks at the runs of those of finished that indices name. It writes a dead letter for
// each that failed for good, and supersedes that of each that succeeded or was cancelled after all.
// It returns what went wrong, by index.
//
// What is judged is what the rows say, read after the record is held. Two records of one run that
// end it at once read each other, whichever comes second. So do a failure and a cancel, because
// Cancel reads the run again after its mark. So at least one of the two sees both, and no dead
// letter of a run that did not fail is left.
//
// A success that outlived its session replaces the record of a loss that others may have written.
// It supersedes a dead letter that no record tells of any more.
func (q *DeadLetterQueue) writeFor(ctx context.Context, finished []bucketer.Finished, indices []int) map[int]error {
	failed := make(map[int]error)
	states, err := q.endsOf(ctx, finished, indices)
	if err != nil {
		for _, i := range indices {
			failed[i] = err
		}
		return failed
	}
	var letters []schema.DeadLetter
	var whose []int
	for _, i := range indices {
		f := &finished[i]
		run := f.Entry.Run()
		switch st := states[run]; {
		case f.Attempt.Record.Ruined() && st.state == schema.StateFailed:
			l, err := q.deadLetterOf(ctx, f, st.attempts)
			if err != nil {
				failed[i] = err
				continue
			}
			letters, whose = append(letters, l), append(whose, i)
		case (st.ruined || f.Attempt.Record.Outlived) && st.state != schema.StateFailed:
			if err := q.supersede(ctx, f.Entry.Spec.Tenant, run, f.Attempt.Record.Finished); err != nil {
				failed[i] = err
			}
		}
	}
	for len(letters) > 0 {
		n := min(len(letters), bucketer.BatchRows)
		if err := q.put(ctx, letters[:n]); err != nil {
			for _, i := range whose[:n] {
				failed[i] = err
			}
		}
		letters, whose = letters[n:], whose[n:]
	}
	return failed
}

// put writes dead letters. One that is too large for the store is counted, logged and given up: no
// later try could write it.
func (q *DeadLetterQueue) put(ctx context.Context, letters []schema.DeadLetter) error {
	if err := q.note(ctx, letters); err != nil {
		return err
	}
	err := q.store.PutDeadLetters(ctx, letters)
	switch {
	case err == nil:
		q.metrics.letters.WithLabelValues("written").Add(float64(len(letters)))
		return nil
	case !errors.Is(err, schema.ErrTooLarge):
		return fmt.Errorf("dead letters: %w", err)
	case len(letters) == 1:
		q.metrics.letters.WithLabelValues("too_large").Inc()
		q.log.Error("a dead letter is too large to be kept", "tenant", letters[0].Tenant, "run", letters[0].Run, "err", err)
		return nil
	}
	for i := range letters {
		if err := q.put(ctx, letters[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// endOf is what the rows of a run say of its end.
type endOf struct {
	state    schema.State
	attempts []schema.Attempt
	ruined   bool // a record says that it has failed for good, whatever others say
}

// endsOf reads what became of the runs of those of finished that indices name. For a run whose
// record is a success it reads only the attempts.
func (q *DeadLetterQueue) endsOf(ctx context.Context, finished []bucketer.Finished, indices []int) (map[schema.RunID]endOf, error) {
	var all, unsure []schema.RunID
	ends := make(map[schema.RunID]endOf)
	for _, i := range indices {
		run := finished[i].Entry.Run()
		if _, known := ends[run]; !known {
			all = append(all, run)
		}
		if finished[i].Attempt.Record.Outcome == schema.Succeeded {
			ends[run] = endOf{state: schema.StateSucceeded}
		} else if ends[run].state == "" {
			unsure = append(unsure, run)
			ends[run] = endOf{state: schema.StateFailed}
		}
	}
	rows, err := q.core.Stored(ctx, unsure)
	if err != nil {
		return nil, err
	}
	attempts, err := q.core.AttemptsOf(ctx, all)
	if err != nil {
		return nil, err
	}
	for run, end := range ends {
		end.ruined, end.attempts = ruined(attempts[run]), attempts[run]
		if end.state != schema.StateSucceeded {
			live, err := q.reader.live.Of(ctx, attempts[run])
			if err != nil {
				return nil, err
			}
			end.state = schema.Fold(rows[run].Marks, attempts[run], live)
		}
		ends[run] = end
	}
	return ends, nil
}

// ruined reports whether any of the attempts failed for good.
func ruined(attempts []schema.Attempt) bool {
	return slices.ContainsFunc(attempts, func(a schema.Attempt) bool { return a.Record != nil && a.Record.Ruined() })
}

// deadLetterOf makes the dead letter that follows from f. It is a function of f's record and of the
// entry that was started, except for what it tells of earlier attempts.
func (q *DeadLetterQueue) deadLetterOf(ctx context.Context, f *bucketer.Finished, attempts []schema.Attempt) (schema.DeadLetter, error) {
	rec := f.Attempt.Record
	starter, err := q.reader.starter(ctx, f)
	if err != nil {
		return schema.DeadLetter{}, err
	}
	switch starter.Payload, err = q.reader.EntryPayload(ctx, &starter); {
	case errors.Is(err, schema.ErrNotFound), errors.Is(err, schema.ErrSealed): // it expired, or is kept as it is: which may be why the run failed
	case err != nil:
		return schema.DeadLetter{}, err
	}
	return schema.DeadLetter{
		Tenant: starter.Spec.Tenant, Run: f.Entry.Run(), Entry: starter, Attempts: f.Attempt.Number, Began: began(&starter, rec), Last: *rec,
		Earlier: earlier(attempts, &f.Attempt),
		Written: rec.Finished.UnixMicro(), Expires: rec.Finished.Add(q.retention).UTC().Truncate(time.Millisecond),
	}, nil
}

// earlier returns what a dead letter tells of the attempts before the last one, in short.
func earlier(attempts []schema.Attempt, last *schema.Attempt) []schema.Attempt {
	var told []schema.Attempt
	for i := range attempts {
		a := &attempts[i]
		if a.Record == nil || a.Number == 0 || a.Unstarted() || a.Number == last.Number && a.Fence == last.Fence {
			continue
		}
		rec := schema.Record{
			Entry: a.Record.Entry, Executor: a.Record.Executor, Region: a.Record.Region, Started: a.Record.Started, Finished: a.Record.Finished,
			Outcome: a.Record.Outcome, Status: a.Record.Status, Error: a.Record.Error, Sealed: a.Record.Sealed, Redispatched: a.Record.Redispatched,
		}
		if len(rec.Error) > letterError {
			rec.Error = strings.ToValidUTF8(rec.Error[:letterError], "")
		}
		told = append(told, schema.Attempt{Run: a.Run, Number: a.Number, Fence: a.Fence, Record: &rec})
	}
	slices.SortFunc(told, byNumber)
	return told[max(0, len(told)-letterAttempts):]
}

// byNumber orders attempts by number and fence.
func byNumber(a, b schema.Attempt) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Fence, b.Fence))
}

// began returns when the first attempt of a run started. e is the entry that started the attempt
// with that record.
func began(e *schema.Entry, rec *schema.Record) time.Time {
	if e.Spec.Began != 0 {
		return time.UnixMicro(e.Spec.Began).UTC()
	}
	return rec.Started.Truncate(time.Microsecond)
}

// supersede resolves the dead letter of a run as superseded, also if that letter is written later.
func (q *DeadLetterQueue) supersede(ctx context.Context, tenant string, run schema.RunID, at time.Time) error {
	if err := q.resolve(ctx, tenant, run, schema.Resolution{Kind: schema.ResolvedSuperseded, At: at}); err != nil {
		return fmt.Errorf("take dead letter back: %w", err)
	}
	return nil
}

// resolve writes what became of a dead letter. The resolution outlives the letter, whoever writes
// that again.
func (q *DeadLetterQueue) resolve(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution) error {
	f.At = f.At.UTC().Truncate(time.Microsecond)
	if err := q.store.PutResolution(ctx, tenant, run, f, bucketer.Latest(f.At, q.now()).Add(2*q.retention)); err != nil {
		return err
	}
	q.metrics.letters.WithLabelValues(string(f.Kind)).Inc()
	return nil
}

// note notes where letters lie, before they are written: so they are found by who counts the dead
// letters of all tenants (package deadletters). What this process has noted it does not note again.
func (q *DeadLetterQueue) note(ctx context.Context, letters []schema.DeadLetter) error {
	for i := range letters {
		l := &letters[i]
		n := note{schema.PeriodOf(l.Last.Finished), schema.TenantDay{Tenant: l.Tenant, Day: l.Day()}}
		if q.notes.has(n) {
			continue
		}
		// it leaves after the last letter of a run that ends that day
		if err := q.store.NoteDeadLetters(ctx, n.ended, n.at, schema.PeriodStart(n.ended+1).Add(q.retention)); err != nil {
			return err
		}
		q.notes.add(n)
	}
	return nil
}

// note says that letters of runs that ended on a day lie at a place.
type note struct {
	ended int
	at    schema.TenantDay
}

// notes are those that this process has written.
type notes struct {
	mu  sync.Mutex
	all map[note]struct{}
}

// maxNotes bounds how many are remembered: 10,000 tenants a day. Beyond that they are written
// again.
const maxNotes = 20_000

func (n *notes) has(it note) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.all[it]
	return ok
}

func (n *notes) add(it note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil || len(n.all) >= maxNotes {
		n.all = make(map[note]struct{})
	}
	n.all[it] = struct{}{}
}
