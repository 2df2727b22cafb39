package measure

import (
	"sync/atomic"
	"time"
)

// A Log notes the starts of a wave. It is safe for concurrent use.
type Log struct {
	wave    int
	first   []atomic.Int64 // by run: unix nanoseconds of the first start; 0 = none yet
	starts  atomic.Int64
	doubled atomic.Int64
	strange atomic.Int64 // runs of the wave that were never enqueued
	lastEnd atomic.Int64 // unix nanoseconds
	distant atomic.Int64 // starts of other waves
}

// NewLog returns a Log for n runs of a wave.
func NewLog(wave, n int) *Log { return &Log{wave: wave, first: make([]atomic.Int64, n)} }

// Start notes that a run began.
func (l *Log) Start(job Job, at time.Time) {
	switch {
	case job.Wave != l.wave:
		l.distant.Add(1)
	case job.I < 0 || job.I >= len(l.first):
		l.strange.Add(1)
	case l.first[job.I].CompareAndSwap(0, at.UnixNano()):
		l.starts.Add(1)
	default:
		l.doubled.Add(1)
	}
}

// End notes that a handler ended.
func (l *Log) End(at time.Time) {
	for ns := at.UnixNano(); ; {
		was := l.lastEnd.Load()
		if was >= ns || l.lastEnd.CompareAndSwap(was, ns) {
			return
		}
	}
}

// All reports whether every run has begun.
func (l *Log) All() bool { return int(l.starts.Load()) == len(l.first) }

// observations returns what was noted.
func (l *Log) observations() observations {
	o := observations{first: make([]time.Time, len(l.first)), doubled: int(l.doubled.Load()), strange: int(l.strange.Load())}
	for i := range l.first {
		if ns := l.first[i].Load(); ns != 0 {
			o.first[i] = time.Unix(0, ns)
		}
	}
	return o
}
