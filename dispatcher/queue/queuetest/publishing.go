package queuetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

func full(t *testing.T, r *Rig) {
	payload := bytes.Repeat([]byte("x"), schema.InlinePayload)
	stored := 0
	for most := r.MaxBytes/len(payload) + 1; ; stored++ {
		if stored > most {
			t.Fatalf("%d messages of %d bytes were stored in a stream of %d bytes", stored, len(payload), r.MaxBytes)
		}
		_, err := tryPublish(t, r.Queue, 0, &queue.Envelope{Entry: entry(t, stored, schema.Normal, payload)})
		if errors.Is(err, queue.ErrFull) {
			break
		}
		if err != nil {
			t.Fatalf("publication %d: %v, want a receipt or ErrFull", stored, err)
		}
	}
	if stored == 0 {
		t.Fatal("the empty stream is full")
	}
	depth(t, r.Queue, 0, schema.Normal, stored) // nothing old was thrown away
	d := fetch(t, r.Queue, 0, schema.Normal, 1)[0]
	if got := d.Envelope().Entry.Spec.Task; got != "task-0" {
		t.Errorf("the oldest message is %s, want task-0", got)
	}
	d.Ack()
	depth(t, r.Queue, 0, schema.Normal, stored-1)
	// there is room again
	publish(t, r.Queue, 0, &queue.Envelope{Entry: entry(t, stored+1, schema.Normal, payload)})
}

func deleted(t *testing.T, r *Rig) {
	old := publish(t, r.Queue, 0, envelope(t, 1))
	other := publish(t, r.Queue, 1, envelope(t, 2))
	r.DeleteStream(0)
	eventually(t, "front of a deleted stream, want empty in another incarnation", func() (string, bool) {
		f, err := r.Queue.Front(t.Context(), 0, schema.Normal)
		return fmt.Sprintf("%+v %v", f, err), err == nil && f.Empty && f.Stream != old.Stream
	})
	// The same message is no duplicate of the lost one, and its receipt tells the two apart.
	var anew queue.Receipt
	eventually(t, "publication after the deletion", func() (string, bool) {
		var err error
		anew, err = tryPublish(t, r.Queue, 0, envelope(t, 3))
		return fmt.Sprint(err), err == nil
	})
	if anew.Stream == old.Stream {
		t.Errorf("receipts before and after the deletion are %+v and %+v, want two incarnations", old, anew)
	}
	front(t, r.Queue, 0, schema.Normal, queue.Front{Stream: anew.Stream, Sequence: anew.Sequence})
	front(t, r.Queue, 1, schema.Normal, queue.Front{Stream: other.Stream, Sequence: other.Sequence})
	fetch(t, r.Other, 0, schema.Normal, 1)[0].Ack()
	depth(t, r.Queue, 0, schema.Normal, 0)
}

func deletedWhileFetching(t *testing.T, r *Rig) {
	publish(t, r.Queue, 0, envelope(t, 1))
	before := fetch(t, r.Other, 0, schema.Normal, 1)[0]
	got := make(chan string, 1)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			ds, err := r.Other.Fetch(t.Context(), 0, schema.Normal, 10, 2*time.Second)
			if err == nil && len(ds) > 0 {
				ds[0].Ack()
				got <- ds[0].Envelope().Entry.Spec.Task
				return
			}
		}
	})
	defer wait.Wait()
	defer close(stop)
	r.DeleteStream(0)
	before.Ack() // of a message that is gone
	eventually(t, "publication after the deletion", func() (string, bool) {
		_, err := tryPublish(t, r.Queue, 0, envelope(t, 2))
		return fmt.Sprint(err), err == nil
	})
	if task := await(t, "the message after the deletion", got); task != "task-2" {
		t.Errorf("got %s after the deletion, want task-2", task)
	}
}

func tooLarge(t *testing.T, r *Rig) {
	e, err := schema.NewEntry(schema.MakeEntryID(time.Now(), 0, 1), schema.Spec{Tenant: "acme", Task: strings.Repeat("t", queue.MaxEnvelope)}, nil, time.Now())
	if err != nil {
		t.Fatalf("NewEntry: %v", err)
	}
	err = r.Queue.Publish(t.Context(), 0, &queue.Envelope{Entry: e}, func(_ queue.Receipt, err error) {
		t.Errorf("done was called, with %v, for an envelope that was not taken", err)
	})
	if !errors.Is(err, queue.ErrTooLarge) {
		t.Errorf("Publish of %d bytes = %v, want ErrTooLarge", queue.MaxEnvelope, err)
	}
	r.Queue.Near(0, []schema.Entry{e}) // is lost, and does no harm
}

