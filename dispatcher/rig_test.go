package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// rig is a store, a queue and a ring, in a synctest bubble, around the dispatchers of a test.
type rig struct {
	t      testing.TB
	inner  *embedded.Store
	counts *schematest.CountingStore // the dispatchers' and the writer's calls, failed ones too
	store  *tapped                   // the store as the dispatchers have it
	broker *inproc.Broker
	conn   *inproc.Conn // of the test
	ring   *ring.Fixed
	shards int

	mu     sync.Mutex
	seq    uint64
	broken map[string]bool // methods of the store that fail
	shares map[string]int  // weights of tenants; others have 1
	rates  map[schema.TaskName]schema.Rate
	fault  inproc.Fault
	health map[string][]report // what dispatchers said, by name
	served homes               // of dispatchers that are started; nil: there are no regions
	stops  []func()
}

// tapped notes what a store answered.
type tapped struct {
	schema.Store
	mu      sync.Mutex
	scanned map[schema.EntryID]int // how often a row was read by Entries
	hangs   chan struct{}          // calls that read rows do not return before it is closed; nil: they do
}

func (s *tapped) Entries(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.Entry, error) {
	s.wait()
	entries, err := s.Store.Entries(ctx, p, r, limit)
	s.mu.Lock()
	for i := range entries {
		s.scanned[entries[i].ID]++
	}
	s.mu.Unlock()
	return entries, err
}

// reads returns how often each row was read by Entries.
func (s *tapped) reads() map[schema.EntryID]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.scanned)
}

func newRig(t testing.TB, shards int) *rig {
	t.Helper()
	r := &rig{t: t, shards: shards, broken: make(map[string]bool)}
	var err error
	if r.inner, err = embedded.Open(embedded.Config{Shards: shards}); err != nil {
		t.Fatal(err)
	}
	faulty := schematest.Faulty(r.inner, func(_ context.Context, op string) schematest.Fault {
		r.mu.Lock()
		defer r.mu.Unlock()
		return schematest.Fault{Fail: r.broken[op]}
	})
	r.counts = schematest.Counting(faulty)
	r.store = &tapped{Store: r.counts, scanned: make(map[schema.EntryID]int)}
	r.broker = inproc.New(inproc.Config{Fault: func(e inproc.Event) inproc.Verdict {
		r.mu.Lock()
		f := r.fault
		r.mu.Unlock()
		if f == nil {
			return inproc.Verdict{}
		}
		return f(e)
	}})
	r.conn = r.broker.Connect("test")
	if r.ring, err = ring.Static(members("d1"), shards); err != nil {
		t.Fatal(err)
	}
	return r
}

// close ends everything; it belongs into a defer within the bubble.
func (r *rig) close() {
	for _, stop := range slices.Backward(r.stops) {
		stop()
	}
	r.broker.Close()
	if err := r.inner.Close(); err != nil {
		r.t.Error(err)
	}
}

func members(names ...string) []ring.Member {
	ms := make([]ring.Member, len(names))
	for i, n := range names {
		ms[i] = ring.Member{Name: n, Incarnation: 1, Addr: "127.0.0.1:1", Roles: []string{ring.RoleDispatcher}}
	}
	return ms
}

// fail makes a method of the store fail, or work again.
func (r *rig) fail(op string, fails bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken[op] = fails
}

// Weight answers for the tenants.
func (r *rig) Weight(_ context.Context, tenant string) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.shares[tenant], 1), nil
}

// harm sets what befalls messages.
func (r *rig) harm(f inproc.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
}

// writer returns a bucketer on the dispatchers' store.
func (r *rig) writer(conn *inproc.Conn) *engine.Engine {
	r.t.Helper()
	b, err := engine.New(bucketer.Config{Store: r.store, Hints: conn, Signals: conn})
	if err == nil {
		err = b.Refresh(context.Background())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// node is a dispatcher that runs.
type node struct {
	*Dispatcher
	conn *inproc.Conn
	skew *time.Duration // of its clock; guarded by mu
	mu   *sync.Mutex
	off  *atomic.Bool // its clock is known to be off
	stop func()
}

// start runs a dispatcher under that name until stop, or the end of the rig.
func (r *rig) start(name string) *node {
	r.t.Helper()
	n := &node{conn: r.broker.Connect(name), skew: new(time.Duration), mu: new(sync.Mutex), off: new(atomic.Bool)}
	now := func() time.Time {
		n.mu.Lock()
		defer n.mu.Unlock()
		return time.Now().Add(*n.skew)
	}
	halt, writer := bucketer.NewHalt(now), r.writer(n.conn)
	halt.Also(n.off.Load)
	d, err := New(Config{
		Name: name, Incarnation: fmt.Sprintf("%s-%d", name, len(r.stops)), Store: r.store, Queue: n.conn, Ring: reportingRing{r.ring, r, name}, Writer: writer, Halt: halt, Now: now, Served: r.served,
		Tenants: r, Rates: r,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	n.Dispatcher = d
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			r.t.Errorf("Run = %v, want nil", err)
		}
	})
	running.Go(func() { _ = halt.Run(ctx) })     // always nil
	running.Go(func() { _ = writer.Watch(ctx) }) // always nil
	n.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		_ = n.conn.Close() // always nil
	})
	r.stops = append(r.stops, n.stop)
	return n
}

