package queuetest

import (
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// poolsApart: who fetches from a pool gets its messages alone, and nobody else gets them. Loads and
// fronts are of a pool, too.
func poolsApart(t *testing.T, r *Rig) {
	pools := []queue.Pool{"", "gpu=true", "gpu=true,zone=a"}
	of := func(q queue.Queue, p queue.Pool) queue.PoolQueue {
		if p == "" {
			return q
		}
		return q.Pool(p)
	}
	for _, p := range pools { // known before anything is published for it, as executors are
		eventually(t, fmt.Sprintf("the pool %q is served", p), func() (string, bool) {
			_, err := of(r.Other, p).Load(t.Context(), 0, schema.Normal)
			return fmt.Sprint(err), err == nil
		})
	}
	sent := make(map[queue.Pool]queue.Receipt)
	for n, p := range pools {
		env := envelope(t, n)
		env.Pool = p
		sent[p] = publish(t, r.Queue, 0, env)
	}
	for n, p := range pools {
		q := of(r.Other, p)
		eventually(t, fmt.Sprintf("load of the pool %q", p), func() (string, bool) {
			l, err := q.Load(t.Context(), 0, schema.Normal)
			return fmt.Sprintf("%+v %v", l, err), err == nil && l == queue.Load{Waiting: 1}
		})
		if f, err := q.Front(t.Context(), 0, schema.Normal); err != nil || f != (queue.Front{Stream: sent[p].Stream, Sequence: sent[p].Sequence}) {
			t.Errorf("front of the pool %q = %+v, %v, want that of its message: %+v", p, f, err, sent[p])
		}
		ds, err := q.Fetch(t.Context(), 0, schema.Normal, 10, patience)
		if err != nil || len(ds) != 1 {
			t.Fatalf("Fetch of the pool %q: %d messages, %v, want its own alone", p, len(ds), err)
		}
		if got, want := ds[0].Envelope().Entry.Spec.Task, fmt.Sprintf("task-%d", n); got != want {
			t.Errorf("Fetch of the pool %q gave %s, want %s", p, got, want)
		}
		ds[0].Ack()
	}
	for _, p := range pools {
		ds, err := of(r.Other, p).Fetch(t.Context(), 0, schema.Normal, 10, 50*time.Millisecond)
		if err != nil || len(ds) > 0 {
			t.Errorf("Fetch of the pool %q: %d messages, %v, want none any more", p, len(ds), err)
		}
	}
}
