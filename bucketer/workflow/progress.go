package workflow

import "math/bits"

// Progress is what is known of one run of a workflow. Facts are told to it in any order and as
// often as one likes; Next says what they make possible. It is not safe for concurrent use.
type Progress struct {
	g       *Graph
	steps   []stepProgress
	ready   []uint64 // bit i: Next has something to say of step i
	actions int      // bits of ready that are set
	open    int      // steps without a verdict
	failed  int      // steps that failed
	stopped int      // steps that were cancelled

	cancelled, expired bool
}

// stepProgress is what is known of one step.
type stepProgress struct {
	before
	verdict  Verdict
	started  bool
	skipped  bool
	items    int32 // if started
	launched int32
	ended    [3]int32 // items, by verdict
	one      uint64   // which items have ended: the first 64, …
	more     []uint64 // … and the others
}

func (s *stepProgress) endedItems() int32 { return s.ended[0] + s.ended[1] + s.ended[2] }

// place returns where a verdict is counted.
func place(v Verdict) int {
	switch v {
	case Succeeded:
		return 0
	case Failed:
		return 1
	}
	return 2
}

// NewProgress returns the progress of a run that has just begun.
func NewProgress(g *Graph) *Progress {
	p := &Progress{g: g, steps: make([]stepProgress, len(g.steps)), ready: make([]uint64, (len(g.steps)+63)/64), open: len(g.steps)}
	for i := range p.steps {
		n := len(g.after[i])
		p.steps[i].open = int32(n) // #nosec G115 -- at most MaxSteps
		if n == 0 {
			p.look(i)
		}
	}
	return p
}

// Start says that step i was started, with that many items: 1 without for_each. With none it has
// succeeded. The first call counts.
func (p *Progress) Start(i, items int) {
	s := &p.steps[i]
	if s.started {
		return
	}
	s.started, s.items = true, int32(min(max(items, 0), MaxItems)) // #nosec G115 -- at most MaxItems
	p.conclude(i)
	p.look(i)
}

// Launch says that the items of step i before upTo have runs.
func (p *Progress) Launch(i, upTo int) {
	s := &p.steps[i]
	if n := int32(min(upTo, MaxItems)); n > s.launched { // #nosec G115
		s.launched = n
		p.look(i)
	}
}

// End says that the run of an item has ended. The first call for an item counts. Calls without a
// verdict, or for an item that cannot be, change nothing.
func (p *Progress) End(i, item int, v Verdict) {
	s := &p.steps[i]
	if v == "" || item < 0 || item >= MaxItems || s.started && item >= int(s.items) || !s.mark(item) {
		return
	}
	s.ended[place(v)]++
	p.conclude(i)
	p.look(i)
}

// mark notes that an item has ended, and reports whether that is new.
func (s *stepProgress) mark(item int) bool {
	word := &s.one
	if at := item/64 - 1; at >= 0 {
		if at >= len(s.more) {
			n := at + 1
			if s.started {
				n = (int(s.items) - 1) / 64
			}
			s.more = append(s.more, make([]uint64, n-len(s.more))...)
		}
		word = &s.more[at]
	}
	bit := uint64(1) << (item % 64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// Skip says that step i was skipped, or that the rest of it was, and counts as v for what comes
// after it. A step that has a verdict keeps it.
func (p *Progress) Skip(i int, v Verdict) {
	if p.steps[i].verdict == "" && v != "" {
		p.steps[i].skipped = true
		p.settle(i, v)
	}
}

// Fail says that step i has failed without a run: what Prepare says, or its deadline. A step that
// has a verdict keeps it.
func (p *Progress) Fail(i int) {
	if p.steps[i].verdict == "" {
		p.settle(i, Failed)
	}
}

// Cancel says that the whole run was cancelled: only steps with Always start from now on.
func (p *Progress) Cancel() {
	p.cancelled = true
	p.lookAtAll()
}

// Expire says that the deadline of the run has passed. It is a cancel after which the run has
// failed.
func (p *Progress) Expire() {
	p.expired = true
	p.lookAtAll()
}

// conclude gives step i its verdict, if all of its items have ended.
func (p *Progress) conclude(i int) {
	s := &p.steps[i]
	if !s.started || s.verdict != "" || s.endedItems() < s.items {
		return
	}
	p.settle(i, s.worst(Succeeded))
}

// worst returns what the items that have ended come to, at best v.
func (s *stepProgress) worst(v Verdict) Verdict {
	switch {
	case s.ended[place(Failed)] > 0:
		return Failed
	case s.ended[place(Cancelled)] > 0:
		return Cancelled
	}
	return v
}

// settle gives step i its verdict, and looks at what comes after it.
func (p *Progress) settle(i int, v Verdict) {
	p.steps[i].verdict = v
	p.open--
	switch v {
	case Failed:
		p.failed++
	case Cancelled:
		p.stopped++
	}
	p.look(i)
	for _, j := range p.g.before[i] {
		s := &p.steps[j]
		s.open--
		switch v {
		case Succeeded:
			s.succeeded++
		case Failed:
			s.failed++
		default:
			s.cancelled++
		}
		p.look(int(j))
	}
}

// look finds out whether Next has something to say of step i.
func (p *Progress) look(i int) {
	word, bit := &p.ready[i/64], uint64(1)<<(i%64)
	switch _, is := p.action(i); {
	case is && *word&bit == 0:
		p.actions++
		*word |= bit
	case !is && *word&bit != 0:
		p.actions--
		*word &^= bit
	}
}

func (p *Progress) lookAtAll() {
	for i := range p.steps {
		p.look(i)
	}
}

// eachReady calls f with each step of which Next has something to say, in their order.
func (p *Progress) eachReady(f func(i int)) {
	for w, word := range p.ready {
		for ; word != 0; word &= word - 1 {
			f(w*64 + bits.TrailingZeros64(word))
		}
	}
}
