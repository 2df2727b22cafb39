package queuetest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Exercise runs the suite. Every case opens a rig of its own, with empty streams. around runs the
// body of a case: synctest.Test for an adapter that lives in a bubble; for one that does not, it
// may make cases parallel.
func Exercise(t *testing.T, open func(t *testing.T) *Rig, around func(t *testing.T, body func(t *testing.T))) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, r *Rig)
	}{
		{"a message arrives as it was sent", arrivesAsSent},
		{"messages come in order of publication", inOrder},
		{"a fetch ends without messages", fetchEnds},
		{"lanes and priorities are apart", apart},
		{"pools are apart", poolsApart},
		{"a message comes back after AckWait", comesBack},
		{"a held message stays", holdKeeps},
		{"a returned message comes back at once", returned},
		{"an acknowledged message is gone for all", acknowledged},
		{"a message id is stored once", duplicates},
		{"front and depth follow what is unfinished", frontAndDepth},
		{"a full stream refuses", full},
		{"a deleted stream is made anew", deleted},
		{"a deleted stream is fetched from again", deletedWhileFetching},
		{"an envelope can be too large", tooLarge},
		{"publications are bounded and each ends once", window},
		{"a publication is not taken after its context ended", publishAfterContext},
		{"hints reach all who listen", hints},
		{"notices reach all who listen", notices},
		{"signals reach all who listen", signals},
		{"answers reach who asked all", replies},
		{"a request is answered", request},
		{"a request whose hearer wants more waits for it", moreThanOne},
		{"a request without worker says so", noWorker},
		{"a request ends with its context", requestEnds},
		{"reserved headers are refused", reserved},
		{"the queue says that it is well", well},
		{"nothing works after close", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			around(t, func(t *testing.T) { c.run(t, open(t)) })
		})
	}
}

func arrivesAsSent(t *testing.T, r *Rig) {
	for n, c := range []struct {
		name string
		env  queue.Envelope
	}{
		{"plain", queue.Envelope{Entry: entry(t, 0, schema.Normal, nil)}},
		{"with payload", queue.Envelope{Entry: entry(t, 1, schema.Normal, bytes.Repeat([]byte("p"), schema.InlinePayload))}},
		{"checked", queue.Envelope{Entry: entry(t, 2, schema.Normal, nil), CheckedAt: time.Now().UTC().Truncate(time.Microsecond)}},
		{"redispatched", queue.Envelope{Entry: entry(t, 3, schema.Normal, nil), Redispatch: true, Dispatch: "d1.42"}},
	} {
		before := time.Now()
		publish(t, r.Queue, 0, &c.env)
		after := time.Now()
		d := fetch(t, r.Other, 0, schema.Normal, 1)[0]
		if at := d.Published(); at.Before(before.Add(-time.Millisecond)) || at.After(after.Add(time.Millisecond)) {
			t.Errorf("%s: published at %v, want between %v and %v", c.name, at, before, after)
		}
		got := d.Envelope()
		if got.Entry.ID != c.env.Entry.ID || !bytes.Equal(got.Entry.Text(), c.env.Entry.Text()) || !bytes.Equal(got.Entry.Payload, c.env.Entry.Payload) {
			t.Errorf("%s: got entry %s %s, want %s %s", c.name, got.Entry.ID, got.Entry.Text(), c.env.Entry.ID, c.env.Entry.Text())
		}
		if diff := cmp.Diff(c.env.Entry.Spec, got.Entry.Spec); diff != "" {
			t.Errorf("%s: spec (-want +got):\n%s", c.name, diff)
		}
		if !got.CheckedAt.Equal(c.env.CheckedAt) || got.Redispatch != c.env.Redispatch || got.Dispatch != c.env.Dispatch {
			t.Errorf("%s: got checked %v, redispatch %v %q, want %v, %v %q", c.name,
				got.CheckedAt, got.Redispatch, got.Dispatch, c.env.CheckedAt, c.env.Redispatch, c.env.Dispatch)
		}
		if d.Redelivered() {
			t.Errorf("%s: the first delivery of message %d says that it was delivered before", c.name, n)
		}
		d.Ack()
	}
}

