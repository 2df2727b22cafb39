package console

import "slices"

const (
	// A slice in which there are more is too long.
	mostOfSlice = 1000
	// shortest is how long a slice is at least, in ms.
	shortest = 20
)

// A slice is a part of a window that is read, in ms since 1970.
type slice struct {
	from, to float64
	cursor   string
}

// A duePage is the due times of a page of runs, in ms since 1970. next = "": it is the last of its
// slice.
type duePage struct {
	due  []float64
	next string
}

// latest is the end of a window.
type latest struct {
	due   []float64 // the latest first
	from  float64   // all that is due from then on, in the window, is in due
	whole bool      // the window was read to its begin
	span  float64   // how long a slice was that filled a page: the guess for the next time, in ms
}

// A search is how the end of a window is looked for.
type search struct {
	want  int // how many runs are enough
	guess float64
	calls int         // how many requests may be made
	late  func() bool // it took long enough
}

// latestOf reads a window [from, to) from its end, in slices that are as long as it takes to fill a
// page. It is latestOf of latest.ts, line by line.
func latestOf(read func(slice) (duePage, error), from, to float64, s search) (latest, error) {
	out := latest{from: to, span: s.guess}
	span := max(s.guess, shortest)
	left := s.calls
	for out.from > from && len(out.due) < s.want && left > 0 && !s.late() {
		part := slice{from: max(from, out.from-span), to: out.from}
		var due []float64
		more := true
		for more && len(due) < mostOfSlice && left > 0 && !s.late() {
			page, err := read(part)
			if err != nil {
				return out, err
			}
			left--
			due = append(due, page.due...)
			part.cursor, more = page.next, page.next != ""
		}
		if more {
			if len(due) < mostOfSlice || part.to-part.from <= shortest {
				break // it takes too long, or all are due at one instant
			}
			// what was read says how dense it is at the slice's begin
			density := float64(len(due)) / max(due[len(due)-1]-part.from, 1)
			span = max(shortest, min(span/2, 2*float64(s.want)/density))
			continue
		}
		slices.Reverse(due)
		out.due = append(out.due, due...)
		out.from, out.span = part.from, span
		if len(due) == 0 {
			span *= 4
		} else {
			span *= min(4, max(0.5, 1.5*float64(s.want)/float64(len(due))))
		}
	}
	out.whole = out.from <= from
	return out, nil
}
