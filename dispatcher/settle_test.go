package dispatcher

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// TestTheStreamIsDeleted: everything unfinished is published again, at most once in 15 s, each time
// under an id of its own.
func TestTheStreamIsDeleted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(keep))
		r.start("d1")
		entries := r.before(100, time.Now().Add(5*time.Second))
		time.Sleep(15 * time.Second)
		r.broker.DeleteStream(0)
		time.Sleep(25 * time.Second)
		for range 2 {
			r.broker.DeleteStream(0)
			time.Sleep(8 * time.Second)
		}
		h.change(nil)
		r.broker.DeleteStream(0)
		time.Sleep(time.Minute)
		for i := range entries {
			seen := h.sights(entries[i].ID)
			if len(seen) < 3 {
				t.Fatalf("published %s, want again after a stream was lost", describe(seen))
			}
			for k := 1; k < len(seen); k++ {
				if gap := seen[k].at.Sub(seen[k-1].at); !seen[k].env.Redispatch || seen[k].id == seen[k-1].id || k > 1 && gap < inspectAgain {
					t.Fatalf("published %s, want redispatches under ids of their own, at least %v apart", describe(seen), inspectAgain)
				}
			}
		}
		time.Sleep(3 * time.Minute)
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}

// TestWhatItsStreamHoldsIsLeft: an entry whose message waits in its stream is neither inspected nor
// published again.
func TestWhatItsStreamHoldsIsLeft(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(keep))
		r.start("d1")
		e := r.run(time.Now().Add(5*time.Second), 0)
		time.Sleep(100 * time.Second)
		h.only(&e)
		if n := r.counts.Tally("Attempts").Calls; n != 0 {
			t.Errorf("%d looks, want none", n)
		}
	})
}

// TestAFrontReadBeforeThePublication: the front of a stream from before an entry was published says
// nothing about it. An empty one made an entry count as lost whose message had just been stored,
// when reading the front failed for some seconds.
func TestAFrontReadBeforeThePublication(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		d := r.idle()
		s := r.shardOf(d, 0)
		now := time.Now()
		e := r.entry(now, 0, schema.Spec{})
		o := s.state.Add(&queue.Envelope{Entry: e})
		o.Phase, o.Env, o.PublishedAt, o.Receipt = shardstate.Published, nil, now, queue.Receipt{Stream: "1", Sequence: 1}
		d.fronts.set(depth.Subject{Lane: 0, Priority: schema.Normal}, queue.Front{Stream: "1", Empty: true}, now.Add(-time.Millisecond))
		s.settle.pick(now.Add(settleAfter + time.Second))
		if len(s.settle.next) != 0 {
			t.Error("an entry was taken for lost by a front that is older than its publication")
		}
		d.fronts.set(depth.Subject{Lane: 0, Priority: schema.Normal}, queue.Front{Stream: "1", Empty: true}, now.Add(time.Second))
		s.settle.pick(now.Add(settleAfter + 2*time.Second))
		if len(s.settle.next) != 1 {
			t.Error("an entry that its stream does not hold was not picked")
		}
	})
}

func TestFrontsTellWhatIsLost(t *testing.T) {
	held := queue.Receipt{Stream: "1", Sequence: 5}
	for _, c := range []struct {
		name  string
		front queue.Front
		pick  bool
	}{
		{"it waits", queue.Front{Stream: "1", Sequence: 5}, false},
		{"older ones wait", queue.Front{Stream: "1", Sequence: 2}, false},
		{"the front is past it", queue.Front{Stream: "1", Sequence: 6}, true},
		{"nothing waits", queue.Front{Stream: "1", Empty: true}, true},
		{"the stream was made anew", queue.Front{Stream: "2", Sequence: 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				d := r.idle()
				s := r.shardOf(d, 0)
				now := time.Now()
				o := s.state.Add(&queue.Envelope{Entry: r.entry(now, 0, schema.Spec{})})
				o.Phase, o.Env, o.PublishedAt, o.Receipt = shardstate.Published, nil, now, held
				at := now.Add(settleAfter + time.Millisecond)
				d.fronts.set(depth.Subject{Lane: 0, Priority: schema.Normal}, c.front, at)
				s.settle.pick(at)
				if got := len(s.settle.next) == 1; got != c.pick {
					t.Errorf("picked %v, want %v", got, c.pick)
				}
			})
		})
	}
}

