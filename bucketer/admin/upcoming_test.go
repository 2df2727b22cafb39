package admin

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// rowsByID has ids of rows, and counts reads.
type rowsByID struct {
	mu    sync.Mutex
	ids   map[schema.Partition][]schema.EntryID // in order
	reads int
	takes time.Duration // of a read
	err   error
}

func (r *rowsByID) EntryIDs(ctx context.Context, p schema.Partition, in schema.IDRange, limit int) ([]schema.EntryID, error) {
	r.mu.Lock()
	r.reads++
	takes, err, all := r.takes, r.err, r.ids[p]
	r.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	at, _ := slices.BinarySearchFunc(all, in.After, func(id, after schema.EntryID) int {
		if id.Compare(after) <= 0 {
			return -1
		}
		return 1
	})
	return all[at:min(at+limit, len(all))], nil
}

// since returns how many reads there were since it was asked last.
func (r *rowsByID) since() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, r.reads = r.reads, 0
	return n
}

func (r *rowsByID) set(takes time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes, r.err = takes, err
}

// fill puts n rows into each shard of the minutes from b on, at even times.
func (r *rowsByID) fill(b schema.Bucket, minutes, shards, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range minutes {
		for s := range shards {
			p := schema.Partition{Bucket: b + schema.Bucket(i), Shard: schema.Shard(s)} // #nosec G115 -- small
			r.ids[p] = spreadIDs(p, n)
		}
	}
}

func spreadIDs(p schema.Partition, n int) (ids []schema.EntryID) {
	for i := range n {
		at := p.Bucket.Start().Add(time.Duration(i) * schema.BucketSpan / time.Duration(n))
		ids = append(ids, schema.MakeEntryID(at, p.Shard, rand.Uint64()))
	}
	slices.SortFunc(ids, schema.EntryID.Compare)
	return ids
}

// herdIDsAt returns n ids of one instant.
func herdIDsAt(p schema.Partition, at time.Duration, n int) (ids []schema.EntryID) {
	for range n {
		ids = append(ids, schema.MakeEntryID(p.Bucket.Start().Add(at), p.Shard, rand.Uint64()))
	}
	slices.SortFunc(ids, schema.EntryID.Compare)
	return ids
}

// However many rows a partition has, and however they are spread, about as many are estimated, by few
// reads.
func TestRowsAreEstimated(t *testing.T) {
	p := schema.Partition{Bucket: 29_929_560, Shard: 7}
	join := func(all ...[]schema.EntryID) []schema.EntryID {
		joined := slices.Concat(all...)
		slices.SortFunc(joined, schema.EntryID.Compare)
		return joined
	}
	for name, row := range map[string]struct {
		ids   []schema.EntryID
		off   float64 // by which part it may be wrong
		reads int
	}{
		"none":                        {nil, 0, 1},
		"few":                         {spreadIDs(p, 17), 0, 1},
		"just below a page":           {spreadIDs(p, estimateIDs-1), 0, 1},
		"a page":                      {spreadIDs(p, estimateIDs), 0, 2},
		"two pages":                   {spreadIDs(p, 2*estimateIDs+5), 0, 3},
		"many":                        {spreadIDs(p, 50_000), .02, 3},
		"a herd":                      {herdIDsAt(p, 0, 100_000), .3, 2}, // with 500 ids 4.5 % are usual
		"a herd at the end":           {herdIDsAt(p, 59_999*time.Millisecond, 100_000), .3, 2},
		"a herd and others":           {join(herdIDsAt(p, 0, 60_000), spreadIDs(p, estimateIDs/2)), .3, 2},
		"a herd among many":           {join(herdIDsAt(p, 30*time.Second, 60_000), spreadIDs(p, estimateIDs*3/4)), .3, 2},
		"three herds":                 {join(herdIDsAt(p, 0, 20_000), herdIDsAt(p, 20*time.Second, 20_000), herdIDsAt(p, 40*time.Second, 20_000)), .3, 3},
		"a herd as large as one page": {herdIDsAt(p, time.Second, estimateIDs), .05, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rowsByID{ids: map[schema.Partition][]schema.EntryID{p: row.ids}}
			got, err := estimateRows(t.Context(), r, p)
			want := float64(len(row.ids))
			if err != nil || got < want*(1-row.off)-.5 || got > want*(1+row.off)+.5 {
				t.Errorf("estimateRows = %.0f, %v; want %.0f to %.0f%%", got, err, want, row.off*100)
			}
			if reads := r.since(); reads > row.reads {
				t.Errorf("%d reads, want at most %d", reads, row.reads)
			}
		})
	}
}

