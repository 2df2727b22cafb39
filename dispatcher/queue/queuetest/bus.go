package queuetest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// heard holds what one listener received, in batches.
type heard[T any] chan []T

// collect returns the next n things that were heard.
func collect[T any](t *testing.T, what string, from heard[T], n int) []T {
	t.Helper()
	var all []T
	for len(all) < n {
		all = append(all, await(t, what, from)...)
	}
	return all
}

// listen makes a listener whose f never blocks.
func listen[T any]() (heard[T], func([]T)) {
	ch := make(heard[T], 10_000)
	return ch, func(got []T) { ch <- slices.Clone(got) }
}

// subscribed fails the test if a subscription failed, and cancels it at the end.
func subscribed(t *testing.T) func(cancel func(), err error) func() {
	return func(cancel func(), err error) func() {
		t.Helper()
		if err != nil {
			t.Fatalf("subscribe: %v", err)
		}
		t.Cleanup(cancel)
		return cancel
	}
}

func hints(t *testing.T, r *Rig) {
	here, hear := listen[schema.Entry]()
	there, hearThere := listen[schema.Entry]()
	elsewhere, hearElsewhere := listen[schema.Entry]()
	must := subscribed(t)
	must(r.Queue.SubscribeNear(7, hear))
	cancel := must(r.Other.SubscribeNear(7, hearThere))
	must(r.Other.SubscribeNear(8, hearElsewhere))

	var sent []schema.Entry
	payload := bytes.Repeat([]byte("x"), schema.InlinePayload)
	for n := range 300 { // more than one message holds
		sent = append(sent, entry(t, n, "", payload))
	}
	r.Queue.Near(7, sent)
	r.Queue.Near(7, nil)
	for name, ch := range map[string]heard[schema.Entry]{"the sender": here, "another": there} {
		got := collect(t, "hints for "+name, ch, len(sent))
		for i, e := range got {
			if e.ID != sent[i].ID || !bytes.Equal(e.Text(), sent[i].Text()) || !bytes.Equal(e.Payload, sent[i].Payload) {
				t.Fatalf("%s: hint %d is %s %s, want %s %s", name, i, e.ID, e.Text(), sent[i].ID, sent[i].Text())
			}
		}
	}
	cancel()
	r.Queue.Near(7, sent[:1])
	r.Queue.Near(8, sent[1:2])
	collect(t, "hints for the sender", here, 1)
	if got := collect(t, "hints of another shard", elsewhere, 1); got[0].ID != sent[1].ID {
		t.Errorf("shard 8 heard %s, want %s", got[0].ID, sent[1].ID)
	}
	if len(there) > 0 {
		t.Error("a hint was heard after cancel")
	}
}

func notices(t *testing.T, r *Rig) {
	here, hear := listen[schema.Notice]()
	there, hearThere := listen[schema.Notice]()
	must := subscribed(t)
	must(r.Queue.SubscribeDone(7, hear))
	must(r.Other.SubscribeDone(7, hearThere))
	must(r.Other.SubscribeDone(8, func(got []schema.Notice) { t.Errorf("shard 8 heard %v", got) }))

	var sent []schema.Notice
	for n := range 10_000 {
		e := schema.MakeEntryID(time.Now(), 7, uint64(n))
		sent = append(sent, schema.Notice{Entry: e, Run: schema.MakeEntryID(time.Now(), 7, uint64(n/2)), Attempt: n})
	}
	r.Queue.Done(7, sent)
	r.Queue.Done(7, nil)
	for name, ch := range map[string]heard[schema.Notice]{"the sender": here, "another": there} {
		if got := collect(t, "notices for "+name, ch, len(sent)); !slices.Equal(got, sent) {
			t.Errorf("%s heard other notices than were sent", name)
		}
	}
}

func signals(t *testing.T, r *Rig) {
	here, hear := listen[byte]()
	there, hearThere := listen[byte]()
	must := subscribed(t)
	must(r.Queue.SubscribeSignal(schema.TopicCancel, hear))
	must(r.Other.SubscribeSignal(schema.TopicCancel, hearThere))
	must(r.Other.SubscribeSignal(schema.TopicTask, func(b []byte) { t.Errorf("topic %s heard %q", schema.TopicTask, b) }))
	body := []byte("a run")
	r.Queue.Signal(schema.TopicCancel, body)
	for name, ch := range map[string]heard[byte]{"the sender": here, "another": there} {
		if got := await(t, "signal for "+name, ch); !bytes.Equal(got, body) {
			t.Errorf("%s heard %q, want %q", name, got, body)
		}
	}
}

