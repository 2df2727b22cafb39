package dispatcher

import (
	"sync"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/ratelimit"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// maxMail bounds the hints and the notices that wait in a mailbox. More are dropped: they are
// advice.
const maxMail = 50_000

// mailbox takes what arrives from outside without making the sender wait.
type mailbox struct {
	wakeUp chan struct{} // cap 1

	mu   sync.Mutex
	mail mail
}

// mail is what arrived. The last three are bounded by the entries that are pending.
type mail struct {
	hints        []schema.Entry
	notices      []schema.Notice
	receipts     []receipt
	granted      []*depth.Ticket
	reservations []reserved
}

// receipt is the queue's answer to a publication.
type receipt struct {
	p       *shardstate.Pending
	receipt queue.Receipt
	err     error
}

// reserved is the rate limiter's answer to an entry that waited.
type reserved struct {
	p *shardstate.Pending
	r ratelimit.Reservation
}

// put has f add to the mail, and wakes the shard up.
func (m *mailbox) put(f func(*mail)) {
	m.mu.Lock()
	f(&m.mail)
	m.mu.Unlock()
	select {
	case m.wakeUp <- struct{}{}:
	default:
	}
}

func (m *mailbox) addHints(entries []schema.Entry) {
	m.put(func(all *mail) {
		if len(all.hints) < maxMail {
			all.hints = append(all.hints, entries...)
		}
	})
}

func (m *mailbox) addNotices(notices []schema.Notice) {
	m.put(func(all *mail) {
		if len(all.notices) < maxMail {
			all.notices = append(all.notices, notices...)
		}
	})
}

func (m *mailbox) addReceipt(r receipt) {
	m.put(func(all *mail) { all.receipts = append(all.receipts, r) })
}

// Granted implements depth.Recipient.
func (m *mailbox) Granted(t *depth.Ticket) {
	m.put(func(all *mail) { all.granted = append(all.granted, t) })
}

func (m *mailbox) addReserved(r reserved) {
	m.put(func(all *mail) { all.reservations = append(all.reservations, r) })
}

// take empties the mailbox.
func (m *mailbox) take() mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.mail
	m.mail = mail{}
	return all
}
