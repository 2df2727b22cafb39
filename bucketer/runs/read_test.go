package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// ghost is what a listing should find: where a run stands, and what it is.
type ghost struct {
	at    schema.EntryID // the row at which it is listed
	run   schema.RunID
	state schema.State
	team  string // its label
}

// scatter puts rows of every kind around begin, and returns what the tenant "t" should see of them.
func scatter(w *world, draw *rand.Rand, begin time.Time, shards, n int) []ghost {
	w.T.Helper()
	ctx := context.Background()
	expires := begin.Add(30 * 24 * time.Hour)
	// Few distinct instants, so that ids of one ms meet; bucket borders among them.
	instant := func() time.Time {
		t := begin.Add(time.Duration(draw.IntN(6)) * time.Minute)
		return t.Add(time.Duration([]int{0, 1, 2, 30_000, 59_998, 59_999}[draw.IntN(6)]) * time.Millisecond)
	}
	id := func() schema.EntryID {
		return schema.MakeEntryID(instant(), schema.Shard(draw.IntN(shards)), draw.Uint64()) // #nosec G115 -- small
	}
	put := func(id schema.EntryID, spec schema.Spec) schema.Entry {
		spec.Task = []string{"a", "b"}[draw.IntN(2)]
		if spec.Labels == nil {
			spec.Labels = map[string]string{"team": []string{"x", "y"}[draw.IntN(2)]}
		}
		if spec.Of.IsZero() {
			spec.Nominal = id.Time()
		}
		spec.Accepted = begin.UnixMicro()
		e, err := schema.NewEntry(id, spec, nil, expires)
		if err != nil {
			w.T.Fatalf("NewEntry = %v", err)
		}
		if err := w.Counts.PutEntries(ctx, []schema.Entry{e}); err != nil {
			w.T.Fatalf("PutEntries = %v", err)
		}
		return e
	}
	var all []ghost
	for range n {
		switch e := put(id(), schema.Spec{Tenant: []string{"t", "t", "u"}[draw.IntN(3)]}); {
		case e.Spec.Tenant != "t":
		default:
			g := ghost{e.ID, e.ID, schema.StatePending, e.Spec.Labels["team"]}
			for hops := draw.IntN(4) - 1; hops > 0; hops-- { // moved, perhaps more than once
				to := schema.MakeEntryID(instant(), e.ID.Shard(), draw.Uint64())
				put(to, schema.Spec{Tenant: "t", Kind: schema.KindReschedule, Of: e.ID, Labels: e.Spec.Labels})
				was := g.at
				if was == e.ID {
					was = schema.EntryID{}
				}
				if _, err := w.Counts.MoveRun(ctx, e.ID, was, to, expires); err != nil {
					w.T.Fatalf("MoveRun = %v", err)
				}
				g.at = to
			}
			switch draw.IntN(4) {
			case 0:
				w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded})
				g.state = schema.StateSucceeded
			case 1:
				put(id(), schema.Spec{Tenant: "t", Kind: schema.KindLate, Of: e.ID})
			case 2: // the entry of a change that was never named
				put(id(), schema.Spec{Tenant: "t", Kind: schema.KindReschedule, Of: e.ID})
			}
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b ghost) int { return a.at.Compare(b.at) })
	return all
}

// pages lists a window to its end, and fails the test where a page is larger than limit or does not
// go on.
func (w *world) pages(win Window, limit int) []Run {
	w.T.Helper()
	var runs []Run
	var pos Position
	for n := 0; ; n++ {
		page, next, err := w.Runs(context.Background(), win, pos, limit)
		if err != nil || len(page) > limit || n > 10_000 {
			w.T.Fatalf("Runs(%v, %d) = %d runs, %v (page %d)", pos, limit, len(page), err, n)
		}
		runs = append(runs, page...)
		if next == nil {
			return runs
		}
		if next.After.Compare(pos.After) <= 0 {
			w.T.Fatalf("page %d goes on at %s, and began at %s", n, next.After, pos.After)
		}
		text, err := json.Marshal(next) // as it travels in a cursor
		if err != nil {
			w.T.Fatal(err)
		}
		if err := json.Unmarshal(text, &pos); err != nil || pos != *next {
			w.T.Fatalf("position %s came back as %v, %v", text, pos, err)
		}
	}
}

