package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// fakeSignals is a bus on which nodes answer questions after a while.
type fakeSignals struct {
	subscribing time.Duration             // so long a subscription takes
	broken      error                     // why it fails
	answers     map[string]time.Duration  // by the body: after which time it comes
	hear        map[string]func(b []byte) // who listens, by topic
	asked       []string                  // the bodies of questions
}

func (f *fakeSignals) SubscribeSignal(topic string, hear func([]byte)) (cancel func(), err error) {
	time.Sleep(f.subscribing) // in a bubble
	if f.broken != nil {
		return nil, f.broken
	}
	if f.hear == nil {
		f.hear = make(map[string]func([]byte))
	}
	f.hear[topic] = hear
	return func() { delete(f.hear, topic) }, nil
}

func (f *fakeSignals) Signal(_ string, body []byte) {
	f.asked = append(f.asked, string(body))
	var q question
	if err := json.Unmarshal(body, &q); err != nil {
		panic(err)
	}
	hear := f.hear[q.Reply]
	for answer, after := range f.answers {
		time.AfterFunc(after, func() { hear([]byte(answer)) })
	}
}

// A question takes a second at most, whatever hangs; who is usually silent is waited for 100 ms; and an
// answer that does not come costs none of the others.
func TestQuestionsToNodesAreBounded(t *testing.T) {
	const a, b, c = `{"node":"a"}`, `{"node":"b"}`, `{"node":"c"}`
	for name, row := range map[string]struct {
		bus     fakeSignals
		self    string
		silent  []string
		given   time.Duration // until the caller leaves; 0: it stays
		heard   []string
		missing []string
		took    time.Duration
		err     error
	}{
		"all answer":                       {bus: fakeSignals{answers: map[string]time.Duration{a: 0, b: 40 * time.Millisecond}}, heard: []string{"a", "b"}, took: 40 * time.Millisecond},
		"one is silent":                    {bus: fakeSignals{answers: map[string]time.Duration{a: 0}}, heard: []string{"a"}, missing: []string{"b"}, took: answersWithin},
		"one is silent again":              {bus: fakeSignals{answers: map[string]time.Duration{a: 0}}, silent: []string{"b"}, heard: []string{"a"}, missing: []string{"b"}, took: silentWithin},
		"the other is slow":                {bus: fakeSignals{answers: map[string]time.Duration{a: 300 * time.Millisecond}}, silent: []string{"b"}, heard: []string{"a"}, missing: []string{"b"}, took: 300 * time.Millisecond},
		"who was silent answers":           {bus: fakeSignals{answers: map[string]time.Duration{a: 0, b: 50 * time.Millisecond}}, silent: []string{"b"}, heard: []string{"a", "b"}, took: 50 * time.Millisecond},
		"one answers too late":             {bus: fakeSignals{answers: map[string]time.Duration{a: 0, b: 2 * time.Second}}, heard: []string{"a"}, missing: []string{"b"}, took: answersWithin},
		"one answers itself":               {bus: fakeSignals{answers: map[string]time.Duration{a: 0, b: 10 * time.Millisecond}}, self: "a", heard: []string{"b"}, took: 10 * time.Millisecond},
		"a stranger answers":               {bus: fakeSignals{answers: map[string]time.Duration{c: 0, "{": 0, a: 10 * time.Millisecond, b: 20 * time.Millisecond}}, heard: []string{"c", "a", "b"}, took: 20 * time.Millisecond},
		"one answers twice":                {bus: fakeSignals{answers: map[string]time.Duration{a: 0, a + " ": 10 * time.Millisecond, b: 20 * time.Millisecond}}, heard: []string{"a", "b"}, took: 20 * time.Millisecond},
		"the bus hangs":                    {bus: fakeSignals{subscribing: 500 * time.Millisecond}, missing: []string{"a", "b"}, took: answersWithin},
		"the bus hangs, and one answers":   {bus: fakeSignals{subscribing: 500 * time.Millisecond, answers: map[string]time.Duration{a: 0, b: 10 * time.Millisecond}}, heard: []string{"a", "b"}, took: 510 * time.Millisecond},
		"the bus is closed":                {bus: fakeSignals{broken: errors.New("closed")}, missing: []string{"a", "b"}, err: schema.ErrUnavailable},
		"the caller leaves":                {bus: fakeSignals{}, given: 70 * time.Millisecond, missing: []string{"a", "b"}, took: 70 * time.Millisecond, err: context.DeadlineExceeded},
		"nobody but ourselves is a member": {bus: fakeSignals{}, self: "only", took: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if row.given > 0 {
					bounded, cancel := context.WithTimeout(ctx, row.given)
					defer cancel()
					ctx = bounded
				}
				members := []string{"a", "b"}
				if row.self == "only" {
					members = []string{"only"}
				}
				var heard []string
				began := time.Now()
				missing, err := askNodes(ctx, survey{
					queue: &row.bus, log: slog.New(slog.DiscardHandler), topic: schema.TopicMembers, self: row.self, members: members, silent: row.silent,
					ask: func(q question) any { return q },
				}, func(s memberStatus) { heard = append(heard, s.Node) })
				if took := time.Since(began); took != row.took || !slices.Equal(heard, row.heard) || !slices.Equal(missing, row.missing) || !errors.Is(err, row.err) {
					t.Errorf("askNodes heard %v, missed %v in %v, %v; want %v, %v in %v, %v", heard, missing, took, err, row.heard, row.missing, row.took, row.err)
				}
				if len(row.bus.hear) > 0 {
					t.Errorf("after the question somebody still listens to %v", row.bus.hear)
				}
				for _, body := range row.bus.asked {
					if strings.Contains(body, `"from"`) != (row.self != "") {
						t.Errorf("the question is %s, asked by %q", body, row.self)
					}
				}
				time.Sleep(3 * time.Second) // what comes late finds nobody
			})
		})
	}
}

