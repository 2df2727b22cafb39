package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// world is a store, a queue and a callee, in a bubble. What happens to them is written down in the
// order in which it happens.
type world struct {
	t      *testing.T
	inner  *embedded.Store           // past every fault
	counts *schematest.CountingStore // counts what the executors and their bucketers ask
	store  *schematest.FaultyStore
	broker *inproc.Broker
	conn   *inproc.Conn
	plan   atomic.Pointer[schematest.Plan]
	callee atomic.Pointer[func(context.Context, target.Call) target.Result]

	deliveries atomic.Int64

	mu     sync.Mutex
	events []string
	starts []start
	hash   uint64
	stops  []func()

	nodes     []*node
	published map[schema.EntryID]schema.Entry // by dispatch
}

// start is one call of the callee.
type start struct {
	target.Call
	at time.Time
}

// inWorld runs f in a bubble.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, published: make(map[schema.EntryID]schema.Entry)}
		var err error
		if w.inner, err = embedded.Open(embedded.Config{Shards: 1}); err != nil {
			t.Fatalf("open the store: %v", err)
		}
		w.counts = schematest.Counting(w.inner)
		w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		w.store = schematest.Faulty(noted{w.counts, w}, func(ctx context.Context, op string) schematest.Fault { return (*w.plan.Load())(ctx, op) })
		w.broker = inproc.New(inproc.Config{Fault: func(e inproc.Event) inproc.Verdict {
			if e.Point == inproc.Ack || e.Point == inproc.Return {
				w.note(string(e.Point))
			}
			if e.Point == inproc.Delivery {
				w.deliveries.Add(1)
			}
			return inproc.Verdict{}
		}})
		w.conn = w.broker.Connect("test")
		w.answer(func(context.Context, target.Call) target.Result { return target.Result{Outcome: schema.Succeeded} })
		defer func() {
			for _, stop := range slices.Backward(w.stops) {
				stop()
			}
			for _, n := range w.nodes {
				n.compareCounts(t)
			}
			w.broker.Close()
			if err := w.store.Close(); err != nil {
				t.Errorf("close the store: %v", err)
			}
		}()
		f(t, w)
	})
}

// noted is a store that writes down which rows it came to hold.
type noted struct {
	*schematest.CountingStore
	w *world
}

func (s noted) PutAttempts(ctx context.Context, rows []schema.Attempt) error {
	err := s.CountingStore.PutAttempts(ctx, rows)
	for i := range rows {
		switch a := &rows[i]; {
		case err != nil:
		case a.Record != nil:
			s.w.note(fmt.Sprintf("record %d %s", a.Number, a.Record.Outcome))
		case a.Session != nil:
			s.w.note(fmt.Sprintf("session %d", a.Number))
		}
	}
	return err
}

func (s noted) PutPart(ctx context.Context, run schema.RunID, kind schema.PartKind, p schema.Part, written int64, expires time.Time) error {
	err := s.CountingStore.PutPart(ctx, run, kind, p, written, expires)
	if err == nil {
		s.w.note(map[schema.PartKind]string{schema.OutputPart: "output", schema.ReportPart: "report"}[kind])
	}
	return err
}

func (s noted) PutEntries(ctx context.Context, rows []schema.Entry) error {
	err := s.CountingStore.PutEntries(ctx, rows)
	if err == nil {
		s.w.note("entry " + string(rows[0].Spec.Kind))
	}
	return err
}

func (s noted) PutJobRuns(ctx context.Context, lines []schema.JobRun) error {
	err := s.CountingStore.PutJobRuns(ctx, lines)
	for i := range lines {
		if err == nil {
			s.w.note("line " + string(lines[i].State))
		}
	}
	return err
}

func (s noted) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	err := s.CountingStore.PutDeadLetters(ctx, letters)
	if err == nil {
		for range letters {
			s.w.note("letter")
		}
	}
	return err
}

func (s noted) PutResolution(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution, expires time.Time) error {
	err := s.CountingStore.PutResolution(ctx, tenant, run, f, expires)
	if err == nil {
		s.w.note(string(f.Kind))
	}
	return err
}

