package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/schema"
)

// A node that is asked for the cluster asks the members how they stand.

// memberStatus is how a member stands, by its own word: the answer to schema.TopicMembers.
type memberStatus struct {
	Node      string          `json:"node"`
	StartedAt time.Time       `json:"started_at"`
	Checks    []httpapi.Check `json:"checks"`
	Slots     *httpapi.Slots  `json:"slots,omitempty"` // nil: it executes nothing
	// Waiting is what is due and may not start, as far as the node knows.
	Waiting []httpapi.WaitingRuns `json:"waiting,omitempty"`
}

func (s memberStatus) from() string { return s.Node }

// members asks the members of the cluster how they stand, and answers for our own node.
type members struct {
	name    string
	started time.Time
	queue   Queue
	ready   func(ctx context.Context) []httpapi.Dependency
	slots   func() *httpapi.Slots        // nil: we execute nothing
	waiting func() []httpapi.WaitingRuns // nil: nobody counts them
	log     *slog.Logger

	status lately[memberStatus] // our own
}

// newMembers returns members of the node called name, which began at started.
func newMembers(name string, started time.Time, q Queue, ready func(ctx context.Context) []httpapi.Dependency, x *executor.Executor, log *slog.Logger) *members {
	m := &members{name: name, started: started.UTC(), queue: q, ready: ready, log: log, status: newLately[memberStatus]()}
	if x != nil {
		m.slots = func() *httpapi.Slots {
			total, used, waiting := x.SlotsInUse()
			return &httpapi.Slots{Total: total, Used: used, Waiting: waiting}
		}
	}
	return m
}

// ask returns how the members of these names stand, ours among them, and why others are not known to.
func (m *members) ask(ctx context.Context, names []string) (answers map[string]memberStatus, why string) {
	why = fmt.Sprintf("no answer within %v: it is frozen, cut off from NATS, busy, or of a version that does not know the question", answersWithin)
	answers = make(map[string]memberStatus)
	var own memberStatus
	var wg sync.WaitGroup
	wg.Go(func() { own = m.own(ctx) })
	err := m.queue.Ready()
	if err == nil {
		_, err = askNodes(ctx, survey{
			queue: m.queue, log: m.log, topic: schema.TopicMembers, self: m.name, members: names, ask: func(q question) any { return q },
		}, func(s memberStatus) { answers[s.Node] = s })
	}
	if err != nil && ctx.Err() == nil {
		why = fmt.Sprintf("%s, which was asked, does not reach NATS: how others stand is not known (%s)", m.name, reasonOf(err))
	}
	wg.Wait()
	answers[m.name] = own
	return answers, why
}

// answer answers other nodes until cancel is called.
func (m *members) answer() (cancel func(), err error) {
	return answerNodes(m.queue, m.log, schema.TopicMembers, m.name, func(question) memberStatus { return m.own(context.Background()) })
}

// own returns how our node stands, at most viewAge ago.
func (m *members) own(ctx context.Context) memberStatus {
	status, err := m.status.get(ctx, viewAge, func(ctx context.Context) memberStatus {
		bounded, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		s := memberStatus{Node: m.name, StartedAt: m.started}
		for _, d := range m.ready(bounded) {
			c := httpapi.Check{Name: d.Name, OK: d.Err == nil, Message: d.Warning}
			if d.Err != nil {
				c.Message = d.Err.Error()
			}
			c.Message = strings.Join(strings.Fields(c.Message), " ") // errors that were joined have lines
			s.Checks = append(s.Checks, c)
		}
		return s
	})
	if err != nil {
		status = memberStatus{Node: m.name, StartedAt: m.started, Checks: []httpapi.Check{{Name: "answer", Message: reasonOf(err)}}}
	}
	if m.slots != nil {
		status.Slots = m.slots()
	}
	if m.waiting != nil {
		status.Waiting = m.waiting()
	}
	return status
}