// The next question waits less for who did not answer the last one, but not for ever: it may have been
// busy.
func TestASilentNodeIsWaitedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &fakeSignals{answers: map[string]time.Duration{`{"node":"b"}`: 0}}
		m := &minutes{
			queue: bus, node: "a", members: func() []string { return []string{"a", "b", "c"} }, log: slog.New(slog.DiscardHandler),
			counts: &statsWriter{now: time.Now},
		}
		ask := func(want time.Duration, missing ...string) {
			t.Helper()
			began := time.Now()
			told, err := m.ask(t.Context(), "")
			if took := time.Since(began); err != nil || took != want || !slices.Equal(told.Missing, missing) {
				t.Errorf("ask missed %v in %v, %v; want %v in %v", told.Missing, took, err, missing, want)
			}
		}
		ask(answersWithin, "c")
		ask(silentWithin, "c")
		bus.answers[`{"node":"c"}`] = 300 * time.Millisecond // it lives, but it is busy
		ask(silentWithin, "c")
		time.Sleep(silentFor)
		ask(300 * time.Millisecond)
		ask(300 * time.Millisecond)
		bus.answers = nil
		ask(answersWithin, "b", "c")
		ask(silentWithin, "b", "c")
	})
}

// A signal makes a node publish on no topic but one of answers to that question.
func TestTopicsOfAnswers(t *testing.T) {
	word := strings.Repeat("a7", 13)
	for reply, want := range map[string]bool{
		"members." + word: true, "members." + word + "b": false, "members." + word[1:]: false, "members." + word[1:] + "A": false,
		"members.x." + word: false, "members" + word: false, "stats." + word: false, word: false, "": false, "members.": false,
		"members." + word[1:] + "*": false, "members." + word[1:] + ".": false, "members." + word + "\n": false,
	} {
		if got := isReply(schema.TopicMembers, reply); got != want {
			t.Errorf("isReply(members, %q) = %v, want %v", reply, got, want)
		}
	}
	bus := &fakeSignals{}
	log := slog.New(slog.DiscardHandler)
	cancel, err := answerNodes(bus, log, schema.TopicMembers, "a", func(question) memberStatus { return memberStatus{Node: "a"} })
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	hear := bus.hear[schema.TopicMembers]
	for _, body := range []string{"", "[]", `{}`, `{"reply":"members.x"}`, `{"reply":7}`, fmt.Sprintf(`{"reply":"stats.%s"}`, word), fmt.Sprintf(`{"reply":"members.%s","from":"a"}`, word)} {
		hear([]byte(body))
		if len(bus.asked) > 0 {
			t.Fatalf("the question %s is answered", body)
		}
	}
}
