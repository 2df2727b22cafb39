package executor

import (
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/executor/trace"
	"carillon.dev/carillon/executor/trace/otlp"
	"carillon.dev/carillon/executor/trace/otlp/otlptest"
	"carillon.dev/carillon/schema"
)

// kept is a sink that keeps what comes. All executors of a world send to it.
type kept struct {
	mu    sync.Mutex
	spans []trace.Span
}

func (k *kept) Send(spans ...trace.Span) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, spans...)
}

// sent returns what has come so far.
func (k *kept) sent() []trace.Span {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.spans)
}

// traced wires an executor to a sink, and a sampler of that ratio.
func traced(t *testing.T, k *kept, ratio float64) func(*Config) {
	t.Helper()
	s, err := trace.ParseSampler("parentbased_traceidratio", strconv.FormatFloat(ratio, 'g', -1, 64))
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Trace = trace.Tracer{Sampler: s, Sink: k} }
}

// callees returns the spans that the callees of a world would have sent: those that were told that
// their caller's will be.
func (w *world) callees() (spans []trace.Span) {
	for _, s := range w.started() {
		if s.Sampled {
			own := trace.SpanID{0xff, 7: byte(s.Number)}
			spans = append(spans, trace.Span{
				Trace: s.Run, ID: own, Parent: trace.AttemptSpan(s.Run, s.Number, s.Fence), Name: "callee", Kind: trace.Server, Start: s.at, End: s.at,
			})
		}
	}
	return spans
}

// arrived sends spans to a real receiver, and returns what it got.
func arrived(t *testing.T, spans []trace.Span) []otlptest.Span {
	t.Helper()
	c := otlptest.New(t)
	x, err := otlp.New(otlp.Config{Endpoint: c.URL, Queue: len(spans) + 1})
	if err != nil {
		t.Fatal(err)
	}
	x.Send(spans...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := x.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return c.Spans()
}

// TestARunIsOneTrace: whatever happens to a run, on how many executors, and though it is sampled out,
// its spans are one tree below one run, and each callee is below its attempt.
func TestARunIsOneTrace(t *testing.T) {
	type scene struct {
		w *world
		k *kept
		e schema.Entry
	}
	begin := func(s scene, name string, change ...func(*Config)) *node {
		return s.w.begin(name, append(change, traced(s.w.t, s.k, 0))...)
	}
	failFirst := func(_ context.Context, c target.Call) target.Result {
		if c.Number == 1 {
			return target.Result{Outcome: schema.Failed, Error: "not yet", Status: 503}
		}
		return target.Result{Outcome: schema.Succeeded}
	}
	next := func(s scene) { // has the retry of the run start
		var to schema.EntryID
		for _, a := range s.w.attempts(s.e.ID) {
			if a.Record != nil && !a.Record.Next.IsZero() {
				to = a.Record.Next
			}
		}
		e := s.w.find(to)
		s.w.publish(e, time.Now())
		time.Sleep(max(time.Until(e.Due()), 0) + time.Second)
	}
	for _, c := range []struct {
		name   string
		change func(*schema.Spec)
		late   time.Duration
		course func(s scene)
		want   string
	}{
		{"succeeds at once: it is sampled out", nil, 0, func(s scene) {
			begin(s, "x1")
			s.w.publish(s.e, time.Now())
			time.Sleep(2 * time.Second)
		}, ""},
		{"succeeds late", nil, 1500 * time.Millisecond, func(s scene) {
			begin(s, "x1")
			time.Sleep(1500 * time.Millisecond)
			s.w.publish(s.e, time.Now())
			time.Sleep(time.Second)
		}, "run succeeded\n  dispatch\n  wait\n  attempt 1 succeeded\n    callee\n"},
		{"is retried on another executor", nil, 0, func(s scene) {
			s.w.answer(failFirst)
			x1 := begin(s, "x1")
			s.w.publish(s.e, time.Now())
			time.Sleep(2 * time.Second)
			x1.kill()
			begin(s, "x2")
			next(s)
		}, "run succeeded\n  wait\n  attempt 1 failed\n  dispatch\n  wait\n  attempt 2 succeeded\n    callee\n"},
		{"of a guarantee, the same", guarded(schema.EffectivelyOnce), 0, func(s scene) {
			s.w.answer(failFirst)
			x1 := begin(s, "x1")
			s.w.publish(s.e, time.Now())
			time.Sleep(2 * time.Second)
			x1.kill()
			begin(s, "x2")
			next(s)
		}, "run succeeded\n  wait\n  attempt 1 failed\n  dispatch\n  wait\n  attempt 2 succeeded\n    callee\n"},
		{"its executor dies in the second attempt", nil, 0, func(s scene) {
			hang := make(chan struct{})
			s.w.answer(func(ctx context.Context, c target.Call) target.Result {
				if c.Number == 2 {
					<-hang
				}
				return failFirst(ctx, c)
			})
			begin(s, "x1")
			s.w.publish(s.e, time.Now())
			time.Sleep(2 * time.Second)
			x2 := begin(s, "x2", cutOff(new(alone)))
			s.w.stops = append(s.w.stops, func() { close(hang) }) // before x2 is stopped
			s.w.nodes[0].kill()
			var retry schema.Entry
			for _, a := range s.w.attempts(s.e.ID) {
				retry = s.w.find(a.Record.Next)
			}
			s.w.publish(retry, time.Now())
			time.Sleep(max(time.Until(retry.Due()), 0) + 3*time.Second)
			s.w.die(x2)
			begin(s, "x3")
			for i := range 40 {
				s.w.publish(retry, time.Now(), again(i+1))
				time.Sleep(500 * time.Millisecond)
			}
		}, "run succeeded\n  wait\n  attempt 1 failed\n  dispatch\n  attempt 2 lost\n    callee\n  wait\n  attempt 3 succeeded\n    callee\n"},
		{"at most once, and its executor dies", guarded(schema.AtMostOnce), 0, func(s scene) {
			hang := make(chan struct{})
			s.w.answer(func(context.Context, target.Call) target.Result {
				<-hang
				return target.Result{Outcome: schema.Succeeded}
			})
			x1 := begin(s, "x1", cutOff(new(alone)))
			s.w.stops = append(s.w.stops, func() { close(hang) }) // before x1 is stopped
			s.w.publish(s.e, time.Now())
			time.Sleep(3 * time.Second)
			s.w.die(x1)
			begin(s, "x2")
			for i := range 40 {
				s.w.publish(s.e, time.Now(), again(i+1))
				time.Sleep(500 * time.Millisecond)
			}
		}, "run lost\n  attempt 1 lost\n"},
		{"fails for good", func(s *schema.Spec) { s.Work.Retry.MaxAttempts = 1 }, 0, func(s scene) {
			s.w.answer(failFirst)
			begin(s, "x1")
			s.w.publish(s.e, time.Now())
			time.Sleep(2 * time.Second)
		}, "run failed\n  wait\n  attempt 1 failed\n"},
		{"is missed by its deadline", func(s *schema.Spec) {
			s.Misfire = &schema.Misfire{Deadline: schema.Duration(500 * time.Millisecond)}
		}, 0, func(s scene) {
			begin(s, "x1")
			time.Sleep(3 * time.Second)
			s.w.publish(s.e, time.Now(), func(env *queue.Envelope) { env.CheckedAt = time.Now() })
			time.Sleep(time.Second)
		}, "run missed\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := new(kept)
			var spans []trace.Span
			var run schema.RunID
			inWorld(t, func(_ *testing.T, w *world) {
				var change []func(*schema.Spec)
				if c.change != nil {
					change = append(change, c.change)
				}
				at := inAWhile(2 * time.Second)
				if c.late > 0 {
					at = inAWhile(time.Second)
				}
				s := scene{w, k, w.entry(at, change...)}
				run = s.e.ID
				c.course(s)
				spans = append(k.sent(), w.callees()...)
			})
			got := arrived(t, spans)
			if tree := otlptest.Tree(got); tree != c.want {
				t.Errorf("the trace is\n%swant\n%s", tree, c.want)
			}
			if orphans := otlptest.Orphans(got); len(orphans) > 0 {
				t.Errorf("spans without their parents: %q", orphans)
			}
			for _, s := range got {
				if s.Trace != hex.EncodeToString(run[:]) {
					t.Errorf("%s is of the trace %s, not of that of run %s", s.Name, s.Trace, run)
				}
			}
		})
	}
}

