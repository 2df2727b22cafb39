package planner

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	rules "carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// oneLease is a store of a limit's lease, and of the session that holds slots of it.
type oneLease struct {
	mu    sync.Mutex
	lease schema.Lease
}

func (s *oneLease) SwapLease(_ context.Context, was, is schema.Lease, _ time.Time) (schema.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.Fence != was.Fence {
		return s.lease, schema.ErrConflict
	}
	s.lease = is
	return is, nil
}

func (s *oneLease) Lease(context.Context, string) (schema.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.Fence == 0 {
		return schema.Lease{}, schema.ErrNotFound
	}
	return s.lease, nil
}

// Session returns the one of an executor, which has the same name.
func (s *oneLease) Session(_ context.Context, executor string) (schema.Session, error) {
	return schema.Session{Executor: executor, ID: executor, Expires: time.Now().Add(time.Minute)}, nil
}

// executors are the admission of each executor. A signal reaches all.
type executors []struct {
	controller *rules.Controller
	slots      *rules.Slots
	quotas     *rules.QuotaAllocator
}

// Signal tells all that the slots of a limit have changed.
func (e executors) Signal(_ string, body []byte) {
	for i := range e {
		e[i].quotas.Changed(body)
	}
}

// newExecutors returns so many executors, over one store of leases.
func newExecutors(c *Config) executors {
	quiet := slog.New(slog.DiscardHandler)
	store := &oneLease{}
	slots, n := c.each()
	all := make(executors, n)
	for i := range all {
		name := string(rune('a' + i))
		all[i].controller, all[i].slots = rules.NewController(slots, quiet, prometheus.NewRegistry()), rules.NewSlots(slots, time.Now)
		all[i].quotas = rules.NewQuotaAllocator(all[i].controller, rules.QuotaConfig{
			Store: store, Live: bucketer.NewLiveness(store, time.Now, nil), Name: name, Now: time.Now, Log: quiet, Registerer: prometheus.NewRegistry(),
			Session: func(time.Time) (string, bool) { return name, true }, Signals: all,
		})
	}
	return all
}

// through runs what was played through the executors' own admission, and returns the waits of each
// load. An executor is drawn for each run, again after each deferral.
func through(t *testing.T, c *Config, runs []run) [][]time.Duration {
	real := make([][]time.Duration, len(c.Loads))
	synctest.Test(t, func(t *testing.T) {
		executors := newExecutors(c)
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range runs {
			all.Go(func() {
				r := &runs[i]
				l := &c.Loads[r.load]
				time.Sleep(r.due)
				due := time.Now()
				ask := rules.NewRequest(l.tenant(), &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://" + l.tenant()}}, target.Set{})
				if ask.Rank = l.Priority.Rank(); l.TaskLimit > 0 {
					ask.Task, ask.TaskLimit = l.Name, l.TaskLimit
				}
				var at *rules.Load
				var d rules.Decision
				x := rand.IntN(len(executors))
				for {
					if d, at = executors[x].controller.Admit(ask, at); d.Admitted {
						break
					}
					if d.Defer > 0 {
						if ask.Deferred = true; d.Reason == rules.ReasonShare {
							ask.Deferrals++
						}
						time.Sleep(d.Defer)
						x = rand.IntN(len(executors))
						continue
					}
					select {
					case <-d.Wait:
					case <-time.After(rules.RecheckEvery):
					}
				}
				if !executors[x].slots.Acquire(context.Background(), l.Priority, l.tenant()) {
					t.Error("it got no slot")
				}
				mu.Lock()
				real[r.load] = append(real[r.load], time.Since(due))
				mu.Unlock()
				time.Sleep(r.took)
				executors[x].slots.Release()
				healthy := target.Healthy
				d.Permit.End(&healthy)
			})
		}
		all.Wait()
		for i := range executors {
			executors[i].quotas.Close()
		}
	})
	return real
}

// TestLikeTheRealAdmission: loads are played and run through the executor's own admission. The mean
// and the 99th percentile of the waits agree within a fifth.
func TestLikeTheRealAdmission(t *testing.T) {
	for name, of := range map[string]struct {
		executors int
		loads     []string
	}{
		"a share, short runs":        {1, []string{"rate=83/s,duration=mean=200ms"}},
		"a share, long runs":         {1, []string{"rate=8/s,duration=mean=2s"}},
		"a share, two priorities":    {1, []string{"tenant=a,rate=35/s,duration=mean=400ms", "tenant=a,name=low,rate=5/s,duration=mean=400ms,priority=low"}},
		"a herd of long runs":        {1, []string{"herd=400,at=10s,every=5m,duration=1s..3s"}},
		"a herd under a limit":       {1, []string{"herd=100,at=10s,every=2m,duration=1s,max_concurrent=10"}},
		"a limit, short runs":        {1, []string{"rate=35/s,duration=200ms,max_concurrent=10"}},
		"a limit that is half used":  {1, []string{"rate=6/s,duration=mean=800ms,max_concurrent=10"}},
		"a limit that is much used":  {1, []string{"rate=42/s,duration=mean=200ms,max_concurrent=10"}},
		"tenants beside one another": {1, []string{"tenant=a,rate=9/s,duration=mean=1500ms", "tenant=b,rate=5/s,duration=500ms"}},

		"two executors, a share, short runs":       {2, []string{"rate=140/s,duration=mean=200ms"}},
		"two executors, a herd under a limit":      {2, []string{"tenant=t,herd=100,at=10s,every=2m,duration=1s,max_concurrent=10"}},
		"two executors, a limit that is half used": {2, []string{"tenant=t,rate=6/s,duration=mean=800ms,max_concurrent=10"}},
		"two executors, a limit that is much used": {2, []string{"tenant=t,rate=42/s,duration=mean=200ms,max_concurrent=10"}},
		"four executors, a limit":                  {4, []string{"tenant=t,rate=40/s,duration=mean=200ms,max_concurrent=10"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Slots: 20 * of.executors, Executors: of.executors, Starts: math.Inf(1), Span: 15 * time.Minute, Step: time.Minute, Seed: 3}
			for _, text := range of.loads {
				c.Loads = append(c.Loads, load(t, text))
			}
			p := newPlay(&c)
			inAnyHand(p) // admission alone
			var runs []run
			p.seen = func(r run) { runs = append(runs, r) }
			mustPlay(t, p)
			p.sum()
			for i, waits := range through(t, &c, runs) {
				s := &p.result.Loads[i]
				mean := meanOf(waits)
				_, p99, _ := percentiles(waits)
				if len(waits) != s.Runs || !near(s.WaitMean, mean) || !near(s.WaitP99, p99) {
					t.Errorf("%d runs wait for %s and %s (mean, p99), foretold were %d, %s and %s", len(waits), mean, p99, s.Runs, s.WaitMean, s.WaitP99)
				}
			}
		})
	}
}

