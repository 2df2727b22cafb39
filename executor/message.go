package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// message is a delivery of the queue and how it ends: acknowledged or returned, once.
type message struct {
	x        *Executor
	owner    *attempt
	delivery queue.Delivery
	env      *queue.Envelope
	entry    *schema.Entry

	receivedAt time.Time // by this executor's clock

	heldAt   time.Time     // when it was last kept in progress; only tend looks at it
	timeout  time.Duration // how long the attempt may last; set before the start
	acked    atomic.Bool   // acknowledged or returned
	returned atomic.Bool   // returned
}

// isFirst reports whether the message is the only one that there has been of the run, as far as is
// known.
func (m *message) isFirst() bool {
	return !m.delivery.Redelivered() && !m.env.Redispatch && m.entry.Run() == m.entry.ID
}

// mayHaveStarted reports whether another message may have started the same attempt.
func (m *message) mayHaveStarted() bool {
	return m.delivery.Redelivered() || m.env.Redispatch || m.entry.Spec.MayHaveStarted
}

// inDoubt reports whether the envelope alone is not enough to start by: it may be one of several,
// or will be too old at the start.
func (m *message) inDoubt() bool {
	first, at := m.isFirst(), m.x.now()
	if m.entry.Due().After(at) {
		at = m.entry.Due()
	}
	return !first || at.Sub(m.env.CheckedAt) > freshFor
}

// beforeStart returns how long before a start the message was published, and how long before it we
// received it, in ms. The first is at least the second, also where the clocks of queue and executor
// differ.
func (m *message) beforeStart(start time.Time) (published, received int64) {
	received = max(start.Sub(m.receivedAt).Milliseconds(), 0)
	return max(start.Sub(m.delivery.Published()).Milliseconds(), received, 1), received
}

// ack acknowledges the message, once.
func (m *message) ack() {
	if !m.acked.Swap(true) {
		m.delivery.Ack()
	}
}

// finish acknowledges the message and ends its stay.
func (m *message) finish() {
	m.ack()
	m.x.leave(m.owner)
}

// finishEntry tells the owner of the shard that the entry is finished, by attempt number or before
// it, and ends the message.
func (m *message) finishEntry(number int) {
	e := m.entry
	m.x.notices.Done(e.ID.Shard(), []schema.Notice{{Entry: e.ID, Run: e.Run(), Attempt: number}})
	m.finish()
}

// giveBack returns the message to the stream, for anybody.
func (m *message) giveBack() {
	m.x.metrics.passed.WithLabelValues("returned").Inc()
	m.returned.Store(true)
	if !m.acked.Swap(true) {
		m.delivery.Return()
	}
	m.x.leave(m.owner)
}

// giveBackLater is giveBack after a pause: the message would come again at once.
func (m *message) giveBackLater(ctx context.Context) {
	m.owner.limits.releaseClaimSlot()
	select {
	case <-ctx.Done():
	case <-time.After(postponeFor):
	}
	m.giveBack()
}

// postpone gives the message back later, after a call of the store that failed.
func (m *message) postpone(ctx context.Context, act string, err error) {
	x := m.x
	if ctx.Err() == nil && !x.storeFailing.Swap(true) {
		x.log.Warn("store fails: messages that need it go back", "act", act, "run", m.entry.Run(), "err", err)
	}
	m.giveBackLater(ctx)
}

// returnWhileWaiting returns the message once others may have declared our session dead, so that
// they start the run. The attempt goes on waiting for the answer of the store: what stands in its
// name by then would hold the run as long as our session lives, unless it is declared dead.
func (m *message) returnWhileWaiting() {
	if !m.x.session.lapsed(m.x.now()) || m.returned.Swap(true) {
		return
	}
	if !m.acked.Swap(true) {
		m.delivery.Return()
	}
	m.x.passTurn(m.owner)
}

