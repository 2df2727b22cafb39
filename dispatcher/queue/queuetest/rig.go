package queuetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Rig is what the suite needs of an adapter. Its maker registers the cleanup.
type Rig struct {
	Queue queue.Queue // one connection, …
	Other queue.Queue // … and a second one to the same servers

	// MaxBytes is the bound of a stream, at most a few MiB.
	MaxBytes int
	// DeleteStream deletes a lane's stream without the adapter's knowledge.
	DeleteStream func(lane queue.Lane)
	// Serve answers the requests for subject until stop is called. It returns once the worker can
	// be reached, and stop once it cannot and the answer under way is given.
	Serve func(subject string, w Worker) (stop func())
	// Close closes Queue, and returns when everything that it had started has ended.
	Close func()
}

// Worker answers a request.
type Worker func(headers map[string]string, body []byte) (reply []byte, replyHeaders map[string]string)

// patience is how long a test waits for what must come. Nothing that passes takes that long.
const patience = 60 * time.Second

// entry makes the n-th entry of a test: normal priority unless p says otherwise.
func entry(t *testing.T, n int, p schema.Priority, payload []byte) schema.Entry {
	t.Helper()
	due := time.Now().Add(time.Hour).UTC()
	id := schema.MakeEntryID(due, 3, uint64(n)+1)
	e, err := schema.NewEntry(id, schema.Spec{
		Tenant: "acme", Nominal: due.Truncate(time.Millisecond), Accepted: due.UnixMicro(),
		Priority: p, Task: fmt.Sprintf("task-%d", n),
	}, payload, due.Add(time.Hour))
	if err != nil {
		t.Fatalf("NewEntry(%d): %v", n, err)
	}
	return e
}

// envelope makes the n-th envelope of a test.
func envelope(t *testing.T, n int) *queue.Envelope {
	t.Helper()
	return &queue.Envelope{Entry: entry(t, n, schema.Normal, []byte("payload")), CheckedAt: time.Now().UTC().Truncate(time.Microsecond)}
}

type answer struct {
	receipt queue.Receipt
	err     error
}

// tryPublish publishes and returns what done gets.
func tryPublish(t *testing.T, q queue.Queue, lane queue.Lane, env *queue.Envelope) (queue.Receipt, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answers := make(chan answer, 2)
	if err := q.Publish(ctx, lane, env, func(r queue.Receipt, err error) { answers <- answer{r, err} }); err != nil {
		t.Fatalf("Publish(lane %d, %s) = %v, want the envelope taken", lane, env.Entry.ID, err)
	}
	a := await(t, "the end of a publication", answers)
	return a.receipt, a.err
}

// publish publishes and fails the test unless the message is stored.
func publish(t *testing.T, q queue.Queue, lane queue.Lane, env *queue.Envelope) queue.Receipt {
	t.Helper()
	r, err := tryPublish(t, q, lane, env)
	if err != nil {
		t.Fatalf("Publish(lane %d, %s) ended with %v, want a receipt", lane, env.Entry.ID, err)
	}
	if r.Stream == "" || r.Sequence == 0 {
		t.Fatalf("Publish(lane %d, %s) gave receipt %+v, want a stream and a sequence", lane, env.Entry.ID, r)
	}
	return r
}

// fetch fetches exactly n messages, in as many calls as it takes.
func fetch(t *testing.T, q queue.Queue, lane queue.Lane, p schema.Priority, n int) []queue.Delivery {
	t.Helper()
	var all []queue.Delivery
	end := time.Now().Add(patience)
	for len(all) < n {
		if time.Now().After(end) {
			t.Fatalf("Fetch(lane %d, %s): %d messages after %v, want %d", lane, p, len(all), patience, n)
		}
		got, err := q.Fetch(t.Context(), lane, p, n-len(all), time.Second)
		if err != nil {
			t.Fatalf("Fetch(lane %d, %s): %v", lane, p, err)
		}
		if len(got) > n-len(all) {
			t.Fatalf("Fetch(lane %d, %s, limit %d): %d messages", lane, p, n-len(all), len(got))
		}
		all = append(all, got...)
	}
	return all
}

// fetchNone fails the test if a message comes within wait.
func fetchNone(t *testing.T, q queue.Queue, lane queue.Lane, p schema.Priority, wait time.Duration) {
	t.Helper()
	got, err := q.Fetch(t.Context(), lane, p, 10, wait)
	if err != nil {
		t.Fatalf("Fetch(lane %d, %s): %v", lane, p, err)
	}
	for _, d := range got {
		t.Errorf("Fetch(lane %d, %s) gave %s (redelivered: %v), want none", lane, p, d.Envelope().Entry.ID, d.Redelivered())
	}
}

// await returns the next value of ch.
func await[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		t.Fatalf("%s: nothing after %v", what, patience)
		panic("unreachable")
	}
}

// eventually calls ask until it holds: for what the contract allows to happen later, such as acks
// and recreated streams.
func eventually(t *testing.T, what string, ask func() (got string, ok bool)) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(patience)
	for {
		got, ok := ask()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: still %s after %v", what, got, patience)
		}
		<-tick.C
	}
}

// depth waits until the depth of a lane and priority is want.
func depth(t *testing.T, q queue.Queue, lane queue.Lane, p schema.Priority, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("depth of lane %d, %s, want %d", lane, p, want), func() (string, bool) {
		got, err := q.Load(t.Context(), lane, p)
		return fmt.Sprintf("%+v %v", got, err), err == nil && got.Depth() == want
	})
}

// load waits until what a lane and priority holds is want: a server counts a message for its
// consumer a moment after it has acknowledged the publication.
func load(t *testing.T, q queue.Queue, lane queue.Lane, p schema.Priority, want queue.Load) {
	t.Helper()
	eventually(t, fmt.Sprintf("load of lane %d, %s, want %+v", lane, p, want), func() (string, bool) {
		got, err := q.Load(t.Context(), lane, p)
		return fmt.Sprintf("%+v %v", got, err), err == nil && got == want
	})
}

// front waits until the front of a lane and priority is want.
func front(t *testing.T, q queue.Queue, lane queue.Lane, p schema.Priority, want queue.Front) {
	t.Helper()
	eventually(t, fmt.Sprintf("front of lane %d, %s, want %+v", lane, p, want), func() (string, bool) {
		got, err := q.Front(t.Context(), lane, p)
		return fmt.Sprintf("%+v %v", got, err), err == nil && got == want
	})
}
