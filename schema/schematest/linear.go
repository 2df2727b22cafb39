package schematest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"carillon.dev/carillon/schema"
)

// Contention says how a lease is fought for.
type Contention struct {
	Claimers int // how many at once
	Claims   int // how many of them are made in all
	// Odds of faults of the store's calls. Crash and Pause are those of a holder: it dies,
	// or it is paused for so long that others take it for dead, and then ends its claim as if
	// nothing had happened.
	Odds          Odds
	Crash, Pause  float64
	Think, Paused time.Duration // how long a holder works, and is paused, at most
	// Vague: the store itself may answer a conflict to a swap that was done, because somebody else
	// took the lease before the store could look.
	Vague bool
}

// judgeWithin bounds the search for an order. A history of a correct store takes milliseconds.
const judgeWithin = 20 * time.Second

// pollEvery is how many times Think a claimer waits before it reads again a lease that another
// holds.
const pollEvery = 10

// Linear checks that claims on one lease behave as on a register that does one thing after the
// other. It lets many claimers fight for the lease, through faults, crashes and pauses. Then it
// looks for an order of their operations that explains every answer. Crashes, pauses and lost
// answers must all have occurred, or the fight shows little. The seed is logged.
func Linear(t *testing.T, store schema.Store, c Contention) {
	t.Helper()
	f, err := contend(t, store, c)
	if err != nil {
		t.Error(err)
	}
	if f.crashes == 0 || f.pauses == 0 || f.lost == 0 {
		t.Errorf("of %d claims %d crashed and %d were paused, and %d answers to swaps were lost; want some of each", f.claims, f.crashes, f.pauses, f.lost)
	}
}

// LinearFault is Linear for a test that expects a fault: it returns the first.
func LinearFault(t *testing.T, store schema.Store, c Contention) error {
	t.Helper()
	_, err := contend(t, store, c)
	return err
}

// contend runs a fight to its end, and returns the first fault.
func contend(t *testing.T, store schema.Store, c Contention) (*fight, error) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := &fight{
		t: t, c: c, store: Faulty(store, Seeded(seed, c.Odds)), rnd: rand.New(rand.NewPCG(seed, 2)),
		key: fmt.Sprintf("fight/%016x", seed), dead: map[string]bool{}, ended: map[schema.Fence]int{},
	}
	var wg sync.WaitGroup
	for i := range c.Claimers {
		wg.Go(func() { f.claim(i) })
	}
	wg.Wait()
	final, err := store.Lease(context.Background(), f.key) // without faults: what stands in the end
	if err != nil {
		t.Fatalf("Lease in the end = %v", err)
	}
	end := f.stamp()
	f.history = append(f.history, deed{client: c.Claimers, call: end, back: end, read: true, told: stateOf(final)})
	for fence, n := range f.ended {
		if n > 1 {
			return f, fmt.Errorf("the claim under fence %d was ended %d times, want at most once", fence, n)
		}
	}
	t.Logf("%d claims, %d ended by their holders, %d crashes, %d pauses; %d deeds, %d of unknown outcome, %d by a lost answer",
		f.claims, f.own, f.crashes, f.pauses, len(f.history), f.unknown, f.lost)
	err = f.judge()
	return f, err
}

// fight is many claimers of one lease.
type fight struct {
	t      *testing.T
	c      Contention
	store  schema.Store
	key    string
	stamps atomic.Int64

	mu      sync.Mutex
	rnd     *rand.Rand
	dead    map[string]bool // sessions that were declared dead
	history []deed
	// how often the claim under that fence was ended by its own holder, or by another
	ended  map[schema.Fence]int
	claims int
	lives  int
	own, crashes, pauses,
	// deeds of which it is not known whether they were done, and of them those of which the store
	// said so
	unknown, lost int
}

// state is what a lease says, comparable.
type state struct {
	fence          schema.Fence
	holder, record string
}

func stateOf(l schema.Lease) state {
	s := state{fence: l.Fence, record: string(l.Record)}
	if l.Holder != nil {
		s.holder = l.Holder.ID
	}
	return s
}

// deed is one operation of a claimer, and its answer.
type deed struct {
	client     int
	call, back int64 // when, as stamp says; back is 0 if it was never answered
	read       bool  // else a swap from was to is
	was, is    state
	refused    bool  // of a swap: it was not done
	told       state // what stood, of a read and of a refusal
}

// stamp orders events. Order is all that counts, and in a bubble many events share an instant.
func (f *fight) stamp() int64 { return f.stamps.Add(1) }

func (f *fight) chance(p float64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.Float64() < p
}

