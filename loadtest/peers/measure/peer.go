package measure

import (
	"context"
	"fmt"
	"time"
)

// A Job names a run: number I, counted from 0, of a wave. Waves tell what is measured from what warms up.
type Job struct {
	Wave int `json:"w"`
	I    int `json:"i"`
}

// A Handler does what a run is for. A peer calls it for each execution, from many goroutines at once, and takes an error
// as a failure that is retried.
type Handler func(ctx context.Context, job Job) error

// A System is what is measured: a Peer or a Chainer. Stop may be called after a Start that failed.
type System interface {
	// Name is that of the system with its settings, for example "asynq-always".
	Name() string
	// Settings says what bears on figures.
	Settings() Settings
	// Start starts the servers, empty, in a folder of its own below dir, and returns when they can be used.
	Start(ctx context.Context, dir string) error
	// RunWorkers runs jobs until ctx is done. It returns when none is under way, nil if it was told to stop.
	RunWorkers(ctx context.Context, handle Handler) error
	// Servers returns the first process of each server, by kind.
	Servers() map[string]int
	// Stop stops the servers and waits for them.
	Stop(ctx context.Context) error
}

// A Peer is a System that runs jobs at an instant. Its methods are called in this order: Start, any number of Enqueue and
// RunWorkers, Stop; Enqueue may be called while RunWorkers runs.
type Peer interface {
	System
	// Enqueue inserts jobs 0 to n-1 of a wave, with payload bytes of padding each. Job i is due at at(i); the zero time says
	// that it is ready at once.
	Enqueue(ctx context.Context, wave, n, payload int, at func(i int) time.Time) error
	// Unfinished returns how many jobs the store holds that are to be run or under way.
	Unfinished(ctx context.Context) (int, error)
}

// A Chainer is a System that runs workflows: of flow.ChainSteps steps, one after the other, each a job of its own for the
// handler.
type Chainer interface {
	System
	// StartChain starts chain number n of a wave, counted from 0, and returns when that is durable. Its steps are jobs
	// n × flow.ChainSteps and the next ones. It is called while RunWorkers runs, from many goroutines at once.
	StartChain(ctx context.Context, wave, n int) error
}

// A Caller is a Peer whose runs are calls that it makes by itself: no handler of ours hears of them, and the sink alone tells when they
// began. So it is measured only where runs call the sink.
type Caller interface {
	Peer
	// CallAt says at which address the call of a job reaches the sink. It comes before the first Enqueue.
	CallAt(address func(Job) string)
}

// A Coarse is a Peer that keeps instants in whole granules. The first instant of a wave is the start of one, so what is inserted ahead of
// the instants is ahead of the granule as well.
type Coarse interface {
	Peer
	Granule() time.Duration
}

// Fits says why a protocol with a target cannot be measured on p; nil if it can.
func Fits(p System, protocol, target string) error {
	if _, ok := p.(Chainer); ok != (protocol == Workflows) {
		if ok {
			return fmt.Errorf("%s runs workflows: it does W", p.Name())
		}
		return fmt.Errorf("%s runs no workflows: it does A to C", p.Name())
	}
	if _, ok := p.(Caller); ok && (protocol == BurnDown || target != HTTP) {
		return fmt.Errorf("%s calls addresses by itself, at an instant: it does B and C, with target http", p.Name())
	}
	return nil
}

// Settings are those that bear on figures.
type Settings struct {
	Target     string            `json:"target"` // what runs do: noop or http
	Payload    int               `json:"payload_bytes"`
	Durability string            `json:"durability"` // when a write counts as held
	Versions   map[string]string `json:"versions,omitempty"`
	Tuning     map[string]string `json:"tuning,omitempty"` // what is not the default
}

// Pad returns n bytes of padding for payloads.
func Pad(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[mix(uint64(n), uint64(i))&63] // #nosec G115 -- not negative
	}
	return string(b)
}