// jump sets the clock of the node on: it notices, and takes everything up anew.
func (n *node) jump(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.skew += d
}

// entry makes an entry due at at.
func (r *rig) entry(at time.Time, shard schema.Shard, spec schema.Spec) schema.Entry {
	r.t.Helper()
	r.mu.Lock()
	r.seq++
	hash := r.seq
	r.mu.Unlock()
	if spec.Tenant == "" {
		spec.Tenant = "t"
	}
	if spec.Accepted == 0 {
		spec.Accepted = time.Now().UnixMicro()
	}
	if spec.Work == nil {
		spec.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}}
	}
	e, err := schema.NewEntry(schema.MakeEntryID(at, shard, hash), spec, nil, at.Add(24*time.Hour))
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// put makes rows durable, past every fault.
func (r *rig) put(entries ...schema.Entry) {
	r.t.Helper()
	for part := range slices.Chunk(entries, 1000) {
		if err := r.inner.PutEntries(context.Background(), part); err != nil {
			r.t.Fatal(err)
		}
	}
}

// run puts the row of a run that is due at at.
func (r *rig) run(at time.Time, shard schema.Shard) schema.Entry {
	r.t.Helper()
	e := r.entry(at, shard, schema.Spec{})
	r.put(e)
	return e
}

// ended puts a record of an attempt that e started.
func (r *rig) ended(e *schema.Entry, number int, rec schema.Record) {
	r.t.Helper()
	rec.Entry, rec.Finished = e.ID, time.Now().UTC()
	r.attempt(schema.Attempt{Run: e.Run(), Number: number, Fence: schema.Fence(number), Record: &rec})
}

func (r *rig) attempt(a schema.Attempt) {
	r.t.Helper()
	a.Written, a.Expires = time.Now().UnixMicro(), time.Now().Add(24*time.Hour)
	if err := r.inner.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) cursor(shard schema.Shard) schema.Cursor {
	r.t.Helper()
	c, err := r.inner.Cursor(context.Background(), shard)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// lag is how many buckets a shard's settled cursor lies behind.
func (r *rig) lag(shard schema.Shard) int {
	return int(schema.BucketOf(time.Now()) - r.cursor(shard).Settled)
}

// fate is what a hand does with a message.
type fate int

const (
	finish         fate = iota // record success, tell, acknowledge
	silent                     // record success, acknowledge, tell nobody
	lose                       // acknowledge and do nothing else: as if the stream had lost it
	keep                       // neither acknowledge nor start, ever
	outlast                    // a session cell, then acknowledge: it runs on
	outlastClaimed             // the same, of a run that is claimed
)

// sight is a message as it reached a hand.
type sight struct {
	at  time.Time
	env queue.Envelope
	id  string
}

// hand stands for the executors.
type hand struct {
	r    *rig
	mu   sync.Mutex
	seen []sight
	do   func(env *queue.Envelope) fate
}

// executor is the name under which hands run what they outlast, in the session "s".
const executor = "x"

// hand takes messages of normal priority, and does with them what do says; nil finishes them all.
func (r *rig) hand(do func(env *queue.Envelope) fate) *hand { return r.slowHand(do, 500, 0) }

// slowHand takes at most limit messages at a time, and pauses after each time.
func (r *rig) slowHand(do func(env *queue.Envelope) fate, limit int, pause time.Duration) *hand {
	return r.handOf(schema.Normal, do, limit, pause)
}

// handOf is a slowHand for another priority.
func (r *rig) handOf(p schema.Priority, do func(env *queue.Envelope) fate, limit int, pause time.Duration) *hand {
	h := &hand{r: r, do: do}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			deliveries, err := r.conn.Fetch(ctx, 0, p, limit, time.Second)
			if err != nil && ctx.Err() == nil {
				r.t.Errorf("Fetch: %v", err)
				return
			}
			h.take(deliveries)
			time.Sleep(pause)
		}
	})
	r.stops = append(r.stops, func() {
		cancel()
		wg.Wait()
	})
	return h
}

