package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// The counts of the minute under way are in the memory of the nodes. A node that is asked for them
// asks all others, so nobody writes anything for it.

// minutesRequest is the body of schema.TopicStats.
type minutesRequest struct {
	Reply string           `json:"reply"` // the topic of the answers
	Kind  schema.StatsKind `json:"kind,omitempty"`
}

// minutesAnswer is the answer of a node.
type minutesAnswer struct {
	Node    string        `json:"node"`
	Minutes []toldMinute  `json:"minutes,omitempty"`
	Names   []toldMinutes `json:"names,omitempty"`
}

func (a minutesAnswer) from() string { return a.Node }

// toldMinute is what a life of a node counted in a minute; toldMinutes, by name.
type (
	toldMinute struct {
		Minute time.Time          `json:"minute"`
		Life   string             `json:"life"`
		Counts schema.MinuteStats `json:"counts"`
	}
	toldMinutes struct {
		Minute time.Time        `json:"minute"`
		Life   string           `json:"life"`
		Counts schema.NameStats `json:"counts"`
	}
)

// minutes asks the nodes of the cluster, and answers for our own.
type minutes struct {
	queue   queue.Signals
	node    string
	members func() []string
	counts  *statsWriter
	log     *slog.Logger

	mu     sync.Mutex
	silent map[string]bool // who did not answer the time before: it may be dead, or an older version
}

// ask asks the living nodes for what they count by the names of a kind; "": of all runs. If nobody
// can be asked, the others are missing.
func (m *minutes) ask(ctx context.Context, kind schema.StatsKind) (admin.Told, error) {
	var told admin.Told
	told.Minutes, told.Names = m.counts.told(kind) // our own also without the queue
	others := slices.DeleteFunc(m.members(), func(name string) bool { return name == m.node })
	if len(others) == 0 {
		return told, nil
	}
	m.mu.Lock()
	silent := m.silent
	m.mu.Unlock()
	var err error
	told.Missing, err = askNodes(ctx, survey{
		queue: m.queue, log: m.log, topic: schema.TopicStats, members: others, silent: silent,
		body: func(reply string) any { return minutesRequest{reply, kind} },
	}, func(a minutesAnswer) {
		if a.Node == m.node {
			return
		}
		for _, t := range a.Minutes {
			t.Counts.Minute, t.Counts.Node = t.Minute.UTC(), t.Life
			told.Minutes = append(told.Minutes, t.Counts)
		}
		for _, t := range a.Names {
			t.Counts.Minute, t.Counts.Node, t.Counts.Kind = t.Minute.UTC(), t.Life, kind
			told.Names = append(told.Names, t.Counts)
		}
	})
	if ctx.Err() != nil {
		return admin.Told{}, err
	}
	if err != nil {
		m.log.Warn("other nodes could not be asked for their counts", "err", err)
	}
	is := make(map[string]bool, len(told.Missing))
	for _, name := range told.Missing {
		is[name] = true
	}
	m.mu.Lock()
	m.silent = is
	m.mu.Unlock()
	return told, nil
}

// answer answers other nodes until cancel is called.
func (m *minutes) answer() (cancel func(), err error) {
	return m.queue.SubscribeSignal(schema.TopicStats, func(body []byte) {
		var ask minutesRequest
		if err := json.Unmarshal(body, &ask); err != nil || !isReply(schema.TopicStats, ask.Reply) {
			m.log.Warn("a question about counts cannot be read", "err", err)
			return
		}
		a := minutesAnswer{Node: m.node}
		all, names := m.counts.told(ask.Kind)
		for i := range all {
			a.Minutes = append(a.Minutes, toldMinute{all[i].Minute, all[i].Node, all[i]})
		}
		for i := range names {
			a.Names = append(a.Names, toldMinutes{names[i].Minute, names[i].Node, names[i]})
		}
		text, err := json.Marshal(a)
		if err != nil {
			m.log.Error("the answer about counts cannot be encoded", "err", err)
			return
		}
		m.queue.Signal(ask.Reply, text)
	})
}
