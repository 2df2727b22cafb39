package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Scenario is one run of the simulation.
type Scenario struct {
	Seed   uint64
	Nodes  int           // default 3
	Shards int           // default 2
	Span   time.Duration // how long jobs are asked for and harm is done; default 3 min
	Jobs   int           // default 150
	Faults Faults
	// Kills, Freezes and StreamLosses are about how many of each happen in Span.
	Kills, Freezes, StreamLosses int
	// Skew is how far the nodes' clocks may be off, each way.
	Skew time.Duration
	// Changes: some jobs are cancelled or rescheduled.
	Changes bool
	Log     *slog.Logger
}

// Outcome is what came of a scenario.
type Outcome struct {
	Report check.Report
	// SettledLag is how far the slowest shard's settled cursor lies behind at the end, in buckets.
	SettledLag int
	// Held is what was seen of duplicates and so on, in words.
	Kills, Freezes int
}

// settle is how long after the last harm everything may take to come to its end: sessions die after 12 s, looks come
// every 15 s, retries back off for some seconds, watch entries come after two minutes.
const settle = 12 * time.Minute

// Run runs s in the bubble of the caller.
func Run(ctx context.Context, s Scenario) (Outcome, error) {
	if s.Nodes == 0 {
		s.Nodes = 3
	}
	if s.Shards == 0 {
		s.Shards = 2
	}
	if s.Span == 0 {
		s.Span = 3 * time.Minute
	}
	if s.Jobs == 0 {
		s.Jobs = 150
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	c, err := New(s.Seed, s.Nodes, s.Shards, s.Log)
	if err != nil {
		return Outcome{}, err
	}
	w := &world{c: c, s: s, rng: rand.New(rand.NewPCG(s.Seed, 2))}
	out, err := w.run(ctx)
	return out, errors.Join(err, c.Close())
}

// world is a scenario under way.
type world struct {
	c   *Cluster
	s   Scenario
	rng *rand.Rand

	mu      sync.Mutex
	asked   []check.Ask
	acks    []check.Ack
	changes []check.Change
	ids     map[int]schema.RunID // acknowledged, by line

	out Outcome
}

func (w *world) run(ctx context.Context) (Outcome, error) {
	w.ids = make(map[int]schema.RunID)
	for _, n := range w.c.nodes {
		if w.s.Skew > 0 {
			n.offset = time.Duration((w.rng.Float64()*2 - 1) * float64(w.s.Skew))
		}
		if err := n.Start(); err != nil {
			return w.out, err
		}
	}
	time.Sleep(time.Second)
	w.c.SetFaults(w.s.Faults)
	var wg sync.WaitGroup
	w.harm(&wg)
	w.ask(ctx, &wg)
	wg.Wait()
	w.c.SetFaults(Faults{})
	for _, n := range w.c.nodes {
		n.Thaw()
		if err := n.Start(); err != nil {
			return w.out, err
		}
	}
	time.Sleep(settle)
	return w.judge(ctx)
}

// harm plans kills, freezes and lost streams.
func (w *world) harm(wg *sync.WaitGroup) {
	at := func() time.Duration { return time.Duration(w.rng.Float64() * float64(w.s.Span)) }
	for range w.s.Kills {
		n, when, back := w.c.nodes[w.rng.IntN(len(w.c.nodes))], at(), time.Duration(w.rng.Float64()*float64(30*time.Second))
		wg.Go(func() {
			time.Sleep(when)
			n.Kill()
			time.Sleep(back)
			if err := n.Start(); err != nil {
				panic(err)
			}
		})
	}
	for range w.s.Freezes {
		n, when, back := w.c.nodes[w.rng.IntN(len(w.c.nodes))], at(), time.Duration(w.rng.Float64()*float64(20*time.Second))
		wg.Go(func() {
			time.Sleep(when)
			n.Freeze()
			time.Sleep(back)
			n.Thaw()
		})
	}
	for range w.s.StreamLosses {
		when := at()
		wg.Go(func() {
			time.Sleep(when)
			w.c.broker.DeleteStream(0)
		})
	}
}

// ask plans the jobs: immediate, near, and later ones, some by import with keys, sent again when the answer was cut.
func (w *world) ask(ctx context.Context, wg *sync.WaitGroup) {
	for line := 1; line <= w.s.Jobs; line++ {
		when := time.Duration(w.rng.Float64() * float64(w.s.Span))
		var ahead time.Duration
		switch w.rng.IntN(4) {
		case 0: // now
		case 1: // near, or just past
			ahead = time.Duration(w.rng.Float64()*float64(8*time.Second)) - time.Second
		default:
			ahead = time.Duration(w.rng.Float64() * float64(w.s.Span))
		}
		keyed := w.rng.IntN(3) == 0
		immediate := ahead == 0
		change := 0
		if w.s.Changes && w.rng.IntN(6) == 0 {
			change = 1 + w.rng.IntN(2)
		}
		changeAfter := time.Duration(w.rng.Float64() * float64(max(ahead, 3*time.Second)))
		moveBy := time.Duration(w.rng.Float64() * float64(30*time.Second))
		wg.Go(func() {
			time.Sleep(when)
			at := time.Time{}
			if !immediate {
				at = time.Now().Add(ahead).Truncate(time.Millisecond)
			}
			w.submit(ctx, line, at, keyed)
			if change > 0 {
				time.Sleep(changeAfter)
				w.change(ctx, line, change == 1, moveBy)
			}
		})
	}
}

// submit asks for one job, and for a keyed one again until it is acknowledged.
func (w *world) submit(ctx context.Context, line int, at time.Time, keyed bool) {
	ref := check.Ref{Source: "sim", Line: line}
	job := bucketer.Job{
		Tenant: "default", At: at, BodyHash: fmt.Sprint(line),
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/sim/%d", line)}, Timeout: schema.Duration(15 * time.Second)},
	}
	ask := check.Ask{Ref: ref, At: at}
	if keyed {
		job.Key = fmt.Sprintf("key-%d", line)
		ask.Key = job.Key
	}
	w.mu.Lock()
	w.asked = append(w.asked, ask)
	w.mu.Unlock()
	for try := 0; try < 8; try++ {
		n := w.someNode()
		ack := check.Ack{Ref: ref}
		if n != nil {
			var r bucketer.Receipt
			err := schema.ErrUnavailable
			b := n.bucketer
			if line%2 == 0 {
				b.SubmitBatch(ctx, []bucketer.Job{job}, func(_ int, got bucketer.Receipt, e error) { r, err = got, e })
			} else {
				r, err = b.Submit(ctx, job)
			}
			ack.At = time.Now()
			switch {
			case err == nil:
				ack.ID, ack.Status = r.Run.String(), 201
			default:
				ack.Status = 503
			}
			w.mu.Lock()
			w.acks = append(w.acks, ack)
			if err == nil {
				w.ids[line] = r.Run
			}
			w.mu.Unlock()
			if err == nil {
				return
			}
		}
		if !keyed {
			return
		}
		time.Sleep(3 * time.Second)
	}
}

// change cancels or reschedules a job, if it was acknowledged.
func (w *world) change(ctx context.Context, line int, cancel bool, by time.Duration) {
	w.mu.Lock()
	id, ok := w.ids[line]
	w.mu.Unlock()
	n := w.someNode()
	if !ok || n == nil {
		return
	}
	c := check.Change{Run: id.String(), Kind: check.Cancel, Requested: time.Now()}
	var err error
	if cancel {
		_, err = n.bucketer.Cancel(ctx, "default", id, "sim")
	} else {
		to := time.Now().Add(by).Truncate(time.Millisecond)
		c.Kind, c.Due = check.Reschedule, to
		_, err = n.bucketer.Reschedule(ctx, "default", id, bucketer.Change{At: &to})
	}
	if errors.Is(err, bucketer.ErrFinished) || errors.Is(err, schema.ErrNotFound) {
		return // refused
	}
	if err == nil {
		c.Acked = time.Now()
	}
	w.mu.Lock()
	w.changes = append(w.changes, c)
	w.mu.Unlock()
}

func (w *world) someNode() *Node {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	var up []*Node
	for _, n := range w.c.nodes {
		if n.up {
			up = append(up, n)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[w.c.rng.IntN(len(up))]
}

// judge reads every run twice and judges.
func (w *world) judge(ctx context.Context) (Outcome, error) {
	reader, err := w.reader(ctx)
	if err != nil {
		return w.out, err
	}
	first, err := w.read(ctx, reader)
	if err != nil {
		return w.out, err
	}
	time.Sleep(30 * time.Second)
	second, err := w.read(ctx, reader)
	if err != nil {
		return w.out, err
	}
	h := check.History{Asked: w.asked, Acks: w.acks, Changes: w.changes, SeenAll: true}
	w.c.mu.Lock()
	h.Seen = append(h.Seen, w.c.seen...)
	w.c.mu.Unlock()
	for id, r := range second {
		h.Runs = append(h.Runs, check.Observation{ID: id, First: first[id], Second: r})
	}
	w.out.Report, err = check.Judge(h)
	if err != nil {
		return w.out, err
	}
	cursors, err := w.c.store.Cursors(ctx)
	if err != nil {
		return w.out, err
	}
	for _, c := range cursors {
		w.out.SettledLag = max(w.out.SettledLag, int(schema.BucketOf(time.Now())-c.Settled))
	}
	return w.out, nil
}

func (w *world) reader(ctx context.Context) (*bucketer.Bucketer, error) {
	b, err := bucketer.New(bucketer.Config{Store: w.c.store, Hints: deaf{}, Signals: deaf{}})
	if err != nil {
		return nil, err
	}
	if err := b.Refresh(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// read reads every run that lies in the store.
func (w *world) read(ctx context.Context, b *bucketer.Bucketer) (map[string]check.Reading, error) {
	found := make(map[string]check.Reading)
	now := time.Now()
	for from := now.Add(-w.s.Span - settle - time.Hour); from.Before(now.Add(time.Hour)); from = from.Add(time.Hour) {
		win := bucketer.Window{Tenant: "default", From: from, To: from.Add(time.Hour)}
		for pos := (&bucketer.Position{}); pos != nil; {
			runs, next, err := b.Runs(ctx, win, *pos, 500)
			if err != nil {
				return nil, err
			}
			for _, r := range runs {
				found[r.ID.String()] = check.Reading{Status: check.Found, At: time.Now(), Run: view(r)}
			}
			pos = next
		}
	}
	for _, id := range w.ids {
		if _, ok := found[id.String()]; ok {
			continue
		}
		r, err := b.Run(ctx, "default", id)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			found[id.String()] = check.Reading{Status: check.Absent, At: time.Now()}
		case err != nil:
			return nil, err
		default:
			found[id.String()] = check.Reading{Status: check.Found, At: time.Now(), Run: view(r)}
		}
	}
	return found, nil
}

// view is the run as the API shows it.
func view(r bucketer.Run) check.Run {
	v := check.Run{ID: r.ID.String(), State: check.State(r.State), DueAt: r.Current.Due()}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number == 0 || a.Unstarted() {
			continue
		}
		out := check.Attempt{Number: a.Number}
		if a.Record != nil {
			out.StartedAt, out.FinishedAt, out.Outcome = a.Record.Started, a.Record.Finished, check.Outcome(a.Record.Outcome)
		} else if a.Session != nil {
			out.StartedAt = a.Session.Started
		}
		if v.StartedAt.IsZero() || out.StartedAt.Before(v.StartedAt) {
			v.StartedAt = out.StartedAt
		}
		v.Attempts = append(v.Attempts, out)
	}
	if !v.StartedAt.IsZero() {
		late := float64(v.StartedAt.Sub(r.Current.Spec.Start(r.Current.ID)).Milliseconds())
		v.LatenessMS = &late
	}
	return v
}

// deaf hears no hint and no signal.
type deaf struct{}

func (deaf) Near(schema.Shard, []schema.Entry) {}
func (deaf) Signal(string, []byte)             {}
