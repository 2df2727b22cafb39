package admin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// countsWorld is a store that counts reads, a clock, and what nodes tell.
type countsWorld struct {
	t     *testing.T
	now   time.Time
	store *schematest.CountingStore
	told  Told
	asked int
	stats *Stats
}

func newCountsWorld(t *testing.T) *countsWorld {
	t.Helper()
	w := &countsWorld{t: t, now: time.Date(2026, 11, 21, 10, 30, 20, 0, time.UTC)}
	store, err := embedded.Open(embedded.Config{Shards: 1, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.store = schematest.Counting(store)
	w.stats = NewStats(StatsConfig{Store: w.store, Now: func() time.Time { return w.now }, Ask: func(_ context.Context, kind schema.StatsKind) (Told, error) {
		w.asked++
		told := Told{Missing: w.told.Missing}
		if kind == "" {
			told.Minutes = slices.Clone(w.told.Minutes)
		}
		for _, n := range w.told.Names {
			if n.Kind == kind {
				told.Names = append(told.Names, n)
			}
		}
		return told, nil
	}})
	return w
}

// at returns the minute that begins so many minutes before the one under way.
func (w *countsWorld) at(ago int) time.Time {
	return w.now.Truncate(time.Minute).Add(-time.Duration(ago) * time.Minute)
}

func (w *countsWorld) put(rows ...any) {
	w.t.Helper()
	for _, row := range rows {
		var err error
		switch row := row.(type) {
		case schema.MinuteStats:
			err = w.store.PutStats(w.t.Context(), row)
		case schema.NameStats:
			err = w.store.PutNameStats(w.t.Context(), row)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// minutes returns the counts of the last hour and more, of a tenant unless that is "".
func (w *countsWorld) minutes(tenant string, ago time.Duration) []Minute {
	w.t.Helper()
	got, missing, err := w.stats.Minutes(w.t.Context(), MinutesQuery{From: w.now.Add(-ago), To: w.now, Tenant: tenant})
	if err != nil || !slices.Equal(missing, w.told.Missing) {
		w.t.Fatalf("Minutes = missing %v, %v; want %v", missing, err, w.told.Missing)
	}
	return got
}

func class(ms, count int64) schema.LatenessClass {
	return schema.LatenessClass{UpTo: schema.Duration(time.Duration(ms) * time.Millisecond), Count: count}
}

func TestCountsOfNodesAreAddedUp(t *testing.T) {
	w := newCountsWorld(t)
	w.put(
		schema.MinuteStats{Minute: w.at(2), Node: "a", Due: 1, Started: 2, Succeeded: 3, Failed: 4, Missed: 5, MissedFor: schema.MissedFor{Late: 1, Changed: 4}, Retried: 6, Lateness: []schema.LatenessClass{class(1, 98), class(5, 1)}, Fixed: schema.LatenessCounts{98, 0, 1}},
		schema.MinuteStats{Minute: w.at(2), Node: "b", Due: 10, Started: 20, Succeeded: 30, Failed: 40, Missed: 50, Retried: 60, Lateness: []schema.LatenessClass{class(2, 100), class(5, 1)}}, // an older version
		schema.MinuteStats{Minute: w.at(1), Node: "a", Due: 1},
		schema.MinuteStats{Minute: w.at(-1), Node: "a", Due: 1},
		schema.MinuteStats{Minute: w.at(130), Node: "a", Due: 1},
	)
	got := w.minutes("", time.Hour)
	if len(got) != 3 {
		t.Fatalf("Minutes = %+v; want two, and the one under way", got)
	}
	m := got[0]
	if m.Due != 11 || m.Started != 22 || m.Succeeded != 33 || m.Failed != 44 || m.Missed != 55 || m.Retried != 66 || m.Running {
		t.Errorf("the counts of two nodes together = %+v", m)
	}
	if want := (schema.MissedFor{Late: 1, Changed: 4}); m.MissedFor != want {
		t.Errorf("why runs were missed = %+v, want %+v: an older version does not tell", m.MissedFor, want)
	}
	if want := (Lateness{class(1, 98), class(2, 100), class(5, 2)}); !slices.Equal(m.Lateness, want) {
		t.Errorf("the lateness of two nodes together = %v, want %v", m.Lateness, want)
	}
	if want := (schema.LatenessCounts{98, 100, 2}); m.Classes != want {
		t.Errorf("the classes of two nodes together = %v, want %v", m.Classes, want)
	}
	for q, want := range map[float64]int64{0: 1, .25: 1, .5: 2, .99: 2, 1: 5} {
		if got := m.Lateness.Rank(q); got.Std().Milliseconds() != want {
			t.Errorf("Rank(%v) = %v, want %v ms", q, got, want)
		}
	}
	if got := Lateness(nil).Rank(.5); got != 0 {
		t.Errorf("Rank of nothing = %v, want 0", got)
	}
	if m := got[2]; !m.Running || !m.Minute.Equal(w.at(0)) || m.Due != 0 {
		t.Errorf("the minute under way = %+v, want nothing so far", m)
	}
}

// Since when something fails, and why, is told of all minutes and nodes together.
func TestTopSaysSinceWhenAndWhy(t *testing.T) {
	w := newCountsWorld(t)
	row := func(ago int, node string, failed, succeeded int64, why string) schema.NameStats {
		return schema.NameStats{Minute: w.at(ago), Node: node, Kind: schema.ByHost, Names: []schema.NameCounts{
			{Tenant: "a", Name: "api.test", Counts: schema.Counts{Failed: failed, Succeeded: succeeded}, LastError: why},
		}}
	}
	w.put(row(200, "a", 1, 0, "long ago"), row(20, "a", 0, 3, ""), row(9, "a", 2, 1, "answered 500"), row(9, "b", 0, 1, ""), row(3, "b", 1, 0, "answered 503"), row(2, "a", 0, 0, ""))
	w.told.Names = []schema.NameStats{row(0, "a", 1, 0, "")}
	for range 2 { // what is read is kept
		top, err := w.stats.Top(t.Context(), TopQuery{Kind: schema.ByHost, From: w.now.Add(-time.Hour), To: w.now.Add(time.Minute), Limit: 9})
		if err != nil || len(top.Names) != 1 {
			t.Fatalf("Top = %+v, %v; want one name", top, err)
		}
		n := top.Names[0]
		if !n.FirstFailed.Equal(w.at(9)) || !n.LastFailed.Equal(w.at(0)) || !n.LastSucceeded.Equal(w.at(9)) || n.LastError != "answered 503" || n.Failed != 4 {
			t.Errorf("Top = %+v, want that it fails from %v to %v, succeeded last at %v, and why", n, w.at(9), w.at(0), w.at(9))
		}
	}
}

// The minute under way is what the nodes tell, also while they write it: nothing counts twice.
func TestTheMinuteUnderWayIsTold(t *testing.T) {
	w := newCountsWorld(t)
	w.told = Told{Missing: []string{"c"}, Minutes: []schema.MinuteStats{
		{Minute: w.at(0), Node: "a@1", Due: 3}, {Minute: w.at(0), Node: "b@1", Due: 4}, {Minute: w.at(1), Node: "a@1", Due: 10},
	}}
	w.put(
		schema.MinuteStats{Minute: w.at(1), Node: "a@1", Due: 10}, // written meanwhile
		schema.MinuteStats{Minute: w.at(1), Node: "a@0", Due: 1},  // of the life before
		schema.MinuteStats{Minute: w.at(1), Node: "b@1", Due: 20},
	)
	due := func(want ...int64) {
		t.Helper()
		var is []int64
		for _, m := range w.minutes("", 2*time.Minute) {
			is = append(is, m.Due)
			if m.Running != m.Minute.Equal(w.at(0)) {
				t.Errorf("minute %+v, want that the last one is under way", m)
			}
		}
		if !slices.Equal(is, want) {
			t.Errorf("due by minute = %v, want %v", is, want)
		}
	}
	due(31, 7)
	w.told.Minutes[0].Due = 5
	due(31, 7) // within a second nobody is asked again
	if w.asked != 1 {
		t.Errorf("the nodes were asked %d times, want once", w.asked)
	}
	w.now = w.now.Add(1100 * time.Millisecond)
	due(31, 9)
	if reads := w.store.Tally("Stats").Calls; reads != 2 {
		t.Errorf("the store was read %d times, want twice", reads)
	}
	old := w.at(200)
	if _, missing, err := w.stats.Minutes(t.Context(), MinutesQuery{From: old, To: old.Add(time.Hour)}); err != nil || len(missing) != 0 || w.asked != 2 {
		t.Errorf("an old window: missing %v, %v, asked %d times; want that nobody is asked", missing, err, w.asked)
	}
}

// What is read of hours in which nothing is written any more is read once, however often it is asked
// for.
func TestClosedHoursAreReadOnce(t *testing.T) {
	w := newCountsWorld(t)
	names := schema.NameStats{Kind: schema.ByTenant, Minute: w.at(100), Node: "a", Names: []schema.NameCounts{{Tenant: "t", Counts: schema.Counts{Due: 3}}}}
	w.put(schema.MinuteStats{Minute: w.at(100), Node: "a", Due: 3}, names)
	for range 10 {
		if got := w.minutes("", 6*time.Hour); len(got) != 2 || got[0].Due != 3 {
			t.Fatalf("Minutes = %+v", got)
		}
		if got := w.minutes("t", 6*time.Hour); len(got) != 2 || got[0].Due != 3 {
			t.Fatalf("Minutes of a tenant = %+v", got)
		}
		if top, err := w.stats.Top(t.Context(), TopQuery{Kind: schema.ByTenant, From: w.at(360), To: w.at(0), Limit: 9}); err != nil || len(top.Names) != 1 || top.Names[0].Due != 3 {
			t.Fatalf("Top = %+v, %v", top, err)
		}
		w.now = w.now.Add(3 * time.Second)
	}
	// Six hours that are closed, and one that is read again after a second.
	if reads := w.store.Tally("Stats").Calls; reads != 6+10 {
		t.Errorf("the counts were read %d times, want 16", reads)
	}
	if reads := w.store.Tally("NameStats").Calls; reads != 6+6+10 {
		t.Errorf("the counts by tenant were read %d times, want 22", reads)
	}
}

// readFrom notes from which minute on counts by name are read.
type readFrom struct {
	schema.StatsStore
	from []time.Time
}

func (r *readFrom) NameStats(ctx context.Context, kind schema.StatsKind, hour int, from time.Time) ([]schema.NameStats, error) {
	r.from = append(r.from, from)
	return r.StatsStore.NameStats(ctx, kind, hour, from)
}

// While somebody looks, only the last minutes of the hour under way are read, and all of it from time to
// time: a node may be slow to write.
func TestOnlyTheLastMinutesAreReadEverySecond(t *testing.T) {
	w := newCountsWorld(t)
	spy := &readFrom{StatsStore: w.store}
	w.stats = NewStats(StatsConfig{Store: spy, Now: func() time.Time { return w.now }})
	put := func(ago int, node string, due int64) {
		t.Helper()
		w.put(schema.NameStats{Kind: schema.ByTask, Minute: w.at(ago), Node: node, Names: []schema.NameCounts{{Tenant: "t", Name: "k", Counts: schema.Counts{Due: due}}}})
	}
	hour := w.at(30)
	ask := func(due int64, from time.Time) {
		t.Helper()
		spy.from = nil
		top, err := w.stats.Top(t.Context(), TopQuery{Kind: schema.ByTask, From: hour, To: w.now, Limit: 9})
		if err != nil || len(top.Names) != 1 || top.Names[0].Due != due || len(spy.from) != 1 || !spy.from[0].Equal(from) {
			t.Errorf("at %v Top = %+v, %v, read from %v; want %d due, read from %v", w.now, top, err, spy.from, due, from)
		}
	}
	for ago := range 31 {
		put(ago, "a", 1)
	}
	ask(31, hour)
	w.now = w.now.Add(2 * time.Second)
	put(0, "b", 100)
	ask(131, w.at(2))
	w.now = w.now.Add(time.Minute)
	put(2, "b", 1000)
	ask(1131, w.at(3))  // as far as was read at the time before
	put(20, "b", 10000) // so late
	w.now = w.now.Add(2 * time.Second)
	ask(1131, w.at(2))
	w.now = w.now.Add(openWhole)
	ask(11131, hour)
	w.now = w.now.Add(2 * time.Second)
	ask(11131, w.at(2))
}

// A tenant's counts are its own, and say where they may not be all.
func TestCountsOfOneTenant(t *testing.T) {
	w := newCountsWorld(t)
	own := func(due int64) schema.NameCounts {
		return schema.NameCounts{Tenant: "t", Counts: schema.Counts{Due: due, Started: 2, Lateness: schema.LatenessCounts{1: 1, 16: 1}, MaxLateness: schema.Duration(time.Hour)}}
	}
	others := schema.Counts{Due: 100}
	row := func(ago int, node string, others schema.Counts, names ...schema.NameCounts) schema.NameStats {
		return schema.NameStats{Kind: schema.ByTenant, Minute: w.at(ago), Node: node, Names: names, Others: others}
	}
	w.put(
		row(40, "a", others, own(1)), row(40, "b", schema.Counts{}, schema.NameCounts{Tenant: "u", Counts: others}, own(2)),
		row(39, "a", others, schema.NameCounts{Tenant: "u", Counts: others}), row(39, "b", others, own(4)),
		row(38, "a", schema.Counts{}, schema.NameCounts{Tenant: "u", Counts: others}),
		row(1, "a", schema.Counts{}, own(8)),
	)
	w.told.Names = []schema.NameStats{row(0, "a", schema.Counts{}, own(16)), row(1, "a", schema.Counts{}, own(8))}
	got := w.minutes("t", time.Hour)
	for i := range got {
		want := []Minute{
			{Minute: w.at(40), Due: 3, Started: 4},
			{Minute: w.at(39), Due: 4, Started: 2, Partial: true},
			{Minute: w.at(1), Due: 8, Started: 2},
			{Minute: w.at(0), Due: 16, Started: 2, Running: true},
		}[i]
		m := got[i]
		if n := want.Started / 2; m.Classes != (schema.LatenessCounts{1: n, 16: n}) || m.Lateness.Rank(1).Std() != time.Hour {
			t.Errorf("minute %d: classes %v, lateness %v", i, m.Classes, m.Lateness)
		}
		if m.Classes, m.Lateness = want.Classes, nil; fmt.Sprint(m) != fmt.Sprint(want) {
			t.Errorf("minute %d = %+v, want %+v", i, m, want)
		}
	}
	if len(got) != 4 {
		t.Errorf("Minutes = %+v, want 4", got)
	}
}

func TestTopAddsUpNames(t *testing.T) {
	w := newCountsWorld(t)
	renamed := schema.MakeJobID(w.now, 1, 1)
	row := func(ago int, node string, others schema.Counts, names ...schema.NameCounts) schema.NameStats {
		return schema.NameStats{Kind: schema.ByJob, Minute: w.at(ago), Node: node, Names: names, Others: others}
	}
	name := func(tenant, name string, n uint64, c schema.Counts) schema.NameCounts {
		return schema.NameCounts{Tenant: tenant, Name: name, Job: schema.MakeJobID(w.now, 1, n), Counts: c}
	}
	w.put(
		row(200, "a", schema.Counts{}, name("t", "too old", 9, schema.Counts{Started: 1000})),
		row(90, "a", schema.Counts{}, name("t", "before", 1, schema.Counts{Started: 1, MaxLateness: 7}), name("u", "busy", 2, schema.Counts{Started: 50, Succeeded: 50})),
		row(90, "b", schema.Counts{Started: 5}, name("t", "before", 1, schema.Counts{Started: 2}), name("t", "ill", 3, schema.Counts{Failed: 6})),
		row(2, "a", schema.Counts{}, name("t", "after", 1, schema.Counts{Started: 4, MaxLateness: 9})),
	)
	w.told.Names = []schema.NameStats{row(0, "a", schema.Counts{}, name("t", "after", 1, schema.Counts{Started: 8}), name("t", "ill", 3, schema.Counts{Missed: 1, Lateness: schema.LatenessCounts{16: 1}, Started: 1}))}
	q := TopQuery{Kind: schema.ByJob, From: w.at(95), To: w.now, Limit: 50}
	show := func(top Top) (s string) {
		for _, n := range top.Names {
			s += fmt.Sprintf("%s/%s %d %d %d, ", n.Tenant, n.Name, n.Started, n.Failed, n.Missed)
		}
		return s + fmt.Sprintf("others %d %d", top.Others.Started, top.Others.Failed)
	}
	for _, row := range []struct {
		change func(q *TopQuery)
		want   string
	}{
		{func(*TopQuery) {}, "t/ill 1 6 1, u/busy 50 0 0, t/after 15 0 0, others 5 0"},
		{func(q *TopQuery) { q.Order = OrderStarted }, "u/busy 50 0 0, t/after 15 0 0, t/ill 1 6 1, others 5 0"},
		{func(q *TopQuery) { q.Order, q.Limit = OrderFailed, 1 }, "t/ill 1 6 1, others 70 0"},
		{func(q *TopQuery) { q.Order, q.Limit = OrderMissed, 1 }, "t/ill 1 6 1, others 70 0"},
		{func(q *TopQuery) { q.Order, q.Limit = OrderLate, 1 }, "t/ill 1 6 1, others 70 0"},
		{func(q *TopQuery) { q.Tenant = "u" }, "u/busy 50 0 0, others 0 0"},
		{func(q *TopQuery) { q.Tenant, q.Limit = "t", 1 }, "t/ill 1 6 1, others 15 0"},
		{func(q *TopQuery) { q.From = w.at(3) }, "t/ill 1 0 1, t/after 12 0 0, others 0 0"},
		{func(q *TopQuery) { q.To = w.at(2) }, "u/busy 50 0 0, t/ill 0 6 0, t/before 3 0 0, others 5 0"},
		{func(q *TopQuery) { q.Kind = schema.ByHost }, "others 0 0"},
	} {
		q := q
		row.change(&q)
		top, err := w.stats.Top(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(top); got != row.want {
			t.Errorf("Top of %+v = %s, want %s", q, got, row.want)
		}
		wantComplete := q.Kind == schema.ByHost || q.From.Equal(w.at(3))
		if top.Complete != wantComplete {
			t.Errorf("Top of %+v: complete %v, want %v", q, top.Complete, wantComplete)
		}
	}
	top, err := w.stats.Top(t.Context(), q)
	if err != nil || top.Names[2].Job != renamed || top.Names[2].MaxLateness != 9 {
		t.Errorf("Top = %+v, %v; want the job under its new name", top, err)
	}
}

// Whatever order nodes come in, together they count the same.
func TestLatenessIsAddedInAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var nodes [][]schema.LatenessClass
	for range 10 {
		var l []schema.LatenessClass
		for i := range 20 {
			if rnd.IntN(2) == 0 {
				l = append(l, schema.LatenessClass{UpTo: schema.Duration(i), Count: rnd.Int64N(5) + 1})
			}
		}
		nodes = append(nodes, l)
	}
	var first Lateness
	for _, l := range nodes {
		first = first.add(l)
	}
	for range 20 {
		rnd.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		var again Lateness
		for _, l := range nodes {
			again = again.add(l)
		}
		if !slices.Equal(first, again) {
			t.Errorf("in another order: %v, want %v", again, first)
		}
	}
}
