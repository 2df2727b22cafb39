package tasks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// askEvery is how often members that have not answered are asked again, because signals may be
	// lost.
	askEvery = 200 * time.Millisecond
	// askWithin is how long a change waits for a member that does not answer. By then the member
	// has read the task again, or it is halted and will forget everything when it notices.
	askWithin = bucketer.TaskCacheAge + time.Second
	// hearWithin bounds what a member does before it answers.
	hearWithin = 5 * time.Second
	// maxHeard bounds the answered questions that a member remembers, to answer copies of them at
	// once.
	maxHeard = 1000
)

// taskAsk is the body of a signal of topic "task-ask".
type taskAsk struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name"`
	Reply  string `json:"reply"` // the topic of the answers: their body is the name of a member
}

// replyTopic is the form of reply topics, so that a signal cannot make a member write to another
// topic.
var replyTopic = regexp.MustCompile(`^task-ask\.[0-9a-z]{26}$`)

// awaitListeners returns once a changed task is in force on every member, or ctx ends.
func (t *Tasks) awaitListeners(ctx context.Context, tenant, name string) {
	h := t.listeners
	if h == nil {
		return
	}
	ask := taskAsk{Tenant: tenant, Name: name, Reply: schema.TopicTaskAsk + "." + strings.ToLower(rand.Text())}
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
		t.log.Warn("members cannot be asked whether they know of a changed task: waiting until they must", "tenant", tenant, "task", name, "err", err)
		cancel = func() {}
	}
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	end := time.NewTimer(askWithin)
	defer end.Stop()
	// members also has those that the ring gives up meanwhile
	known, members := make(map[string]bool), h.Members()
	h.Bus.Signal(schema.TopicTaskAsk, body)
	for !allKnow(members, known) {
		select {
		case member := <-answers:
			known[member] = true
		case <-tick.C:
			h.Bus.Signal(schema.TopicTaskAsk, body)
		case <-end.C:
			t.log.Warn("not every member said that it knows of a changed task: waited until each must", "tenant", tenant, "task", name, "known", len(known))
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

// ListenForTaskChanges answers, as the named member, questions about changed tasks, until cancel is
// called. It answers once it has forgotten the task, and apply, which may be nil, has taken the
// change in.
func (t *Tasks) ListenForTaskChanges(bus bucketer.Bus, member string, apply func(ctx context.Context) error) (cancel func(), err error) {
	var mu sync.Mutex
	heard := make(map[string]struct{}) // the questions that were answered
	return bus.SubscribeSignal(schema.TopicTaskAsk, func(body []byte) {
		var ask taskAsk
		if err := json.Unmarshal(body, &ask); err != nil || !replyTopic.MatchString(ask.Reply) {
			t.log.Warn("a question about a task cannot be read", "err", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if _, ok := heard[ask.Reply]; ok {
			bus.Signal(ask.Reply, []byte(member))
			return
		}
		t.cache.Changed([]byte(ask.Tenant + "\n" + ask.Name))
		if apply != nil {
			ctx, cancel := context.WithTimeout(context.Background(), hearWithin)
			defer cancel()
			if err := apply(ctx); err != nil {
				t.log.Warn("a changed task could not be taken in: it is asked for again", "tenant", ask.Tenant, "task", ask.Name, "err", err)
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