// The pages of a listing, one after the other, are the whole: in due order, nothing twice, nothing
// left out.
func TestPagesOfAListingAreTheWhole(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	for _, shards := range []int{1, 2, 7, 64} {
		w := newWorld(t, schema.Settings{Shards: shards})
		all := scatter(w, draw, begin, shards, 400)
		for range 12 {
			border := func() time.Time {
				at := begin.Add(time.Duration(draw.IntN(8)-1) * time.Minute)
				return at.Add([]time.Duration{0, 0, time.Nanosecond, -time.Nanosecond, time.Millisecond, 30 * time.Second}[draw.IntN(6)])
			}
			win := Window{Tenant: "t", From: border(), To: border()}
			win.States = [][]schema.State{
				nil, nil,
				{schema.StatePending},
				{schema.StateSucceeded},
				{schema.StateFailed},
				{schema.StateFailed, schema.StateSucceeded},
				{schema.StatePending, schema.StateSucceeded},
				{schema.StateWaiting, schema.StateStuck},
			}[draw.IntN(8)]
			if draw.IntN(3) == 0 {
				win.Labels = map[string]string{"team": []string{"x", "y", "z"}[draw.IntN(3)]}
			}
			var want []string
			for _, g := range all {
				if at := g.at.Time(); !at.Before(win.From) && at.Before(win.To) && (len(win.States) == 0 || slices.Contains(win.States, g.state)) &&
					(win.Labels == nil || win.Labels["team"] == g.team) {
					want = append(want, fmt.Sprint(g.run, g.at))
				}
			}
			limit := []int{1, 2, 13, 50, 500}[draw.IntN(5)]
			var got []string
			for _, r := range w.pages(win, limit) {
				got = append(got, fmt.Sprint(r.ID, r.Current.ID))
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d, %d shards, limit %d, window %+v: %d runs, want %d\n%s\nwant\n%s", seed, shards, limit, win,
					len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

func TestListingByTask(t *testing.T) {
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	w := newWorld(t, schema.Settings{Shards: 4})
	all := scatter(w, rand.New(rand.NewPCG(1, 1)), begin, 4, 200)
	win := Window{Tenant: "t", From: begin, To: begin.Add(time.Hour)}
	n := 0
	for _, task := range []string{"a", "b", "none"} {
		win.Task = task
		runs := w.pages(win, 20)
		for _, r := range runs {
			if r.Current.Spec.Task != task {
				t.Errorf("listing of task %s holds %s of %s", task, r.ID, r.Current.Spec.Task)
			}
		}
		n += len(runs)
	}
	if n != len(all) {
		t.Errorf("tasks a and b have %d runs, want %d", n, len(all))
	}
}

// Rows that cannot be understood, even a page of them, hide no others and do not upset the order.
func TestListingPassesOverFaultyRows(t *testing.T) {
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	w := newWorld(t, schema.Settings{Shards: 2})
	var want []schema.EntryID
	add := func(shard schema.Shard, ms int, text string) {
		id := schema.MakeEntryID(begin.Add(time.Duration(ms)*time.Millisecond), shard, 1)
		if err := w.Counts.PutEntries(t.Context(), []schema.Entry{schema.LoadEntry(id, []byte(text), nil, schema.Marks{})}); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(text, "{") {
			want = append(want, id)
		}
	}
	for ms := range 100 {
		add(0, ms, "not JSON")
	}
	add(0, 100, `{"tenant":"t"}`)
	for ms := 200; ms < 240; ms++ {
		add(1, ms, `{"tenant":"t"}`)
	}
	for _, limit := range []int{1, 10, 500} {
		var got []schema.EntryID
		for _, r := range w.pages(Window{Tenant: "t", From: begin, To: begin.Add(time.Minute)}, limit) {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %d runs %v, want %d", limit, len(got), got, len(want))
		}
	}
}

// A page reads a bounded number of slices, whatever it finds, and says where to go on.
func TestPageOfRunsIsBounded(t *testing.T) {
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	const shards = 64
	w := newWorld(t, schema.Settings{Shards: shards})
	for _, row := range []struct {
		name string
		fill func()
	}{
		{"an empty hour", func() {}},
		{"an hour of runs of another state", func() {
			for i := range 20_000 {
				at := begin.Add(time.Duration(i) * 180 * time.Millisecond)
				e, err := schema.NewEntry(schema.MakeEntryID(at, schema.Shard(i%shards), uint64(i)), schema.Spec{Tenant: "t", Accepted: 1}, nil, at.Add(time.Hour)) // #nosec G115 -- small
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Counts.PutEntries(t.Context(), []schema.Entry{e}); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		name := row.name
		row.fill()
		win := Window{Tenant: "t", From: begin, To: begin.Add(time.Hour), Filter: Filter{States: []schema.State{schema.StateFailed}}}
		w.Counts.Reset()
		page, next, err := w.Runs(t.Context(), win, Position{}, 50)
		if err != nil || len(page) != 0 || next == nil {
			t.Fatalf("%s: Runs = %d runs, %v, %v; want none, and where to go on", name, len(page), next, err)
		}
		reads := 0
		for _, n := range w.Counts.Tallies() {
			reads += n.Calls
		}
		// The bound is judged after each step, so one step may lie beyond it.
		if reads > pageReads+2*shards+walkRows {
			t.Errorf("%s: a page took %d reads (%v), want about %d", name, reads, w.Counts.Tallies(), pageReads)
		}
		if got := w.pages(win, 50); len(got) != 0 {
			t.Errorf("%s: %d runs, want none", name, len(got))
		}
	}
}

// A listing that could not read everything says so, and holds nothing.
func TestListingThroughFaults(t *testing.T) {
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	w := newWorld(t, schema.Settings{Shards: 4})
	scatter(w, rand.New(rand.NewPCG(3, 3)), begin, 4, 200)
	win := Window{Tenant: "t", From: begin, To: begin.Add(time.Hour)}
	for _, op := range []string{"Entries", "EntriesByID", "Attempts"} {
		for n := range 3 {
			calls := 0
			w.Befall(func(_ context.Context, called string) schematest.Fault {
				w.Mu.Lock()
				defer w.Mu.Unlock()
				if called == op {
					calls++
				}
				return schematest.Fault{Fail: called == op && calls == n+1}
			})
			runs, next, err := w.Runs(t.Context(), win, Position{}, 500)
			if !errors.Is(err, schema.ErrUnavailable) || runs != nil || next != nil {
				t.Errorf("%s failed once: Runs = %d runs, %v, %v; want ErrUnavailable alone", op, len(runs), next, err)
			}
		}
	}
}
