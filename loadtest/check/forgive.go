package check

import (
	"slices"
	"time"
)

// A Loss is what a power cut may have taken from a store that acknowledges before it has synced: what
// it acknowledged from From on until the cut.
type Loss struct{ From, Cut time.Time }

func (l Loss) holds(t time.Time) bool { return !t.Before(l.From) && !t.After(l.Cut) }

// Forgiven tells what a [Loss] took, and what is not judged because of it.
type Forgiven struct {
	// Acknowledged are the jobs that were acknowledged within the span only. Lost are those of them of
	// which there is no run and no call; Oldest is how long before the cut the first was acknowledged.
	Acknowledged int     `json:"acknowledged"`
	Lost         int     `json:"lost"`
	Oldest       float64 `json:"oldest_lost_s"`
	// Repeatable are the runs that were acknowledged before the span, and had calls within it: their
	// records may be lost, so that they run again under any guarantee. Repeated are those that did.
	Repeatable int `json:"repeatable"`
	Repeated   int `json:"repeated"`
	// Unended are those that had not ended when they were read last, or were not there: their end, or
	// the entry of their next attempt, was lost after the dispatcher had passed them.
	Unended int `json:"unended"`
}

// Forgive takes out of the history what losses excuse, and tells what it took out. What is left is
// judged as ever.
//
//   - An acknowledgement within a loss counts as no answer: the job may have run, or not.
//   - A run that was called within a loss may have been forgotten, wholly or in part. It is told whether
//     it was called again and whether it ended; nothing of it is judged.
//
// The slices of the history are replaced, not changed.
func (h *History) Forgive(losses []Loss) Forgiven {
	in := func(t time.Time) (Loss, bool) {
		i := slices.IndexFunc(losses, func(l Loss) bool { return l.holds(t) })
		if i < 0 {
			return Loss{}, false
		}
		return losses[i], true
	}
	calls := map[Ref][]time.Time{}
	for i := range h.Seen {
		calls[h.Seen[i].Ref] = append(calls[h.Seen[i].Ref], h.Seen[i].At)
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
		called := slices.ContainsFunc(calls[ref], func(t time.Time) bool { _, ok := in(t); return ok })
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
		if len(calls[ref]) > 1 && slices.ContainsFunc(calls[ref], func(t time.Time) bool {
			return slices.ContainsFunc(losses, func(l Loss) bool { return t.After(l.Cut) })
		}) {
			f.Repeated++
		}
		if end.Status != Found || !end.Run.State.Terminal() {
			f.Unended++
		}
	}
	h.takeOut(lostOrOut, ids, in)
	return f
}

// takeOut replaces the slices by ones without the lines of out, and without acknowledgements in a loss.
func (h *History) takeOut(out map[Ref]bool, ids map[Ref]string, in func(time.Time) (Loss, bool)) {
	outRuns := map[string]bool{}
	for ref := range out {
		outRuns[ids[ref]] = true
	}
	h.Asked = without(h.Asked, func(a *Ask) bool { return out[a.Ref] })
	h.Acks = without(h.Acks, func(a *Ack) bool { return out[a.Ref] })
	h.Seen = without(h.Seen, func(s *Sighting) bool { return out[s.Ref] })
	h.Runs = without(h.Runs, func(o *Observation) bool { return outRuns[o.ID] })
	h.States = without(h.States, func(w *Watched) bool { return outRuns[w.Run] })
	for i, a := range h.Acks {
		if _, ok := in(a.At); ok && (a.Status == 200 || a.Status == 201) {
			h.Acks[i].Status, h.Acks[i].ID = 0, ""
		}
	}
	// A run that was acknowledged in a loss and is gone was looked at by its id: there is nothing to judge.
	acked := map[string]bool{}
	for _, a := range h.Acks {
		acked[a.ID] = true
	}
	gone := func(o *Observation) bool { return !acked[o.ID] && o.Second.Status == Absent }
	h.Runs = without(h.Runs, gone)
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
