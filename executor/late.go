package executor

import (
	"context"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// This file is about successes that come late: others may have begun the run again, or ended it as failed, before them.

// watchAfter is how long after a success that outlived its session somebody looks whether what follows from it was done.
const watchAfter = time.Minute

// rivalled reports whether another execution of the run may have been begun before this one ended at now: what was handed out twice, what went
// on without the store or the stream knowing, and what outlived its session.
func (a *attempt) rivalled(now time.Time) bool {
	if a.env.Redispatch || a.delivery.Redelivered() {
		return true
	}
	if max(time.Since(a.began), now.Round(0).Sub(a.started)) < heldFor {
		return false // the message was ours all the time
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.knownAfter == 0 || a.knownAfter >= heldFor || a.fallen(now)
}

// outlived reports whether others may have found the attempt, in its own row, under a session that does not stand any more at now.
func (a *attempt) outlived(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.marked && a.fallen(now)
}

// fallen reports whether the session of the attempt does not stand at now; mu is held.
func (a *attempt) fallen(now time.Time) bool {
	session, alive := a.x.keeper.current(now)
	return !alive || session != a.session
}

// haveWatched has an entry stand in for the one at hand that comes to be looked at in a while. Whoever declared the attempt lost has closed the entry, and its
// message went long ago: were we to die between the record and the dead letter that it takes back, nobody would meet the record. If that cannot be
// written, the record says all the same what the attempt came to.
func (a *attempt) haveWatched(ctx context.Context, now time.Time) {
	e := a.entry
	id := schema.MakeEntryID(now.Add(watchAfter), e.ID.Shard(), schema.HashOf("outlived", e.ID.String(), strconv.FormatInt(int64(a.fence), 10)))
	to, err := a.x.writer.LaterStart(e, schema.KindWatch, id, e.Spec.AttemptNumber(), now)
	if err == nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		_, err = a.x.writer.Replace(bounded, []schema.Entry{*e}, []schema.Entry{to})
		cancel()
	}
	if err != nil {
		a.x.log.Warn("nobody will look after a success that outlived its session", "run", e.Run(), "err", err)
	}
}
