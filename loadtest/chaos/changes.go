package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// The first change is made changesFrom before T0, the last after the part changesUntil of the
	// span.
	changesFrom  = 3 * time.Second
	changesUntil = 0.8
	// A run is changed between changeNear and changeFar before it is due. So its dispatcher may
	// hold it.
	changeNear = 200 * time.Millisecond
	changeFar  = 15 * time.Second
	// A rescheduled run is due between moveNear and moveFar after the request.
	moveNear = 2 * time.Second
	moveFar  = 25 * time.Second

	changeTimeout = 5 * time.Second  // of one request
	changePatient = 30 * time.Second // of all tries of one change
	changesAtOnce = 32
)

// A knownJob is one whose id and due instant are known.
type knownJob struct {
	id  string
	due time.Time
}

// known pairs jobs with their acknowledgements, in order of due instants. It leaves out immediate
// jobs.
func known(asks []check.Ask, acks []check.Ack) []knownJob {
	ids := make(map[check.Ref]string, len(acks))
	for _, a := range acks {
		if a.ID != "" {
			ids[a.Ref] = a.ID
		}
	}
	var jobs []knownJob
	for i := range asks {
		if id := ids[asks[i].Ref]; id != "" && !asks[i].At.IsZero() {
			jobs = append(jobs, knownJob{id, asks[i].At})
		}
	}
	slices.SortStableFunc(jobs, func(a, b knownJob) int { return a.due.Compare(b.due) })
	return jobs
}

// A plannedChange is a change and its instant.
type plannedChange struct {
	at   time.Time
	run  string
	kind check.ChangeKind
	due  time.Time // the new instant of a reschedule
}

// planChanges picks n changes over the span that begins at from: cancels and reschedules
// alternately, in order of their instants, each of another job. jobs is in order of due instants.
// It returns fewer if there are too few jobs.
func planChanges(jobs []knownJob, n int, from time.Time, span time.Duration, rng *rand.Rand) []plannedChange {
	used := make([]bool, len(jobs))
	var plan []plannedChange
	for i := range n {
		at := from.Add(time.Duration(float64(span) * float64(i) / float64(n)))
		low, _ := slices.BinarySearchFunc(jobs, at.Add(changeNear), compareDue)
		high, _ := slices.BinarySearchFunc(jobs, at.Add(changeFar), compareDue)
		if low >= high {
			continue
		}
		k := low + rng.IntN(high-low)
		for k < high && used[k] {
			k++
		}
		if k == high {
			continue
		}
		used[k] = true
		c := plannedChange{at: at, run: jobs[k].id, kind: check.Cancel}
		if i%2 == 1 {
			c.kind = check.Reschedule
			move := moveNear + time.Duration(rng.Int64N(int64(moveFar-moveNear)))
			c.due = at.Add(move).UTC().Truncate(time.Millisecond)
		}
		plan = append(plan, c)
	}
	return plan
}

func compareDue(j knownJob, t time.Time) int { return j.due.Compare(t) }

// ChangeCount counts changes by result.
type ChangeCount struct {
	Cancels     int `json:"cancels"`     // acknowledged
	Reschedules int `json:"reschedules"` // acknowledged
	Refused     int `json:"refused"`     // 409 and the like: the run had started, or ended
	Unknown     int `json:"unknown"`     // no answer that tells
}

// A changer asks for changes and records those that were or may have been accepted.
type changer struct {
	urls []string // bases of the nodes' APIs
	http *http.Client
	out  io.Writer
}

// run makes the changes of plan at their instants.
func (c *changer) run(ctx context.Context, plan []plannedChange) (ChangeCount, error) {
	type done struct {
		change  check.Change
		refused bool
		err     error
	}
	results := make(chan done)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(changesAtOnce)
	go func() {
		defer close(results)
		for i, p := range plan {
			if wait.Until(gctx, p.at) != nil {
				break
			}
			g.Go(func() error {
				change, refused, err := c.change(gctx, p, i)
				results <- done{change, refused, err}
				return nil
			})
		}
		_ = g.Wait() // the functions return nil
	}()
	var count ChangeCount
	var faults error
	for d := range results {
		switch {
		case d.err != nil:
			faults = errors.Join(faults, d.err)
			continue
		case d.refused:
			count.Refused++
			continue
		case d.change.Acked.IsZero():
			count.Unknown++
		case d.change.Kind == check.Cancel:
			count.Cancels++
		default:
			count.Reschedules++
		}
		faults = errors.Join(faults, journal.WriteLine(c.out, d.change))
	}
	return count, errors.Join(faults, ctx.Err())
}

// change asks for a change, from node number first on. refused: it is known that nothing was
// changed. An error is an answer that no node should give.
func (c *changer) change(ctx context.Context, p plannedChange, first int) (made check.Change, refused bool, err error) {
	made = check.Change{Run: p.run, Kind: p.kind, Due: p.due, Requested: time.Now().UTC()}
	q := api.Request{Method: http.MethodDelete, URL: "/v1/jobs/" + url.PathEscape(p.run), Timeout: changeTimeout}
	if p.kind == check.Reschedule {
		q.Method, q.Type = http.MethodPatch, "application/merge-patch+json"
		q.Body = fmt.Appendf(nil, `{"schedule":{"at":%q}}`, p.due.Format("2006-01-02T15:04:05.000Z"))
	}
	o, err := askUntil(ctx, c.http, c.urls, q, first, changePatient, http.StatusConflict, http.StatusPreconditionFailed)
	if err != nil {
		return made, false, fmt.Errorf("%s run %s: %w", p.kind, p.run, err)
	}
	made.Acked = o.acked
	return made, o.refused, nil
}