// inForecast runs f beside an Upcoming of so many shards that runs, on a whole minute.
func inForecast(t *testing.T, shards int, f func(t *testing.T, r *rowsByID, u *Upcoming)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rowsByID{ids: make(map[schema.Partition][]schema.EntryID), takes: 2 * time.Millisecond}
		u := NewUpcoming(UpcomingConfig{Store: r, Shards: func() (int, error) { return shards, nil }, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = u.Run(ctx) }() // returns nil
		synctest.Wait()
		f(t, r, u)
		stop()
		<-done
	})
}

func forecast(t *testing.T, u *Upcoming, minutes int) (f Forecast, took time.Duration) {
	t.Helper()
	began := time.Now()
	f, err := u.Forecast(t.Context(), began, minutes)
	if err != nil || len(f.Minutes) != minutes {
		t.Fatalf("Forecast = %d minutes, %v; want %d", len(f.Minutes), err, minutes)
	}
	return f, time.Since(began)
}

// known returns how many minutes were counted.
func (f *Forecast) known() (n int) {
	for _, m := range f.Minutes {
		if m.Known {
			n++
		}
	}
	return n
}

// The first answer has an hour at once; from then on it is counted every 30 s while somebody asks, and
// never once nobody does.
func TestAnHourIsCountedWhileSomebodyAsks(t *testing.T) {
	const shards = 64
	inForecast(t, shards, func(t *testing.T, r *rowsByID, u *Upcoming) {
		time.Sleep(5 * time.Minute)
		if n := r.since(); n != 0 {
			t.Errorf("%d reads while nobody asks, want none", n)
		}
		b := schema.BucketOf(time.Now())
		r.fill(b, 60, shards, 10)
		f, took := forecast(t, u, 60)
		if took > upcomingWait || f.known() != 60 || f.Shards != shards || f.Sampled != 2 || f.AsOf.IsZero() {
			t.Errorf("the first answer came after %v with %d minutes of %d shards, as of %v", took, f.known(), f.Sampled, f.AsOf)
		}
		for i, m := range f.Minutes {
			if m.Runs != 10*shards || !m.Minute.Equal((b + schema.Bucket(i)).Start()) {
				t.Errorf("minute %d = %+v, want %d runs", i, m, 10*shards)
			}
		}
		time.Sleep(5 * time.Second)
		f, _ = forecast(t, u, 60)
		if n := r.since(); n < 60*8 || n > 61*10 || f.Sampled < 8 { // at 2 ms each
			t.Errorf("%d reads within 5 s, of %d shards of a minute; want about eight a minute", n, f.Sampled)
		}
		for range 20 { // ten consoles, for a while
			time.Sleep(time.Second)
			if _, took := forecast(t, u, 60); took != 0 {
				t.Errorf("an answer took %v, want none at all", took)
			}
		}
		if n := r.since(); n > 10 { // of a minute that came in
			t.Errorf("%d reads within 30 s, want none of what was counted", n)
		}
		for range 60 {
			time.Sleep(10 * time.Second)
			f, _ = forecast(t, u, 60)
		}
		if n := r.since(); n < 600 || n > 2400 {
			t.Errorf("%d reads within ten minutes, want two to four a second", n)
		}
		if f.Sampled < 8 || f.AsOf.Before(time.Now().Add(-upcomingFresh)) {
			t.Errorf("the answer is as of %v ago, of %d shards", time.Since(f.AsOf), f.Sampled)
		}
		time.Sleep(askedFor + 2*time.Second)
		r.since()
		time.Sleep(10 * time.Minute)
		if n := r.since(); n != 0 {
			t.Errorf("%d reads after the last question, want none", n)
		}
	})
}