// letter returns the dead letter of a run, nil if it has none.
func (w *world) letter(run schema.RunID) *schema.DeadLetter {
	w.t.Helper()
	l, err := w.inner.DeadLetter(context.Background(), "t", run)
	if errors.Is(err, schema.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.t.Fatalf("dead letter of %s: %v", run, err)
	}
	return &l
}

// note writes an event down.
func (w *world) note(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event)
}

// happened returns the events so far, and forgets them.
func (w *world) happened() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.events, ", ")
	w.events = nil
	return all
}

// want checks what has happened since it was asked last.
func (w *world) want(when, want string) {
	w.t.Helper()
	if got := w.happened(); got != want {
		w.t.Errorf("%s:\n got %s\nwant %s", when, got, want)
	}
}

// befall sets the faults from now on.
func (w *world) befall(plan schematest.Plan) { w.plan.Store(&plan) }

// befallOnce has the first call of op from now on suffer f.
func (w *world) befallOnce(op string, f schematest.Fault) {
	var befallen atomic.Bool
	w.befall(func(_ context.Context, called string) schematest.Fault {
		if called == op && !befallen.Swap(true) {
			return f
		}
		return schematest.Fault{}
	})
}

// breakDown makes the methods fail from now on, or nothing.
func (w *world) breakDown(ops ...string) {
	w.befall(func(_ context.Context, op string) schematest.Fault {
		return schematest.Fault{Fail: slices.Contains(ops, op)}
	})
}

// answer sets what the callee does.
func (w *world) answer(f func(context.Context, target.Call) target.Result) { w.callee.Store(&f) }

// Run is the target of the world.
func (w *world) Run(ctx context.Context, c target.Call) target.Result {
	w.mu.Lock()
	w.starts = append(w.starts, start{c, time.Now()})
	w.events = append(w.events, fmt.Sprintf("start %d", c.Number))
	w.mu.Unlock()
	return (*w.callee.Load())(ctx, c)
}

// started returns the calls so far.
func (w *world) started() []start {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.starts)
}

// Done notes notices.
func (w *world) Done(_ schema.Shard, notices []schema.Notice) {
	for range notices {
		w.note("notice")
	}
}

// node is an executor that runs.
type node struct {
	*Executor
	conn *inproc.Conn
	skew atomic.Int64 // of its clock, ns
	kill func()       // stops it as SIGTERM does, and waits
	term func()       // the same without waiting
}

// begin runs an executor under that name.
func (w *world) begin(name string, change ...func(*Config)) *node {
	w.t.Helper()
	n := &node{conn: w.broker.Connect(name)}
	now := func() time.Time {
		t := time.Now()
		if skew := time.Duration(n.skew.Load()); skew != 0 {
			return t.Round(0).Add(skew) // a wall clock that was set
		}
		return t
	}
	halt := bucketer.NewHalt(time.Now)
	b, err := engine.New(bucketer.Config{Store: w.store, Hints: w.conn, Signals: w.conn, Now: now})
	if err == nil {
		err = b.Refresh(context.Background())
	}
	if err != nil {
		w.t.Fatalf("bucketer: %v", err)
	}
	c := Config{
		Name: name, Store: w.store, Writer: b, Tasks: b.TaskCache(), Queue: n.conn, Notices: w, Targets: target.Set{HTTP: w, NATS: w, Lambda: w}, Signals: n.conn,
		Halt: halt, Now: now, Logger: slog.New(slog.DiscardHandler), Tally: tally.New(),
	}
	for _, f := range change {
		f(&c)
	}
	if n.Executor, err = New(c); err != nil {
		w.t.Fatalf("New: %v", err)
	}
	if _, err := n.conn.SubscribeSignal(schema.TopicSlots, n.SlotsChanged); err != nil {
		w.t.Fatalf("signals: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Executor.Run(ctx); err != nil {
			w.t.Errorf("Run: got %v, want nil", err)
		}
	})
	running.Go(func() { _ = halt.Run(ctx) }) // always nil
	n.term = cancel
	n.kill = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		_ = n.conn.Close() // always nil
	})
	w.stops = append(w.stops, n.kill)
	w.nodes = append(w.nodes, n)
	time.Sleep(time.Second) // it has its session, and asks for messages
	return n
}

