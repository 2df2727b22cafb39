package measure

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/flow"
	"carillon.dev/carillon/loadtest/sink"
)

// fakeChains runs chains in memory, with faults.
type fakeChains struct {
	lost, twice int // the job that is never called, and the one that is called twice; 0 = none
	ended       error

	work chan Job // the first step of a chain
}

func (f *fakeChains) Name() string                        { return "fake" }
func (f *fakeChains) Settings() Settings                  { return Settings{} }
func (f *fakeChains) Servers() map[string]int             { return map[string]int{"server": os.Getppid()} }
func (f *fakeChains) Stop(context.Context) error          { return nil }
func (f *fakeChains) Start(context.Context, string) error { return nil }

func (f *fakeChains) StartChain(ctx context.Context, wave, n int) error {
	select {
	case f.work <- Job{wave, n * flow.ChainSteps}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeChains) RunWorkers(ctx context.Context, handle Handler) error {
	if f.ended != nil {
		return f.ended
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case job := <-f.work:
			wg.Go(func() { f.run(ctx, job, handle) })
		}
	}
}

func (f *fakeChains) run(ctx context.Context, job Job, handle Handler) {
	for range flow.ChainSteps {
		isReal := job.Wave == realWave
		if isReal && job.I == f.lost && f.lost > 0 {
			return
		}
		_ = handle(ctx, job)
		if isReal && job.I == f.twice && f.twice > 0 {
			_ = handle(ctx, job)
		}
		job.I++
	}
}

// sinkHere starts a sink within this process.
func sinkHere(t *testing.T) func(context.Context, string) (*Sink, error) {
	return func(_ context.Context, dir string) (*Sink, error) {
		var out bytes.Buffer
		s := sink.New(&out)
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		srv := httptest.NewServer(s)
		record := filepath.Join(dir, "seen.ndjson")
		return &Sink{URL: srv.URL, Record: record, End: func() error {
			srv.Close()
			cancel()
			return errors.Join(<-ran, os.WriteFile(record, out.Bytes(), 0o600))
		}}, nil
	}
}

func TestChainsAreJudgedByTheSink(t *testing.T) {
	for _, row := range []struct {
		name            string
		fake            fakeChains
		target          string
		missed, doubled int
		noted           string
	}{
		{"all is well", fakeChains{}, Chains, 0, 0, ""},
		{"at a rate", fakeChains{}, Pace, 0, 0, ""},
		{"a step never comes, nor those after it", fakeChains{lost: 7}, Chains, 3, 0, "not all steps"},
		{"a step comes twice", fakeChains{twice: 7}, Chains, 0, 1, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.fake.work = make(chan Job)
			r, err := Run(t.Context(), &row.fake, Config{
				Protocol: Workflows, Target: row.target, N: 10, Rate: 500, Span: 100 * time.Millisecond, Warm: 10, Wait: time.Second, Dir: t.TempDir(), StartSink: sinkHere(t),
			})
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if r.N != 50 || r.Missed != row.missed || r.Doubled != row.doubled || r.Early != 0 {
				t.Errorf("n, missed, doubled, early = %d, %d, %d, %d, want 50, %d, %d, 0", r.N, r.Missed, r.Doubled, r.Early, row.missed, row.doubled)
			}
			if r.Lateness == nil || r.Lateness.From != "sink" || r.RunsPerS <= 0 || (r.Rate == 500) != (row.target == Pace) {
				t.Errorf("gaps %+v, %g steps a second, rate %g, want figures of the sink", r.Lateness, r.RunsPerS, r.Rate)
			}
			if notes := strings.Join(r.Notes, " "); !strings.Contains(notes, row.noted) || row.noted == "" && notes != "" {
				t.Errorf("notes = %q, want %q", notes, row.noted)
			}
		})
	}
}

func TestWorkersThatEndEndTheChains(t *testing.T) {
	broken := errors.New("broken")
	_, err := Run(t.Context(), &fakeChains{ended: broken, work: make(chan Job)}, Config{Protocol: Workflows, Target: Chains, N: 10, Dir: t.TempDir(), StartSink: sinkHere(t)})
	if !errors.Is(err, errConsumersEnded) || !errors.Is(err, broken) {
		t.Errorf("Run = %v, want that the workers ended, and why", err)
	}
}
