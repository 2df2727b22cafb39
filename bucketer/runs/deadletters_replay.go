package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// ErrPayloadGone: the run had a payload, which expired. Without it the run cannot be repeated
// (409).
var ErrPayloadGone = errors.New("the payload does not exist any more")

// The bounds of a page of dead letters: how many days and letters it reads.
const (
	letterDays = 60
	letterRows = 5_000
	letterPage = 200
)

// DeadLetterQuery selects the dead letters of a tenant that are unresolved, or those that were
// replayed, by the due time in the run's id: From ≤ due < To.
type DeadLetterQuery struct {
	Tenant   string
	From, To time.Time
	Task     string       // "" = any
	Pattern  string       // of the error (ErrorPattern); "" = any
	Error    string       // part of the error (ErrorOf), in letters of either case; "" = any
	Job      schema.JobID // of its runs, and of those that repeat one; zero: any
	Labels   []string     // name=value: the run has all of them
	Replayed bool         // those that were replayed, instead of those that wait
}

// selects reports whether a letter that is due before To is one of those asked for.
func (q *DeadLetterQuery) selects(l *schema.DeadLetter) bool {
	replayed := l.Resolution != nil && l.Resolution.Kind == schema.ResolvedReplayed
	return l.Run.Time().Before(q.To) && (l.Resolution == nil && !q.Replayed || replayed && q.Replayed) &&
		(q.Task == "" || l.Entry.Spec.Task == q.Task) && (q.Pattern == "" || ErrorPattern(&l.Last) == q.Pattern) &&
		(q.Error == "" || hasText(ErrorOf(&l.Last), q.Error)) &&
		(q.Job.IsZero() || l.Entry.Spec.ListedWith() == q.Job || l.Entry.Spec.Job.IsZero() && schema.JobOf(l.Run) == q.Job) && hasAll(l.Entry.Spec.Labels, q.Labels)
}

// hasAll reports whether labels has each that is asked for, as name=value.
func hasAll(labels map[string]string, asked []string) bool {
	for _, label := range asked {
		name, value, _ := strings.Cut(label, "=")
		if got, ok := labels[name]; !ok || got != value {
			return false
		}
	}
	return true
}

// DeadLetterPosition is where a listing goes on: in a day, before the dead letter of a run (zero:
// from the newest). Nil is the newest of the window.
type DeadLetterPosition struct {
	Day    int          `json:"day"`
	Before schema.RunID `json:"before,omitzero"`
}

// DeadLetter is a dead letter with all attempts of its run. Attempts whose rows expired are told as
// the letter tells them.
type DeadLetter struct {
	schema.DeadLetter
	Attempted []schema.Attempt // ordered by number and fence
}

// DeadLetters returns the dead letters that query selects, without payloads, the latest due first, at
// most limit of them, from pos on. A page reads a bounded number of days and letters. So it may hold
// fewer than limit, even none, and still name the next position.
func (q *DeadLetterQueue) DeadLetters(ctx context.Context, query DeadLetterQuery, pos *DeadLetterPosition, limit int) ([]schema.DeadLetter, *DeadLetterPosition, error) {
	first := schema.PeriodOf(query.From)
	at := DeadLetterPosition{Day: schema.PeriodOf(query.To.Add(-time.Nanosecond))}
	if pos != nil {
		at = *pos
	}
	var found []schema.DeadLetter
	for days, rows := 0, 0; at.Day >= first; {
		if days == letterDays || rows >= letterRows {
			return found, &at, nil
		}
		page, err := q.store.DeadLetters(ctx, query.Tenant, at.Day, at.Before, letterPage)
		if err != nil {
			return nil, nil, err
		}
		rows += len(page)
		for i := range page {
			l := &page[i]
			at.Before = l.Run
			if l.Run.Time().Before(query.From) {
				return found, nil, nil // so are all that follow
			}
			if !query.selects(l) {
				continue
			}
			if found = append(found, *l); len(found) == limit {
				return found, &at, nil
			}
		}
		if len(page) < letterPage {
			days++
			at = DeadLetterPosition{Day: at.Day - 1}
		}
	}
	return found, nil, nil
}

// DeadLetter returns the dead letter of a run that is unresolved or was replayed, or
// schema.ErrNotFound.
func (q *DeadLetterQueue) DeadLetter(ctx context.Context, tenant string, id schema.RunID) (DeadLetter, error) {
	l, err := q.store.DeadLetter(ctx, tenant, id)
	if err != nil {
		return DeadLetter{}, err
	}
	if l.Resolution != nil && l.Resolution.Kind != schema.ResolvedReplayed {
		return DeadLetter{}, fmt.Errorf("dead letter %s: %w", id, schema.ErrNotFound)
	}
	out := DeadLetter{DeadLetter: l}
	switch run, err := q.reader.Run(ctx, tenant, id); {
	case errors.Is(err, schema.ErrNotFound): // it expired, as it does before its dead letter
		out.Attempted = l.AllAttempts()
	case err != nil:
		return DeadLetter{}, err
	case l.Resolution == nil && run.State != schema.StateFailed && ruined(run.Attempts):
		// A process died between a record and what follows from it.
		if err := q.supersede(ctx, tenant, id, q.now()); err != nil {
			return DeadLetter{}, err
		}
		return DeadLetter{}, fmt.Errorf("dead letter %s: %w", id, schema.ErrNotFound)
	default:
		out.Attempted = withMissing(run.Attempts, l.AllAttempts())
	}
	return out, nil
}

