package executor

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

const span = schema.Duration(time.Second)

// An attempt that fails is one line of the log, which says whose and how, and nothing that the callee
// said. One that succeeds is none, and where the level is off nothing is made.
func TestFailedAttemptsAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		level slog.Level
		res   target.Result
		want  string // part of the line; empty: there is none
	}{
		"failed":    {slog.LevelInfo, target.Result{Outcome: schema.Failed, Error: "the callee's secret", Status: 503}, `"attempt":1,"kind":"http","outcome":"failed","status":503`},
		"for good":  {slog.LevelInfo, target.Result{Outcome: schema.Failed, Error: "the callee's secret", Final: true}, `"final":true`},
		"timed out": {slog.LevelInfo, target.Result{Outcome: schema.TimedOut, Error: "the callee's secret"}, `"outcome":"timed_out"`},
		"succeeded": {slog.LevelInfo, target.Result{Outcome: schema.Succeeded}, ""},
		"off":       {slog.LevelWarn, target.Result{Outcome: schema.Failed, Error: "the callee's secret"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var log bytes.Buffer // the executor writes it, and is stopped before it is read
				x := w.begin("x1", func(cfg *Config) {
					cfg.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: c.level}))
				})
				w.answer(func(context.Context, target.Call) target.Result { return c.res })
				e := w.entry(inAWhile(time.Second))
				w.publish(e, e.Due())
				time.Sleep(time.Until(e.Due().Add(time.Second)))
				x.kill()
				var lines []string
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, "an attempt failed") {
						lines = append(lines, line)
					}
				}
				switch {
				case c.want == "" && len(lines) > 0:
					t.Errorf("lines %q, want none", lines)
				case c.want != "" && (len(lines) != 1 || !strings.Contains(lines[0], c.want) || !strings.Contains(lines[0], `"run":"`+e.ID.String())):
					t.Errorf("lines %q, want one with %s and the run %s", lines, c.want, e.ID)
				case strings.Contains(log.String(), "secret"):
					t.Errorf("the log has what the callee said: %s", log.String())
				}
			})
		})
	}
}

func TestBackOff(t *testing.T) {
	half := func() float64 { return 0.5 }
	for name, c := range map[string]struct {
		retry schema.Retry
		n     int
		want  time.Duration
	}{
		"first":              {schema.Retry{Initial: span, Factor: 2, Max: 600 * span, Jitter: "none"}, 1, time.Second},
		"second":             {schema.Retry{Initial: span, Factor: 2, Max: 600 * span, Jitter: "none"}, 2, 2 * time.Second},
		"tenth":              {schema.Retry{Initial: span, Factor: 2, Max: 600 * span, Jitter: "none"}, 10, 512 * time.Second},
		"capped":             {schema.Retry{Initial: span, Factor: 2, Max: 600 * span, Jitter: "none"}, 11, 600 * time.Second},
		"beyond a float":     {schema.Retry{Initial: span, Factor: 100, Max: 600 * span, Jitter: "none"}, 10_000, 600 * time.Second},
		"factor one":         {schema.Retry{Initial: span, Factor: 1, Max: 600 * span, Jitter: "none"}, 99, time.Second},
		"initial over max":   {schema.Retry{Initial: 9 * span, Factor: 2, Max: 5 * span, Jitter: "none"}, 1, 5 * time.Second},
		"full jitter":        {schema.Retry{Initial: span, Factor: 2, Max: 600 * span, Jitter: "full"}, 3, 2 * time.Second},
		"full jitter capped": {schema.Retry{Initial: span, Factor: 2, Max: 600 * span, Jitter: "full"}, 50, 300 * time.Second},
		"jitter by default":  {schema.Retry{Initial: span, Factor: 2, Max: 600 * span}, 1, time.Second / 2},
	} {
		if got := backOff(c.retry, c.n, half); got != c.want {
			t.Errorf("%s: backOff(%+v, %d): got %s, want %s", name, c.retry, c.n, got, c.want)
		}
	}
}

func TestBackOffStaysWithinItsBounds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	day := int64(24 * time.Hour)
	for range 100_000 {
		p := schema.Retry{
			Initial: schema.Duration(1 + r.Int64N(day)), Factor: 1 + 99*r.Float64(), Max: schema.Duration(1 + r.Int64N(day)),
			Jitter: []string{"", "full", "none"}[r.IntN(3)],
		}
		n := 1 + r.IntN(100)
		got := backOff(p, n, r.Float64)
		if got < 0 || got > p.Max.Std() {
			t.Fatalf("backOff(%+v, %d): got %s, want between 0 and %s", p, n, got, p.Max)
		}
		if full := backOff(p, n, func() float64 { return math.Nextafter(1, 0) }); got > full {
			t.Fatalf("backOff(%+v, %d): got %s, want at most the undrawn %s", p, n, got, full)
		}
	}
}