// ending says what becomes of the holder of the nth claim. If any crash, the first does; if any are
// paused, the second is: so both occur whatever is drawn.
func (f *fight) ending(nth int) (crashes, pauses bool) {
	switch {
	case nth == 1 && f.c.Crash > 0:
		return true, false
	case nth == 2 && f.c.Pause > 0:
		return false, true
	case f.chance(f.c.Crash):
		return true, false
	}
	return false, f.chance(f.c.Pause)
}

func (f *fight) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.rnd.Int64N(int64(d)))
}

// session opens the next session of claimer i.
func (f *fight) session(i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives++
	return fmt.Sprintf("%d/%d", i, f.lives)
}

func (f *fight) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims >= f.c.Claims
}

// read reads the lease until it answers, and notes the answer.
func (f *fight) read(i int) schema.Lease {
	for {
		d := deed{client: i, read: true, call: f.stamp()}
		l, err := f.store.Lease(context.Background(), f.key)
		d.back = f.stamp()
		switch {
		case errors.Is(err, schema.ErrNotFound):
			l = schema.Lease{}
		case errors.Is(err, schema.ErrUnavailable):
			continue
		case err != nil:
			f.t.Errorf("Lease = %v", err)
		}
		d.told = stateOf(l)
		f.note(d)
		return l
	}
}

// swap swaps the lease, and notes the answer: nil, ErrConflict or ErrUnknown.
func (f *fight) swap(i int, was, is schema.Lease) (schema.Lease, error) {
	is.Key = f.key
	for {
		d := deed{client: i, was: stateOf(was), is: stateOf(is), call: f.stamp()}
		stands, err := f.store.SwapLease(context.Background(), was, is, time.Now().Add(time.Hour))
		d.back = f.stamp()
		switch {
		case err == nil:
		case errors.Is(err, schema.ErrConflict):
			d.refused, d.told = true, stateOf(stands)
			if f.c.Vague {
				f.note(deed{client: i, was: d.was, is: d.is, call: d.call})
				f.note(deed{client: i, read: true, told: d.told, call: d.call, back: d.back})
				return stands, err
			}
		case errors.Is(err, schema.ErrUnavailable):
			continue // nothing was done
		case errors.Is(err, schema.ErrUnknown):
			d.back = 0
			f.mu.Lock()
			f.lost++
			f.mu.Unlock()
		default:
			f.t.Errorf("SwapLease = %v", err)
		}
		f.note(d)
		return stands, err
	}
}

func (f *fight) note(d deed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.history = append(f.history, d)
	if d.back == 0 {
		f.unknown++
	}
}

// decide swaps until the outcome is known, as an executor does.
func (f *fight) decide(i int, was, is schema.Lease) (schema.Lease, error) {
	for {
		if stands, err := f.swap(i, was, is); !errors.Is(err, schema.ErrUnknown) {
			return stands, err
		}
	}
}

// claim is the life of claimer number i.
func (f *fight) claim(i int) {
	session := f.session(i)
	lease := f.read(i)
	for !f.over() {
		if h := lease.Holder; h != nil {
			f.mu.Lock()
			dead := f.dead[h.ID]
			f.mu.Unlock()
			if !dead {
				time.Sleep(pollEvery*f.c.Think + f.upTo(f.c.Think))
				lease = f.read(i)
				continue
			}
			time.Sleep(f.upTo(f.c.Think)) // the holder may not be as dead as it seems
			is, err := lease.EndedByOther(f.row(i, lease, schema.Lost), time.Now())
			if err != nil {
				f.t.Errorf("EndedByOther = %v", err)
				return
			}
			before := lease.Fence
			if lease, err = f.decide(i, lease, is); err == nil {
				f.end(before)
			}
			continue
		}
		is, err := lease.Claimed(1, schema.EffectivelyOnce, schema.SessionRef{Executor: fmt.Sprint(i), ID: session, Started: time.Now()}, time.Now())
		if err != nil {
			f.t.Errorf("Claimed = %v", err)
			return
		}
		mine, err := f.decide(i, lease, is)
		if err != nil {
			lease = mine
			continue
		}
		f.mu.Lock()
		f.claims++
		nth := f.claims
		f.mu.Unlock()
		time.Sleep(f.upTo(f.c.Think))
		switch crashes, pauses := f.ending(nth); {
		case crashes:
			f.fall(session, &f.crashes)
			session, lease = f.session(i), f.read(i)
			continue
		case pauses:
			f.fall(session, &f.pauses)
			time.Sleep(f.upTo(f.c.Paused))
			session = f.session(i)
		}
		is, err = mine.Ended(f.row(i, mine, schema.Succeeded))
		if err != nil {
			f.t.Errorf("Ended = %v", err)
			return
		}
		if lease, err = f.decide(i, mine, is); err == nil {
			f.end(mine.Fence)
			f.mu.Lock()
			f.own++
			f.mu.Unlock()
		}
		time.Sleep(f.upTo(f.c.Think)) // others come before: what has ended stands for a while
	}
}

