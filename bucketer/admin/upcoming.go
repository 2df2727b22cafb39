package admin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"carillon.dev/carillon/schema"
)

const (
	// upcomingShards is how many shards of a minute are counted at a time.
	upcomingShards = 2
	// upcomingFresh is how old the latest count of a minute may be that is at most upcomingNear minutes
	// ahead; of others in proportion more: what is due in an hour matters less, and will be counted
	// again. So an hour costs two counts of a shard a second, a day four.
	upcomingFresh = 30 * time.Second
	upcomingNear  = 10
	// Counts of other shards of the minute are used with the latest until they are samplesFor old.
	samplesFor = 10 * upcomingFresh
	// As many shards of a minute are counted as take upcomingSpend, at least upcomingShards and at most
	// samplesWanted: rows of one import may all lie in a few shards. samplesKept bounds them in memory.
	upcomingSpend = 16 * time.Millisecond
	samplesWanted = 64
	samplesKept   = 2 * samplesWanted
	// upcomingWait bounds how long an answer waits for minutes that were never counted.
	upcomingWait = 30 * time.Millisecond
	// askedFor is for how long minutes are counted after they were asked for last.
	askedFor = time.Minute
	// upcomingWindows bounds the windows that are counted at once.
	upcomingWindows = 4
	// upcomingReads bounds the partitions that are counted at once, and upcomingPace the time that
	// counts take in a second, added up, each maxCharge of it at most: so 200 counts a second begin
	// also where the store is slow. What was not used in a second may be used in the next.
	upcomingReads = 16
	maxCharge     = 5 * time.Millisecond
	upcomingPace  = time.Second
	// usualCost is how long a count is thought to take before any was made.
	usualCost = time.Millisecond
	// upcomingStep bounds the minutes that are counted before it is looked what else is asked for.
	upcomingStep = 60
	// upcomingTimeout bounds one count of a partition.
	upcomingTimeout = 5 * time.Second
)

// IDReader reads the ids of entries (schema.EntryReader).
type IDReader interface {
	EntryIDs(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.EntryID, error)
}

// UpcomingConfig wires Upcoming.
type UpcomingConfig struct {
	Store  IDReader
	Shards func() (int, error) // how many there may be rows in
	Now    func() time.Time
	Logger *slog.Logger
}

// Upcoming estimates how many runs are due in each coming minute: it counts some shards of a minute
// in the background, while somebody asks.
type Upcoming struct {
	store  IDReader
	shards func() (int, error)
	now    func() time.Time
	log    *slog.Logger
	pace   *rate.Limiter // of µs

	wake chan struct{} // cap 1: somebody asks

	mu      sync.Mutex
	windows []upcomingWindow
	minutes map[schema.Bucket]*upcomingMinute
	counted chan struct{} // closed when a step has been counted, and made anew
	failing bool          // the last step failed
	cost    time.Duration // of a count, about
}

// upcomingWindow is a stretch of minutes that somebody asks for.
type upcomingWindow struct {
	first schema.Bucket
	count int
	asked time.Time // last
}

// upcomingMinute is what is known of a minute.
type upcomingMinute struct {
	samples []sample // of each shard one at most, the oldest first
}

// sample is a count of one shard of a minute.
type sample struct {
	shard schema.Shard
	rows  float64
	at    time.Time
}

// ForecastMinute is what is due in a minute.
type ForecastMinute struct {
	Minute time.Time
	Runs   int64
	Known  bool // else it has not been counted yet
}

// Forecast is what is due in coming minutes.
type Forecast struct {
	Minutes []ForecastMinute
	Shards  int       // in which there may be rows
	Sampled int       // how many shards were counted of each minute that is known, at least
	AsOf    time.Time // of the latest count; zero: there is none
}

// NewUpcoming returns an Upcoming, which counts while Run runs.
func NewUpcoming(c UpcomingConfig) *Upcoming {
	return &Upcoming{
		store: c.Store, shards: c.Shards, now: c.Now, log: c.Logger, pace: rate.NewLimiter(rate.Limit(upcomingPace.Microseconds()), int(upcomingPace.Microseconds())),
		wake: make(chan struct{}, 1), minutes: make(map[schema.Bucket]*upcomingMinute), counted: make(chan struct{}),
		cost: usualCost,
	}
}

