package check

import (
	"slices"
	"time"
)

// A Loss is a span before a power cut. A store that acknowledges before it syncs may have lost what
// it acknowledged from From until Cut.
type Loss struct {
	From, Cut time.Time
	// Region: instead a region was cut off, and wrote until Cut what the region that took its home
	// over had not seen. It is not lost, and comes back.
	Region bool
}

// Holds reports whether t is in the span.
func (l Loss) Holds(t time.Time) bool { return !t.Before(l.From) && !t.After(l.Cut) }

// sentAgainWithin is until when after a region was cut off what it did not answer is sent again.
const sentAgainWithin = time.Minute

// MakesTwo reports whether a job that was acknowledged at that time may be a second one: a request
// with a key that the region took in and did not answer was sent again, to one that did not know
// the key.
func (l Loss) MakesTwo(acked time.Time) bool {
	return l.Region && !acked.Before(l.From) && !acked.After(l.Cut.Add(sentAgainWithin))
}

// recordedWithin is how long after its end the record of a call is acknowledged at most, while the
// store answers.
const recordedWithin = time.Second

// Meets reports whether a write that a call caused may have been acknowledged within the loss: from
// the arrival to the record. A call without a known end went on.
func (l Loss) Meets(s *Sighting) bool {
	end := latestOf(s.End, s.Gone)
	return !s.At.After(l.Cut) && (end.IsZero() || !end.Add(recordedWithin).Before(l.From))
}

// Forgiven counts what a [Loss] took, and what is not judged because of it.
type Forgiven struct {
	// Acknowledged are the jobs acknowledged within the span only. Lost are those of them without a
	// run and without a call; Oldest is how long before the cut the first of these was
	// acknowledged.
	Acknowledged int     `json:"acknowledged"`
	Lost         int     `json:"lost"`
	Oldest       float64 `json:"oldest_lost_s"`
	// Repeatable are runs that were acknowledged before the span and had calls under way in it.
	// Their records may be lost, so they may run again under any guarantee. Repeated are those that
	// did.
	Repeatable int `json:"repeatable"`
	Repeated   int `json:"repeated"`
	// Unended are those of them without an end at the last read, or without a row: the write was
	// lost after the dispatcher's cursor had passed it.
	Unended int `json:"unended"`
	// Second are runs of jobs that were made twice ([Loss.MakesTwo]): those that nobody
	// acknowledged.
	Second int `json:"second"`
}

// Forgive removes from the history what losses excuse, and counts it.
//
//   - An acknowledgement within a loss counts as no answer if the run is not there at the second
//     read: the job may have run, or not. A run that is there was not lost, and is owed every
//     promise.
//   - A run with a call under way within a loss is not judged: its records may be lost. It is
//     counted whether it was called again and whether it ended.
//   - A run that nobody acknowledged, of a job with a key that may have been made twice
//     ([Loss.MakesTwo]), is not judged: one run for each such job.
//
// The slices of the history are replaced, not changed.
func (h *History) Forgive(losses []Loss) Forgiven {
	in := func(t time.Time) (Loss, bool) {
		i := slices.IndexFunc(losses, func(l Loss) bool { return l.Holds(t) })
		if i < 0 {
			return Loss{}, false
		}
		return losses[i], true
	}
	calls := map[Ref][]*Sighting{}
	for i := range h.Seen {
		s := &h.Seen[i]
		calls[s.Ref] = append(calls[s.Ref], s)
	}
	ends := map[string]Reading{}
	for i := range h.Runs {
		ends[h.Runs[i].ID] = h.Runs[i].Second
	}

	var f Forgiven
	// The answers of one line, and the loss that its only acknowledgements are in.
	ids, sure := map[Ref]string{}, map[Ref]bool{}
	doubtful := map[Ref]Loss{}
	for _, a := range h.Acks {
		if a.Status != 200 && a.Status != 201 {
			continue
		}
		ids[a.Ref] = a.ID
		if l, ok := in(a.At); ok {
			doubtful[a.Ref] = l
			continue
		}
		sure[a.Ref] = true
	}
	lostOrOut := map[Ref]bool{} // taken out of the history
	for ref, id := range ids {
		called := slices.ContainsFunc(calls[ref], func(s *Sighting) bool {
			return slices.ContainsFunc(losses, func(l Loss) bool { return l.Meets(s) })
		})
		if called {
			lostOrOut[ref] = true
		}
		end := ends[id]
		if l, ok := doubtful[ref]; ok && !sure[ref] {
			f.Acknowledged++
			if end.Status == Absent && len(calls[ref]) == 0 {
				f.Lost++
				f.Oldest = max(f.Oldest, l.Cut.Sub(firstAck(h.Acks, ref)).Seconds())
			}
			continue
		}
		if !called {
			continue
		}
		f.Repeatable++
		if len(calls[ref]) > 1 && slices.ContainsFunc(calls[ref], func(s *Sighting) bool {
			return slices.ContainsFunc(losses, func(l Loss) bool { return s.At.After(l.Cut) })
		}) {
			f.Repeated++
		}
		if end.Status != Found || !end.Run.State.Terminal() {
			f.Unended++
		}
	}
	f.Second = h.takeSecond(losses, lostOrOut)
	h.takeOut(lostOrOut, ids, func(a *Ack) bool {
		_, lost := in(a.At)
		return lost && ends[a.ID].Status == Absent
	})
	return f
}

