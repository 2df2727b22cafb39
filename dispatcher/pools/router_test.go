package pools_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/pools"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

func requiring(required schema.Labels) schema.Spec {
	return schema.Spec{Tenant: "t", Work: &schema.Work{Requires: required}}
}

func entry(n int, spec schema.Spec) *schema.Entry {
	return &schema.Entry{ID: schema.MakeEntryID(time.UnixMilli(1_800_000_000_000), 1, uint64(n)), Spec: spec}
}

func TestARunIsPublishedForAPoolThatFits(t *testing.T) {
	r, err := ring.Static([]ring.Member{
		{Name: "a", Labels: "gpu=true,zone=a"},
		{Name: "b", Labels: "gpu=true,zone=a"},
		{Name: "c", Labels: "gpu=true"},
		{Name: "d"},
		{Name: "e", Labels: "zone=b"},
		{Name: "f", Labels: "of a newer version"},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	router := pools.New(r, func(task schema.TaskName) schema.Labels {
		if task == (schema.TaskName{Tenant: "t", Name: "train"}) {
			return schema.Labels{"zone": "b"}
		}
		return nil
	})
	const runs = 300
	for _, c := range []struct {
		name string
		spec schema.Spec
		want map[queue.Pool]int
	}{
		{"nothing", requiring(nil), map[queue.Pool]int{"": runs}},
		{"in proportion to the executors", requiring(schema.Labels{"gpu": "true"}), map[queue.Pool]int{"gpu=true,zone=a": 2 * runs / 3, "gpu=true": runs / 3}},
		{"one pool", requiring(schema.Labels{"gpu": "true", "zone": "a"}), map[queue.Pool]int{"gpu=true,zone=a": runs}},
		{"none fits", requiring(schema.Labels{"gpu": "true", "zone": "b"}), map[queue.Pool]int{"": runs}},
		{"by its task", schema.Spec{Tenant: "t", Task: "train"}, map[queue.Pool]int{"zone=b": runs}},
		{"a task that requires nothing", schema.Spec{Tenant: "u", Task: "train"}, map[queue.Pool]int{"": runs}},
	} {
		got := make(map[queue.Pool]int)
		for n := range runs {
			got[router.For(entry(n, c.spec))]++
		}
		for pool, want := range c.want {
			if n := got[pool]; n != want || len(got) != len(c.want) {
				t.Errorf("%s: of %d runs %d are for the pool %q (%v in all), want %d", c.name, runs, n, pool, got, want)
			}
		}
	}
	for pool, want := range map[queue.Pool]bool{"": false, "gpu=true": false, "zone=b": false, "zone=c": true, "of a newer version": true} {
		if got := router.Gone(pool); got != want {
			t.Errorf("Gone(%q) = %v, want %v", pool, got, want)
		}
	}
	if err := r.Set([]ring.Member{{Name: "d"}, {Name: "e", Labels: "gpu=false"}}, nil, 1); err != nil {
		t.Fatal(err)
	}
	if got := router.For(entry(1, requiring(schema.Labels{"gpu": "true"}))); got != "" || !router.Gone("gpu=true") {
		t.Errorf("once the executors that fit are gone, the pool is %q, gone: %v; want any executor, and gone", got, router.Gone("gpu=true"))
	}
}

// TestWhatRequiresNothingCostsNothing: it is asked for every run that is published.
func TestWhatRequiresNothingCostsNothing(t *testing.T) {
	r, err := ring.Static([]ring.Member{{Name: "a", Labels: "gpu=true"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	router := pools.New(r, func(schema.TaskName) schema.Labels { return nil })
	inline, task, gpu := entry(1, requiring(nil)), entry(2, schema.Spec{Tenant: "t", Task: "x"}), entry(3, requiring(schema.Labels{"gpu": "true"}))
	for what, e := range map[string]*schema.Entry{"inline work": inline, "a task": task, "work that requires a label": gpu} {
		if n := testing.AllocsPerRun(100, func() { router.For(e) }); n > 0 {
			t.Errorf("For of %s allocates %v times, want 0", what, n)
		}
	}
}