// Forecast returns count minutes from `from` on. It waits a little for those that were never counted;
// the others are as old as upcomingFresh says.
func (u *Upcoming) Forecast(ctx context.Context, from time.Time, count int) (Forecast, error) {
	shards, err := u.shards()
	if err != nil {
		return Forecast{}, fmt.Errorf("coming minutes: %w", err)
	}
	w := upcomingWindow{first: schema.BucketOf(from), count: count, asked: u.now()}
	u.mu.Lock()
	u.ask(w)
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
	timer := time.NewTimer(upcomingWait)
	defer timer.Stop()
	for waited := false; ; {
		f, known, counted := u.look(w, shards)
		if known || waited {
			return f, nil
		}
		select {
		case <-counted:
		case <-timer.C:
			waited = true
		case <-ctx.Done():
			return Forecast{}, fmt.Errorf("coming minutes: %w: %w", schema.ErrUnavailable, ctx.Err())
		}
	}
}

// look returns what is known of a window, whether that is every minute, and what is closed when more
// has been counted.
func (u *Upcoming) look(w upcomingWindow, shards int) (f Forecast, known bool, counted <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.forecast(w, shards), u.knows(w), u.counted
}

// ask notes that somebody asks for a window; mu is held.
func (u *Upcoming) ask(w upcomingWindow) {
	u.windows = slices.DeleteFunc(u.windows, func(o upcomingWindow) bool {
		return w.asked.Sub(o.asked) > askedFor || w.first <= o.first && w.count >= o.count && w.first+schema.Bucket(w.count) >= o.first+schema.Bucket(o.count)
	})
	if len(u.windows) == upcomingWindows {
		u.windows = slices.Delete(u.windows, 0, 1)
	}
	u.windows = append(u.windows, w)
}

// knows reports whether every minute of a window has been counted; mu is held.
func (u *Upcoming) knows(w upcomingWindow) bool {
	for i := range w.count {
		if u.minutes[w.first+schema.Bucket(i)] == nil {
			return false
		}
	}
	return true
}

// forecast returns what is known of a window; mu is held.
func (u *Upcoming) forecast(w upcomingWindow, shards int) Forecast {
	f := Forecast{Shards: shards, Minutes: make([]ForecastMinute, w.count)}
	for i := range f.Minutes {
		at := &f.Minutes[i]
		at.Minute = (w.first + schema.Bucket(i)).Start()
		m := u.minutes[w.first+schema.Bucket(i)]
		if m == nil || len(m.samples) == 0 {
			continue
		}
		var rows float64
		for _, s := range m.samples {
			rows += s.rows
		}
		at.Known, at.Runs = true, int64(rows/float64(len(m.samples))*float64(shards)+.5)
		if latest := m.samples[len(m.samples)-1].at; latest.After(f.AsOf) {
			f.AsOf = latest
		}
		if f.Sampled == 0 || len(m.samples) < f.Sampled {
			f.Sampled = len(m.samples)
		}
	}
	return f
}

// Run counts until ctx ends. It returns nil.
func (u *Upcoming) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		more, idle := u.step(ctx)
		ticks := tick.C
		switch {
		case more && ctx.Err() == nil:
			continue
		case idle:
			ticks = nil // until somebody asks
		}
		select {
		case <-ctx.Done():
			return nil
		case <-u.wake:
		case <-ticks:
		}
	}
}

// step counts minutes that are due for it. It reports whether there are more, and whether nobody asks
// for anything.
func (u *Upcoming) step(ctx context.Context) (more, idle bool) {
	shards, err := u.shards()
	if err != nil {
		return false, false // the settings were not read yet
	}
	due, idle := u.due(u.now(), shards)
	if more = len(due) > upcomingStep; more {
		due = due[:upcomingStep]
	}
	var g errgroup.Group
	g.SetLimit(upcomingReads)
	for _, b := range due {
		for _, shard := range u.draw(b, shards) {
			if u.wait(ctx) != nil {
				break // ctx has ended
			}
			g.Go(func() error { return u.sample(ctx, schema.Partition{Bucket: b, Shard: shard}) })
		}
	}
	err = g.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil && ctx.Err() == nil && !u.failing {
		u.log.Warn("coming minutes could not be counted", "err", err)
	}
	u.failing = err != nil
	close(u.counted)
	u.counted = make(chan struct{})
	return more && err == nil, idle // else at the next tick: a store that fails is not asked at once again
}

