package dispatcher

import (
	"errors"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// TestNextAction: what follows from the rows of an entry, by what the shard remembers of it.
func TestNextAction(t *testing.T) {
	now := origin
	due := func(in time.Duration) schema.Entry {
		return schema.Entry{ID: schema.MakeEntryID(now.Add(in), 0, 1)}
	}
	past := due(-time.Minute)
	unreadable := past
	unreadable.Fault = errors.New("bad")
	watched := &shardstate.Pending{Phase: shardstate.Watching}
	undecided := &shardstate.Pending{Phase: shardstate.Watching, NeverPublished: true}
	for _, c := range []struct {
		name string
		m    inspected
		p    *shardstate.Pending
		want action
	}{
		{"nobody knows it", inspected{entry: past}, nil, publishAgain},
		{"watched, and its attempt is gone", inspected{entry: past}, watched, publishAgain},
		{"it waits for its time", inspected{entry: past}, &shardstate.Pending{Phase: shardstate.Waiting}, leave},
		{"it waits for budget", inspected{entry: past}, &shardstate.Pending{Phase: shardstate.Queued}, leave},
		{"it waits for a start", inspected{entry: past}, &shardstate.Pending{Phase: shardstate.Reserving}, leave},
		{"it is being published", inspected{entry: past}, &shardstate.Pending{Phase: shardstate.Publishing}, leave},
		{"published before its rows were read", inspected{entry: past, checked: now}, &shardstate.Pending{Phase: shardstate.Published, PublishedAt: now.Add(-1)}, publishAgain},
		{"published since", inspected{entry: past, checked: now}, &shardstate.Pending{Phase: shardstate.Published, PublishedAt: now}, leave},
		{"its job cannot be planned on", inspected{entry: past, verdict: bucketer.Undecided}, undecided, askAgain},
		{"its job does not let it start", inspected{entry: past, verdict: bucketer.Dropped}, undecided, closeEntry},
		{"it was undecided", inspected{entry: past}, undecided, publishNew},
		{"it was undecided, and an executor had it in hand", inspected{entry: past, begun: true}, undecided, publishAgain},
		{"it was undecided, and is over", inspected{entry: past, standing: schema.Standing{Over: true}}, undecided, closeEntry},
		{"unreadable", inspected{entry: unreadable}, nil, condemn},
		{"unreadable, and recorded", inspected{entry: unreadable, standing: schema.Standing{Over: true}}, watched, closeEntry},
		{"recorded without a notice", inspected{entry: past, standing: schema.Standing{Over: true, Repeat: &schema.Attempt{}}}, watched, repeatFollowUp},
		{"over", inspected{entry: past, standing: schema.Standing{Over: true}}, watched, closeEntry},
		{"an attempt is under way", inspected{entry: past, standing: schema.Standing{Live: true}}, nil, watch},
		{"it waits for its mark", inspected{entry: past, standing: schema.Standing{Unnamed: true}}, nil, watch},
		{"its time has not come", inspected{entry: due(time.Minute)}, nil, watchUntilDue},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := nextAction(&c.m, c.p, now); got != c.want {
				t.Errorf("nextAction = %d, want %d", got, c.want)
			}
		})
	}
}
