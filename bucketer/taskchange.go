package bucketer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"time"
)

// This file is about when a change of a task is in force. Every node believes for a while what it read of a task. So a
// change is answered only when each member of the ring has said that it forgot what was before, or when nobody can
// believe that any more. A run that is accepted after the answer is handled by the task as it is then, on every node.

const (
	// topicTaskAsk has each member forget a task and say so. Body: a taskAsk.
	topicTaskAsk = "task-ask"
	// askEvery is how often members that have not answered are asked again: signals may be lost.
	askEvery = 200 * time.Millisecond
	// askWithin is how long a member that does not answer is waited for. It has read the task again by then, or is
	// halted, and reads everything again when it notices.
	askWithin = taskCacheAge + time.Second
	// hearWithin bounds what a member does before it answers.
	hearWithin = 5 * time.Second
	// maxHeard bounds the answered questions that a member remembers: copies that wait behind one are answered at once.
	maxHeard = 1000
)

// Bus carries signals to every node, and from them.
type Bus interface {
	Signaller
	SubscribeSignal(topic string, f func(body []byte)) (cancel func(), err error)
}

// TaskListeners are the nodes that must know of a change of a task before it is answered.
type TaskListeners struct {
	Bus     Bus
	Members func() []string // the names of those that live, as far as is known
}

// taskAsk is the body of a signal of topic "task-ask".
type taskAsk struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name"`
	Reply  string `json:"reply"` // the topic of the answers: their body is the name of a member
}

// replyTopic is the form of topics of answers: a signal must not be made to speak to another topic.
var replyTopic = regexp.MustCompile(`^task-ask\.[0-9a-z]{26}$`)

// awaitListeners returns when a changed task is in force on every member, or ctx ends.
func (b *Bucketer) awaitListeners(ctx context.Context, tenant, name string) {
	h := b.listeners
	if h == nil {
		return
	}
	ask := taskAsk{Tenant: tenant, Name: name, Reply: topicTaskAsk + "." + strings.ToLower(rand.Text())}
	body, err := json.Marshal(ask)
	if err != nil {
		panic("bucketer: " + err.Error()) // it is made of strings
	}
	answers, over := make(chan string, 64), make(chan struct{})
	defer close(over)
	cancel, err := h.Bus.SubscribeSignal(ask.Reply, func(member []byte) {
		select {
		case answers <- string(member):
		case <-over:
		}
	})
	if err != nil {
		b.log.Warn("nobody can be asked whether a changed task is known: it is waited until it must be", "tenant", tenant, "task", name, "err", err)
		cancel = func() {}
	}
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	end := time.NewTimer(askWithin)
	defer end.Stop()
	known, members := make(map[string]bool), h.Members() // also of those that are given up meanwhile
	h.Bus.Signal(topicTaskAsk, body)
	for !allKnow(members, known) {
		select {
		case member := <-answers:
			known[member] = true
		case <-tick.C:
			h.Bus.Signal(topicTaskAsk, body)
		case <-end.C:
			b.log.Warn("not every node said that it knows of a changed task: it was waited until each must", "tenant", tenant, "task", name, "known", len(known))
			return
		case <-ctx.Done():
			return
		}
	}
}

func allKnow(members []string, known map[string]bool) bool {
	for _, m := range members {
		if !known[m] {
			return false
		}
	}
	return true
}

// ListenForTaskChanges answers as the named member when a task was changed: once what was known of it is forgotten, and apply,
// which may be nil, has taken it in. It hears until cancel is called.
func (b *Bucketer) ListenForTaskChanges(bus Bus, member string, apply func(ctx context.Context) error) (cancel func(), err error) {
	var mu sync.Mutex
	heard := make(map[string]struct{}) // the questions that were answered
	return bus.SubscribeSignal(topicTaskAsk, func(body []byte) {
		var ask taskAsk
		if err := json.Unmarshal(body, &ask); err != nil || !replyTopic.MatchString(ask.Reply) {
			b.log.Warn("a question about a task cannot be read", "err", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if _, ok := heard[ask.Reply]; ok {
			bus.Signal(ask.Reply, []byte(member))
			return
		}
		b.tasks.Changed([]byte(ask.Tenant + "\n" + ask.Name))
		if apply != nil {
			ctx, cancel := context.WithTimeout(context.Background(), hearWithin)
			defer cancel()
			if err := apply(ctx); err != nil {
				b.log.Warn("a changed task could not be taken in: it is asked for again", "tenant", ask.Tenant, "task", ask.Name, "err", err)
				return
			}
		}
		if len(heard) >= maxHeard {
			clear(heard)
		}
		heard[ask.Reply] = struct{}{}
		bus.Signal(ask.Reply, []byte(member))
	})
}