// TestALimitThatIsMuchUsedKeepsNobodyLong: now and then runs lack slots of a limit that is used to
// 85 %. However long that has been so, no run is put off for longer than at first.
func TestALimitThatIsMuchUsedKeepsNobodyLong(t *testing.T) {
	c := Config{
		Slots: 100, Starts: math.Inf(1), Span: time.Hour, Step: time.Minute, Seed: 3,
		Loads: []Load{load(t, "rate=42.5/s,duration=mean=200ms,max_concurrent=10")},
	}
	p := newPlay(&c)
	var runs []run
	p.seen = func(r run) { runs = append(runs, r) }
	mustPlay(t, p)
	p.sum()
	played, real := p.result.Loads[0].WaitMost, slices.Max(through(t, &c, runs)[0])
	t.Logf("of %d runs the longest waits %s, and %s as played", len(runs), real, played)
	if max(real, played) > 6*time.Second {
		t.Errorf("of %d runs the longest waits %s, and %s as played, want a few seconds", len(runs), real, played)
	}
}

// TestRandomOrder: with one slot, random arrivals and exponential durations the mean wait is that
// of first come, first served. Runs that wait longer than RecheckEvery are served in an order that
// is about random. That makes the second moment of the waits 2 ÷ (2 − utilisation) times as great
// (Fuhrmann 1985).
func TestRandomOrder(t *testing.T) {
	const rate, rho = 10.0, 0.9 // runs that end a second while there are any; utilisation
	c := Config{Slots: 1, Starts: math.Inf(1), Span: 2 * 24 * time.Hour, Step: time.Hour, Seed: 1, Loads: []Load{load(t, "rate=9/s,duration=mean=100ms")}}
	p := newPlay(&c)
	inAnyHand(p) // those in no executor's hand come in order
	mustPlay(t, p)
	n, sum, squares := 0.0, 0.0, 0.0
	for _, w := range p.result.Loads[0].waits {
		n++
		sum += w.Seconds()
		squares += w.Seconds() * w.Seconds()
	}
	mean := rho / (rate * (1 - rho))
	second := 2 * mean * mean / rho * 2 / (2 - rho)
	if got := sum / n; math.Abs(got-mean) > 0.06*mean {
		t.Errorf("the mean wait is %.3f s, want %.3f s", got, mean)
	}
	if got := squares / n; math.Abs(got-second) > 0.15*second {
		t.Errorf("the mean square of the waits is %.2f s², want %.2f s²", got, second)
	}
}

// TestALimitIsKept: a herd under a limit takes as long as the limit says, and little longer.
func TestALimitIsKept(t *testing.T) {
	c := Config{Slots: 100, Starts: math.Inf(1), Span: time.Minute, Step: time.Second, Seed: 1, Loads: []Load{load(t, "herd=100,at=0s,duration=1s,max_concurrent=10")}}
	r := played(t, &c)
	if r.All.Runs != 100 || r.Ended < 10*time.Second || r.Ended > 12*time.Second || r.All.Deepest < 90 {
		t.Errorf("%d runs of a second, ten at once, end at %s, and %d wait at most; want 10 s to 12 s, and 90", r.All.Runs, r.Ended, r.All.Deepest)
	}
	for _, s := range r.Steps {
		if s.Running > 10 {
			t.Errorf("%d run at once at %s, want 10 at most", s.Running, s.At)
		}
	}
}

// inAnyHand has executors take in hand whatever comes.
func inAnyHand(p *play) {
	for _, x := range p.sites {
		x.most = math.MaxInt
	}
}
