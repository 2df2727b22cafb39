package executor

import (
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// This file holds the decisions of an attempt, as pure functions: what to do next (decide), and
// what an attempt that ended came to (decideEnd). The methods of attempt do what is decided. A
// message comes this way:
//
//	received ─ based ─ arrived ─ admitted ─ slotted ─ prepared ─ alone ─ …
//	… ─ rechecked ─ limited ─ mayClaim ─ judged ─ claimed ─ the call
//
// Where another executor takes the lease first, the attempt reads the rows and is slotted again.
//
// Every action may also end the message: the rows say that nothing is to start, the store fails, or
// the executor stops.

// stage says how far an attempt has come.
type stage int

const (
	stageReceived  stage = iota // the message is in hand
	stageBased                  // it is known what the start rests on
	stageArrived                // the due time has come
	stageAdmitted               // admission lets it begin
	stageSlotted                // it has a slot of the executor
	stagePrepared               // its work is read
	stageAlone                  // of the messages of its run in hand, this one alone may start
	stageRechecked              // the start basis was revalidated after a wait
	stageLimited                // it has a slot of its job's limit, or needs none
	stageMayClaim               // it may use the lease, or needs none
	stageJudged                 // the start basis was revalidated, with nothing to wait for after
	stageClaimed                // its run is claimed, or needs no claim
)

// facts are what decide rests on. Those of a stage hold at that stage.
type facts struct {
	stage stage

	unreadable bool // received: what is stored of the entry cannot be understood
	inDoubt    bool // received: the envelope alone is not enough to start by

	formerEpoch bool // received, judged: it was published in an epoch of its home that is over

	waited  bool // alone: since the start basis was judged, other messages of the run had the turn
	jobSlot bool // alone, rechecked: a slot of the job's limit is needed

	guarded     bool // limited, judged: the run is claimed before it starts
	tooLate     bool // judged: the misfire policy does not let it start any more
	rateExpired bool // judged: its reservation under the rate of its task has expired
	notServed   bool // judged: our region may not act for the home of the run
	stopping    bool // judged: the executor stops, its clock is wrong, or the run is not due by it
	noSession   bool // judged: there is no session to start under
	unreachable bool // judged: the target cannot be reached from here
	unconfirmed bool // judged: a claim is to be known in every region, and one does not answer

	needsCell bool // judged, claimed: the session must be in the rows before the call
}

// action is what an attempt does next.
type action int

const (
	doRecordUnreadable action = iota
	doTrustEnvelope
	doReadRows
	doWaitUntilDue
	doAskAdmission
	doTakeSlot
	doReadWork
	doTakeTurn
	doRevalidate
	doTakeJobSlot
	doTakeClaimSlot
	doJudge // revalidate for the last time
	doRecordMissed
	doDeferForRate
	doDrop // acknowledge it, and decide nothing
	doGiveBack
	doGiveBackLater
	doClaimRun
	doCallTarget
	doNoteSessionAndCall
)

// decide returns what an attempt does next.
func decide(f facts) action {
	switch {
	case f.stage == stageReceived && f.formerEpoch:
		return doDrop
	case f.stage == stageReceived && f.unreadable:
		return doRecordUnreadable
	case f.stage == stageReceived && f.inDoubt:
		return doReadRows
	case f.stage == stageReceived:
		return doTrustEnvelope
	case f.stage == stageBased:
		return doWaitUntilDue
	case f.stage == stageArrived:
		return doAskAdmission
	case f.stage == stageAdmitted:
		return doTakeSlot
	case f.stage == stageSlotted:
		return doReadWork
	case f.stage == stagePrepared:
		return doTakeTurn
	case f.stage == stageAlone && (f.waited || f.jobSlot): // a run that was begun is neither held back nor skipped
		return doRevalidate
	case f.stage < stageLimited && f.jobSlot:
		return doTakeJobSlot
	case f.stage < stageMayClaim && f.guarded:
		return doTakeClaimSlot
	case f.stage < stageJudged:
		return doJudge
	}
	call := doCallTarget
	if f.needsCell {
		call = doNoteSessionAndCall
	}
	switch {
	case f.stage == stageClaimed:
		return call
	case f.formerEpoch: // whoever serves the home now finds the run by its rows
		return doDrop
	case f.notServed && !f.stopping: // nothing is decided here either: another region may be starting it
		return doGiveBackLater
	case f.notServed:
		return doGiveBack
	case f.tooLate:
		return doRecordMissed
	case f.rateExpired:
		return doDeferForRate
	case f.stopping:
		return doGiveBack
	case f.unconfirmed: // the message would come again at once
		return doGiveBackLater
	case f.noSession, f.unreachable: // a renewal is late, or the connection to workers is lost: the message would come again at once
		return doGiveBackLater
	case f.guarded:
		return doClaimRun
	}
	return call
}

// startBasis is what a start rests on.
type startBasis struct {
	checked  time.Time           // the rows said so at this time
	number   int                 // of the attempt
	fromRows bool                // the rows were read for this start: its session cell is written before, and the rows are read again
	limit    *schema.Concurrency // of the job; nil: none
	before   time.Time           // the job lets the attempt start before this; zero: at any time

	preempted int // how often the run was stopped for critical ones
}

// hasBegun reports whether the run has started before. What only a first start needs is not asked
// again, and it is not counted as another one.
func (b startBasis) hasBegun() bool { return b.number > 1 || b.preempted > 0 }

// holds reports whether a start at now may rest on the basis, which must not be older than maxAge.
func (b startBasis) holds(now time.Time, maxAge time.Duration) bool {
	return now.Sub(b.checked) <= maxAge && (b.before.IsZero() || now.Before(b.before))
}

// ending is what follows from the result of an attempt.
type ending int

const (
	endRecorded    ending = iota // the outcome is recorded
	endInterrupted               // a stop cut it short: it does not count
	endLost                      // it was stopped since its session may be dead: it counts, as the callee may have done the work
	endReleased                  // a stop cut an effectively_once attempt short: it does not count, and the run is free again
)

// decideEnd says what follows from a result. abandoned: the attempt was stopped since its session
// may have been declared dead.
func decideEnd(res *target.Result, g schema.Guarantee, abandoned bool) ending {
	switch {
	case res.Stopped && g == schema.AtLeastOnce:
		return endInterrupted
	case abandoned && res.Outcome != schema.Succeeded:
		return endLost
	case res.Stopped && g == schema.EffectivelyOnce:
		return endReleased
	}
	return endRecorded
}
