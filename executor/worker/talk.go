package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Words and headers of the protocol.
const (
	wordHeader   = "Carillon-Word"
	wordAlive    = "alive"
	wordLog      = "log"
	wordProgress = "progress"
	wordDeclined = "declined"
	wordResult   = "result"

	statusHeader = "Status"
	noResponders = "503"
)

// talk is what a worker and an executor say to each other about one attempt.
type talk struct {
	w     *Worker
	inbox string                  // of the executor
	reply string                  // where the executor's answers come to
	stop  context.CancelCauseFunc // ends the handler

	mu      sync.Mutex
	unheard bool // a word since the last sign of life found nobody …
	missed  int  // … and so many signs of life in a row before it
	told    struct {
		done, total int64
		fresh       bool
	}
	timer *time.Timer // of progress that waits; nil: none waits
	ended bool
	acked chan struct{} // closed when the result was heard, or nobody waits for it
}

// say sends a word of which nothing depends.
func (t *talk) say(word string, body []byte) {
	t.mu.Lock()
	ended := t.ended
	t.mu.Unlock()
	if ended {
		return
	}
	t.send(&nats.Msg{Header: nats.Header{wordHeader: {word}}, Data: body})
}

func (t *talk) send(m *nats.Msg) {
	m.Subject, m.Reply = t.inbox, t.reply
	if err := t.w.nc.PublishMsg(m); err != nil {
		t.w.log.Debug("a word to the executor could not be sent", "word", m.Header.Get(wordHeader), "err", err)
	}
}

// progress sends how far the handler has come, at most once in progressEvery: the last of what is
// told in between follows.
func (t *talk) progress(done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told.done, t.told.total, t.told.fresh = done, total, true
	if t.timer == nil && !t.ended {
		t.timer = time.AfterFunc(progressEvery, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.timer = nil
			t.sendProgress()
		})
		t.sendProgress()
	}
}

// sendProgress sends what was not sent yet. The caller holds mu; publishing only writes to a
// buffer.
func (t *talk) sendProgress() {
	if !t.told.fresh || t.ended {
		return
	}
	t.told.fresh = false
	body, _ := json.Marshal(map[string]int64{"done": t.told.done, "total": t.told.total}) // numbers encode
	t.send(&nats.Msg{Header: nats.Header{wordHeader: {wordProgress}}, Data: body})
}

// hear takes an answer of the executor in.
func (t *talk) hear(m *nats.Msg) {
	h := m.Header
	switch {
	case h.Get("Carillon-Cancel") != "":
		t.stop(causeOf(h.Get("Carillon-Cancel")))
	case h.Get("Carillon-Gone") != "":
		t.stop(ErrAbandoned)
		t.heard()
	case h.Get("Carillon-Ack") != "":
		t.heard()
	case h.Get(statusHeader) == noResponders:
		t.mu.Lock()
		t.unheard = true
		t.mu.Unlock()
	}
}

// heard notes that the result need not be sent again.
func (t *talk) heard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		select {
		case <-t.acked:
		default:
			close(t.acked)
		}
	}
}

// live says that the handler is at work until ctx ends.
func (t *talk) live(ctx context.Context) {
	wait := aliveFirst
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if t.alone() {
			t.stop(ErrAbandoned)
			return
		}
		t.say(wordAlive, nil)
		wait = aliveEvery
	}
}

// alone reports that nobody has listened for some time. An executor that reconnects is away for a
// moment, and comes back.
func (t *talk) alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missed++; !t.unheard {
		t.missed = 0
	}
	t.unheard = false
	return t.missed >= maxMissed
}

// end sends the result until it was heard, or for as long as an executor may be away.
func (t *talk) end(ctx context.Context, m *nats.Msg) error {
	t.mu.Lock()
	t.sendProgress()
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	t.mu.Unlock()
	giveUp := time.NewTimer(resultLast)
	defer giveUp.Stop()
	for wait := resultFirst; ; wait = min(2*wait, resultMost) {
		m.Subject, m.Reply = t.inbox, t.reply
		err := t.w.nc.PublishMsg(m)
		if errors.Is(err, nats.ErrMaxPayload) && len(m.Data) > 0 {
			m.Data = nil // the server's bound has become smaller
			m.Header.Set("Carillon-Output-Cut", "true")
			continue
		}
		again := time.NewTimer(wait)
		select {
		case <-t.acked:
			again.Stop()
			return nil
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("send result: %w", context.Cause(ctx))
		case <-giveUp.C:
			again.Stop()
			return fmt.Errorf("send result: nobody heard it for %v: %w", resultLast, errors.Join(ErrAbandoned, err))
		case <-again.C:
		}
	}
}

// causeOf returns the cause that the header of a cancel names.
func causeOf(why string) error {
	switch why {
	case "cancelled":
		return ErrCancelled
	case "timeout":
		return ErrTimeout
	}
	return ErrAbandoned
}