// wait waits until another count fits into the pace.
func (u *Upcoming) wait(ctx context.Context) error {
	u.mu.Lock()
	cost := min(u.cost, maxCharge)
	u.mu.Unlock()
	return u.pace.WaitN(ctx, int(cost.Microseconds()))
}

// Why a minute is to be counted: the first are counted first.
const (
	neverCounted = iota
	countedLongAgo
	countedLittle // more of its shards are wanted
	notDue
)

// due returns the minutes that are to be counted now, the most urgent first, then by time. It forgets
// what nobody asks for.
func (u *Upcoming) due(now time.Time, shards int) (due []schema.Bucket, idle bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.windows = slices.DeleteFunc(u.windows, func(w upcomingWindow) bool { return now.Sub(w.asked) > askedFor })
	why := make(map[schema.Bucket]int)
	current := schema.BucketOf(now)
	wanted := min(u.wanted(), shards)
	for _, w := range u.windows {
		for i := range w.count {
			b := w.first + schema.Bucket(i)
			if _, ok := why[b]; ok {
				continue
			}
			why[b] = u.minutes[b].why(now, b-current, wanted)
			if why[b] != notDue {
				due = append(due, b)
			}
		}
	}
	for b := range u.minutes {
		if _, ok := why[b]; !ok {
			delete(u.minutes, b)
		}
	}
	slices.SortFunc(due, func(a, b schema.Bucket) int { return cmp.Or(cmp.Compare(why[a], why[b]), cmp.Compare(a, b)) })
	return due, len(u.windows) == 0
}

// wanted returns how many shards of a minute are to be counted; mu is held.
func (u *Upcoming) wanted() int {
	return min(max(int(upcomingSpend/max(u.cost, time.Microsecond)), upcomingShards), samplesWanted)
}

// why returns why a minute is to be counted that lies so far ahead, of so many shards.
func (m *upcomingMinute) why(now time.Time, ahead schema.Bucket, wanted int) int {
	switch {
	case m == nil:
		return neverCounted
	case now.Sub(m.samples[len(m.samples)-1].at) >= freshFor(ahead):
		return countedLongAgo
	case len(m.samples) < wanted:
		return countedLittle
	}
	return notDue
}

// freshFor returns how old the counts of a minute may be that lies so far ahead.
func freshFor(ahead schema.Bucket) time.Duration {
	return upcomingFresh * time.Duration(max(upcomingNear, ahead)) / upcomingNear
}

// draw returns some shards of a minute, at random among those that were not counted lately.
func (u *Upcoming) draw(b schema.Bucket, shards int) (drawn []schema.Shard) {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := make(map[schema.Shard]bool)
	if m := u.minutes[b]; m != nil {
		for _, s := range m.samples {
			was[s.shard] = true
		}
	}
	for len(drawn) < min(upcomingShards, shards) {
		if len(was) >= shards {
			clear(was) // all were: begin again
			for _, s := range drawn {
				was[s] = true
			}
		}
		s := schema.Shard(rand.IntN(shards)) // #nosec G115 G404 -- below MaxShards; a sample, not secrecy
		for was[s] {
			s = (s + 1) % schema.Shard(shards) // #nosec G115 -- at most MaxShards
		}
		was[s] = true
		drawn = append(drawn, s)
	}
	return drawn
}

// sample counts a partition, and notes it.
func (u *Upcoming) sample(ctx context.Context, p schema.Partition) error {
	bounded, cancel := context.WithTimeout(ctx, upcomingTimeout)
	defer cancel()
	at, began := u.now(), time.Now()
	rows, err := estimateRows(bounded, u.store, p)
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("count %s: %w", p, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cost += (took - u.cost) / 8
	m := u.minutes[p.Bucket]
	if m == nil {
		m = new(upcomingMinute)
		u.minutes[p.Bucket] = m
	}
	m.note(sample{p.Shard, rows, at}, at.Add(-max(samplesFor, 4*freshFor(p.Bucket-schema.BucketOf(at)))))
	return nil
}

// note adds a sample, and drops what it replaces, what is from before since, and what is too much.
func (m *upcomingMinute) note(s sample, since time.Time) {
	m.samples = slices.DeleteFunc(m.samples, func(o sample) bool { return o.shard == s.shard || o.at.Before(since) })
	m.samples = append(m.samples, s)
	if extra := len(m.samples) - samplesKept; extra > 0 {
		m.samples = slices.Delete(m.samples, 0, extra)
	}
}
