package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestBlocksOfALimit: what an executor is given, beside others.
func TestBlocksOfALimit(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	block := func(name string, held, wanted int, waited time.Duration) schema.Block {
		b := schema.Block{Executor: name, Session: "of " + name, Held: held, Wanted: wanted}
		if waited > 0 {
			b.Since = now.Add(-waited)
		}
		return b
	}
	for _, tt := range []struct {
		name                     string
		have                     []schema.Block
		limit, busy, want        int
		over                     bool
		held, use, wanted, rests int // rests: blocks afterwards
	}{
		{"the first takes what it needs", nil, 10, 0, 3, false, 3, 3, 0, 1},
		{"the first takes all there are", nil, 10, 0, 30, false, 10, 10, 1, 1},
		{"nothing is needed", nil, 10, 0, 0, false, 0, 0, 0, 0},
		{"what is left of another's", []schema.Block{block("y", 7, 0, 0)}, 10, 0, 8, false, 3, 3, 8, 2},
		{"nothing is left", []schema.Block{block("y", 10, 0, 0)}, 10, 0, 3, false, 0, 0, 4, 2},
		{"idle ones go back", []schema.Block{block("x", 9, 0, 0)}, 10, 2, 4, false, 4, 4, 0, 1},
		{"all go back", []schema.Block{block("x", 9, 0, 0), block("y", 1, 0, 0)}, 10, 0, 0, false, 0, 0, 0, 1},
		{"half, if another waits", []schema.Block{block("x", 10, 0, 0), block("y", 0, 8, time.Second)}, 10, 0, 30, false, 5, 5, 1, 2},
		{"half may be used, while all are in use", []schema.Block{block("x", 10, 0, 0), block("y", 0, 8, time.Second)}, 10, 10, 30, false, 10, 5, 1, 2},
		{"as many as another wants, if that is less than half", []schema.Block{block("x", 10, 0, 0), block("y", 0, 2, time.Second)}, 10, 0, 30, false, 8, 8, 1, 2},
		{"one who waits leaves others theirs", []schema.Block{block("y", 2, 2, 0), block("z", 5, 0, 0)}, 12, 0, 9, false, 4, 4, 1, 3},
		{"of a lowered limit the share stays", []schema.Block{block("x", 5, 0, 0), block("y", 5, 0, 0)}, 4, 0, 5, false, 2, 2, 1, 2},
		{"a lowered limit, all in use", []schema.Block{block("x", 5, 0, 0), block("y", 5, 0, 0)}, 4, 5, 5, false, 5, 2, 0, 2},
		{"one slot of two executors stays for a turn", []schema.Block{block("x", 1, 0, 0), block("y", 0, 1, time.Second)}, 1, 1, 5, false, 1, 1, 1, 2},
		{"one slot of two executors, the turn is over", []schema.Block{block("x", 1, 0, 0), block("y", 0, 1, time.Second)}, 1, 0, 5, true, 0, 0, 8, 2},
		{"one slot, the turn is over, in use", []schema.Block{block("x", 1, 0, 0), block("y", 0, 1, time.Second)}, 1, 1, 5, true, 1, 0, 1, 2},
		{"one slot, the turn is over, nobody waits", []schema.Block{block("x", 1, 0, 0)}, 1, 1, 5, true, 1, 1, 1, 1},
		{"who has waited longer is the next", []schema.Block{block("x", 0, 1, time.Second), block("y", 0, 1, 2*time.Second), block("z", 0, 0, 0)}, 1, 0, 1, false, 0, 0, 1, 3},
		{"it has waited the longest", []schema.Block{block("x", 0, 1, 3*time.Second), block("y", 0, 1, 2*time.Second), block("z", 0, 0, 0)}, 1, 0, 1, false, 1, 1, 0, 3},
		{"no limit any more, one in use", []schema.Block{block("x", 3, 0, 0)}, 0, 1, 0, false, 1, 0, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := schema.Slots{Blocks: tt.have}
			before := fmt.Sprint(tt.have)
			held, use, _ := s.Apportion(schema.BlockRequest{Executor: "x", Session: "of x", Limit: tt.limit, Busy: tt.busy, Want: tt.want, Over: tt.over, Now: now})
			var mine schema.Block
			for _, b := range s.Blocks {
				if b.Executor == "x" {
					mine = b
				}
			}
			if held != tt.held || use != tt.use || mine.Wanted != tt.wanted || mine.Held != held || len(s.Blocks) != tt.rests {
				t.Errorf("Apportion = %d held, %d to be used, and %+v; want %d, %d, %d wanted and %d blocks", held, use, s.Blocks, tt.held, tt.use, tt.wanted, tt.rests)
			}
			if after := fmt.Sprint(tt.have); after != before {
				t.Errorf("what was read was changed: %s, was %s", after, before)
			}
		})
	}
}