// takeSecond removes the runs of jobs that were made twice which nobody acknowledged, one for each
// job, and returns how many. out are jobs that are not judged anyway.
func (h *History) takeSecond(losses []Loss, out map[Ref]bool) int {
	keyed, may, acked := map[Ref]bool{}, map[Ref]bool{}, map[string]bool{}
	for _, a := range h.Asked {
		keyed[a.Ref] = a.Key != "" && !out[a.Ref]
	}
	for _, a := range h.Acks {
		acked[a.ID] = true
		if keyed[a.Ref] && (a.Status == 200 || a.Status == 201) && slices.ContainsFunc(losses, func(l Loss) bool { return l.MakesTwo(a.At) }) {
			may[a.Ref] = true
		}
	}
	second := map[string]bool{}
	of := func(run string, ref Ref) {
		if run != "" && !acked[run] && !second[run] && may[ref] {
			second[run] = true
			delete(may, ref)
		}
	}
	for i := range h.Seen {
		of(h.Seen[i].Run, h.Seen[i].Ref)
	}
	for i := range h.Runs {
		of(h.Runs[i].ID, h.Runs[i].Ref)
	}
	h.Seen = without(h.Seen, func(s *Sighting) bool { return second[s.Run] })
	h.Runs = without(h.Runs, func(o *Observation) bool { return second[o.ID] })
	h.States = without(h.States, func(w *Watched) bool { return second[w.Run] })
	return len(second)
}

// takeOut removes the lines of out from all slices. Of lost acknowledgements it leaves that the job
// was sent.
func (h *History) takeOut(out map[Ref]bool, ids map[Ref]string, lost func(a *Ack) bool) {
	outRuns := map[string]bool{}
	for ref := range out {
		outRuns[ids[ref]] = true
	}
	h.Asked = without(h.Asked, func(a *Ask) bool { return out[a.Ref] })
	h.Acks = without(h.Acks, func(a *Ack) bool { return out[a.Ref] })
	h.Seen = without(h.Seen, func(s *Sighting) bool { return out[s.Ref] })
	h.States = without(h.States, func(w *Watched) bool { return outRuns[w.Run] })
	gone := map[string]bool{} // looked at by their ids, which nobody acknowledged: nothing to judge
	for i := range h.Acks {
		if a := &h.Acks[i]; (a.Status == 200 || a.Status == 201) && lost(a) {
			gone[a.ID] = true
			a.Status, a.ID = 0, ""
		}
	}
	for _, a := range h.Acks {
		delete(gone, a.ID) // acknowledged at another time as well
	}
	h.Runs = without(h.Runs, func(o *Observation) bool { return outRuns[o.ID] || gone[o.ID] })
}

func firstAck(acks []Ack, ref Ref) time.Time {
	var first time.Time
	for _, a := range acks {
		if a.Ref == ref && (a.Status == 200 || a.Status == 201) && (first.IsZero() || a.At.Before(first)) {
			first = a.At
		}
	}
	return first
}

// without returns a copy of ts without those that out says.
func without[T any](ts []T, out func(t *T) bool) []T {
	kept := make([]T, 0, len(ts))
	for i := range ts {
		if !out(&ts[i]) {
			kept = append(kept, ts[i])
		}
	}
	return kept
}
