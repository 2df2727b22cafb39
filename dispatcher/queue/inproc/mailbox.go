package inproc

import "sync"

// maxMail bounds the calls that wait for one subscriber; what does not fit is lost, as by NATS.
const maxMail = 65536

// mailbox calls functions one after another on a goroutine of its own.
type mailbox struct {
	mu     sync.Mutex
	calls  []func()
	closed bool

	wake  chan struct{} // holds one token when there may be calls, or the mailbox was closed
	ended chan struct{}
}

func newMailbox() *mailbox {
	m := &mailbox{wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go m.run()
	return m
}

// put queues a call and reports whether it will be made.
func (m *mailbox) put(call func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.calls) >= maxMail {
		return false
	}
	m.calls = append(m.calls, call)
	m.nudge()
	return true
}

func (m *mailbox) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// close makes no call after the one under way, unless drain is set: then it makes all that are
// queued. It does not wait.
func (m *mailbox) close(drain bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !drain {
		m.calls = nil
	}
	m.closed = true
	m.nudge()
}

func (m *mailbox) run() {
	defer close(m.ended)
	for range m.wake {
		m.mu.Lock()
		for len(m.calls) > 0 {
			call := m.calls[0]
			m.calls = m.calls[1:]
			m.mu.Unlock()
			call()
			m.mu.Lock()
		}
		m.calls = nil
		closed := m.closed
		m.mu.Unlock()
		if closed {
			return
		}
	}
}
