package measure

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a scheduler in memory, with faults. It lives in a synctest bubble, so its times are exact.
type fake struct {
	late    time.Duration // of every start
	early   map[int]time.Duration
	lost    map[int]bool // never started
	twice   map[int]bool
	perS    int   // runs a second of a burn-down, one after the other; 0 = all at once
	ended   error // workers end with it at once
	startup error

	mu      sync.Mutex // guards what follows
	queue   []queued
	left    int
	calls   []string
	changed chan struct{}
}

type queued struct {
	job Job
	at  time.Time
}

func (f *fake) call(name string) { f.calls = append(f.calls, name) }

func (f *fake) Name() string                        { return "fake" }
func (f *fake) Settings() Settings                  { return Settings{Durability: "none"} }
func (f *fake) Servers() map[string]int             { return map[string]int{"server": os.Getppid()} }
func (f *fake) Stop(context.Context) error          { f.call("stop"); return nil }
func (f *fake) Start(context.Context, string) error { f.call("start"); return f.startup }

func (f *fake) Unfinished(context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left, nil
}

func (f *fake) Enqueue(_ context.Context, wave, n, _ int, at func(int) time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		f.queue = append(f.queue, queued{Job{wave, i}, at(i)})
	}
	f.left += n
	select {
	case f.changed <- struct{}{}:
	default:
	}
	return nil
}

func (f *fake) RunWorkers(ctx context.Context, handle Handler) error {
	if f.ended != nil {
		return f.ended
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		f.mu.Lock()
		queue := f.queue
		f.queue = nil
		f.mu.Unlock()
		for _, q := range queue {
			if f.perS > 0 && q.at.IsZero() {
				time.Sleep(time.Second / time.Duration(f.perS))
			}
			wg.Go(func() { f.run(ctx, q, handle) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
		}
	}
}

func (f *fake) run(ctx context.Context, q queued, handle Handler) {
	if !q.at.IsZero() && q.job.Wave == realWave {
		time.Sleep(time.Until(q.at.Add(f.late - f.early[q.job.I])))
	}
	if q.job.Wave == realWave && f.lost[q.job.I] {
		return
	}
	_ = handle(ctx, q.job)
	if q.job.Wave == realWave && f.twice[q.job.I] {
		_ = handle(ctx, q.job)
	}
	f.mu.Lock()
	f.left--
	f.mu.Unlock()
}

// measured runs a protocol on f.
func measured(t *testing.T, f *fake, cfg Config) *Result {
	t.Helper()
	f.changed = make(chan struct{}, 1)
	cfg.Warm, cfg.Target = 10, Noop
	r, err := Run(t.Context(), f, cfg)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if want := []string{"start", "stop"}; !slices.Equal(f.calls, want) {
		t.Errorf("calls = %q, want %q", f.calls, want)
	}
	return r
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }

func TestWaveIsJudgedByWhenRunsWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{
			late: 30 * time.Millisecond, early: map[int]time.Duration{3: 80 * time.Millisecond, 4: 31 * time.Millisecond},
			twice: map[int]bool{7: true, 8: true, 9: true},
		}
		r := measured(t, f, Config{Protocol: Stream, N: 1000, Span: 10 * time.Second})
		if r.Lateness == nil || *r.Lateness != (Lateness{30, 30, 30, 30, "handler"}) {
			t.Errorf("lateness = %+v, want 30 ms throughout", r.Lateness)
		}
		if r.Early != 2 || r.EarliestMS != 50 || r.Doubled != 3 || r.Missed != 0 {
			t.Errorf("early, by, doubled, missed = %d, %g, %d, %d, want 2, 50, 3, 0", r.Early, r.EarliestMS, r.Doubled, r.Missed)
		}
		if r.Rate != 100 || r.Span != 10 || r.N != 1000 {
			t.Errorf("rate, span, n = %g, %g, %d, want 100, 10, 1000", r.Rate, r.Span, r.N)
		}
		if !near(r.LastStart, 10, 0.1) || !near(r.RunsPerS, 100, 1) {
			t.Errorf("last start, runs/s = %g, %g, want about 10, 100", r.LastStart, r.RunsPerS)
		}
		for _, kind := range []string{"client", "server"} {
			if _, ok := r.CPU[kind]; !ok {
				t.Errorf("CPU = %v, want one of %s", r.CPU, kind)
			}
		}
	})
}

func TestHerdFallsDueAtOneInstantAheadOfItsInsertion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{late: 2 * time.Second}
		began := time.Now()
		r := measured(t, f, Config{Protocol: Herd, N: 50, Span: time.Hour})
		if r.Rate != 0 || r.Span != 0 || r.LastStart != 2 || r.RunsPerS != 25 {
			t.Errorf("rate, span, last start, runs/s = %g, %g, %g, %g, want 0, 0, 2, 25", r.Rate, r.Span, r.LastStart, r.RunsPerS)
		}
		if took := time.Since(began); took < leadLeast {
			t.Errorf("it took %s, want a lead of at least %s", took, leadLeast)
		}
		if len(r.Notes) != 0 {
			t.Errorf("notes = %q, want none", r.Notes)
		}
	})
}

func TestRunsThatNeverBeginAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lost: map[int]bool{0: true, 49: true}}
		r := measured(t, f, Config{Protocol: Herd, N: 50, Wait: time.Minute})
		if r.Missed != 2 || len(r.Faults()) != 1 {
			t.Errorf("missed = %d, faults %q, want 2 and one fault", r.Missed, r.Faults())
		}
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "2 unfinished") {
			t.Errorf("notes = %q, want one that tells of 2 unfinished jobs", r.Notes)
		}
	})
}

func TestBurnDownIsMeasuredFromItsStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{perS: 100}
		r := measured(t, f, Config{Protocol: BurnDown, N: 500})
		// 499 steps of 10 ms lie between the first start and the last, 500 between the start of the consumers and the last.
		if !near(r.RunsPerS, 500/4.99, 1) || !near(r.HandledPerS, 100, 0.1) {
			t.Errorf("runs/s, handled/s = %g, %g, want about 100, 100", r.RunsPerS, r.HandledPerS)
		}
		if r.Lateness != nil || r.Missed != 0 || r.Doubled != 0 {
			t.Errorf("lateness, missed, doubled = %v, %d, %d, want none", r.Lateness, r.Missed, r.Doubled)
		}
	})
}

func TestConsumersThatEndEndTheMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		f := &fake{ended: broken, changed: make(chan struct{}, 1)}
		_, err := Run(t.Context(), f, Config{Protocol: Herd, Target: Noop, N: 5})
		if !errors.Is(err, errConsumersEnded) || !errors.Is(err, broken) {
			t.Errorf("Run = %v, want that the consumers ended, and why", err)
		}
		if !slices.Contains(f.calls, "stop") {
			t.Errorf("calls = %q, want a stop", f.calls)
		}
	})
}

func TestPeerThatDoesNotStartIsStopped(t *testing.T) {
	f := &fake{startup: errors.New("no such server")}
	if _, err := Run(t.Context(), f, Config{Protocol: Herd, Target: Noop, N: 5}); !errors.Is(err, f.startup) {
		t.Errorf("Run = %v, want %v", err, f.startup)
	}
	if !slices.Contains(f.calls, "stop") {
		t.Errorf("calls = %q, want a stop", f.calls)
	}
}

func TestConfigFaultsAreReportedTogether(t *testing.T) {
	err := Config{Protocol: "X", Target: HTTP}.Validate()
	for _, want := range []string{`protocol "X"`, "needs a sink", "0 runs"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q among the faults", err, want)
		}
	}
}
