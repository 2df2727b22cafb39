package executor

import (
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts facts
		want  action
	}{
		{"the entry cannot be understood", facts{stage: stageReceived, unreadable: true}, doRecordUnreadable},
		{"it cannot be understood, and is in doubt", facts{stage: stageReceived, unreadable: true, inDoubt: true}, doRecordUnreadable},
		{"published in an epoch that is over", facts{stage: stageReceived, formerEpoch: true, inDoubt: true, unreadable: true}, doDrop},
		{"its epoch ended since it was received", facts{stage: stageJudged, formerEpoch: true, notServed: true, tooLate: true}, doDrop},
		{"the only message, and fresh", facts{stage: stageReceived}, doTrustEnvelope},
		{"one of several", facts{stage: stageReceived, inDoubt: true}, doReadRows},
		{"its basis is known", facts{stage: stageBased}, doWaitUntilDue},
		{"it is due", facts{stage: stageArrived}, doAskAdmission},
		{"admitted", facts{stage: stageAdmitted}, doTakeSlot},
		{"it has a slot", facts{stage: stageSlotted}, doReadWork},
		{"its work is known", facts{stage: stagePrepared}, doTakeTurn},

		{"it needs nothing more", facts{stage: stageAlone}, doJudge},
		{"another message of the run had the turn", facts{stage: stageAlone, waited: true}, doRevalidate},
		{"its job has a limit", facts{stage: stageAlone, jobSlot: true}, doRevalidate},
		{"its run is guarded", facts{stage: stageAlone, guarded: true}, doTakeClaimSlot},
		{"guarded, and another message had the turn", facts{stage: stageAlone, guarded: true, waited: true}, doRevalidate},
		{"read again after it waited", facts{stage: stageRechecked, waited: true}, doJudge},
		{"read again, and its job has a limit", facts{stage: stageRechecked, jobSlot: true}, doTakeJobSlot},
		{"the slot of a job comes before the lease", facts{stage: stageRechecked, jobSlot: true, guarded: true}, doTakeJobSlot},
		{"it has the slot of its job", facts{stage: stageLimited}, doJudge},
		{"it has the slot of its job, and is guarded", facts{stage: stageLimited, guarded: true}, doTakeClaimSlot},
		{"it may claim", facts{stage: stageMayClaim, guarded: true}, doJudge},

		{"all is well", facts{stage: stageJudged}, doCallTarget},
		{"it rests on rows", facts{stage: stageJudged, needsCell: true}, doNoteSessionAndCall},
		{"guarded", facts{stage: stageJudged, guarded: true}, doClaimRun},
		{"too late for its misfire policy", facts{stage: stageJudged, tooLate: true}, doRecordMissed},
		{"too late for its policy and for its rate", facts{stage: stageJudged, tooLate: true, rateExpired: true}, doRecordMissed},
		{"too late for its rate, and the executor stops", facts{stage: stageJudged, rateExpired: true, stopping: true}, doDeferForRate},
		{"the executor stops without a session", facts{stage: stageJudged, stopping: true, noSession: true}, doGiveBack},
		{"its home is served elsewhere", facts{stage: stageJudged, notServed: true}, doGiveBackLater},
		{"its home is served elsewhere, and it is too late", facts{stage: stageJudged, notServed: true, tooLate: true, rateExpired: true, guarded: true}, doGiveBackLater},
		{"its home is served elsewhere, and the executor stops", facts{stage: stageJudged, notServed: true, stopping: true}, doGiveBack},
		{"no session", facts{stage: stageJudged, noSession: true}, doGiveBackLater},
		{"nobody can be reached", facts{stage: stageJudged, unreachable: true}, doGiveBackLater},
		{"guarded, without a session", facts{stage: stageJudged, guarded: true, noSession: true}, doGiveBackLater},
		{"claimed", facts{stage: stageClaimed}, doCallTarget},
		{"claimed, and its task is not guarded any more", facts{stage: stageClaimed, needsCell: true}, doNoteSessionAndCall},
	} {
		if got := decide(c.facts); got != c.want {
			t.Errorf("%s: decide(%+v): got %d, want %d", c.name, c.facts, got, c.want)
		}
	}
}

// TestDecideComesToAnEnd: every action either ends the message or advances the stage, so no fact
// keeps an attempt where it is.
func TestDecideComesToAnEnd(t *testing.T) {
	next := map[action]stage{
		doTrustEnvelope: stageBased, doReadRows: stageBased, doWaitUntilDue: stageArrived, doAskAdmission: stageAdmitted, doTakeSlot: stageSlotted,
		doReadWork: stagePrepared, doTakeTurn: stageAlone, doRevalidate: stageRechecked, doTakeJobSlot: stageLimited, doTakeClaimSlot: stageMayClaim,
		doJudge: stageJudged, doClaimRun: stageClaimed,
	}
	for bits := range 1 << 11 {
		is := func(bit int) bool { return bits>>bit&1 == 1 }
		f := facts{
			unreadable: is(0), inDoubt: is(1), waited: is(2), jobSlot: is(3), guarded: is(4), tooLate: is(5), rateExpired: is(6), stopping: is(7),
			noSession: is(8), needsCell: is(9), notServed: is(10),
		}
		for {
			act := decide(f)
			to, goesOn := next[act]
			if !goesOn {
				break
			}
			if to <= f.stage {
				t.Fatalf("decide(%+v) = %d, which leads back to stage %d", f, act, to)
			}
			f.stage = to
		}
	}
}

func TestStartBasisHolds(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name   string
		before time.Time
		now    time.Time
		want   bool
	}{
		{"as old as it may be", time.Time{}, at.Add(freshFor), true},
		{"too old", time.Time{}, at.Add(freshFor + 1), false},
		{"before the job ends it", at.Add(time.Second), at.Add(time.Second - 1), true},
		{"when the job ends it", at.Add(time.Second), at.Add(time.Second), false},
	} {
		if got := (startBasis{checked: at, before: c.before}).holds(c.now, freshFor); got != c.want {
			t.Errorf("%s: holds: got %t, want %t", c.name, got, c.want)
		}
	}
}

func TestDecideEnd(t *testing.T) {
	stopped := target.Result{Outcome: schema.Failed, Stopped: true}
	for _, c := range []struct {
		name      string
		res       target.Result
		guarantee schema.Guarantee
		abandoned bool
		want      ending
	}{
		{"a success", target.Result{Outcome: schema.Succeeded}, schema.AtLeastOnce, false, endRecorded},
		{"a failure", target.Result{Outcome: schema.Failed}, schema.EffectivelyOnce, false, endRecorded},
		{"at_least_once, stopped", stopped, schema.AtLeastOnce, false, endInterrupted},
		{"at_most_once, stopped", stopped, schema.AtMostOnce, false, endRecorded},
		{"effectively_once, stopped", stopped, schema.EffectivelyOnce, false, endReleased},
		{"effectively_once, abandoned", stopped, schema.EffectivelyOnce, true, endLost},
		{"effectively_once, abandoned and cancelled", target.Result{Outcome: schema.Cancelled}, schema.EffectivelyOnce, true, endLost},
		{"effectively_once, abandoned as it succeeded", target.Result{Outcome: schema.Succeeded}, schema.EffectivelyOnce, true, endRecorded},
	} {
		if got := decideEnd(&c.res, c.guarantee, c.abandoned); got != c.want {
			t.Errorf("%s: decideEnd: got %d, want %d", c.name, got, c.want)
		}
	}
}
