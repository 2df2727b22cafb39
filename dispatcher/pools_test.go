package dispatcher

import (
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// labelled tells the dispatchers of executors with these labels.
func (r *rig) labelled(labels ...string) {
	r.t.Helper()
	all := members("d1")
	for i, text := range labels {
		all = append(all, ring.Member{Name: "x" + string(rune('0'+i)), Roles: []string{ring.RoleExecutor}, Labels: text})
	}
	if err := r.ring.Set(all, nil, r.shards); err != nil {
		r.t.Fatal(err)
	}
}

// gpu is the work of a run that requires a label.
func gpu() schema.Spec {
	return schema.Spec{Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}, Requires: schema.Labels{"gpu": "true"}}}
}

// waits returns how many messages wait for the executors of a pool.
func (r *rig) waits(pool queue.Pool) int {
	r.t.Helper()
	load, err := r.conn.Pool(pool).Load(r.t.Context(), 0, schema.Normal)
	if err != nil {
		r.t.Fatal(err)
	}
	return load.Waiting
}

// TestRunsGoToTheirPool: a run that requires labels goes to executors that have them, while there
// are some; else to any executor, which says that it waits. It goes there, too, once those have
// gone that had its message.
func TestRunsGoToTheirPool(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.labelled("zone=a")
		d := r.start("d1")
		time.Sleep(2 * time.Second)
		put := func() schema.Entry {
			e := r.entry(time.Now().Add(2*time.Second), 0, gpu())
			r.put(e)
			return e
		}
		put()
		time.Sleep(4 * time.Second)
		if n, any := r.waits("zone=a"), r.waits(""); n != 0 || any != 1 {
			t.Fatalf("no executor fits: %d messages for others, %d for any; want one for any", n, any)
		}
		r.labelled("zone=a", "gpu=true,zone=a")
		put()
		plain := r.entry(time.Now().Add(2*time.Second), 0, schema.Spec{})
		r.put(plain)
		time.Sleep(4 * time.Second)
		if fit, any, others := r.waits("gpu=true,zone=a"), r.waits(""), r.waits("zone=a"); fit != 1 || any != 2 || others != 0 {
			t.Fatalf("an executor fits: %d messages for it, %d for any, %d for others; want one, and two for any", fit, any, others)
		}
		want := depth.Subject{Priority: schema.Normal, Pool: "gpu=true,zone=a"}
		if b := d.depth.Backlogs()[want]; b.InStream != 1 {
			t.Errorf("backlog of the pool = %+v, want its message", b)
		}
		r.labelled("zone=a")
		time.Sleep(settleAfter + 2*settleEvery)
		if any := r.waits(""); any != 3 {
			t.Errorf("the executor that fits has gone: %d messages for any, want its message among three", any)
		}
	})
}