// wait waits until t by the executor's clock. False means that ctx ended first, or that the clock
// is wrong: one that was set back would keep the message from executors with right clocks for as
// long as it is slow.
func (m *message) wait(ctx context.Context, t time.Time) bool {
	for {
		d := t.Sub(m.x.now())
		if d <= 0 {
			return true
		}
		if m.x.halt.Halted() {
			return false
		}
		timer := time.NewTimer(min(d, tendEvery))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// expiry returns when a row of the attempt leaves the store that is written at now: a retention
// after the attempt may have ended, and after the run's own row. That row may be due later than the
// entry, if the run was moved forward. Those of a step are needed until its workflow ends.
func (m *message) expiry(now time.Time) time.Time {
	due := later(later(m.entry.Due(), m.entry.Run().Time()), m.entry.LivesUntil())
	return m.x.writer.ExpiryOf(&m.entry.Spec, due, now.Add(m.timeout)).Add(bucketer.Outlast)
}

// later returns the later of two instants.
func later(t, other time.Time) time.Time {
	if other.After(t) {
		return other
	}
	return t
}

var (
	// errNoTask: the entry names a task that does not exist.
	errNoTask = errors.New("the task does not exist any more")
	// errOddTask: the entry names a task that exists and cannot be understood. It may be put again,
	// and the run's dead letter replayed.
	errOddTask = errors.New("what is stored of the task cannot be understood")
	// errNoPayload: the payload has left the store.
	errNoPayload = errors.New("the payload does not exist any more")
)

// withoutTask reports whether err says that the task of an entry is not to be had, for good.
func withoutTask(err error) bool { return errors.Is(err, errNoTask) || errors.Is(err, errOddTask) }

// readTask returns the entry's work, with every default filled in.
func (m *message) readTask(ctx context.Context) (schema.Work, error) {
	spec := &m.entry.Spec
	if spec.Work != nil {
		return spec.Work.InForce(), nil
	}
	task, err := m.x.tasks.Task(ctx, spec.Tenant, spec.Task)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return schema.Work{}.InForce(), errNoTask
	case errors.Is(err, schema.ErrNotUnderstood):
		return schema.Work{}.InForce(), errOddTask
	case err != nil:
		return schema.Work{}, err
	}
	return task.Work.InForce(), nil
}

// prepare reads into w what the attempt runs with, by what its call is signed, and with which
// secrets it is made. An error is the store's.
func (m *message) prepare(ctx context.Context, w *workload) (err error) {
	if err = m.readWork(ctx, w); err != nil || w.fault != nil || w.barred != "" {
		return err
	}
	if w.HTTP != nil && m.x.signer != nil {
		w.secrets, w.barred, err = m.x.signing(ctx, m.entry.Spec.Tenant, w.HTTP.SigningKey)
	}
	if names := w.Secrets(); err == nil && w.barred == "" && len(names) > 0 {
		w.values, w.barred, err = m.x.values(ctx, m.entry.Spec.Tenant, names)
	}
	return err
}

// readWork reads the work and the payload.
func (m *message) readWork(ctx context.Context, w *workload) (err error) {
	*w = workload{}
	if _, large := m.entry.LargePayload(); !large && m.entry.Spec.Work != nil && !schema.IsSealed(m.entry.Payload) {
		w.Work, w.payload = m.entry.Spec.Work.InForce(), m.entry.Payload // the message has it all
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	w.Work, err = m.readTask(bounded)
	if withoutTask(err) {
		w.fault = fmt.Errorf("%w: %s", err, m.entry.Spec.Task)
		return nil
	}
	if err != nil {
		return err
	}
	w.payload, err = m.x.writer.EntryPayload(bounded, m.entry)
	if errors.Is(err, schema.ErrNotFound) {
		w.payload, w.fault = nil, errNoPayload // it will not come back: to try again would be for ever
		return nil
	}
	if errors.Is(err, schema.ErrSealed) {
		w.payload, w.barred = nil, err.Error() // the key may be configured later, or elsewhere
		return nil
	}
	return err
}
