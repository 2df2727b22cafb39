package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/schema"
)

// A node that is asked for the cluster asks the members how they stand, by a signal to all of them.
// The signal names a topic for the answers, which the node listens to as long as it is up, and the
// number of the question.
type (
	// memberQuestion is the body of schema.TopicMembers.
	memberQuestion struct {
		Reply  string `json:"reply"` // the topic of the answers
		Number uint64 `json:"number"`
	}
	// memberStatus is how a member stands, by its own word.
	memberStatus struct {
		Node      string          `json:"node"`
		Number    uint64          `json:"number"` // of the question
		StartedAt time.Time       `json:"started_at"`
		Checks    []httpapi.Check `json:"checks"`
		Slots     *httpapi.Slots  `json:"slots,omitempty"` // nil: it executes nothing
	}
)

// memberReply is the form of the topics of answers, so that a signal cannot make us publish on any
// other topic.
var memberReply = regexp.MustCompile(`^members\.[0-9a-z]{26}$`)

// members asks the members of the cluster how they stand, and answers for our own node.
type members struct {
	name    string
	started time.Time
	queue   Queue
	ready   func(ctx context.Context) []httpapi.Dependency
	slots   func() *httpapi.Slots // nil: we execute nothing
	reply   string                // the topic of the answers to us
	log     *slog.Logger

	status lately[memberStatus] // our own

	mu     sync.Mutex
	number uint64
	open   *asked // nil: nothing is being asked
}

// asked is a question under way.
type asked struct {
	number  uint64
	missing map[string]struct{} // who has not answered
	answers map[string]memberStatus
	all     chan struct{} // closed when all have
}

// newMembers returns members of the node called name, which began at started.
func newMembers(name string, started time.Time, q Queue, ready func(ctx context.Context) []httpapi.Dependency, x *executor.Executor, log *slog.Logger) *members {
	m := &members{
		name: name, started: started.UTC(), queue: q, ready: ready, reply: schema.TopicMembers + "." + strings.ToLower(rand.Text()),
		log: log, status: newLately[memberStatus](),
	}
	if x != nil {
		m.slots = func() *httpapi.Slots {
			total, used, waiting := x.SlotsInUse()
			return &httpapi.Slots{Total: total, Used: used, Waiting: waiting}
		}
	}
	return m
}

// ask returns how the members of these names stand that answer within viewTimeout, and why others are
// not known to. One call at a time may be under way.
func (m *members) ask(ctx context.Context, names []string) (answers map[string]memberStatus, why string) {
	others := make(map[string]struct{}, len(names))
	for _, name := range names {
		others[name] = struct{}{}
	}
	_, ours := others[m.name]
	delete(others, m.name)
	answers = make(map[string]memberStatus)
	why = fmt.Sprintf("no answer within %v: it is frozen, cut off from NATS, busy, or of a version that does not know the question", viewTimeout)
	switch err := m.queue.Ready(); {
	case len(others) == 0:
	case err != nil:
		why = fmt.Sprintf("%s, which was asked, does not reach NATS: how others stand is not known (%s)", m.name, reasonOf(err))
	default:
		q := m.begin(others)
		late := time.NewTimer(viewTimeout)
		defer late.Stop()
		if text, err := json.Marshal(memberQuestion{m.reply, q.number}); err == nil {
			m.queue.Signal(schema.TopicMembers, text)
		}
		defer func() { maps.Copy(answers, m.end(q)) }()
		if ours {
			answers[m.name] = m.own(ctx)
		}
		select {
		case <-q.all:
		case <-late.C:
		case <-ctx.Done():
		}
		return answers, why
	}
	if ours {
		answers[m.name] = m.own(ctx)
	}
	return answers, why
}

// begin notes a question that these are asked.
func (m *members) begin(others map[string]struct{}) *asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number++
	m.open = &asked{number: m.number, missing: others, answers: make(map[string]memberStatus), all: make(chan struct{})}
	return m.open
}

// end ends a question, and returns the answers.
func (m *members) end(q *asked) map[string]memberStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = nil
	return q.answers
}

// hear takes an answer in.
func (m *members) hear(body []byte) {
	var said memberStatus
	if err := json.Unmarshal(body, &said); err != nil {
		m.log.Warn("the answer of a member cannot be read", "err", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.open
	if q == nil || said.Number != q.number {
		return // it came too late
	}
	if _, asked := q.missing[said.Node]; !asked {
		return
	}
	q.answers[said.Node] = said
	if delete(q.missing, said.Node); len(q.missing) == 0 {
		close(q.all)
	}
}

// answer answers a question of another node.
func (m *members) answer(body []byte) {
	var q memberQuestion
	if err := json.Unmarshal(body, &q); err != nil || !memberReply.MatchString(q.Reply) {
		m.log.Warn("a question about this member cannot be read", "err", err)
		return
	}
	if q.Reply == m.reply {
		return // our own
	}
	said := m.own(context.Background())
	said.Number = q.Number
	text, err := json.Marshal(said)
	if err != nil {
		m.log.Error("the answer about this member cannot be encoded", "err", err)
		return
	}
	m.queue.Signal(q.Reply, text)
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
				c.Message = strings.Join(strings.Fields(d.Err.Error()), " ")
			}
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
	return status
}
