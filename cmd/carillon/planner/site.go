package planner

import (
	"fmt"
	"time"

	"carillon.dev/carillon/dispatcher/queue/fair"
	"carillon.dev/carillon/executor"
	rules "carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// site is an executor: what it has in hand, its admission, and its slots. It plays what package
// admission does: which runs begin now, which wait in memory, and which are deferred. Every number
// is a function of that package.
type site struct {
	p     *play
	name  string // in leases
	slots int

	inHand  int
	pending [4]int // of these, without a slot
	most    int    // in hand
	fetch   int    // what is kept for each other priority

	tenants []*place // by load
	tasks   []*place // by load; nil: its task has no limit
	limits  []*place // of tasks
	last    *place   // the tenant that asked last …
	asked   time.Duration
	other   time.Duration // … and when another one did

	free    int
	classes [4]class
	round   fair.Round[*class]
}

// class is what waits for slots of a priority.
type class struct {
	flow    fair.Flow[*class]
	tenants fair.Round[*line]
	lines   map[string]*line
}

// line is what waits of a tenant.
type line struct {
	flow fair.Flow[*line]
	runs []*run
}

// newSites returns the executors of a play.
func newSites(p *play) []*site {
	c := p.c
	shared := make([]*limit, len(c.Loads))
	for i := range c.Loads {
		if most := c.Loads[i].TaskLimit; most > 0 {
			shared[i] = &limit{most: most}
		}
	}
	slots, n := c.each()
	sites := make([]*site, n)
	for k := range sites {
		x := &site{p: p, name: fmt.Sprint("executor ", k), slots: slots, free: slots, asked: never, other: never}
		if k < c.Slots-n*slots {
			x.slots, x.free = slots+1, slots+1
		}
		x.most, x.fetch = executor.MessagesInHand(x.slots, len(schema.Priorities))
		of := make(map[string]*place)
		for i := range c.Loads {
			l := &c.Loads[i]
			if of[l.tenant()] == nil {
				of[l.tenant()] = &place{}
			}
			x.tenants = append(x.tenants, of[l.tenant()])
			var task *place
			if l.TaskLimit > 0 {
				task = &place{lacked: never, block: newBlock(x, shared[i])}
				x.limits = append(x.limits, task)
				shared[i].places = append(shared[i].places, task)
			}
			x.tasks = append(x.tasks, task)
		}
		for i, weight := range rules.PriorityWeights() {
			x.classes[i].flow.Of, x.classes[i].lines = &x.classes[i], make(map[string]*line)
			x.round.Weigh(&x.classes[i].flow, weight)
		}
		sites[k] = x
	}
	return sites
}

// hasRoom reports whether one more run of a priority may be in hand: for each other one there is
// room for a fetch.
func (x *site) hasRoom(rank int) bool {
	free := x.most - x.inHand
	for other, n := range x.pending {
		if other != rank {
			free -= max(x.fetch-n, 0)
		}
	}
	return free > 0
}

// take has a run take a slot, or wait for one.
func (x *site) take(r *run) {
	l := &x.p.c.Loads[r.load]
	if x.free > 0 && x.round.Len() == 0 {
		x.start(r)
		return
	}
	c := &x.classes[l.Priority.Rank()]
	of := c.lines[l.tenant()]
	if of == nil {
		of = &line{}
		of.flow.Of = of
		c.lines[l.tenant()] = of
	}
	of.runs = append(of.runs, r)
	c.tenants.Join(&of.flow)
	x.round.Join(&c.flow)
}

func (x *site) start(r *run) {
	p := x.p
	p.free--
	x.free--
	x.pending[rankOf(p, r)]--
	wait := p.now - r.due
	s := p.step(p.now)
	s.Started++
	s.waits = append(s.waits, wait)
	p.result.All.waiting--
	sum := &p.result.Loads[r.load]
	sum.waiting--
	sum.waits = append(sum.waits, wait)
	p.at(p.now+r.took, func() { x.end(r) })
}

// end gives back what a run has, to those whose turn it is.
func (x *site) end(r *run) {
	p := x.p
	p.free++
	x.free++
	p.result.Ended = p.now
	for x.free > 0 {
		f := x.round.Next()
		if f == nil {
			break
		}
		c := f.Of
		of := c.tenants.Next().Of
		next := of.runs[0]
		of.runs[0] = nil
		if of.runs = of.runs[1:]; len(of.runs) == 0 {
			c.tenants.Leave(&of.flow)
		}
		if c.tenants.Len() == 0 {
			x.round.Leave(&c.flow)
		}
		x.start(next)
	}
	x.giveBack(r)
	p.pull()
}