func (h *hand) take(deliveries []queue.Delivery) {
	var notices []schema.Notice
	for _, d := range deliveries {
		env := d.Envelope()
		h.mu.Lock()
		do := h.do
		if !d.Redelivered() {
			h.seen = append(h.seen, sight{time.Now(), *env, env.MessageID()})
		}
		h.mu.Unlock()
		f := finish
		if do != nil {
			f = do(env)
		}
		e := &env.Entry
		switch f {
		case finish, silent:
			h.r.ended(e, e.Spec.AttemptNumber(), schema.Record{Outcome: schema.Succeeded})
			if f == finish {
				notices = append(notices, schema.Notice{Entry: e.ID, Run: e.Run(), Attempt: e.Spec.AttemptNumber()})
			}
		case outlast, outlastClaimed:
			h.r.attempt(schema.Attempt{
				Run: e.Run(), Number: e.Spec.AttemptNumber(), Fence: 1,
				Session: &schema.SessionRef{Executor: executor, ID: "s", Started: time.Now().UTC(), Entry: e.ID, Guarded: f == outlastClaimed},
			})
		case keep:
			d.Hold()
			continue
		}
		d.Ack()
	}
	for _, n := range notices {
		h.r.conn.Done(n.Entry.Shard(), []schema.Notice{n})
	}
}

// sights returns the messages of an entry, oldest first.
func (h *hand) sights(id schema.EntryID) []sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	var of []sight
	for _, s := range h.seen {
		if s.env.Entry.ID == id {
			of = append(of, s)
		}
	}
	return of
}

func (h *hand) all() []sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// change sets what is done with messages from now on.
func (h *hand) change(do func(env *queue.Envelope) fate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.do = do
}

func always(f fate) func(*queue.Envelope) fate { return func(*queue.Envelope) fate { return f } }

// live keeps the session of the hands alive until the end of the rig, or die.
func (r *rig) live() (die func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	was := schema.Session{Executor: executor}
	beat := func() {
		is := schema.Session{Executor: executor, ID: "s", Expires: time.Now().Add(10 * time.Second).Truncate(time.Millisecond)}
		if err := r.inner.SwapSession(context.Background(), was, is); err != nil {
			r.t.Errorf("SwapSession: %v", err)
		}
		was = is
	}
	beat()
	wg.Go(func() {
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				beat()
			}
		}
	})
	die = func() {
		cancel()
		wg.Wait()
	}
	r.stops = append(r.stops, die)
	return die
}

// only fails the test unless the entry was published once, for the first time, and depth.Lead
// before it was due.
func (h *hand) only(e *schema.Entry) {
	h.r.t.Helper()
	seen := h.sights(e.ID)
	if len(seen) != 1 || seen[0].env.Redispatch {
		h.r.t.Errorf("published %s, want once and for the first time", describe(seen))
		return
	}
	// A few that are due at once are waited for by the next, for some milliseconds: see
	// depth.Controller.Leads.
	if early := e.Due().Sub(seen[0].at); early > depth.Lead+2*flushSlack || early < 0 {
		h.r.t.Errorf("published %v before it was due, want %v, or up to %v more", early, depth.Lead, 2*flushSlack)
	}
}

func describe(seen []sight) string {
	if len(seen) == 0 {
		return "never"
	}
	var s string
	for _, one := range seen {
		s += fmt.Sprintf("[at %s, redispatch %v, %s] ", one.at.Format("15:04:05.000"), one.env.Redispatch, one.id)
	}
	return s
}

// shardOf makes the actor of a shard without running it, for tests that drive its steps.
func (r *rig) shardOf(d *Dispatcher, id schema.Shard) *shard { return newShard(d, id) }

// idle makes a dispatcher that does not run.
func (r *rig) idle() *Dispatcher {
	r.t.Helper()
	d, err := New(Config{
		Name: "d1", Incarnation: "d1", Store: r.store, Queue: r.conn, Ring: r.ring, Writer: r.writer(r.conn),
		Halt: bucketer.NewHalt(time.Now),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// pending returns a pending entry of s, nil if it is not pending.
func pending(s *shard, id schema.EntryID) *shardstate.Pending {
	p, _ := s.state.Pending(id)
	return p
}

// As in package depth: what may be published to a subject before its first reading, and how many
// messages wait there at least while there is a backlog.
const (
	firstBudget = 1000
	leastBudget = 100
)
