package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	// maxPull is how long one pull waits at the server. An idle lane and priority costs one pull in
	// that time, and a pull that is lost with a server delays messages by at most that.
	maxPull = 2 * time.Second
	// pullGrace bounds the wait for the status of a pull after its end, and, after the first
	// message, for the other messages.
	pullGrace = 500 * time.Millisecond
	// maxPullBytes bounds the messages of one pull, and so the memory of one Fetch.
	maxPullBytes = 16 << 20
	// Pauses after a pull that failed or was refused.
	pullPause    = 10 * time.Millisecond
	pullPauseMax = 250 * time.Millisecond
	// maxMalformed is how often a message that cannot be read comes, since a newer version may read
	// it, before it is deleted. The entry is not lost: it is in the store.
	maxMalformed = 10
)

// puller is an inbox for pulls, one at a time.
type puller struct {
	q    *Queue
	lane *lane
	of   class

	sub   *nats.Subscription
	inbox string
	pulls uint64
}

// Fetch implements queue.Consumer.
func (q *Queue) Fetch(ctx context.Context, n queue.Lane, p schema.Priority, limit int, wait time.Duration) ([]queue.Delivery, error) {
	return q.all().Fetch(ctx, n, p, limit, wait)
}

func (o pool) fetch(ctx context.Context, n queue.Lane, p schema.Priority, limit int, wait time.Duration) ([]queue.Delivery, error) {
	q := o.q
	l, err := q.streams.lane(n)
	if err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("limit %d", limit)
	}
	subject := "$JS.API.CONSUMER.MSG.NEXT." + l.stream + "." + queue.ConsumerOf(p, o.name)
	end := time.Now().Add(wait)
	pause := pullPause
	for {
		session, err := q.current()
		if err != nil {
			return nil, err
		}
		if !q.nc.IsConnected() { // the pull would be sent later, and answered when session has ended
			select {
			case <-ctx.Done():
				return nil, nil
			case <-session.Done():
				continue
			case <-time.After(time.Until(end)):
				return nil, nil
			}
		}
		var ds []queue.Delivery
		in, err := q.puller(l, class{p.Or(), o.name})
		if err == nil {
			ds, err = in.pull(ctx, session, subject, limit, min(time.Until(end), maxPull))
		}
		if len(ds) > 0 || ctx.Err() != nil {
			return ds, nil
		}
		left := time.Until(end)
		if left <= 0 {
			return nil, err
		}
		if err == nil {
			pause = pullPause
			continue
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-q.stopping.Done():
			return nil, queue.ErrClosed
		case <-time.After(min(pause, left)):
		}
		pause = min(2*pause, pullPauseMax)
	}
}

// pull sends one pull. It returns messages, nothing if there was none within wait or a context
// ended, or an error if the pull was refused.
func (in *puller) pull(ctx, session context.Context, subject string, limit int, wait time.Duration) ([]queue.Delivery, error) {
	q := in.q
	in.pulls++
	inbox := in.inbox + strconv.FormatUint(in.pulls, 36)
	// One shot: the messages that are there at once, or else the first that arrives.
	request, err := json.Marshal(struct {
		Expires  time.Duration `json:"expires"`
		Batch    int           `json:"batch"`
		MaxBytes int           `json:"max_bytes"`
		NoWait   bool          `json:"no_wait"`
	}{max(wait, time.Millisecond), limit, maxPullBytes, true})
	if err != nil {
		return nil, err
	}
	if err := q.nc.PublishRequest(subject, inbox, request); err != nil {
		in.discard()
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, wait+pullGrace)
	defer cancel()
	defer context.AfterFunc(session, cancel)()
	var gather *time.Timer // runs once there are messages
	defer func() {
		if gather != nil {
			gather.Stop()
		}
	}()
	var ds []queue.Delivery
	for {
		m, err := in.sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) { // how nats.go reports the status 503
			in.keep()
			in.q.streams.checkSoon()
			return ds, errors.New("no consumer answers")
		}
		if err != nil {
			// Ended by a context: return what else arrives for this pull.
			in.discard()
			if ctx.Err() != nil {
				err = nil
			}
			return ds, err
		}
		if m.Subject != inbox && strings.HasPrefix(m.Subject, in.inbox) {
			continue // the status of an earlier pull that already had all its messages
		}
		if m.Subject != inbox { // a message: it has the subject it was published to
			d, ok := q.delivery(m)
			if ok {
				ds = append(ds, d)
			}
			if gather == nil {
				gather = time.AfterFunc(pullGrace, cancel)
			}
			if limit--; limit > 0 {
				continue
			}
			in.keep()
			return ds, nil
		}
		ended, err := in.status(m)
		if ended {
			in.keep()
			return ds, err
		}
	}
}

