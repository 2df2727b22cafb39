package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	recurringjobs "carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// importChunk bounds the lines that are imported together.
const importChunk = 8

// importing is a recurring job that is a line of an import. Its runs are judged with those of the
// other recurring jobs, whose lines it follows.
type importing struct {
	*recurring
	key   string
	doubt bool // it was not acknowledged, and may have been made
}

// askImports imports recurring jobs, a few at a time. Every fourth line has a key, and is sent
// again by itself until it is acknowledged; the others are sent once.
func (w *world) askImports(ctx context.Context, wg *sync.WaitGroup) {
	rng := rand.New(rand.NewPCG(w.s.Seed, 14)) // #nosec G404 -- drawn from the seed
	for made := 0; made < w.s.Imported; {
		n := min(1+rng.IntN(importChunk), w.s.Imported-made)
		chunk := make([]*importing, n)
		for i := range chunk {
			line := w.s.Recurring + made + i + 1
			in := &importing{recurring: &recurring{ref: check.Ref{Source: recurringSource, Line: line}, spec: someSpec(line, w.s.Guarantees, rng)}}
			in.spec.Name = "" // with one it shares no batches
			if line%4 == 0 {
				in.key = fmt.Sprintf("import-%d", line)
			}
			chunk[i] = in
			w.imported, w.recurring = append(w.imported, in), append(w.recurring, in.recurring)
		}
		made += n
		when := time.Duration(rng.Float64() * float64(w.s.Span) * 3 / 4)
		wg.Go(func() {
			time.Sleep(when)
			w.importLines(ctx, chunk)
			for _, in := range chunk {
				for try := 1; try < askTries && in.key != "" && in.id.IsZero(); try++ {
					time.Sleep(askPause)
					w.importLines(ctx, []*importing{in})
				}
			}
		})
	}
}

// importLines imports lines together.
func (w *world) importLines(ctx context.Context, chunk []*importing) {
	b := w.someNode()
	asks := make([]recurringjobs.Creation, len(chunk))
	for i, in := range chunk {
		asks[i] = recurringjobs.Creation{Spec: in.spec, Key: in.key, BodyHash: in.key}
		if len(in.events) == 0 {
			in.events = []check.JobEvent{{Ref: in.ref, Kind: check.JobCreated, Requested: time.Now().Add(-w.off())}}
		}
	}
	if b == nil {
		return
	}
	answered := make([]int, len(chunk))
	var mu sync.Mutex
	b.CreateJobs(ctx, asks, func(i int, job schema.Job, _ bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		answered[i]++
		in := chunk[i]
		if err != nil {
			in.doubt = in.doubt || in.key != "" || errors.Is(err, schema.ErrUnknown)
			return
		}
		e := &in.events[0]
		in.id, e.Acked, e.Job = job.ID, time.Now().Add(w.off()), shown(b, &job)
	})
	for i, n := range answered {
		if n != 1 {
			w.c.fault("line %d of an import was answered %d times", chunk[i].ref.Line, n)
		}
	}
}

// findImported finds the jobs of all imported lines in the store. Of a line that was not
// acknowledged, and made all the same, it notes the job, which is to be paused too.
func (w *world) findImported(ctx context.Context) error {
	if len(w.imported) == 0 {
		return nil
	}
	w.made = make(map[int][]schema.JobID)
	for shard := range schema.Shard(w.s.Shards) { // #nosec G115 -- a few
		for after := (schema.JobID{}); ; {
			jobs, err := w.c.store.JobsOf(ctx, shard, after, 500)
			if err != nil {
				return err
			}
			for i := range jobs {
				if ref, ok := check.ParseRef(jobs[i].Current.Spec.Work.HTTP.URL); ok && ref.Source == recurringSource {
					w.made[ref.Line] = append(w.made[ref.Line], jobs[i].ID)
				}
				after = jobs[i].ID
			}
			if len(jobs) == 0 {
				break
			}
		}
	}
	for _, in := range w.imported {
		if found := w.made[in.ref.Line]; in.id.IsZero() && len(found) > 0 {
			in.id = found[0]
		}
	}
	return nil
}

// judgeImported judges that each line that was acknowledged is one job, the one that was named; and
// that of the others none is two, nor one that is said not to have been made.
func (w *world) judgeImported() {
	for _, in := range w.imported {
		found, acked := w.made[in.ref.Line], !in.events[0].Acked.IsZero()
		switch {
		case acked && !slices.Equal(found, []schema.JobID{in.id}):
			w.c.fault("line %d of an import was acknowledged as job %s, and there are %v", in.ref.Line, in.id, found)
		case acked:
			w.out.Imported++
		case len(found) > 1:
			w.c.fault("line %d of an import was not acknowledged, and is several jobs: %v", in.ref.Line, found)
		case len(found) == 1 && !in.doubt:
			w.c.fault("line %d of an import was said not to have been made, and is job %s", in.ref.Line, found[0])
		}
	}
}
