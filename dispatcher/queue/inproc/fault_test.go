package inproc_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/schema"
)

// only harms the first message at a point, and counts what passes there.
func only(point inproc.Point, v inproc.Verdict) inproc.Fault {
	var seen atomic.Int32
	return func(e inproc.Event) inproc.Verdict {
		if e.Point == point && seen.Add(1) == 1 {
			return v
		}
		return inproc.Verdict{}
	}
}

func envelope(t *testing.T, n uint64) *queue.Envelope {
	t.Helper()
	e, err := schema.NewEntry(schema.MakeEntryID(time.Now(), 1, n), schema.Spec{Tenant: "acme"}, nil, time.Time{})
	if err != nil {
		t.Fatalf("NewEntry: %v", err)
	}
	return &queue.Envelope{Entry: e}
}

// publish publishes and returns how and after what time that ended.
func publish(t *testing.T, c *inproc.Conn, env *queue.Envelope) (r queue.Receipt, took time.Duration, err error) {
	t.Helper()
	start := time.Now()
	type answer struct {
		r   queue.Receipt
		err error
	}
	ch := make(chan answer, 1)
	if err := c.Publish(t.Context(), 0, env, func(r queue.Receipt, err error) { ch <- answer{r, err} }); err != nil {
		t.Fatalf("Publish: %v", err)
	}
	a := <-ch
	return a.r, time.Since(start), a.err
}

// fetch fetches once, and returns what came and after what time.
func fetch(t *testing.T, c *inproc.Conn, wait time.Duration) ([]queue.Delivery, time.Duration) {
	t.Helper()
	start := time.Now()
	ds, err := c.Fetch(t.Context(), 0, schema.Normal, 10, wait)
	if err != nil {
		t.Fatalf("Fetch: %v", err)
	}
	return ds, time.Since(start)
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		point inproc.Point
		v     inproc.Verdict

		published    error         // of the first publication
		publishedFor time.Duration // how long it took
		arrives      []int         // how many messages fetches get, one after another, without acks
		after        time.Duration // how long the first fetch takes
	}{
		{"nothing", "", inproc.Verdict{}, nil, 0, []int{1, 0}, 0},
		{"a lost publication", inproc.Publish, inproc.Verdict{Drop: true}, inproc.ErrNoAnswer, inproc.PublishTimeout, []int{0}, time.Second},
		{"a doubled publication", inproc.Publish, inproc.Verdict{Double: true}, nil, 0, []int{2, 0}, 0},
		{"a late publication", inproc.Publish, inproc.Verdict{Delay: time.Second}, nil, time.Second, []int{1, 0}, 0},
		{"a publication stored after its time-out", inproc.Publish, inproc.Verdict{Delay: inproc.PublishTimeout + time.Second/2}, inproc.ErrNoAnswer, inproc.PublishTimeout, []int{1, 0}, time.Second / 2},
		{"a lost receipt", inproc.Receipt, inproc.Verdict{Drop: true}, inproc.ErrNoAnswer, inproc.PublishTimeout, []int{1, 0}, 0},
		{"a late receipt", inproc.Receipt, inproc.Verdict{Delay: time.Second}, nil, time.Second, []int{1, 0}, 0},
		{"a lost delivery", inproc.Delivery, inproc.Verdict{Drop: true}, nil, 0, []int{0, 0, 0, 1}, time.Second},
		{"a doubled delivery", inproc.Delivery, inproc.Verdict{Double: true}, nil, 0, []int{1, 1, 0}, 0},
		{"a late delivery", inproc.Delivery, inproc.Verdict{Delay: time.Second / 2}, nil, 0, []int{1, 0}, time.Second / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := inproc.New(inproc.Config{Fault: only(c.point, c.v)})
				defer b.Close()
				conn := b.Connect("a")
				_, took, err := publish(t, conn, envelope(t, 1))
				if !errors.Is(err, c.published) || took != c.publishedFor {
					t.Errorf("the publication ended with %v after %v, want %v after %v", err, took, c.published, c.publishedFor)
				}
				for i, want := range c.arrives {
					wait := time.Second
					if i == 3 {
						wait = queue.AckWait
					}
					ds, took := fetch(t, conn, wait)
					if len(ds) != want {
						t.Errorf("fetch %d got %d messages, want %d", i, len(ds), want)
					}
					if i == 0 && took != c.after {
						t.Errorf("the first fetch took %v, want %v", took, c.after)
					}
				}
			})
		})
	}
}

