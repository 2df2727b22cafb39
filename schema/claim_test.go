package schema_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestClaimOfALease: the register goes free → held → ended → held …, its fence grows where somebody
// takes it, and what it holds is what the log gets.
func TestClaimOfALease(t *testing.T) {
	now := time.Date(2026, 11, 21, 13, 0, 0, 123456789, time.UTC)
	run := schema.MakeEntryID(now, 3, 9)
	free := schema.Lease{Key: schema.RunLease(run)}
	holder := schema.SessionRef{Executor: "x", ID: "s", Started: now.In(time.FixedZone("", 3600)), Entry: run}
	held, err := free.Claimed(2, schema.EffectivelyOnce, holder, now)
	if err != nil {
		t.Fatalf("Claimed: %v", err)
	}
	c, err := held.Claim()
	if err != nil || held.Key != free.Key || held.Fence == 0 || c.Number != 2 || c.Fence != held.Fence || c.Record != nil || c.Over() {
		t.Errorf("Claimed = %+v (%+v), %v; want attempt 2 under way", held, c, err)
	}
	if held.Holder == nil || !held.Holder.Started.Equal(now) || held.Holder.Started.Location() != time.UTC {
		t.Errorf("holder = %+v, want one that started at %v, in UTC", held.Holder, now)
	}
	row := schema.Attempt{Run: run, Number: 2, Fence: held.Fence, Written: 77, Record: &schema.Record{Entry: run, Outcome: schema.Succeeded, Finished: now}}
	for _, step := range []struct {
		name   string
		lease  func() (schema.Lease, error)
		raised bool
	}{
		{"Ended", func() (schema.Lease, error) { return held.Ended(row) }, false},
		// by a clock that is behind
		{"Raised", func() (schema.Lease, error) { return held.EndedByOther(row, now.Add(-time.Hour)) }, true},
	} {
		l, err := step.lease()
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		c, err := l.Claim()
		if err != nil || l.Holder != nil || (l.Fence > held.Fence) != step.raised || l.Fence < held.Fence || !c.Over() {
			t.Errorf("%s = %+v (%+v), %v; want one that is over, with a higher fence: %v", step.name, l, c, err, step.raised)
		}
		got := c.Attempt(run)
		if got.Run != row.Run || got.Number != row.Number || got.Fence != row.Fence || got.Written != row.Written || *got.Record != *row.Record {
			t.Errorf("%s: Attempt = %+v (%+v), want %+v (%+v)", step.name, got, got.Record, row, row.Record)
		}
		if err := l.Follows(held); err != nil {
			t.Errorf("%s: Follows = %v, want nil", step.name, err)
		}
	}
	if l := held.Released(); l.Holder != nil || l.Fence != held.Fence || len(l.Record) != 0 || l.Key != held.Key {
		t.Errorf("Released = %+v, want the fence alone", l)
	}
	if _, err := (schema.Lease{Record: []byte("{")}).Claim(); err == nil {
		t.Error("Claim of what is no claim = nil, want an error")
	}
}

func TestClaimIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		record *schema.Record
		want   bool
	}{
		"nothing recorded":       {nil, false},
		"success":                {&schema.Record{Outcome: schema.Succeeded}, true},
		"cancelled":              {&schema.Record{Outcome: schema.Cancelled}, true},
		"missed":                 {&schema.Record{Outcome: schema.Missed}, true},
		"failed, tried again":    {&schema.Record{Outcome: schema.Failed, Next: schema.MakeEntryID(time.Now(), 0, 1)}, false},
		"failed for good":        {&schema.Record{Outcome: schema.Failed, Final: true}, true},
		"timed out for good":     {&schema.Record{Outcome: schema.TimedOut, Final: true}, true},
		"lost":                   {&schema.Record{Outcome: schema.Lost}, false},
		"lost as the last of it": {&schema.Record{Outcome: schema.Lost, Final: true}, true},
	} {
		if got := (schema.Claim{Record: c.record}).Over(); got != c.want {
			t.Errorf("%s: Over = %v, want %v", name, got, c.want)
		}
	}
}

// TestAtMostOnceHasOneAttempt: also where the retry policy states other things than the number.
func TestAtMostOnceHasOneAttempt(t *testing.T) {
	for name, r := range map[string]*schema.Retry{"none": nil, "another policy": {Initial: schema.Duration(time.Second)}, "one": {MaxAttempts: 1}} {
		if got := (schema.Work{Guarantee: schema.AtMostOnce, Retry: r}).InForce().Retry.MaxAttempts; got != 1 {
			t.Errorf("%s: max_attempts in force = %d, want 1", name, got)
		}
	}
}