// TestPickedTwice: a run was picked when the session died under which it ran, and picked once more
// when the time for its next inspection came; the second inspection published it again at once,
// when nothing could be known of the message that the first had sent.
func TestPickedTwice(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		d := r.idle()
		s := r.shardOf(d, 0)
		now := time.Now()
		e := r.entry(now, 0, schema.Spec{})
		o := s.state.Add(&queue.Envelope{Entry: e})
		for _, c := range []struct {
			name  string
			phase shardstate.Phase
			since time.Duration // its publication
			looks bool
		}{
			{"watched", shardstate.Watching, time.Minute, true},
			{"just published", shardstate.Published, 0, false},
			{"published a while ago", shardstate.Published, settleAfter + time.Millisecond, true},
		} {
			o.Phase, o.Env, o.PublishedAt, s.settle.busy, s.settle.next = c.phase, nil, now.Add(-c.since), false, []schema.EntryID{e.ID}
			s.settle.start(t.Context(), now)
			if s.settle.busy != c.looks || len(s.settle.next) != 0 {
				t.Errorf("%s: inspected: %v, want %v", c.name, s.settle.busy, c.looks)
			}
		}
		o.Phase, o.PublishedAt = shardstate.Published, now
		s.settle.actOn(t.Context(), []inspected{{entry: e, checked: now.Add(-time.Millisecond)}}, now)
		if o.Phase != shardstate.Published {
			t.Error("published again by a look from before its publication")
		}
	})
}

// TestWhatIsDecidedIsInspectedAgain: an entry was undecided at first; then what followed from the
// decision failed, or its time had not come. It was never inspected again, and settled stayed where
// it was for as long as its dispatcher lived.
func TestWhatIsDecidedIsInspectedAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		due      time.Duration // from now
		standing schema.Standing
		fault    error
	}{
		{"its record came without a notice", -time.Second, schema.Standing{Repeat: &schema.Attempt{Number: 1, Record: &schema.Record{Outcome: schema.Succeeded}}}, nil},
		{"its row cannot be read", -time.Second, schema.Standing{}, errors.New("bad")},
		{"its time has not come", time.Minute, schema.Standing{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				s := r.shardOf(r.idle(), 0)
				now := time.Now()
				e := r.entry(now.Add(c.due), 0, schema.Spec{})
				e.Fault = c.fault
				s.recurring.undecided(&e, false, now)
				s.settle.actOn(t.Context(), []inspected{{entry: e, checked: now, standing: c.standing}}, now)
				s.settle.pick(now.Add(max(c.due, 0) + inspectAgain))
				if !slices.Contains(s.settle.next, e.ID) {
					t.Error("nobody looks at it again")
				}
				if c.due > 0 && pending(s, e.ID).Inspected.Add(inspectAgain).After(e.Due()) {
					t.Errorf("inspected again only %v after its time", pending(s, e.ID).Inspected.Add(inspectAgain).Sub(e.Due()))
				}
			})
		})
	}
}

// TestARecordWithoutNotice: its follow-ups are repeated, then the entry is closed; what they name
// runs.
func TestARecordWithoutNotice(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		var next schema.EntryID
		h := r.hand(nil)
		r.start("d1")
		e := r.run(time.Now().Add(5*time.Second), 0)
		h.change(func(env *queue.Envelope) fate {
			if env.Entry.ID == e.ID {
				next = schema.MakeEntryID(time.Now().Add(40*time.Second), 0, 77)
				r.ended(&env.Entry, 1, schema.Record{Outcome: schema.Failed, Next: next})
				return lose // recorded, and the executor died before the follow-ups
			}
			return finish
		})
		time.Sleep(4 * time.Minute)
		h.only(&e)
		if seen := h.sights(next); len(seen) != 1 || seen[0].env.Entry.Spec.Kind != schema.KindRetry || seen[0].env.Entry.Spec.Attempt != 2 {
			t.Errorf("the retry that the record names was published %s, want once", describe(seen))
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}

// TestNoticesAreAdvice: without any, every entry is inspected and closed.
func TestNoticesAreAdvice(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(silent))
		r.start("d1")
		entries := r.before(50, time.Now().Add(5*time.Second))
		time.Sleep(4 * time.Minute)
		for i := range entries {
			h.only(&entries[i])
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}

// TestSessions: what runs in a session that stands is left alone; when the session falls it is
// published again.
func TestSessions(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		die := r.live()
		h := r.hand(always(outlast))
		r.start("d1")
		e := r.run(time.Now().Add(5*time.Second), 0)
		time.Sleep(70 * time.Second)
		h.only(&e)
		die()
		h.change(nil)
		time.Sleep(10*time.Second + schema.SessionGrace + 2*sessionsEvery) // its life, what it is given beyond, and the readings; not the next look
		if seen := h.sights(e.ID); len(seen) != 2 || !seen[1].env.Redispatch {
			t.Errorf("published %s, want again, as a redispatch", describe(seen))
		}
	})
}

