package measure

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/loadtest/sink"
)

// fakeCaller is a fake that calls the sink by itself, and keeps instants in whole minutes.
type fakeCaller struct {
	*fake

	sink    http.Handler
	address func(Job) string
}

func (f *fakeCaller) CallAt(address func(Job) string) { f.address = address }
func (f *fakeCaller) Granule() time.Duration          { return time.Minute }

func (f *fakeCaller) RunWorkers(ctx context.Context, _ Handler) error {
	return f.fake.RunWorkers(ctx, func(_ context.Context, job Job) error {
		f.sink.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, f.address(job), http.NoBody))
		return nil
	})
}

// startSink starts a sink that only f calls.
func (f *fakeCaller) startSink(ctx context.Context, dir string) (*Sink, error) {
	record := filepath.Join(dir, "seen.ndjson")
	file, err := os.Create(record)
	if err != nil {
		return nil, err
	}
	s := sink.New(file)
	f.sink = s
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return &Sink{URL: "http://sink", Record: record, End: func() error {
		cancel()
		if err := <-done; err != nil {
			return err
		}
		return file.Close()
	}}, nil
}

func TestACallerIsJudgedByTheSinkAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCaller{fake: &fake{
			late: 30 * time.Millisecond, early: map[int]time.Duration{3: 80 * time.Millisecond}, twice: map[int]bool{7: true},
			changed: make(chan struct{}, 1),
		}}
		r, err := Run(t.Context(), f, Config{
			Protocol: Stream, Target: HTTP, N: 1000, Span: 10 * time.Second, Warm: 10, Dir: t.TempDir(), StartSink: f.startSink,
		})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		if r.Lateness == nil || *r.Lateness != (Lateness{30, 30, 30, 30, "sink"}) || r.Handler != nil {
			t.Errorf("lateness, by handlers = %+v, %+v, want 30 ms throughout, and none", r.Lateness, r.Handler)
		}
		if r.Missed != 0 || r.Early != 1 || r.EarliestMS != 50 || r.Doubled != 1 {
			t.Errorf("missed, early, by, doubled = %d, %d, %g, %d, want 0, 1, 50, 1", r.Missed, r.Early, r.EarliestMS, r.Doubled)
		}
		// It was over when the store held nothing, not when the wait was.
		if r.SettledS < 10 || r.SettledS > 11 || len(r.Notes) != 0 {
			t.Errorf("settled after %g s, notes %q, want about 10 and none", r.SettledS, r.Notes)
		}
	})
}

func TestAWaveOfACoarsePeerBeginsWithAGranule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(17 * time.Second) // the bubble's clock begins with a minute
		f := &fakeCaller{fake: &fake{changed: make(chan struct{}, 1)}}
		var first time.Time
		r, err := Run(t.Context(), f, Config{Protocol: Herd, Target: HTTP, N: 1, Warm: 10, Dir: t.TempDir(), StartSink: func(ctx context.Context, dir string) (*Sink, error) {
			s, err := f.startSink(ctx, dir)
			inner := f.sink
			f.sink = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if strings.HasPrefix(req.URL.Path, "/"+source(realWave)+"/") {
					first = time.Now()
				}
				inner.ServeHTTP(w, req)
			})
			return s, err
		}})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		if !first.Equal(first.Truncate(time.Minute)) || r.Lateness == nil || r.Lateness.Max != 0 {
			t.Errorf("due at %s, lateness %+v, want the start of a minute and none", first, r.Lateness)
		}
	})
}

func TestACallerThatNeverEndsItsWarmUpIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCaller{fake: &fake{changed: make(chan struct{}, 1), left: 1}} // one is never over
		_, err := Run(t.Context(), f, Config{Protocol: Herd, Target: HTTP, N: 1, Warm: 10, Dir: t.TempDir(), StartSink: f.startSink})
		if err == nil || !strings.Contains(err.Error(), "warm up") {
			t.Errorf("Run = %v, want that the warm-up did not end", err)
		}
	})
}

func TestACallerDoesOnlyWhatTheSinkSees(t *testing.T) {
	for _, row := range []struct {
		protocol, target string
		fits             bool
	}{{BurnDown, Noop, false}, {Herd, Noop, false}, {Herd, HTTP, true}, {Stream, Noop, false}, {Stream, HTTP, true}} {
		if err := Fits(&fakeCaller{fake: &fake{}}, row.protocol, row.target); (err == nil) != row.fits {
			t.Errorf("Fits of a Caller for %s with %s = %v, want that it fits: %t", row.protocol, row.target, err, row.fits)
		}
		if err := Fits(&fake{}, row.protocol, row.target); err != nil {
			t.Errorf("Fits for %s with %s = %v, want nil", row.protocol, row.target, err)
		}
	}
	f := &fakeCaller{fake: &fake{}}
	if _, err := Run(t.Context(), f, Config{Protocol: BurnDown, Target: Noop, N: 5}); err == nil || len(f.calls) != 0 {
		t.Errorf("Run of A = %v after %q, want an error before it is started", err, f.calls)
	}
}