func TestLostWordsAboutADelivery(t *testing.T) {
	for _, c := range []struct {
		name  string
		point inproc.Point
		v     inproc.Verdict
		say   func(queue.Delivery)
		back  time.Duration // when the message comes back; 0 = never
	}{
		{"ack", inproc.Ack, inproc.Verdict{}, queue.Delivery.Ack, 0},
		{"lost ack", inproc.Ack, inproc.Verdict{Drop: true}, queue.Delivery.Ack, queue.AckWait},
		{"ack after AckWait", inproc.Ack, inproc.Verdict{Delay: queue.AckWait + time.Second}, queue.Delivery.Ack, queue.AckWait},
		{"hold", inproc.Hold, inproc.Verdict{}, hold, queue.AckWait + time.Second},
		{"lost hold", inproc.Hold, inproc.Verdict{Drop: true}, hold, queue.AckWait},
		{"return", inproc.Return, inproc.Verdict{}, queue.Delivery.Return, time.Nanosecond},
		{"lost return", inproc.Return, inproc.Verdict{Drop: true}, queue.Delivery.Return, queue.AckWait},
		{"late return", inproc.Return, inproc.Verdict{Delay: time.Second}, queue.Delivery.Return, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := inproc.New(inproc.Config{Fault: only(c.point, c.v)})
				defer b.Close()
				conn := b.Connect("a")
				if _, _, err := publish(t, conn, envelope(t, 1)); err != nil {
					t.Fatalf("Publish: %v", err)
				}
				ds, _ := fetch(t, conn, time.Second)
				start := time.Now()
				c.say(ds[0])
				again, err := conn.Fetch(t.Context(), 0, schema.Normal, 10, time.Minute)
				if err != nil {
					t.Fatalf("Fetch: %v", err)
				}
				took := time.Since(start)
				switch {
				case c.back == 0 && len(again) > 0:
					t.Errorf("the message came back after %v, want never", took)
				case c.back > 0 && (len(again) != 1 || took != c.back.Truncate(time.Millisecond)):
					t.Errorf("%d messages came back after %v, want one after %v", len(again), took, c.back)
				case len(again) > 0 && !again[0].Redelivered():
					t.Error("what came back does not say so")
				}
			})
		})
	}
}

// hold holds a message a second after it was delivered.
func hold(d queue.Delivery) {
	go func() {
		time.Sleep(time.Second)
		d.Hold()
	}()
}

func TestAdviceSuffersFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		v    inproc.Verdict
		want int // times that it is heard
		at   time.Duration
	}{
		{"unharmed", inproc.Verdict{}, 1, 0},
		{"lost", inproc.Verdict{Drop: true}, 0, 0},
		{"doubled", inproc.Verdict{Double: true}, 2, 0},
		{"late", inproc.Verdict{Delay: time.Second}, 1, time.Second},
	} {
		for _, point := range []inproc.Point{inproc.Hint, inproc.Notice, inproc.Signal} {
			t.Run(c.name+" "+string(point), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := inproc.New(inproc.Config{Fault: only(point, c.v)})
					defer b.Close()
					from, to := b.Connect("a"), b.Connect("b")
					start := time.Now()
					var heard atomic.Int32
					hear := func() {
						heard.Add(1)
						if got := time.Since(start); got != c.at {
							t.Errorf("heard after %v, want %v", got, c.at)
						}
					}
					var err error
					switch point {
					case inproc.Hint:
						_, err = to.SubscribeNear(1, func([]schema.Entry) { hear() })
						from.Near(1, []schema.Entry{envelope(t, 1).Entry})
					case inproc.Notice:
						_, err = to.SubscribeDone(1, func([]schema.Notice) { hear() })
						from.Done(1, []schema.Notice{{Attempt: 1}})
					default:
						_, err = to.SubscribeSignal("x", func([]byte) { hear() })
						from.Signal("x", nil)
					}
					if err != nil {
						t.Fatalf("subscribe: %v", err)
					}
					time.Sleep(time.Minute)
					if got := int(heard.Load()); got != c.want {
						t.Errorf("heard %d times, want %d", got, c.want)
					}
				})
			})
		}
	}
}

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inproc.New(inproc.Config{})
		defer b.Close()
		cut, other := b.Connect("cut"), b.Connect("other")
		if _, _, err := publish(t, cut, envelope(t, 1)); err != nil {
			t.Fatalf("Publish: %v", err)
		}
		ds, _ := fetch(t, cut, time.Second)
		cut.Cut()
		ds[0].Ack() // is lost
		if _, err := cut.SubscribeSignal("x", func([]byte) { t.Error("a cut node heard a signal") }); err != nil {
			t.Fatalf("SubscribeSignal: %v", err)
		}
		other.Signal("x", nil)
		if cut.Ready() == nil {
			t.Error("Ready of a cut node = nil, want an error")
		}
		err := cut.Request(t.Context(), "work", nil, nil, func(queue.Reply) bool { return false })
		if cut.Reachable() || !errors.Is(err, queue.ErrOffline) {
			t.Errorf("of a cut node: Reachable %v, Request = %v; want false, ErrOffline", cut.Reachable(), err)
		}
		if _, took, err := publish(t, cut, envelope(t, 2)); !errors.Is(err, inproc.ErrNoAnswer) || took != inproc.PublishTimeout {
			t.Errorf("a publication of a cut node ended with %v after %v", err, took)
		}
		start := time.Now()
		if _, err := cut.Fetch(t.Context(), 0, schema.Normal, 1, time.Second); err == nil || time.Since(start) != time.Second {
			t.Errorf("Fetch of a cut node = %v after %v, want an error after 1s", err, time.Since(start))
		}
		again, _ := fetch(t, other, time.Minute)
		if len(again) != 1 || !again[0].Redelivered() {
			t.Fatalf("another node gets %d messages of the cut one, want 1, redelivered", len(again))
		}
		again[0].Return()

		// Who waits when the cut heals goes on waiting, and gets it.
		time.AfterFunc(time.Second, cut.Heal)
		again, took := fetch(t, cut, time.Minute)
		if len(again) != 1 || took != time.Second {
			t.Errorf("the healed node gets %d messages after %v, want 1 after 1s", len(again), took)
		}
	})
}

func TestMaxAckPendingHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inproc.New(inproc.Config{MaxAckPending: 2})
		defer b.Close()
		c := b.Connect("a")
		for n := range uint64(3) {
			if _, _, err := publish(t, c, envelope(t, n)); err != nil {
				t.Fatalf("Publish: %v", err)
			}
		}
		first, _ := fetch(t, c, time.Second)
		none, took := fetch(t, c, time.Second)
		if len(first) != 2 || len(none) != 0 || took != time.Second {
			t.Fatalf("got %d and then %d messages, want 2 and then none", len(first), len(none))
		}
		time.AfterFunc(time.Second, first[1].Ack)
		if next, took := fetch(t, c, time.Minute); len(next) != 1 || took != time.Second {
			t.Errorf("after an ack got %d messages after %v, want 1 after 1s", len(next), took)
		}
	})
}

func TestPublishBlocksAtTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inproc.New(inproc.Config{Fault: func(inproc.Event) inproc.Verdict { return inproc.Verdict{Delay: time.Second} }})
		defer b.Close()
		c := b.Connect("a")
		var ended atomic.Int32
		for n := range uint64(queue.MaxPublishing) {
			if err := c.Publish(t.Context(), 0, envelope(t, n), func(queue.Receipt, error) { ended.Add(1) }); err != nil {
				t.Fatalf("Publish %d: %v", n, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := c.Publish(ctx, 0, envelope(t, 1<<20), func(queue.Receipt, error) { t.Error("done was called for an envelope not taken") })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Publish with a full window = %v after %v, want the context's error after 1s", err, time.Since(start))
		}
		start = time.Now()
		if err := c.Publish(t.Context(), 0, envelope(t, 1<<20+1), func(queue.Receipt, error) { ended.Add(1) }); err != nil {
			t.Errorf("Publish: %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Publish waited %v for room, want 1s", took)
		}
		time.Sleep(time.Minute)
		if got := ended.Load(); got != queue.MaxPublishing+1 {
			t.Errorf("%d publications ended, want %d", got, queue.MaxPublishing+1)
		}
	})
}

func TestDuplicateWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inproc.New(inproc.Config{})
		defer b.Close()
		c := b.Connect("a")
		env := envelope(t, 1)
		for _, step := range []struct {
			wait  time.Duration
			known bool
		}{{0, false}, {queue.DuplicateWindow - time.Millisecond, true}, {time.Millisecond, false}} {
			time.Sleep(step.wait)
			r, _, err := publish(t, c, env)
			if err != nil || r.Known != step.known {
				t.Errorf("after another %v: %+v, %v, want known %v", step.wait, r, err, step.known)
			}
		}
	})
}
