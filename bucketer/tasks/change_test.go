package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// hub is a bus of all members of a test. It loses the signals of some topics.
type hub struct {
	mu   sync.Mutex
	subs map[string][]func([]byte)
	lose int // so many signals are lost; < 0: all are
}

func (h *hub) Signal(topic string, body []byte) {
	h.mu.Lock()
	lost := h.lose != 0
	if h.lose > 0 {
		h.lose--
	}
	subs := slices.Clone(h.subs[topic])
	h.mu.Unlock()
	for _, f := range subs {
		if !lost {
			f(body)
		}
	}
}

func (h *hub) SubscribeSignal(topic string, f func([]byte)) (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[topic] = append(h.subs[topic], f)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, topic)
	}, nil
}

// A rate that was put was kept by dispatchers from their next reading on, up to 5 s later, and by a
// node that missed the signal up to a minute later: 200 runs that were sent within 2 s of the
// answer all started in one second.
func TestAChangeOfATaskIsAnsweredWhenItIsInForce(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lose  int
		fails int // so often the member cannot take the change in
		mute  bool
		least time.Duration
		most  time.Duration
	}{
		{name: "all hear of it", most: 0},
		{name: "signals are lost", lose: 3, least: askEvery, most: time.Second},
		{name: "it cannot be taken in at first", fails: 2, least: askEvery, most: time.Second},
		{name: "a member is mute", mute: true, least: bucketer.TaskCacheAge, most: askWithin},
		{name: "nothing is heard of anybody", lose: -1, least: bucketer.TaskCacheAge, most: askWithin},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				h := &hub{subs: make(map[string][]func([]byte)), lose: tc.lose}
				var members []string
				var nodes []*Tasks
				for _, name := range []string{"a", "b"} {
					_, b := w.on(bucketer.Config{
						Store: w.Store(), Hints: w, Signals: h, Halted: w.Stopped.Load,
						Listeners: &bucketer.TaskListeners{Bus: h, Members: func() []string { return members }},
					})
					members, nodes = append(members, name), append(nodes, b)
					fails := tc.fails
					if name == "b" && tc.mute {
						continue
					}
					if _, err := b.ListenForTaskChanges(h, name, func(context.Context) error {
						if fails--; fails >= 0 {
							return errors.New("not now")
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
				w.task("t", "a")
				for _, b := range nodes { // both believe that it has no rate
					if got, err := b.cache.Task(t.Context(), "t", "a"); err != nil || got.Rate != "" {
						t.Fatalf("Task = %+v, %v, want none with a rate", got, err)
					}
				}
				began := time.Now()
				if _, _, err := nodes[0].PutTask(t.Context(), schema.Task{Tenant: "t", Name: "a", Rate: "1/s"}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < tc.least || took > tc.most {
					t.Errorf("answered after %v, want %v to %v", took, tc.least, tc.most)
				}
				for i, b := range nodes {
					if got, err := b.cache.Task(t.Context(), "t", "a"); err != nil || got.Rate != "1/s" {
						t.Errorf("after the answer %s has rate %q, %v, want the new one", members[i], got.Rate, err)
					}
				}
			})
		})
	}
}

// A question is repeated five times a second. Copies of it waited behind a slow answer, and each
// was taken in anew: the next change waited behind all of them.
func TestAQuestionAboutATaskIsTakenInOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := &hub{subs: make(map[string][]func([]byte))}
		applied, answered := 0, 0
		if _, err := w.ListenForTaskChanges(h, "a", func(context.Context) error { applied++; return nil }); err != nil {
			t.Fatal(err)
		}
		ask := taskAsk{Tenant: "t", Name: "a", Reply: schema.TopicTaskAsk + "." + strings.Repeat("a", 26)}
		if _, err := h.SubscribeSignal(ask.Reply, func([]byte) { answered++ }); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(ask)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			h.Signal(schema.TopicTaskAsk, body)
		}
		if applied != 1 || answered != 50 {
			t.Errorf("50 copies of a question: taken in %d times and answered %d times, want 1 and 50", applied, answered)
		}
	})
}
