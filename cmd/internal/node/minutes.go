package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// The counts of the minute under way are in the memory of the nodes. A node that is asked for them
// asks all others, so nobody writes anything for it.

// silentFor is for how long nodes that do not answer are waited for less.
const silentFor = 10 * time.Second

// minutesRequest is the body of schema.TopicStats.
type minutesRequest struct {
	question
	Kind schema.StatsKind `json:"kind,omitempty"`
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
	silent []string  // who did not answer the last question
	until  time.Time // until when these are waited for less
}

// ask asks the living nodes for what they count by the names of a kind; "": of all runs. If nobody
// can be asked, the others are missing.
func (m *minutes) ask(ctx context.Context, kind schema.StatsKind) (admin.Told, error) {
	var told admin.Told
	told.Minutes, told.Names = m.counts.told(kind) // our own also without the queue
	silent := m.usuallySilent()
	var err error
	told.Missing, err = askNodes(ctx, survey{
		queue: m.queue, log: m.log, topic: schema.TopicStats, self: m.node, members: m.members(), silent: silent,
		ask: func(q question) any { return minutesRequest{q, kind} },
	}, func(a minutesAnswer) {
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
	m.noteSilent(told.Missing, len(silent) == 0)
	return told, nil
}

// usuallySilent returns who is waited for less. Such a node may be dead, or an older version, or it was
// just busy: so all are waited for from time to time.
func (m *minutes) usuallySilent() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts.now().Before(m.until) {
		return m.silent
	}
	return nil
}

// noteSilent notes who did not answer a question, and whether all were waited for.
func (m *minutes) noteSilent(names []string, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent = names; all {
		m.until = m.counts.now().Add(silentFor)
	}
}

// answer answers other nodes until cancel is called.
func (m *minutes) answer() (cancel func(), err error) {
	return answerNodes(m.queue, m.log, schema.TopicStats, m.node, func(ask minutesRequest) minutesAnswer {
		a := minutesAnswer{Node: m.node}
		all, names := m.counts.told(ask.Kind)
		for i := range all {
			a.Minutes = append(a.Minutes, toldMinute{all[i].Minute, all[i].Node, all[i]})
		}
		for i := range names {
			a.Names = append(a.Names, toldMinutes{names[i].Minute, names[i].Node, names[i]})
		}
		return a
	})
}
