package executor

import "carillon.dev/carillon/schema"

// placement is what the messages of one run in hand know of one another.
type placement struct {
	pending bool          // it has no slot yet
	sibling *attempt      // another message of the run
	turn    bool          // it alone may start (turn.go) …
	passed  chan struct{} // … and this is closed when it may not any more; nil: no message waits for that
}

// messagesInHand holds the messages in hand by their runs: a cancel finds those of its run among
// hundreds of thousands at once. Few runs have more than one. The executor's mutex guards it.
type messagesInHand struct {
	byRun map[schema.RunID]*attempt // the head of a chain of siblings
	n     int
}

func (h *messagesInHand) add(a *attempt) {
	run := a.entry.Run()
	a.place.sibling, h.byRun[run] = h.byRun[run], a
	h.n++
}

// remove takes out an attempt that was added.
func (h *messagesInHand) remove(a *attempt) {
	h.n--
	run := a.entry.Run()
	if head := h.byRun[run]; head != a {
		for head.place.sibling != a {
			head = head.place.sibling
		}
		head.place.sibling = a.place.sibling
		return
	}
	if a.place.sibling == nil {
		delete(h.byRun, run)
		return
	}
	h.byRun[run] = a.place.sibling
}

// has reports whether a message of a run is in hand.
func (h *messagesInHand) has(run schema.RunID) bool { return h.byRun[run] != nil }

// of calls f for each message of a run.
func (h *messagesInHand) of(run schema.RunID, f func(*attempt)) {
	for a := h.byRun[run]; a != nil; a = a.place.sibling {
		f(a)
	}
}

// all returns all of them, in no order.
func (h *messagesInHand) all() []*attempt {
	all := make([]*attempt, 0, h.n)
	for _, a := range h.byRun {
		for ; a != nil; a = a.place.sibling {
			all = append(all, a)
		}
	}
	return all
}
