package schema_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

// Ids of steps name step and item, keep the time and shard of their workflow run, lie in a partition
// that no dispatcher scans, and in the order of steps and items.
func TestStepIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms")).UTC()
		shard := schema.Shard(rapid.IntRange(0, schema.MaxShards-1).Draw(t, "shard"))
		run := schema.MakeEntryID(at, shard, rapid.Uint64().Draw(t, "hash"))
		step := rapid.IntRange(0, schema.MaxSteps-1).Draw(t, "step")
		item := rapid.IntRange(0, schema.MaxItems).Draw(t, "item")
		id := schema.MakeStepID(run, step, item)
		if !id.IsStep() || run.IsStep() {
			t.Fatalf("IsStep(%s) = %v, of the workflow run %v, want true and false", id, id.IsStep(), run.IsStep())
		}
		if s, i := id.StepOf(); s != step || i != item {
			t.Errorf("StepOf(%s) = %d, %d, want %d, %d", id, s, i, step, item)
		}
		if !id.Time().Equal(run.Time()) || id.Shard() != shard {
			t.Errorf("%s: time %v and shard %d, want those of its workflow run, %v and %d", id, id.Time(), id.Shard(), run.Time(), shard)
		}
		if b := id.Bucket(); b < schema.BucketOf(time.Date(4000, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("bucket of %s = %d, which is one of a time", id, b)
		}
		if again := schema.MakeStepID(run, step, item); again != id {
			t.Errorf("MakeStepID of the same = %s and %s", id, again)
		}
		if parsed, err := schema.ParseEntryID(id.String()); err != nil || parsed != id {
			t.Errorf("ParseEntryID(%s) = %v, %v", id, parsed, err)
		}
		if definition := schema.DefinitionID(run); definition.Partition() != id.Partition() || definition.Compare(id) <= 0 {
			t.Errorf("definition %s is not in the partition of step %s, after it", definition, id)
		}
		if r := schema.StepRange(run); !r.Contains(id) || r.Contains(schema.DefinitionID(run)) {
			t.Errorf("the range of steps of %s does not hold %s, or holds the definition", run, id)
		}
		if r := schema.ItemRange(run, step, item); r.Contains(id) || item < schema.MaxItems && !r.Contains(schema.MakeStepID(run, step, item+1)) {
			t.Errorf("the range of items after %d of step %d is wrong", item, step)
		}
		other := schema.MakeStepID(run, rapid.IntRange(0, schema.MaxSteps-1).Draw(t, "other"), rapid.IntRange(0, schema.MaxItems).Draw(t, "other item"))
		os, oi := other.StepOf()
		want := 0
		switch {
		case os > step || os == step && oi > item:
			want = -1
		case os < step || oi < item:
			want = 1
		}
		if got := id.Compare(other); got != want {
			t.Errorf("order of step %d item %d and step %d item %d = %d, want %d", step, item, os, oi, got, want)
		}
	})
}

// A child workflow's steps are its own: a step of a step's run.
func TestStepsOfChildren(t *testing.T) {
	run := schema.MakeEntryID(time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC), 7, 42)
	child := schema.MakeStepID(run, 3, 0)
	own := schema.MakeStepID(child, 0, 0)
	if own == schema.MakeStepID(run, 0, 0) || !own.IsStep() || own.Shard() != 7 || !own.Time().Equal(run.Time()) {
		t.Errorf("the first step of a child = %s", own)
	}
	if r := schema.StepRange(run); r.Contains(own) {
		t.Error("the steps of a workflow run hold those of a child")
	}
}