// window publishes more than may be under way at once, from several goroutines.
func window(t *testing.T, r *Rig) {
	const publishers = 4
	count := queue.MaxPublishing + 1000
	var (
		mu       sync.Mutex
		underWay int
		most     int
		ends     = make([]int, count)
		failed   error
	)
	var ended sync.WaitGroup
	ended.Add(count)
	var wait sync.WaitGroup
	envs := make([]*queue.Envelope, count)
	for n := range envs {
		envs[n] = &queue.Envelope{Entry: entry(t, n, schema.Normal, nil)}
	}
	for p := range publishers {
		wait.Go(func() {
			for n := p; n < count; n += publishers {
				err := r.Queue.Publish(t.Context(), 0, envs[n], func(_ queue.Receipt, err error) {
					mu.Lock()
					defer mu.Unlock()
					underWay--
					ends[n]++
					if err != nil {
						failed = err
					}
					ended.Done()
				})
				if err != nil {
					t.Errorf("Publish %d: %v", n, err)
					ended.Done()
					continue
				}
				mu.Lock()
				underWay++
				most = max(most, underWay)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	all := make(chan struct{})
	go func() { ended.Wait(); close(all) }()
	await(t, "the end of every publication", all)
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		t.Errorf("a publication ended with %v", failed)
	}
	if most > queue.MaxPublishing {
		t.Errorf("%d publications were under way, want at most %d", most, queue.MaxPublishing)
	}
	for n, times := range ends {
		if times != 1 {
			t.Errorf("done was called %d times for publication %d", times, n)
		}
	}
	depth(t, r.Queue, 0, schema.Normal, count)
}

func publishAfterContext(t *testing.T, r *Rig) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.Queue.Publish(ctx, 0, envelope(t, 1), func(queue.Receipt, error) { t.Error("done was called for an envelope that was not taken") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Publish with an ended context = %v, want context.Canceled", err)
	}
	depth(t, r.Queue, 0, schema.Normal, 0)
}

func closed(t *testing.T, r *Rig) {
	answers := make(chan answer, 100)
	const count = 50
	for n := range count {
		if err := r.Queue.Publish(t.Context(), 0, envelope(t, n), func(rc queue.Receipt, err error) { answers <- answer{rc, err} }); err != nil {
			t.Fatalf("Publish: %v", err)
		}
	}
	fetching := make(chan error, 1)
	go func() {
		_, err := r.Queue.Fetch(t.Context(), 0, schema.Low, 1, time.Hour)
		fetching <- err
	}()
	if _, err := r.Queue.SubscribeSignal("x", func([]byte) {}); err != nil {
		t.Fatalf("SubscribeSignal: %v", err)
	}
	r.Close()
	for range count {
		await(t, "the end of a publication after Close", answers)
	}
	if err := await(t, "the end of a Fetch after Close", fetching); err == nil {
		t.Error("a Fetch that Close ended = nil, want an error")
	}
	if err := r.Queue.Publish(t.Context(), 0, envelope(t, 1), func(queue.Receipt, error) { t.Error("done was called after Close") }); err == nil {
		t.Error("Publish after Close = nil, want an error")
	}
	if _, err := r.Queue.Fetch(t.Context(), 0, schema.Normal, 1, time.Hour); err == nil {
		t.Error("Fetch after Close = nil, want an error")
	}
	if _, err := r.Queue.Front(t.Context(), 0, schema.Normal); err == nil {
		t.Error("Front after Close = nil, want an error")
	}
	if _, err := r.Queue.SubscribeSignal("x", func([]byte) {}); err == nil {
		t.Error("SubscribeSignal after Close = nil, want an error")
	}
	if err := r.Queue.Ready(); err == nil {
		t.Error("Ready after Close = nil, want an error")
	}
	r.Queue.Signal("x", nil) // is lost, and does no harm
	r.Queue.Near(0, []schema.Entry{entry(t, 1, "", nil)})
	if err := r.Other.Ready(); err != nil {
		t.Errorf("Ready of the other connection = %v, want nil", err)
	}
	r.Close() // again
}