// withMissing returns the attempts, and of those in told the ones that are missing, ordered by
// number and fence.
func withMissing(attempts, told []schema.Attempt) []schema.Attempt {
	all := slices.Clone(attempts)
	for i := range told {
		t := &told[i]
		if !slices.ContainsFunc(attempts, func(a schema.Attempt) bool { return a.Number == t.Number }) {
			all = append(all, *t)
		}
	}
	slices.SortFunc(all, byNumber)
	return all
}

// States returns how runs stand that dead letters were replayed as. Those that have left are not
// among them.
func (q *DeadLetterQueue) States(ctx context.Context, replays []schema.RunID) (map[schema.RunID]schema.State, error) {
	stored, err := q.core.Stored(ctx, replays)
	if err != nil {
		return nil, err
	}
	rows := make([]schema.Entry, 0, len(stored))
	for _, row := range stored {
		rows = append(rows, row)
	}
	list, err := q.reader.Fold(ctx, rows)
	if err != nil {
		return nil, err
	}
	states := make(map[schema.RunID]schema.State, len(list))
	for i := range list {
		states[list[i].ID] = list[i].Shown()
	}
	return states, nil
}

// Resolutions returns, for each of the runs that has a dead letter, what became of that; nil: it
// waits.
func (q *DeadLetterQueue) Resolutions(ctx context.Context, tenant string, runs []schema.RunID) (map[schema.RunID]*schema.Resolution, error) {
	days := make(map[int][]schema.RunID)
	for _, run := range runs {
		day := schema.DeadLetterDay(run)
		days[day] = append(days[day], run)
	}
	all := make(map[schema.RunID]*schema.Resolution)
	for day, of := range days {
		for len(of) > 0 {
			n := min(len(of), bucketer.ReadIDs)
			resolutions, err := q.store.Resolutions(ctx, tenant, day, of[:n])
			if err != nil {
				return nil, err
			}
			maps.Copy(all, resolutions)
			of = of[n:]
		}
	}
	return all, nil
}

// mayResolve returns nil if this node may resolve dead letters of a tenant now, or what
// bucketer.MayWrite does. Where there are regions, that is decided at the home of the tenant,
// wherever the run lies: the key of a replay lies there, and so does the new run.
func (q *DeadLetterQueue) mayResolve(tenant string) error {
	if _, err := q.core.InForce(); err != nil {
		return err
	}
	return q.core.Regions().ServesTenant(tenant)
}

// Replay runs again, now, what a dead letter says, as a new run whose origin is the letter's.
// However often it is asked for, that is one run. It answers schema.ErrNotFound if the letter was
// discarded, or if its run did not fail after all.
//
// It registers the new run's key, which lives as long as the letter, then writes the run, then the
// letter's resolution. If we crash in between, the letter is still unresolved. The next replay
// finds the key and writes the same run.
func (q *DeadLetterQueue) Replay(ctx context.Context, tenant string, id schema.RunID, by string) (bucketer.Receipt, error) {
	if err := q.mayResolve(tenant); err != nil {
		return bucketer.Receipt{}, err
	}
	l, err := q.DeadLetter(ctx, tenant, id)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	if l.Resolution != nil {
		return bucketer.Receipt{Run: l.Resolution.Run, Existing: true}, nil
	}
	if l.Fault != nil {
		return bucketer.Receipt{}, fmt.Errorf("replay %s: %w", id, l.Fault)
	}
	s := &l.Entry.Spec
	if s.PayloadSize > 0 && len(l.Entry.Payload) == 0 {
		return bucketer.Receipt{}, fmt.Errorf("replay %s: %w", id, ErrPayloadGone)
	}
	key := bucketer.OwnKey("replay of " + id.String())
	var receipt bucketer.Receipt
	if s.Workflow != nil {
		receipt, err = q.workflows.retry(ctx, tenant, id, key)
	} else {
		receipt, err = q.replay(ctx, &l, key)
	}
	if err != nil {
		return bucketer.Receipt{}, fmt.Errorf("replay %s: %w", id, err)
	}
	return receipt, q.resolve(ctx, tenant, id, schema.Resolution{Kind: schema.ResolvedReplayed, At: q.now(), By: by, Run: receipt.Run})
}

// replay makes the run that a dead letter asks for again. It has the name of the job that it came
// from, and is listed among that job's runs, but is none of them.
func (q *DeadLetterQueue) replay(ctx context.Context, l *DeadLetter, key string) (bucketer.Receipt, error) {
	s, id := &l.Entry.Spec, l.Run
	return q.core.Submit(ctx, bucketer.Job{
		Tenant: s.Tenant, Task: s.Task, Work: s.Work, Priority: s.Priority, Misfire: s.Misfire, Labels: s.Labels, Payload: l.Entry.Payload,
		JobName: s.JobName, Trigger: schema.TriggerRetry, Origin: id, OriginJob: s.ListedWith(), RequireRegion: s.RequireRegion, Durability: schema.OfEntry(s), Key: key, BodyHash: "replay " + id.String(), KeyUntil: l.Expires,
		CreatedBy: s.CreatedBy,
	})
}

// Discard resolves a dead letter as discarded. changed is false if it was resolved before. If there
// is none, the error is schema.ErrNotFound.
func (q *DeadLetterQueue) Discard(ctx context.Context, tenant string, id schema.RunID, by string) (changed bool, err error) {
	if err := q.mayResolve(tenant); err != nil {
		return false, err
	}
	l, err := q.store.DeadLetter(ctx, tenant, id)
	if err != nil || l.Resolution != nil {
		return false, err
	}
	return true, q.resolve(ctx, tenant, id, schema.Resolution{Kind: schema.ResolvedDiscarded, At: q.now(), By: by})
}
