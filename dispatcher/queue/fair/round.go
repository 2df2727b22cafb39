package fair

// Flow is a user of the resource. A flow is in one round at most; the lock that guards the round
// guards it.
type Flow[T any] struct {
	Of T // whose flow it is

	weight     int // 0 = 1
	credit     int // service left in its turn; negative = its debt
	next, prev *Flow[T]
}

// Weight returns the share of the flow against others, at least 1.
func (f *Flow[T]) Weight() int { return max(f.weight, 1) }

// Waits reports whether the flow is in a round.
func (f *Flow[T]) Waits() bool { return f.next != nil }

// Round is the circle of waiting flows. The zero value is empty. It is not safe for concurrent use.
// A call costs O(1); Next also the payment of debts.
type Round[T any] struct {
	turn    *Flow[T] // the flow whose turn it is; nil = no flow waits
	begun   bool     // it has had its quantum of this turn
	n       int
	weights int
}

// Len returns how many flows wait.
func (r *Round[T]) Len() int { return r.n }

// Weights returns the sum of the weights of the flows that wait.
func (r *Round[T]) Weights() int { return r.weights }

// Join puts a flow at the end of the round; one that waits already stays where it is.
func (r *Round[T]) Join(f *Flow[T]) {
	if f.Waits() {
		return
	}
	f.credit = min(f.credit, 0)
	r.n++
	r.weights += f.Weight()
	if r.turn == nil {
		f.next, f.prev = f, f
		r.turn, r.begun = f, false
		return
	}
	f.next, f.prev = r.turn, r.turn.prev
	f.prev.next, f.next.prev = f, f
}

// Leave removes a flow from the round, if it is in it, and drops its credit.
func (r *Round[T]) Leave(f *Flow[T]) {
	if !f.Waits() {
		return
	}
	r.n--
	r.weights -= f.Weight()
	if r.turn == f {
		r.turn, r.begun = f.next, false
	}
	if f.next == f {
		r.turn = nil
	}
	f.prev.next, f.next.prev = f.next, f.prev
	f.next, f.prev = nil, nil
	f.credit = min(f.credit, 0)
}

// Weigh sets the weight of a flow, whether it waits or not; a turn that has begun goes on as it
// was.
func (r *Round[T]) Weigh(f *Flow[T], weight int) {
	if f.Waits() {
		r.weights += max(weight, 1) - f.Weight()
	}
	f.weight = weight
}

// Next returns the flow to serve now, and charges it one unit; nil if none waits.
func (r *Round[T]) Next() *Flow[T] {
	for r.turn != nil {
		f := r.turn
		if !r.begun {
			f.credit += f.Weight()
			r.begun = true
		}
		if f.credit > 0 {
			f.credit--
			return f
		}
		r.turn, r.begun = f.next, false
	}
	return nil
}

// Owe charges a flow one unit that it got out of turn.
func (r *Round[T]) Owe(f *Flow[T]) { f.credit-- }

// Back refunds one unit that a flow could not use.
func (r *Round[T]) Back(f *Flow[T]) { f.credit++ }