// TestReplacedSession: the executor of an attempt that goes on is back at once, in its next life.
// What it ran is published again at once, but what it had claimed only when the life that claimed
// it would have been declared dead.
func TestReplacedSession(t *testing.T) {
	for _, c := range []struct {
		name  string
		fate  fate
		after time.Duration // its expiry
	}{{"at_least_once", outlast, -time.Hour}, {"claimed", outlastClaimed, schema.SessionGrace}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				die := r.live()
				h := r.hand(always(c.fate))
				r.start("d1")
				e := r.run(time.Now().Add(5*time.Second), 0)
				time.Sleep(30 * time.Second)
				h.only(&e)
				h.change(nil)
				die()
				was, err := r.inner.Session(t.Context(), executor)
				if err != nil {
					t.Fatal(err)
				}
				next, err := schema.Session{Executor: executor, ID: "next", Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)}.After(was, time.Now())
				if err == nil {
					err = r.inner.SwapSession(t.Context(), was, next)
				}
				if err != nil {
					t.Fatal(err)
				}
				from := time.Now()
				if at := was.Expires.Add(c.after); at.After(from) {
					from = at
				}
				time.Sleep(time.Until(from.Add(3 * sessionsEvery))) // the readings; not the next look
				seen := h.sights(e.ID)
				if len(seen) != 2 || !seen[1].env.Redispatch || seen[1].at.Before(from) {
					t.Errorf("published %s, want again, as a redispatch, after %v", describe(seen), from)
				}
			})
		})
	}
}

// TestStoppedAttempt: what an executor cut short when it was told to stop is published again once
// its session has ended, under its number.
func TestStoppedAttempt(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		die := r.live()
		h := r.hand(always(outlast))
		r.start("d1")
		e := r.run(time.Now().Add(5*time.Second), 0)
		time.Sleep(70 * time.Second)
		rows, err := r.store.Attempts(context.Background(), e.ID.Partition(), []schema.RunID{e.ID})
		if err != nil || len(rows) != 1 {
			t.Fatalf("Attempts = %d, %v; want 1", len(rows), err)
		}
		a := rows[0]
		a.Session, a.Written, a.Expires = nil, time.Now().UnixMicro(), time.Now().Add(24*time.Hour)
		a.Record = &schema.Record{Entry: e.ID, Finished: time.Now().UTC(), Outcome: schema.Lost, Unstarted: true}
		if err := r.store.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
			t.Fatal(err)
		}
		die()
		h.change(nil)
		time.Sleep(10*time.Second + schema.SessionGrace + 2*sessionsEvery)
		if seen := h.sights(e.ID); len(seen) != 2 || !seen[1].env.Redispatch || seen[1].env.Entry.Spec.AttemptNumber() != 1 {
			t.Errorf("published %s, want again, as a redispatch of attempt 1", describe(seen))
		}
	})
}

// TestALongRunIsWatched: settled lags by minutes while a run lasts for ten, through a chain of
// watch entries, also over a change of owner; when its session falls the last of them starts it
// again.
func TestALongRunIsWatched(t *testing.T) {
	for _, handOver := range []bool{false, true} {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			die := r.live()
			h := r.hand(always(outlast))
			n := r.start("d1")
			e := r.run(time.Now().Add(5*time.Second), 0)
			for minute := range 10 {
				time.Sleep(time.Minute)
				if lag := r.lag(0); lag > 4 {
					t.Errorf("settled lags by %d buckets after %d min, want at most 4", lag, minute+1)
				}
				if handOver && minute == 5 {
					n.stop()
					r.start("d1")
				}
			}
			h.only(&e)
			if got := len(h.all()); got != 1 {
				t.Errorf("%d messages while it ran, want 1", got)
			}
			h.change(nil)
			die()
			time.Sleep(3 * time.Minute)
			all := h.all()
			if last := all[len(all)-1].env.Entry; len(all) != 2 || last.Spec.Kind != schema.KindWatch || last.Run() != e.ID {
				t.Errorf("%d messages after its session fell, the last of %q, want 2, of a watch entry of the run", len(all), last.Spec.Kind)
			}
			time.Sleep(5 * time.Minute)
			if lag := r.lag(0); lag > 2 {
				t.Errorf("settled lags by %d buckets when all is done, want 2", lag)
			}
		})
	}
}