// status reads the status message of a pull. ended means that no message follows.
func (in *puller) status(m *nats.Msg) (ended bool, err error) {
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	switch status {
	case "100": // still there
		return false, nil
	case "404": // no more messages
		return true, nil
	case "408":
		if description == "Request Timeout" {
			return true, nil
		}
		// others wait already, and there is too little
		return true, fmt.Errorf("pull refused: %s", description)
	case "409":
		switch description {
		case "Message Size Exceeds MaxBytes":
			return true, nil
		case "Exceeded MaxWaiting":
		default: // consumer or stream deleted, leadership changed, server shut down
			in.q.streams.checkSoon()
		}
		return true, fmt.Errorf("pull ended: %s", description)
	}
	return true, fmt.Errorf("pull ended: %s %s", status, description)
}

// puller takes an idle inbox of the lane and class, or makes one.
func (q *Queue) puller(l *lane, of class) (*puller, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, queue.ErrClosed
	}
	idle := l.pullers[of]
	if n := len(idle); n > 0 {
		l.pullers[of] = idle[:n-1]
		return idle[n-1], nil
	}
	in := &puller{q: q, lane: l, of: of, inbox: drawInbox() + "."}
	var err error
	if in.sub, err = q.nc.SubscribeSync(in.inbox + "*"); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if err := in.sub.SetPendingLimits(-1, -1); err != nil { // a pull is bounded by itself
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return in, nil
}

// keep puts an inbox back among the idle ones.
func (in *puller) keep() {
	in.q.mu.Lock()
	defer in.q.mu.Unlock()
	in.lane.pullers[in.of] = append(in.lane.pullers[in.of], in)
}

// discard drops an inbox whose pull may still be under way, and returns the messages that arrived.
// Later ones are delivered again after queue.AckWait.
func (in *puller) discard() {
	n, _, err := in.sub.Pending()
	for ; err == nil && n > 0; n-- {
		var m *nats.Msg
		if m, err = in.sub.NextMsg(time.Millisecond); err == nil && m.Reply != "" {
			in.q.respond(m.Reply, nakText)
		}
	}
	if err := in.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
		in.q.log.Debug("could not end a subscription", "err", err)
	}
}

// The answers to a delivery.
var (
	ackText      = []byte("+ACK")
	nakText      = []byte("-NAK")
	progressText = []byte("+WPI")
	termText     = []byte("+TERM")
)

// delivery is a message that this node holds.
type delivery struct {
	q           *Queue
	reply       string
	env         queue.Envelope
	published   time.Time
	redelivered bool
	ended       atomic.Bool
}

// delivery reads a message. It reports false for one that cannot be read.
func (q *Queue) delivery(m *nats.Msg) (*delivery, bool) {
	meta, err := m.Metadata()
	if err != nil {
		q.metrics.malformed.Inc()
		q.log.Warn("a message came from no consumer", "subject", m.Subject, "err", err)
		return nil, false
	}
	env, rest, err := queue.Parse(m.Data)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes too many", queue.ErrMalformed, len(rest))
	}
	if err != nil {
		q.metrics.malformed.Inc()
		q.log.Error("a message cannot be read", "subject", m.Subject, "sequence", meta.Sequence.Stream, "deliveries", meta.NumDelivered, "err", err)
		if meta.NumDelivered >= maxMalformed {
			q.respond(m.Reply, termText)
		}
		return nil, false
	}
	q.metrics.fetched.Inc()
	if meta.NumDelivered > 1 {
		q.metrics.redelivered.Inc()
	}
	return &delivery{q: q, reply: m.Reply, env: env, published: meta.Timestamp, redelivered: meta.NumDelivered > 1}, true
}

func (d *delivery) Envelope() *queue.Envelope { return &d.env }

func (d *delivery) Published() time.Time { return d.published }

func (d *delivery) Redelivered() bool { return d.redelivered }

func (d *delivery) Ack() {
	if !d.ended.Swap(true) {
		d.q.respond(d.reply, ackText)
	}
}

func (d *delivery) Return() {
	if !d.ended.Swap(true) {
		d.q.respond(d.reply, nakText)
	}
}

func (d *delivery) Hold() {
	if !d.ended.Load() {
		d.q.respond(d.reply, progressText)
	}
}