// A slow store makes an answer less, never late; what was counted comes with the next.
func TestASlowStoreHoldsNoAnswerUp(t *testing.T) {
	inForecast(t, 16, func(t *testing.T, r *rowsByID, u *Upcoming) {
		r.set(20*time.Millisecond, nil)
		r.fill(schema.BucketOf(time.Now()), 60, 16, 3)
		f, took := forecast(t, u, 60)
		if took > upcomingWait || f.known() == 0 || f.known() == 60 || !f.Minutes[0].Known {
			t.Errorf("the first answer came after %v with %d minutes, want the nearest within %v", took, f.known(), upcomingWait)
		}
		time.Sleep(3 * time.Second)
		if f, took = forecast(t, u, 60); took != 0 || f.known() != 60 || f.Minutes[59].Runs != 48 {
			t.Errorf("the next answer came after %v with %d minutes, the last %+v", took, f.known(), f.Minutes[59])
		}
		r.set(0, schema.ErrUnavailable)
		r.since()
		for range 60 {
			time.Sleep(time.Second)
			forecast(t, u, 60)
		}
		if n := r.since(); n > 60*121 {
			t.Errorf("%d reads in a minute of a store that fails, want two of each minute a second at most", n)
		}
		r.set(time.Millisecond, nil)
		time.Sleep(5 * time.Second)
		if f, _ = forecast(t, u, 60); time.Since(f.AsOf) > 10*time.Second {
			t.Errorf("after the outage the answer is %v old", time.Since(f.AsOf))
		}
	})
}

// A whole day is counted at a bounded rate, the nearest minutes first, and far ones more seldom.
func TestADayIsCountedInTurn(t *testing.T) {
	inForecast(t, 64, func(t *testing.T, r *rowsByID, u *Upcoming) {
		f, took := forecast(t, u, 1440)
		if took > upcomingWait || f.known() == 0 || !f.Minutes[0].Known || f.Minutes[1439].Known {
			t.Errorf("the first answer came after %v with %d minutes", took, f.known())
		}
		for range 17 {
			time.Sleep(time.Second)
			f, _ = forecast(t, u, 1440)
		}
		if f.known() != 1440 {
			t.Errorf("after 17 s %d minutes are counted, want all", f.known())
		}
		if n := r.since(); n > 19*550 {
			t.Errorf("%d reads of 2 ms within 17 s, want 500 a second", n)
		}
		// A second window is not held up by the first.
		far := time.Now().Add(90 * 24 * time.Hour)
		if _, err := u.Forecast(t.Context(), far, 60); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if g, err := u.Forecast(t.Context(), far, 60); err != nil || g.known() != 60 {
			t.Errorf("after 2 s %d minutes in 90 days are counted, %v; want 60", g.known(), err)
		}
		for range 10 {
			time.Sleep(10 * time.Second)
			forecast(t, u, 1440)
		}
		r.since()
		for range 60 {
			time.Sleep(10 * time.Second)
			forecast(t, u, 1440)
		}
		if n := r.since(); n > 600*12 {
			t.Errorf("%d reads in ten minutes, want some ten a second at most", n)
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if len(u.windows) > upcomingWindows || len(u.minutes) > upcomingWindows*1440 {
			t.Errorf("%d windows and %d minutes in memory", len(u.windows), len(u.minutes))
		}
	})
}

// Rows of one shard alone are found in time, because other shards are drawn each time.
func TestOtherShardsAreDrawnEachTime(t *testing.T) {
	inForecast(t, 8, func(t *testing.T, r *rowsByID, u *Upcoming) {
		p := schema.Partition{Bucket: schema.BucketOf(time.Now().Add(30 * time.Minute)), Shard: 5}
		r.ids[p] = spreadIDs(p, 80)
		forecast(t, u, 60)
		time.Sleep(5 * time.Second) // at 2 ms each all eight are counted
		f, err := u.Forecast(t.Context(), p.Bucket.Start(), 1)
		if err != nil || f.Minutes[0].Runs != 80 || f.Sampled != 8 {
			t.Errorf("Forecast = %+v, %v; want 80 runs of all 8 shards", f, err)
		}
	})
}

func TestFewShards(t *testing.T) {
	for _, shards := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			inForecast(t, shards, func(t *testing.T, r *rowsByID, u *Upcoming) {
				r.fill(schema.BucketOf(time.Now()), 2, shards, 4)
				for range 5 {
					if f, _ := forecast(t, u, 1); f.Minutes[0].Runs != int64(4*shards) || f.Sampled > shards {
						t.Errorf("Forecast = %+v, want %d", f, 4*shards)
					}
					time.Sleep(35 * time.Second)
					r.fill(schema.BucketOf(time.Now()), 2, shards, 4)
				}
			})
		})
	}
}

func TestNoForecastWithoutSettings(t *testing.T) {
	u := NewUpcoming(UpcomingConfig{Store: &rowsByID{}, Shards: func() (int, error) { return 0, schema.ErrUnavailable }, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if _, err := u.Forecast(t.Context(), time.Now(), 1); err == nil {
		t.Error("Forecast without settings = nil, want an error")
	}
}
