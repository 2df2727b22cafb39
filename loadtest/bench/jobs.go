package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// A target is what runs call.
type target string

// The targets.
const (
	httpTarget target = "http" // call the sink
	natsTarget target = "nats" // ask a worker that replies at once
	// nothing: the nodes run with executor.noop, which stands for a handler within the process
	noopTarget target = "noop"
)

// natsSubject is where the worker listens.
const natsSubject = "bench.noop"

// jobs describes lines of an import, numbered from 1. Line and due instant are computed, not kept.
type jobs struct {
	n      int
	from   time.Time     // in whole milliseconds
	span   time.Duration // due instants lie in [from, from+span), uniformly; 0 = all at from
	seed   uint64
	source string // in addresses and keys
	target target
	url    string // of the sink
	// urls are bases that lines are spread over, in place of url, if there are any.
	urls    []string
	subject string // of natsTarget; "" = natsSubject
	more    string // further fields of each line, each with a comma after it
	tenant  string // whose they are; "" = the default one
	keyed   bool
	bytes   int // of each payload; 0 = none
	// daily: each is a recurring job that runs once a day, the first `together` of them at from
	// (daily.go)
	daily    bool
	together int
	part     int // lines of one import at most; 0 = each connection sends its lines in one
}

// jobs describes n jobs of a source of their own.
func (b *bench) jobs(n int, from time.Time, span time.Duration, t target, url string) jobs {
	b.serial++
	return jobs{
		n: n, from: from, span: span, seed: uint64(b.serial), source: fmt.Sprintf("s%d", b.serial), // #nosec G115 -- positive
		target: t, url: url, keyed: b.cfg.Keyed, bytes: b.cfg.Payload,
	}
}

// due returns the instant of a line.
func (j jobs) due(line int) time.Time {
	if j.daily {
		return j.dailyDue(line)
	}
	ms := uint64(max(j.span.Milliseconds(), 0)) // #nosec G115 -- not negative
	if ms == 0 {
		return j.from
	}
	return j.from.Add(time.Duration(mix(j.seed, uint64(line))%ms) * time.Millisecond) // #nosec G115 -- below the span
}

func (j jobs) end() time.Time { return j.from.Add(j.span) }

func (j jobs) name() string { return j.source }

func (j jobs) count() int { return j.n }

func (j jobs) dueOf(run int) time.Time { return j.due(run + 1) }

func (j jobs) runOf(s *check.Sighting) (int, bool) {
	return s.Ref.Line - 1, s.Ref.Line >= 1 && s.Ref.Line <= j.n
}

func (j jobs) take(ctx context.Context, b *bench, sys system) (*Load, error) {
	return b.load(ctx, sys, j)
}

// mix is the finaliser of SplitMix64 over seed and n: pseudo-random, and the same each time.
func mix(seed, n uint64) uint64 {
	x := seed*0x9e3779b97f4a7c15 + n*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

const payloadHead, payloadTail = `,"payload":{"pad":"`, `"}`

// leastPayload is the size of a payload without padding.
const leastPayload = len(payloadHead) - len(`,"payload":`) + len(payloadTail)

// base returns the base of the address that a line calls.
func (j jobs) base(line int) string {
	if len(j.urls) == 0 {
		return j.url
	}
	return j.urls[line%len(j.urls)]
}

// appendLine adds a line.
func (j jobs) appendLine(b []byte, line int) []byte {
	b = append(b, '{')
	if j.keyed {
		b = append(b, `"key":"`...)
		b = append(b, j.source...)
		b = append(b, '-')
		b = strconv.AppendInt(b, int64(line), 10)
		b = append(b, `",`...)
	}
	b = append(b, j.more...)
	if j.target == natsTarget {
		b = append(b, `"nats":{"subject":"`...)
		b = append(b, cmp.Or(j.subject, natsSubject)...)
		b = append(b, `"}`...)
	} else {
		b = append(b, `"http":{"url":"`...)
		b = append(b, j.base(line)...)
		b = append(b, '/')
		b = append(b, j.source...)
		b = append(b, '/')
		b = strconv.AppendInt(b, int64(line), 10)
		b = append(b, `"}`...)
	}
	if j.daily {
		b = j.appendDaily(b, line)
	} else {
		b = append(b, `,"schedule":{"at":"`...)
		b = j.due(line).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
		b = append(b, `"}`...)
	}
	b = appendPayload(b, j.bytes, line)
	return append(b, '}', '\n')
}

// appendPayload adds a payload of that many bytes for a line; 0 = none. It is pseudo-random, so
// that compression does not shrink it.
func appendPayload(b []byte, bytes, line int) []byte {
	if bytes == 0 {
		return b
	}
	b = append(b, payloadHead...)
	for i := range bytes - leastPayload {
		b = append(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[mix(uint64(line), uint64(i/8))>>(i%8*6)&63]) // #nosec G115 -- not negative
	}
	return append(b, payloadTail...)
}

// validate reports a payload that cannot have the size asked for.
func (j jobs) validate() error {
	if j.bytes != 0 && j.bytes < leastPayload {
		return fmt.Errorf("payload of %d bytes, want 0 (none) or at least %d", j.bytes, leastPayload)
	}
	return nil
}

// A selection is some of the lines, in the order in which they are sent.
type selection struct {
	first, last int   // all from first to last, or …
	list        []int // … these
}

func (s selection) size() int {
	if s.list != nil {
		return len(s.list)
	}
	return s.last - s.first + 1
}

// at returns line number n of the selection, counted from 1.
func (s selection) at(n int) int {
	if s.list != nil {
		return s.list[n-1]
	}
	return s.first + n - 1
}

// reader reads the text of a selection of lines.
type reader struct {
	jobs jobs
	of   selection
	next int // how many were made
	buf  []byte
	rest []byte
}

const readerBuffer = 64 << 10

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.buf = r.buf[:0]
		for len(r.buf) < readerBuffer && r.next < r.of.size() {
			r.next++
			r.buf = r.jobs.appendLine(r.buf, r.of.at(r.next))
		}
		if r.rest = r.buf; len(r.rest) == 0 {
			return 0, io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
