package dispatcher

import (
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/shardstate"
)

// action is what follows from an inspection.
type action uint8

const (
	leave          action = iota // it is on its way, or was published meanwhile
	askAgain                     // what becomes of it cannot be said yet
	publishNew                   // it was undecided, and is published for the first time
	closeEntry                   // nothing more starts from it
	condemn                      // its row cannot be understood: it is recorded as missed
	repeatFollowUp               // its record came without a notice
	watch                        // an attempt is under way, or it waits for its mark
	watchUntilDue                // its time has not come: the scan finds it, or it is inspected then
	publishAgain                 // nothing says that it must not start
)

// nextAction decides what follows from the rows of an entry. p is what the shard remembers of it;
// nil = it is not pending.
func nextAction(m *inspected, p *shardstate.Pending, now time.Time) action {
	st := &m.standing
	switch {
	case p != nil && p.Phase.Unconfirmed():
		return leave
	case p != nil && p.Phase == shardstate.Published && !p.PublishedAt.Before(m.checked):
		return leave
	case m.verdict == bucketer.Undecided:
		return askAgain
	case m.verdict == bucketer.Dropped:
		return closeEntry
	case p != nil && p.NeverPublished && !m.begun && !st.Over:
		return publishNew
	case m.entry.Fault != nil && !st.Over:
		return condemn
	case st.Repeat != nil:
		return repeatFollowUp
	case st.Over:
		return closeEntry
	case st.Live, st.Unnamed:
		return watch
	case m.entry.Due().After(now.Add(depth.Lead)):
		return watchUntilDue
	}
	return publishAgain
}
