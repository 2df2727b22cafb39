package schema_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestLatenessCounts(t *testing.T) {
	var c schema.LatenessCounts
	for _, late := range []time.Duration{-time.Second, 0, time.Millisecond, time.Millisecond + 1, schema.LateAfter, schema.LateAfter + 1, 5 * time.Minute, 5*time.Minute + 1, 1<<63 - 1} {
		c.Observe(late)
	}
	if want := (schema.LatenessCounts{0: 3, 1: 1, 9: 1, 10: 1, 15: 1, 16: 2}); c != want {
		t.Errorf("counted were %v, want %v", c, want)
	}
	if c.Count() != 9 || c.Late() != 4 || c.IsZero() || !(schema.LatenessCounts{}).IsZero() {
		t.Errorf("Count = %d, Late = %d", c.Count(), c.Late())
	}
	if !slices.IsSorted(schema.LatenessBounds[:]) || !slices.Contains(schema.LatenessBounds[:], schema.LateAfter) {
		t.Errorf("the bounds are %v, want them in order, LateAfter among them", schema.LatenessBounds)
	}
}

func TestLatenessCountsAsJSON(t *testing.T) {
	for text, c := range map[string]schema.LatenessCounts{
		`[]`: {}, `[1]`: {1}, `[0,0,3]`: {2: 3}, `[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,7]`: {16: 7},
	} {
		if got, err := json.Marshal(c); err != nil || string(got) != text {
			t.Errorf("Marshal(%v) = %s, %v; want %s", c, got, err, text)
		}
		is := schema.LatenessCounts{5: 5}
		if err := json.Unmarshal([]byte(text), &is); err != nil || is != c {
			t.Errorf("Unmarshal(%s) = %v, %v; want %v", text, is, err, c)
		}
	}
	var more schema.LatenessCounts // of a newer version, with two classes more
	if err := json.Unmarshal([]byte(`[0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,7,1,1]`), &more); err != nil || more != (schema.LatenessCounts{1: 1, 16: 9}) {
		t.Errorf("Unmarshal of more classes = %v, %v", more, err)
	}
	if err := json.Unmarshal([]byte(`["x"]`), &more); err == nil {
		t.Error("Unmarshal of texts = nil, want an error")
	}
}

// An older version counts by narrow classes alone, and reads what a newer one writes.
func TestCountsOfOtherVersions(t *testing.T) {
	older := schema.MinuteStats{Lateness: []schema.LatenessClass{
		{UpTo: schema.Duration(100 * time.Microsecond), Count: 1},  // its classes are a tenth wide
		{UpTo: schema.Duration(1065 * time.Microsecond), Count: 2}, // from 0.977 ms: more lies beyond 1 ms
		{UpTo: schema.Duration(time.Second), Count: 4}, {UpTo: schema.Duration(1090508 * time.Microsecond), Count: 8},
	}}
	if got, want := older.FixedClasses(), (schema.LatenessCounts{0: 1, 1: 2, 9: 4, 10: 8}); got != want {
		t.Errorf("FixedClasses = %v, want %v", got, want)
	}
	newer := older
	newer.Fixed = schema.LatenessCounts{3: 15}
	if got := newer.FixedClasses(); got != newer.Fixed {
		t.Errorf("FixedClasses = %v, want those that were counted", got)
	}
	text, err := json.Marshal(newer)
	if err != nil {
		t.Fatal(err)
	}
	var read struct { // as the version before has it
		Started  int64                  `json:"started"`
		Lateness []schema.LatenessClass `json:"lateness"`
	}
	if err := json.Unmarshal(text, &read); err != nil || len(read.Lateness) != 4 {
		t.Errorf("the version before reads %+v, %v", read, err)
	}
}

func TestPartitionsOfCounts(t *testing.T) {
	seen := make(map[int]bool)
	first, last := schema.StatsHour(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), schema.StatsHour(time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC))
	for _, kind := range append(slices.Clone(schema.StatsKinds), "unknown") {
		for _, hour := range []int{first, -1, 0, 498_000, last} {
			p := schema.StatsPartition(kind, hour)
			if p >= first && p <= last || seen[p] || p > 1<<31-1 || p < -1<<31 {
				t.Errorf("StatsPartition(%s, %d) = %d, want one that nobody else has", kind, hour, p)
			}
			seen[p] = true
		}
	}
}

func TestTroubleWeighsMore(t *testing.T) {
	busy, ill := schema.Counts{Due: 5, Started: 5, Succeeded: 5}, schema.Counts{Due: 1, Started: 1, Failed: 1}
	if busy.Weight() >= ill.Weight() {
		t.Errorf("weights %d and %d, want that one failure weighs more than five successes", busy.Weight(), ill.Weight())
	}
}