// compareCounts compares what a node that has ended counted by name with its metrics.
func (n *node) compareCounts(t *testing.T) {
	t.Helper()
	if left := n.recorder.unwritten.Load(); left > 0 {
		t.Logf("counts are not compared: %d rows were not written before the stop", left)
		return
	}
	var got schema.Counts
	for _, s := range n.recorder.tally.Take() {
		if s.Kind == schema.ByTenant {
			for i := range s.Names {
				got.Add(&s.Names[i].Counts)
			}
		}
	}
	outcomes := func(all ...schema.Outcome) (n64 int64) {
		for _, o := range all {
			n64 += int64(counted(t, n.metrics.outcomes.WithLabelValues(string(o))))
		}
		return n64
	}
	var lateness dto.Metric
	if err := n.metrics.lateness.Write(&lateness); err != nil {
		t.Fatalf("read the metric: %v", err)
	}
	want := schema.Counts{
		Started: int64(lateness.GetHistogram().GetSampleCount()), Succeeded: outcomes(schema.Succeeded), // #nosec G115 -- few
		Failed: outcomes(schema.Failed, schema.TimedOut, schema.Lost), Missed: outcomes(schema.Missed),
	}
	for i, below := 0, uint64(0); i < len(want.Lateness); i++ {
		upTo := lateness.GetHistogram().GetSampleCount()
		if buckets := lateness.GetHistogram().GetBucket(); i < len(buckets) {
			upTo = buckets[i].GetCumulativeCount()
		}
		want.Lateness[i], below = int64(upTo-below), upTo // #nosec G115 -- few
	}
	for _, cause := range []string{"changed", "deadline", "skip", "run_latest", "skipped", "fault", "unreadable"} {
		want.MissedFor.Count(cause, int64(counted(t, n.metrics.missed.WithLabelValues(cause))))
	}
	want.Retried, want.MaxLateness = got.Retried, got.MaxLateness
	if got != want {
		t.Errorf("by name were counted %+v, in all %+v", got, want)
	}
}

// entry makes an entry due at at, to the ms, and holds it in the store.
func (w *world) entry(at time.Time, change ...func(*schema.Spec)) schema.Entry {
	w.t.Helper()
	w.mu.Lock()
	w.hash++
	hash := w.hash
	w.mu.Unlock()
	spec := schema.Spec{Tenant: "t", Nominal: at, Accepted: time.Now().UnixMicro(), Work: &schema.Work{
		HTTP: &schema.HTTPTarget{URL: "http://sink"}, Retry: &schema.Retry{MaxAttempts: 3, Jitter: "none"},
	}}
	for _, f := range change {
		f(&spec)
	}
	e, err := schema.NewEntry(schema.MakeEntryID(at, 0, hash), spec, nil, at.Add(7*24*time.Hour))
	if err != nil {
		w.t.Fatalf("entry: %v", err)
	}
	if err := w.inner.PutEntries(context.Background(), []schema.Entry{e}); err != nil {
		w.t.Fatalf("entry: %v", err)
	}
	return e
}

// publish hands an envelope that was read at `read` to the queue.
func (w *world) publish(e schema.Entry, read time.Time, change ...func(*queue.Envelope)) {
	w.t.Helper()
	env := queue.Envelope{Entry: e, CheckedAt: read}
	for _, f := range change {
		f(&env)
	}
	done := make(chan error, 1)
	err := w.conn.Publish(context.Background(), 0, &env, func(_ queue.Receipt, err error) { done <- err })
	if err == nil {
		err = <-done
	}
	if err != nil {
		w.t.Fatalf("publish %s: %v", e.ID, err)
	}
}

func redispatched(env *queue.Envelope) { env.Redispatch, env.Dispatch = true, "d-1" }