type publishedAt struct {
	queue.Delivery
	at time.Time
}

func (p publishedAt) Published() time.Time { return p.at }

// What an attempt's record says of its message: published, then received, then started, whatever the clocks
// of queue and executor say.
func TestBeforeTheStart(t *testing.T) {
	start := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		published, received time.Duration // before the start
		wantPub, wantRec    int64
	}{
		"in order":                     {250 * time.Millisecond, 20 * time.Millisecond, 250, 20},
		"at once":                      {300 * time.Microsecond, 200 * time.Microsecond, 1, 0},
		"the queue's clock is ahead":   {-time.Second, 20 * time.Millisecond, 20, 20},
		"our clock was set back since": {time.Second, -time.Second, 1000, 0},
	} {
		m := message{delivery: publishedAt{at: start.Add(-c.published)}, receivedAt: start.Add(-c.received)}
		if pub, rec := m.beforeStart(start); pub != c.wantPub || rec != c.wantRec {
			t.Errorf("%s: published %d ms and received %d ms before the start, want %d and %d", name, pub, rec, c.wantPub, c.wantRec)
		}
	}
}

// Full jitter is drawn evenly: each of ten equal parts gets a tenth of the draws. A part's standard
// deviation is 95, so by chance alone none ever leaves the limits.
func TestFullJitterIsEven(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p := schema.Retry{Initial: 10 * span, Factor: 2, Max: 600 * span, Jitter: "full"}
	var parts [10]int
	for range 100_000 {
		parts[backOff(p, 1, r.Float64)/time.Second]++
	}
	for i, n := range parts {
		if n < 9_100 || n > 10_900 {
			t.Errorf("waits between %d s and %d s of 10 s: got %d of 100,000, want about 10,000", i, i+1, n)
		}
	}
}

func TestAfter(t *testing.T) {
	finished := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	policy := schema.Retry{MaxAttempts: 3, Initial: span, Factor: 2, Max: 600 * span, Jitter: "none"}
	for name, c := range map[string]struct {
		res   target.Result
		n     int
		want  time.Duration
		again bool
	}{
		"failed":                  {target.Result{Outcome: schema.Failed}, 1, time.Second, true},
		"failed again":            {target.Result{Outcome: schema.Failed}, 2, 2 * time.Second, true},
		"timed out":               {target.Result{Outcome: schema.TimedOut}, 1, time.Second, true},
		"last allowed":            {target.Result{Outcome: schema.Failed}, 3, 0, false},
		"past the last":           {target.Result{Outcome: schema.Failed}, 4, 0, false},
		"final":                   {target.Result{Outcome: schema.Failed, Final: true}, 1, 0, false},
		"final with retry-after":  {target.Result{Outcome: schema.Failed, Final: true, RetryAfter: time.Hour}, 1, 0, false},
		"succeeded":               {target.Result{Outcome: schema.Succeeded}, 1, 0, false},
		"cancelled":               {target.Result{Outcome: schema.Cancelled}, 1, 0, false},
		"retry-after":             {target.Result{Outcome: schema.Failed, RetryAfter: time.Hour}, 1, time.Hour, true},
		"retry-after, sooner":     {target.Result{Outcome: schema.Failed, RetryAfter: time.Millisecond}, 1, time.Second, true},
		"retry-after of a week":   {target.Result{Outcome: schema.Failed, RetryAfter: 168 * time.Hour}, 1, 24 * time.Hour, true},
		"retry-after in the past": {target.Result{Outcome: schema.Failed, RetryAfter: -time.Hour}, 1, time.Second, true},
	} {
		due, again := after(c.res, policy, c.n, finished)
		var want time.Time
		if c.again {
			want = finished.Add(c.want)
		}
		if again != c.again || !due.Equal(want) {
			t.Errorf("%s: after(%+v, %d): got %s, %v, want %s, %v", name, c.res, c.n, due, again, want, c.again)
		}
	}
}

func TestAfterIsNeverBeforeTheEndOfTheAttempt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	finished := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for range 10_000 {
		res := target.Result{Outcome: schema.Failed, RetryAfter: time.Duration(r.Int64()) - 1<<62}
		due, again := after(res, schema.DefaultRetry, 1+r.IntN(4), finished)
		if wait := due.Sub(finished); !again || wait < 0 || wait < min(res.RetryAfter, target.MaxRetryAfter) || wait > target.MaxRetryAfter {
			t.Fatalf("after(%+v): got %s after the end, %v, want within %s", res, wait, again, target.MaxRetryAfter)
		}
	}
}