// replies: a node that asks all others names a topic, and only subscribers of that topic get the
// answers.
func replies(t *testing.T, r *Rig) {
	const mine, others = schema.TopicTargets + ".abc", schema.TopicTargets + ".abd"
	must := subscribed(t)
	answers, hear := listen[byte]()
	must(r.Queue.SubscribeSignal(mine, hear))
	must(r.Other.SubscribeSignal(others, func(b []byte) { t.Errorf("topic %s heard %q", others, b) }))
	must(r.Other.SubscribeSignal(schema.TopicTargets, func(topic []byte) { r.Other.Signal(string(topic), []byte("an answer")) }))
	r.Queue.Signal(schema.TopicTargets, []byte(mine))
	if got := await(t, "an answer", answers); string(got) != "an answer" {
		t.Errorf("the topic of the answers heard %q", got)
	}
}

func request(t *testing.T, r *Rig) {
	sent := map[string]string{"Carillon-Run": "r1", "carillon-run": "r2", "X-Empty": ""}
	defer r.Serve("work.double", func(headers map[string]string, body []byte) ([]byte, map[string]string) {
		for name, want := range sent {
			if got, ok := headers[name]; !ok || got != want {
				t.Errorf("the worker got header %s %q (there: %v), want %q", name, got, ok, want)
			}
		}
		return append(body, body...), map[string]string{"Carillon-Error": "", "X-Case": "A", "x-case": "b"}
	})()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var heard []queue.Reply
	err := r.Queue.Request(ctx, "work.double", sent, []byte("ab"), func(r queue.Reply) bool { heard = append(heard, r); return false })
	if err != nil || len(heard) != 1 || string(heard[0].Body) != "abab" {
		t.Fatalf("Request = %v after %d replies, want one of abab", err, len(heard))
	}
	headers := heard[0].Headers
	if want := map[string]string{"Carillon-Error": "", "X-Case": "A", "x-case": "b"}; !maps.Equal(headers, want) {
		t.Errorf("Request gave headers %q, want %q", headers, want)
	}
}

// moreThanOne: a hearer that wants more than the worker says waits until its context ends.
func moreThanOne(t *testing.T, r *Rig) {
	defer r.Serve("work.once", func(_ map[string]string, body []byte) ([]byte, map[string]string) { return body, nil })()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := r.Queue.Request(ctx, "work.once", nil, []byte("x"), func(queue.Reply) bool {
		time.AfterFunc(50*time.Millisecond, cancel)
		return true
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Request that waits for more = %v, want context.Canceled", err)
	}
}

// unheard is a hearer that hears nothing.
func unheard(t *testing.T) func(queue.Reply) bool {
	return func(r queue.Reply) bool { t.Errorf("heard %q, want no reply", r.Body); return false }
}

func noWorker(t *testing.T, r *Rig) {
	stop := r.Serve("work.gone", func(_ map[string]string, body []byte) ([]byte, map[string]string) { return body, nil })
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, subject := range []string{"work.never", "work.gone"} {
		err := r.Queue.Request(ctx, subject, nil, nil, unheard(t))
		if !errors.Is(err, queue.ErrNoWorker) {
			t.Errorf("Request(%s) = %v, want ErrNoWorker", subject, err)
		}
	}
}

func requestEnds(t *testing.T, r *Rig) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer r.Serve("work.slow", func(_ map[string]string, body []byte) ([]byte, map[string]string) {
		cancel() // the request is on its way
		<-release
		return body, nil
	})()
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	err := r.Queue.Request(ctx, "work.slow", nil, nil, unheard(t))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Request whose context ended = %v, want context.Canceled", err)
	}
}

func reserved(t *testing.T, r *Rig) {
	for _, headers := range []map[string]string{{"Nats-Rollup": "all"}, {"nats-x": "1"}, {"": "1"}, {"a b": "1"}, {"a:b": "1"}, {"a": "1\r\nb: 2"}} {
		err := r.Queue.Request(t.Context(), "work.never", headers, nil, unheard(t))
		if err == nil || errors.Is(err, queue.ErrNoWorker) {
			t.Errorf("Request with headers %q = %v, want it refused", headers, err)
		}
	}
}

func well(t *testing.T, r *Rig) {
	if err := r.Queue.Ready(); err != nil {
		t.Errorf("Ready = %v, want nil", err)
	}
	now, err := r.Queue.Time(t.Context())
	if err != nil {
		t.Fatalf("Time: %v", err)
	}
	if off := time.Since(now).Abs(); off > 10*time.Second {
		t.Errorf("Time = %v, %v from the clock of this machine", now, off)
	}
}