// attempt holds an attempt of e in the store, past every fault.
func (w *world) attempt(e schema.Entry, number int, rec *schema.Record, session *schema.SessionRef) schema.Attempt {
	w.t.Helper()
	now := time.Now()
	if rec != nil {
		rec.Finished = now.UTC()
	}
	a := schema.Attempt{
		Run: e.Run(), Number: number, Fence: schema.MakeFence(now), Record: rec, Session: session,
		Written: now.UnixMicro(), Expires: now.Add(24 * time.Hour),
	}
	if err := w.inner.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.t.Fatalf("attempt: %v", err)
	}
	return a
}

// session opens the session of an executor that is not there, until `until`, and returns a
// reference of e to it.
func (w *world) session(e schema.Entry, id string, until time.Time) *schema.SessionRef {
	w.t.Helper()
	name := "elsewhere-" + id
	is := schema.Session{Executor: name, ID: id, Expires: until.UTC().Truncate(time.Millisecond)}
	if err := w.inner.SwapSession(context.Background(), schema.Session{Executor: name}, is); err != nil {
		w.t.Fatalf("session: %v", err)
	}
	return &schema.SessionRef{Executor: name, ID: id, Started: time.Now().UTC(), Entry: e.ID}
}

// attempts returns what the store holds of a run.
func (w *world) attempts(run schema.RunID) []schema.Attempt {
	w.t.Helper()
	all, err := w.inner.Attempts(context.Background(), run.Partition(), []schema.RunID{run})
	if err != nil {
		w.t.Fatalf("attempts: %v", err)
	}
	return all
}

// state folds the rows of a run, with the sessions as the store has them.
func (w *world) state(run schema.RunID) schema.State {
	w.t.Helper()
	rows, err := w.inner.EntriesByID(context.Background(), run.Partition(), []schema.EntryID{run})
	if err != nil || len(rows) != 1 {
		w.t.Fatalf("row of %s: %d, %v", run, len(rows), err)
	}
	all := w.attempts(run)
	live, err := bucketer.NewLiveness(w.inner, time.Now, nil).Of(context.Background(), all)
	if err != nil {
		w.t.Fatalf("sessions: %v", err)
	}
	return schema.Fold(rows[0].Marks, all, live)
}

// open returns how many messages the stream holds.
func (w *world) open() int {
	w.t.Helper()
	n := 0
	for _, p := range schema.Priorities {
		l, err := w.conn.Load(context.Background(), 0, p)
		if err != nil {
			w.t.Fatalf("depth: %v", err)
		}
		n += l.Depth()
	}
	return n
}

// inAWhile returns the instant d from now, on a whole ms.
func inAWhile(d time.Duration) time.Time { return time.Now().Add(d).Truncate(time.Millisecond) }

// counted returns what a metric says, of a histogram the sum.
func counted(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatalf("read the metric: %v", err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue() + out.GetHistogram().GetSampleSum()
}

// again makes an envelope the i-th redispatch of its entry, but for the first.
func again(i int) func(*queue.Envelope) {
	return func(env *queue.Envelope) {
		if i > 0 {
			env.Redispatch, env.Dispatch = true, fmt.Sprint("d-", i)
		}
	}
}

// bucketer returns one that nobody else has.
func (w *world) bucketer() *engine.Engine {
	w.t.Helper()
	b, err := engine.New(bucketer.Config{Store: w.store, Hints: w.conn, Signals: w.conn})
	if err == nil {
		err = b.Refresh(context.Background())
	}
	if err != nil {
		w.t.Fatalf("bucketer: %v", err)
	}
	return b
}

// find reads an entry.
func (w *world) find(id schema.EntryID) schema.Entry {
	w.t.Helper()
	rows, err := w.inner.EntriesByID(context.Background(), id.Partition(), []schema.EntryID{id})
	if err != nil || len(rows) != 1 {
		w.t.Fatalf("entry %s: %d rows, %v", id, len(rows), err)
	}
	return rows[0]
}

// attemptOf returns an attempt of a message that nobody has delivered.
func attemptOf(x *Executor, e *schema.Entry) *attempt {
	return newAttempt(x, nil, &queue.Envelope{Entry: *e})
}