// TestExemplarsNameTracesThatAreSent: lateness and times of attempts have the trace of a run as
// exemplar if its spans are sent, and only then.
func TestExemplarsNameTracesThatAreSent(t *testing.T) {
	for _, c := range []struct {
		name  string
		ratio float64
		sink  bool
		want  bool
	}{{"sampled", 1, true, true}, {"sampled out", 0, true, false}, {"nothing is sent", 1, false, false}} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				n := w.begin("x1", traced(t, new(kept), c.ratio), func(cfg *Config) {
					if !c.sink {
						cfg.Trace.Sink = nil
					}
				})
				e := w.entry(inAWhile(time.Second))
				w.publish(e, time.Now())
				time.Sleep(2 * time.Second)
				if starts := w.started(); len(starts) != 1 || starts[0].Sampled != (c.ratio == 1) {
					t.Errorf("the callee was called as %+v, want once, and told that sampled = %v", starts, c.ratio == 1)
				}
				for name, m := range map[string]any{"lateness": n.metrics.lateness, "by priority": n.metrics.byPriority[schema.Normal.Rank()], "seconds": n.metrics.seconds[0][0]} {
					var out dto.Metric
					if err := m.(interface{ Write(*dto.Metric) error }).Write(&out); err != nil {
						t.Fatal(err)
					}
					var said []string
					for _, b := range out.GetHistogram().GetBucket() {
						for _, l := range b.GetExemplar().GetLabel() {
							said = append(said, l.GetName()+"="+l.GetValue())
						}
					}
					want := ""
					if c.want {
						want = "trace_id=" + trace.ID(e.ID)
					}
					if got := strings.Join(said, " "); got != want {
						t.Errorf("%s has the exemplars %q, want %q", name, got, want)
					}
				}
			})
		})
	}
}

// TestTracingThatIsOffCostsNothing: a run makes no allocation for it.
func TestTracingThatIsOffCostsNothing(t *testing.T) {
	e, err := schema.NewEntry(schema.MakeEntryID(time.Now(), 0, 1), schema.Spec{Tenant: "t"}, nil, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var off spans
	a := newAttempt(&Executor{}, nil, &queue.Envelope{Entry: e})
	row := schema.Attempt{Run: e.ID, Number: 1, Record: &schema.Record{Outcome: schema.Succeeded}}
	done := []pendingWrite{{entry: &e, attempt: row, ends: true}}
	if n := testing.AllocsPerRun(100, func() {
		a.traced = off.Foresees(&e, 1, 0)
		if a.traced || off.exemplar(&e, true) != nil || off.attempt(a, &row) {
			t.Fatal("what is off traces")
		}
		off.stopped(a, time.Time{})
		off.ended(done)
	}); n != 0 {
		t.Errorf("%g allocations for a run that is not traced, want none", n)
	}
}