// TestBlocksAreSharedOut: whoever asks in whatever order, no more slots are given than there are,
// who wants some has its share in the end, and where there are fewer than executors all have their
// turn.
func TestBlocksAreSharedOut(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for range 300 {
		n, limit := 1+rng.IntN(8), 1+rng.IntN(20)
		var s schema.Slots
		want, held, turns := make([]int, n), make([]int, n), make([]int, n)
		ask := func(i int, over bool) {
			now = now.Add(time.Millisecond)
			total := 0
			for _, h := range held {
				total += h
			}
			had := held[i]
			var use int
			held[i], use, _ = s.Apportion(schema.BlockRequest{
				Executor: fmt.Sprint(i), Session: "s", Limit: limit, Busy: rng.IntN(had + 1), Want: want[i], Over: over, Now: now,
			})
			if grown := total - had + held[i]; held[i] > had && grown > limit || use > held[i] {
				t.Fatalf("%d of %d executors has %d and may use %d, all %d of %d; had %d of %d", i, n, held[i], use, grown, limit, had, total)
			}
			if held[i] > 0 {
				turns[i]++
			}
		}
		for range 200 {
			i := rng.IntN(n)
			switch rng.IntN(6) {
			case 0:
				limit = 1 + rng.IntN(20)
			case 1:
				want[i] = rng.IntN(30)
			}
			ask(i, rng.IntN(2) == 0)
		}
		for i := range want {
			want[i] = 1 + rng.IntN(30)
		}
		clear(turns)
		for range 40 * n {
			for i := range want {
				ask(i, true)
			}
		}
		total, wanted := 0, 0
		for i := range held {
			total, wanted = total+held[i], wanted+want[i]
			if held[i] < min(limit/n, want[i]) || turns[i] == 0 {
				t.Fatalf("of %d slots executor %d of %d has %d and wants %d, and had some %d times: %+v", limit, i, n, held[i], want[i], turns[i], s.Blocks)
			}
		}
		if limit >= n && total < min(limit, wanted) {
			t.Fatalf("%d of %d slots are given, where %d are wanted: %+v", total, limit, wanted, s.Blocks)
		}
	}
}

// TestBlocksOfTheDead: they are taken away with the session, and so is what it waited for; and a
// lease that says most stays small.
func TestBlocksOfTheDead(t *testing.T) {
	var s schema.Slots
	now := time.Now()
	for i := range 2 * schema.MaxBlocks {
		name := fmt.Sprintf("%s-%d", strings.Repeat("x", 59), i)
		s.Apportion(schema.BlockRequest{Executor: name, Session: "0123456789abcdef", Limit: schema.MaxTaskConcurrent, Want: 1 + i%2*4096, Now: now})
	}
	l, err := schema.Lease{Key: schema.TaskLimit(schema.TaskName{Tenant: "t", Name: "a"}).Lease()}.WithSlots(s, now)
	if err != nil || len(s.Blocks) != schema.MaxBlocks || len(l.Record) > 64<<10 {
		t.Fatalf("%d blocks take %d bytes, %v; want %d and at most 64 KiB", len(s.Blocks), len(l.Record), err, schema.MaxBlocks)
	}
	var again schema.Slots
	if err := json.Unmarshal(l.Record, &again); err != nil || fmt.Sprint(again) != fmt.Sprint(s) {
		t.Errorf("read again %v: %v, want %v", again, err, s)
	}
	if rows := s.Sessions(); len(rows) != schema.MaxBlocks || !rows[0].Session.Guarded {
		t.Errorf("Sessions = %d rows, the first %+v; want one for each block, as of claims", len(rows), rows[0].Session)
	}
	one := s.Blocks[7].Executor
	s.Prune(now, func(ref schema.SessionRef) bool { return ref.Executor == one })
	if len(s.Blocks) != 1 || s.Blocks[0].Executor != one {
		t.Errorf("Prune left %+v, want what %s has", s.Blocks, one)
	}
}

func TestTaskLimit(t *testing.T) {
	name := schema.TaskName{Tenant: "t", Name: "send-email"}
	key := schema.TaskLimit(name)
	if got, ok := key.Task(); !ok || got != name || key != "task/t/send-email" {
		t.Errorf("Task of %s = %v, %v; want %v", key, got, ok, name)
	}
	if _, ok := key.Job(); ok {
		t.Errorf("%s is said to be a job's", key)
	}
	if got, ok := schema.TenantLimit("a/b").Tenant(); !ok || got != "a/b" {
		t.Errorf("Tenant of %q's limit = %q, %v", "a/b", got, ok)
	}
	if _, ok := schema.TenantLimit("t").Task(); ok {
		t.Error("a tenant's limit is taken for a task's")
	}
	if _, ok := schema.JobLimit(schema.JobID{}).Task(); ok {
		t.Error("a job's limit is said to be a task's")
	}
}
