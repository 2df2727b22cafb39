package sim

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

type target struct {
	mu    sync.Mutex
	calls []executor.Call
	at    []time.Time
}

func (t *target) Run(ctx context.Context, c executor.Call) executor.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, c)
	t.at = append(t.at, time.Now())
	return executor.Result{Outcome: schema.Succeeded, Output: []byte("ok")}
}

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out io.Writer = os.Stderr
		log := slog.New(slog.NewTextHandler(out, nil))
		store, err := embedded.Open(embedded.Config{Shards: 8})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		broker := inproc.New(inproc.Config{})
		defer broker.Close()
		conn := broker.Connect("a")
		halt := bucketer.NewHalt(time.Now)
		b, err := bucketer.New(bucketer.Config{Store: store, Hints: conn, Signals: conn, Halted: halt.Halted, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		r, err := ring.Static([]ring.Member{{Name: "a", Addr: "127.0.0.1:1", Roles: []string{"dispatcher"}}}, 8)
		if err != nil {
			t.Fatal(err)
		}
		d, err := dispatcher.New(dispatcher.Config{Name: "a", Incarnation: "a1", Store: store, Queue: conn, Ring: r, Writer: b, Halt: halt, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		tg := &target{}
		x, err := executor.New(executor.Config{Name: "a", Store: store, Writer: b, Tasks: bucketer.NewTasks(store, time.Now), Queue: conn, Notices: conn,
			Targets: executor.Targets{HTTP: tg}, Halt: halt, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { halt.Run(ctx) })
		wg.Go(func() { b.Watch(ctx) })
		wg.Go(func() { d.Run(ctx) })
		wg.Go(func() { x.Run(ctx) })
		start := time.Now()
		var ids []schema.RunID
		for i := range 100 {
			rc, err := b.Submit(ctx, bucketer.Job{Tenant: "default", At: start.Add(time.Duration(i) * time.Second), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x"}}, Payload: []byte(`{"a":1}`)})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, rc.Run)
		}
		time.Sleep(5 * time.Minute)
		tg.mu.Lock()
		for i := range tg.calls {
			late := tg.at[i].Sub(tg.calls[i].Due)
			if late < 0 || late > 100*time.Millisecond {
				t.Errorf("run %d late %v", i, late)
			}
		}
		if len(tg.calls) != 100 {
			t.Errorf("calls %d", len(tg.calls))
		}
		tg.mu.Unlock()
		for _, id := range ids {
			run, err := b.Run(ctx, "default", id)
			if err != nil || run.State != schema.StateSucceeded {
				t.Errorf("%v %v %v", id, run.State, err)
			}
		}
		cs, _ := store.Cursors(ctx)
		for _, c := range cs {
			t.Log(c.Shard, c.Dispatched-schema.BucketOf(time.Now()), c.Settled-schema.BucketOf(time.Now()))
		}
		cancel()
		wg.Wait()
		conn.Close()
	})
}