// fall declares a session dead.
func (f *fight) fall(session string, count *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead[session] = true
	*count++
}

func (f *fight) end(fence schema.Fence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended[fence]++
}

// row is the record with which claimer i ends the claim l. No two are the same.
func (f *fight) row(i int, l schema.Lease, o schema.Outcome) schema.Attempt {
	return schema.Attempt{
		Number: 1, Fence: l.Fence, Written: f.stamp(), Record: &schema.Record{Outcome: o, Executor: fmt.Sprint(i), Finished: time.Now().UTC()},
	}
}

// register is the model that a lease must behave like. A deed takes place at one instant between
// its call and its answer.
var register = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, input, _ any) (bool, any) {
		s, d := before.(state), input.(deed)
		switch {
		case d.read:
			return s == d.told, s
		case d.refused:
			return s == d.told && s != d.was && s != d.is, s
		case s == d.was || s == d.is: // to swap to what stands already is success
			return true, d.is
		}
		return false, s
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// judge looks for an order.
func (f *fight) judge() error {
	var history []porcupine.Operation
	for _, d := range f.settled() {
		history = append(history, porcupine.Operation{ClientId: d.client, Input: d, Call: d.call, Return: d.back})
	}
	switch porcupine.CheckOperationsTimeout(register, history, judgeWithin) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("no order of %d deeds was found within %v", len(history), judgeWithin)
	}
	return fmt.Errorf("no order explains what %d claimers were told in %d deeds", f.c.Claimers, len(history))
}

// settled returns the history without open ends. Every value is written by one swap alone (or by
// repetitions of it). So a swap of unknown outcome was done if anybody saw its value, at the latest
// when the first of these was answered. Otherwise it makes no difference, and is left out.
func (f *fight) settled() []deed {
	seen := make(map[state]int64)
	for _, d := range f.history {
		if d.back == 0 {
			continue
		}
		for _, s := range d.saw() {
			if first, ok := seen[s]; !ok || d.back < first {
				seen[s] = d.back
			}
		}
	}
	var all []deed
	for _, d := range f.history {
		if d.back == 0 {
			first, ok := seen[d.is]
			// who saw it before saw what an earlier try of the same swap did
			if !ok || first < d.call {
				continue
			}
			d.back = first
		}
		all = append(all, d)
	}
	return narrowed(all)
}

// narrowed returns the history with the time of every deed narrowed to what it can have been.
//
// Each value is written once, over one other, so the order of values is known. A value cannot have
// stood before the values that precede it, nor after those that follow it. Without this the search
// would try the reads of one value in every order before it looked elsewhere. A history that makes
// no sense stays as it is, to be judged.
func narrowed(history []deed) []deed {
	next := make(map[state]state)
	writes, reads := make(map[state][]int), make(map[state][]int)
	for i, d := range history {
		if d.read || d.refused {
			reads[d.told] = append(reads[d.told], i)
			continue
		}
		if is, twice := next[d.was]; twice && is != d.is {
			return history
		}
		next[d.was] = d.is
		writes[d.is] = append(writes[d.is], i)
	}
	order := []state{{}}
	for s, ok := next[state{}]; ok && len(order) <= len(next); s, ok = next[s] {
		order = append(order, s)
	}
	// when a value can have come
	first, last := make([]int64, len(order)), make([]int64, len(order)+1)
	for k := 1; k < len(order); k++ {
		first[k] = math.MaxInt64
		for _, i := range writes[order[k]] {
			first[k] = min(first[k], history[i].call)
		}
		first[k] = max(first[k], first[k-1])
		for _, i := range reads[order[k-1]] {
			first[k] = max(first[k], history[i].call)
		}
	}
	last[len(order)] = math.MaxInt64
	for k := len(order) - 1; k > 0; k-- {
		for _, i := range writes[order[k]] {
			last[k] = max(last[k], history[i].back)
		}
		last[k] = min(last[k], last[k+1])
		for _, i := range reads[order[k]] {
			last[k] = min(last[k], history[i].back)
		}
	}
	all := slices.Clone(history)
	narrow := func(i int, from, to int64) {
		if d := &all[i]; max(d.call, from) <= min(d.back, to) {
			d.call, d.back = max(d.call, from), min(d.back, to)
		}
	}
	for k, s := range order {
		for _, i := range reads[s] {
			narrow(i, first[k], last[k+1])
		}
		for _, i := range writes[s] {
			if len(writes[s]) == 1 {
				narrow(i, first[k], last[k])
			} else {
				narrow(i, first[k], math.MaxInt64)
			}
		}
	}
	return all
}

// saw returns the values that the deed shows to have stood.
func (d deed) saw() []state {
	switch {
	case d.read, d.refused:
		return []state{d.told}
	}
	return []state{d.was, d.is}
}