func inOrder(t *testing.T, r *Rig) {
	const count = 50
	var last queue.Receipt
	for n := range count {
		got := publish(t, r.Queue, 0, envelope(t, n))
		if got.Stream != last.Stream && n > 0 || got.Sequence <= last.Sequence {
			t.Fatalf("receipt %d is %+v after %+v, want the same stream and a higher sequence", n, got, last)
		}
		last = got
	}
	for n, d := range fetch(t, r.Other, 0, schema.Normal, count) {
		if got, want := d.Envelope().Entry.Spec.Task, fmt.Sprintf("task-%d", n); got != want {
			t.Errorf("delivery %d is %s, want %s", n, got, want)
		}
		d.Ack()
	}
	depth(t, r.Queue, 0, schema.Normal, 0)
}

func fetchEnds(t *testing.T, r *Rig) {
	start := time.Now()
	fetchNone(t, r.Queue, 0, schema.Normal, 300*time.Millisecond)
	if got := time.Since(start); got < 200*time.Millisecond {
		t.Errorf("Fetch with wait 300ms of an empty lane returned after %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		got, err := r.Queue.Fetch(ctx, 0, schema.Normal, 10, time.Hour)
		if len(got) > 0 {
			err = fmt.Errorf("%d messages, %w", len(got), err)
		}
		ended <- err
	}()
	cancel()
	if err := await(t, "the end of a cancelled Fetch", ended); err != nil {
		t.Errorf("Fetch with a cancelled context = %v, want neither messages nor error", err)
	}
	if _, err := r.Queue.Fetch(t.Context(), 0, schema.Normal, 0, time.Second); err == nil {
		t.Error("Fetch with limit 0 = nil, want an error")
	}
	// A waiting Fetch gets a message that arrives.
	got := make(chan []queue.Delivery, 1)
	go func() {
		ds, _ := r.Other.Fetch(t.Context(), 0, schema.Normal, 10, patience)
		got <- ds
	}()
	publish(t, r.Queue, 0, envelope(t, 1))
	if ds := await(t, "the message for a waiting Fetch", got); len(ds) != 1 {
		t.Errorf("a waiting Fetch got %d messages, want 1", len(ds))
	}
}

func apart(t *testing.T, r *Rig) {
	n := 0
	for lane := range queue.Lane(2) {
		for _, p := range schema.Priorities {
			n++
			publish(t, r.Queue, lane, &queue.Envelope{Entry: entry(t, n, p, nil)})
		}
	}
	n = 0
	for lane := range queue.Lane(2) {
		for _, p := range schema.Priorities {
			n++
			depth(t, r.Queue, lane, p, 1)
			d := fetch(t, r.Other, lane, p, 1)[0]
			if got, want := d.Envelope().Entry.Spec.Task, fmt.Sprintf("task-%d", n); got != want {
				t.Errorf("lane %d, %s: got %s, want %s", lane, p, got, want)
			}
			d.Ack()
		}
	}
	// The zero priority is normal.
	publish(t, r.Queue, 0, &queue.Envelope{Entry: entry(t, 99, "", nil)})
	fetch(t, r.Other, 0, "", 1)[0].Ack()
	depth(t, r.Queue, 0, schema.Normal, 0)
}

func comesBack(t *testing.T, r *Rig) {
	publish(t, r.Queue, 0, envelope(t, 1))
	start := time.Now()
	first := fetch(t, r.Queue, 0, schema.Normal, 1)[0]
	if first.Redelivered() {
		t.Error("the first delivery says that it was delivered before")
	}
	second := fetch(t, r.Other, 0, schema.Normal, 1)[0]
	if got := time.Since(start); got < queue.AckWait {
		t.Errorf("the message came back after %v, want no sooner than %v", got, queue.AckWait)
	}
	if !second.Redelivered() {
		t.Error("the second delivery does not say that it was delivered before")
	}
	second.Ack()
	depth(t, r.Queue, 0, schema.Normal, 0)
}

func holdKeeps(t *testing.T, r *Rig) {
	publish(t, r.Queue, 0, envelope(t, 1))
	start := time.Now()
	d := fetch(t, r.Queue, 0, schema.Normal, 1)[0]
	for time.Since(start) < queue.AckWait+queue.AckWait/2 {
		d.Hold()
		fetchNone(t, r.Other, 0, schema.Normal, queue.AckWait/8)
	}
	// Without another Hold it comes back.
	last := time.Now()
	d.Hold()
	again := fetch(t, r.Other, 0, schema.Normal, 1)[0]
	if got := time.Since(last); got < queue.AckWait {
		t.Errorf("the message came back %v after the last Hold, want no sooner than %v", got, queue.AckWait)
	}
	again.Ack()
}

func returned(t *testing.T, r *Rig) {
	publish(t, r.Queue, 0, envelope(t, 1))
	d := fetch(t, r.Queue, 0, schema.Normal, 1)[0]
	d.Return()
	d.Ack() // does nothing: the message was returned
	got, err := r.Other.Fetch(t.Context(), 0, schema.Normal, 10, queue.AckWait-500*time.Millisecond)
	if err != nil || len(got) != 1 {
		t.Fatalf("Fetch after Return = %d messages, %v, want 1 before AckWait has passed", len(got), err)
	}
	if !got[0].Redelivered() {
		t.Error("a returned message does not say that it was delivered before")
	}
	got[0].Ack()
	depth(t, r.Queue, 0, schema.Normal, 0)
}

func acknowledged(t *testing.T, r *Rig) {
	publish(t, r.Queue, 0, envelope(t, 1))
	d := fetch(t, r.Queue, 0, schema.Normal, 1)[0]
	d.Ack()
	d.Ack()
	d.Return()
	d.Hold()
	depth(t, r.Other, 0, schema.Normal, 0)
	fetchNone(t, r.Other, 0, schema.Normal, queue.AckWait+time.Second)
}

func duplicates(t *testing.T, r *Rig) {
	env := envelope(t, 1)
	first := publish(t, r.Queue, 0, env)
	if first.Known {
		t.Error("the first publication was known")
	}
	again := publish(t, r.Other, 0, env)
	if want := (queue.Receipt{Stream: first.Stream, Sequence: first.Sequence, Known: true}); again != want {
		t.Errorf("the second publication gave %+v, want %+v", again, want)
	}
	re := *env
	re.Redispatch, re.Dispatch = true, "d1.1"
	if got := publish(t, r.Queue, 0, &re); got.Known || got.Sequence <= first.Sequence {
		t.Errorf("a redispatch gave %+v after %+v, want another message", got, first)
	}
	for _, d := range fetch(t, r.Queue, 0, schema.Normal, 2) {
		d.Ack()
	}
	depth(t, r.Queue, 0, schema.Normal, 0)
	if got := publish(t, r.Queue, 0, env); !got.Known || got.Sequence != first.Sequence {
		t.Errorf("the publication of an acknowledged message gave %+v, want it known as %d", got, first.Sequence)
	}
	depth(t, r.Queue, 0, schema.Normal, 0)
}

func frontAndDepth(t *testing.T, r *Rig) {
	var rs []queue.Receipt
	for n := range 4 {
		rs = append(rs, publish(t, r.Queue, 0, envelope(t, n)))
		// between them
		publish(t, r.Queue, 0, &queue.Envelope{Entry: entry(t, 100+n, schema.Low, nil)})
	}
	load(t, r.Other, 0, schema.Normal, queue.Load{Waiting: 4})
	at := func(i int) queue.Front { return queue.Front{Stream: rs[0].Stream, Sequence: rs[i].Sequence} }
	front(t, r.Other, 0, schema.Normal, at(0))
	depth(t, r.Other, 0, schema.Normal, 4)
	ds := fetch(t, r.Queue, 0, schema.Normal, 4)
	front(t, r.Other, 0, schema.Normal, at(0)) // held is not finished
	depth(t, r.Other, 0, schema.Normal, 4)
	load(t, r.Other, 0, schema.Normal, queue.Load{Held: 4, Delivered: 4})
	ds[1].Ack() // in the middle
	depth(t, r.Other, 0, schema.Normal, 3)
	front(t, r.Other, 0, schema.Normal, at(0))
	ds[0].Ack()
	front(t, r.Other, 0, schema.Normal, at(2))
	ds[2].Ack()
	ds[3].Ack()
	front(t, r.Other, 0, schema.Normal, queue.Front{Stream: rs[0].Stream, Empty: true})
	depth(t, r.Other, 0, schema.Normal, 0)
	depth(t, r.Other, 0, schema.Low, 4)
	f, err := r.Other.Front(t.Context(), 1, schema.Critical)
	if err != nil || !f.Empty || f.Stream == "" {
		t.Errorf("Front of a lane never used = %+v, %v, want an empty stream", f, err)
	}
}
