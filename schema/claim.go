package schema

import "time"

// Claim is what the lease of a guarded run (at_most_once, effectively_once) says of its attempts. The lease is a register, and decides; the
// rows of attempts are its log, and may lag behind it:
//
//	no row, or nobody and no record   the run is free: an attempt may claim it
//	a holder                          attempt Number is under way, for as long as the holder's session stands
//	nobody and a record               attempt Number ended so. The next may claim it, unless the claim is Over
//
// An attempt claims before it starts and writes its record into the lease before it says it to anybody, in both cases only over what it has
// read. Who finds a record in the lease that the log does not have writes it there, and repeats what follows, before anything else: so
// nothing that the register forgets is lost.
type Claim struct {
	// Number is that of the attempt; 0: the record says why there was none.
	Number int `json:"attempt"`
	// Fence is that of the attempt: the lease's from the claim on. The lease's own is higher if somebody else ended the attempt.
	Fence Fence `json:"fence"`
	// Guarantee is the one under which the attempt claimed the run, whatever its task says by now; "" in what was written before this was, and where there was no task.
	Guarantee Guarantee `json:"guarantee,omitempty"`
	// Record is how it ended, nil while it is under way, and Written its write timestamp, µs.
	Record  *Record `json:"record,omitempty"`
	Written int64   `json:"written,omitempty"`
}

// RunLease returns the key of a run's lease.
func RunLease(run RunID) string { return "run/" + run.String() }

// Guarded reports whether attempts under this guarantee claim their run.
func (g Guarantee) Guarded() bool { return g == AtMostOnce || g == EffectivelyOnce }

// Claim returns what the lease of a run says, or ErrNotUnderstood. It is zero if the run is free and nothing was recorded.
func (l Lease) Claim() (Claim, error) {
	var c Claim
	if len(l.Record) == 0 {
		return c, nil
	}
	return Decode[Claim](l.Record, "claim")
}

// Over reports whether the run has ended with this claim: no attempt follows.
func (c Claim) Over() bool {
	if c.Record == nil {
		return false
	}
	switch c.Record.Outcome {
	case Failed, TimedOut, Lost:
		return c.Record.Final
	}
	return true
}

// Attempt returns the row of the log that belongs to the claim's record.
func (c Claim) Attempt(run RunID) Attempt {
	return Attempt{Run: run, Number: c.Number, Fence: c.Fence, Record: c.Record, Written: c.Written}
}

// Claimed returns the lease as attempt number n takes it at now under the guarantee g and the holder's session: with a higher fence, whatever the clock.
func (l Lease) Claimed(n int, g Guarantee, holder SessionRef, now time.Time) (Lease, error) {
	fence := l.NextFence(now)
	return l.with(fence, &holder, &Claim{Number: n, Fence: fence, Guarantee: g})
}

// Ended returns the lease as the attempt's own holder leaves it with its record: under the same fence.
func (l Lease) Ended(a Attempt) (Lease, error) {
	return l.with(l.Fence, nil, &Claim{Number: a.Number, Fence: a.Fence, Record: a.Record, Written: a.Written})
}

// EndedByOther returns the lease as anybody else ends attempt a at now (zero number: ends the run before one started): under a higher
// fence, so that whoever held it changes nothing any more.
func (l Lease) EndedByOther(a Attempt, now time.Time) (Lease, error) {
	return l.with(l.NextFence(now), nil, &Claim{Number: a.Number, Fence: a.Fence, Record: a.Record, Written: a.Written})
}

// Released returns the lease as its holder leaves it if it started nothing.
func (l Lease) Released() Lease { return Lease{Key: l.Key, Fence: l.Fence} }

func (l Lease) with(fence Fence, holder *SessionRef, c *Claim) (Lease, error) {
	text, err := encodeCell(c, "claim")
	if err != nil {
		return Lease{}, err
	}
	if holder != nil {
		h := *holder
		h.Started = h.Started.UTC().Round(0) // as it is read again
		holder = &h
	}
	return Lease{Key: l.Key, Fence: fence, Holder: holder, Record: text}, nil
}
