package executor

import "carillon.dev/carillon/schema"

// placement is what the messages of one run in hand know of one another.
type placement struct {
	pending bool          // it has no slot yet
	twin    *attempt      // another message of the run
	turn    bool          // it alone may start (turn.go) …
	passed  chan struct{} // … and this is closed when it may not any more; nil: nobody waits for that
}

// hand holds the messages in hand by their runs: a cancel finds those of its run among hundreds of thousands at once. Of one run there is seldom more than one. The executor's
// mutex guards it.
type hand struct {
	byRun map[schema.RunID]*attempt // the head of a chain of twins
	n     int
}

func (h *hand) add(a *attempt) {
	run := a.entry.Run()
	a.place.twin, h.byRun[run] = h.byRun[run], a
	h.n++
}

// remove takes out an attempt that was added.
func (h *hand) remove(a *attempt) {
	h.n--
	run := a.entry.Run()
	if head := h.byRun[run]; head != a {
		for head.place.twin != a {
			head = head.place.twin
		}
		head.place.twin = a.place.twin
		return
	}
	if a.place.twin == nil {
		delete(h.byRun, run)
		return
	}
	h.byRun[run] = a.place.twin
}

// has reports whether a message of a run is in hand.
func (h *hand) has(run schema.RunID) bool { return h.byRun[run] != nil }

// of calls f for each message of a run.
func (h *hand) of(run schema.RunID, f func(*attempt)) {
	for a := h.byRun[run]; a != nil; a = a.place.twin {
		f(a)
	}
}

// all returns all of them, in no order.
func (h *hand) all() []*attempt {
	all := make([]*attempt, 0, h.n)
	for _, a := range h.byRun {
		for ; a != nil; a = a.place.twin {
			all = append(all, a)
		}
	}
	return all
}