// TestWatchEntriesAreFunctions: two owners that replace one entry write one row, and its due time
// lies ahead.
func TestWatchEntriesAreFunctions(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		e := r.run(time.Now(), 0)
		first, err := s.replace.watchEntry(&e, false, time.Time{}, e.Due().Add(3*time.Minute+time.Second))
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.replace.watchEntry(&e, false, time.Time{}, e.Due().Add(4*time.Minute-time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if want := e.Due().Add(4 * time.Minute); first.ID != second.ID || !first.Due().Equal(want) {
			t.Errorf("watch entries %v and %v, due %v, want one, due %v", first.ID, second.ID, first.Due(), want)
		}
		if string(first.Text()) != string(second.Text()) {
			t.Errorf("two texts of one watch entry:\n%s\n%s", first.Text(), second.Text())
		}
	})
}

// TestWhatItsStreamHoldsIsNotReplaced: a run that waits in its stream long after its bucket's end
// was replaced, and its executor, if it looked, passed it over for up to two minutes; in a backlog
// each such run cost three more rows.
func TestWhatItsStreamHoldsIsNotReplaced(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(keep))
		e := r.run(time.Now().Add(10*time.Second), 0)
		time.Sleep(10 * time.Minute)
		r.start("d1")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := r.counts.Tally("PutEntries").Calls; n != 0 || len(h.sights(e.ID)) != 1 {
			t.Errorf("%d watch entries, %v, while the stream holds the run; want none", n, describe(h.sights(e.ID)))
		}
	})
}

// TestAnEntryThatHasLeftTheStore: an open entry whose row is gone held settled back for ever.
func TestAnEntryThatHasLeftTheStore(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.hand(always(lose))
		r.start("d1")
		time.Sleep(10 * time.Second)
		ghost := r.entry(time.Now(), 0, schema.Spec{})
		r.conn.Near(0, []schema.Entry{ghost}) // of a row that nobody finds
		time.Sleep(4 * time.Minute)
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}

// TestLooksAreByPartition: ids of several partitions, in any order, cost one read a partition.
func TestLooksAreByPartition(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		var ids []schema.EntryID
		for i := range 90 {
			e := r.run(time.Now().Add(time.Duration(i%3)*time.Minute), 0)
			ids = append(ids, e.ID, e.ID) // asked for twice
		}
		r.counts.Reset()
		mets, err := s.inspect.ids(t.Context(), ids)
		if got := r.counts.Tally("EntriesByID"); err != nil || len(mets) != 90 || got.Calls != 3 || got.Rows != 90 {
			t.Errorf("meetIDs = %d entries, %v, by %+v, want 90 entries by 3 reads of 90 rows", len(mets), err, got)
		}
	})
}

// TestANoticeClosesItsOwnEntry: a notice of a later start says nothing about the run's own entry.
func TestANoticeClosesItsOwnEntry(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		now := time.Now()
		run := r.entry(now, 0, schema.Spec{})
		retry := r.entry(now.Add(time.Second), 0, schema.Spec{Kind: schema.KindRetry, Of: run.ID, Attempt: 2})
		for _, e := range []schema.Entry{run, retry} {
			s.state.Add(&queue.Envelope{Entry: e})
		}
		s.mail.addNotices([]schema.Notice{{Entry: retry.ID, Run: run.ID, Attempt: 2}})
		s.readMail(t.Context(), now)
		if pending(s, retry.ID) != nil || pending(s, run.ID) == nil {
			t.Errorf("open: retry %v, run %v, want false, true", pending(s, retry.ID) != nil, pending(s, run.ID) != nil)
		}
	})
}

// TestARecordThatCannotBeUnderstood: its run is over, and holds up neither the runs beside it nor
// the cursors.
func TestARecordThatCannotBeUnderstood(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		r.start("d1")
		at := time.Now().Add(5 * time.Second)
		odd, beside := r.run(at, 0), r.run(at, 0)
		h.change(func(env *queue.Envelope) fate {
			switch env.Entry.ID {
			case odd.ID: // as a version to come may say it; nobody is told
				r.ended(&env.Entry, 1, schema.Record{Outcome: "postponed"})
				return lose
			case beside.ID:
				r.ended(&env.Entry, 1, schema.Record{Outcome: schema.Succeeded})
				return lose
			}
			return finish
		})
		time.Sleep(4 * time.Minute)
		for _, e := range []*schema.Entry{&odd, &beside} {
			if seen := h.sights(e.ID); len(seen) != 1 {
				t.Errorf("%s was published %s, want once", e.ID, describe(seen))
			}
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}
