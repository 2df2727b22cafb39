package bench

import (
	"strconv"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// asking is what a wave asked for: runs, counted from 0, each due at an instant, and told by the sink from one another.
type asking interface {
	// name is the source in the addresses that are called.
	name() string
	count() int
	dueOf(run int) time.Time
	// runOf returns which run a call of name is; false if nobody asked for such a one.
	runOf(s *check.Sighting) (run int, ok bool)
}

func (j jobs) name() string { return j.source }

func (j jobs) count() int { return j.n }

func (j jobs) dueOf(run int) time.Time { return j.due(run + 1) }

func (j jobs) runOf(s *check.Sighting) (int, bool) {
	return s.Ref.Line - 1, s.Ref.Line >= 1 && s.Ref.Line <= j.n
}

// recurring describes jobs that run at an interval, counted from 1. Job and due instants follow from it, so nothing is kept.
type recurring struct {
	n     int
	from  time.Time     // in whole milliseconds
	every time.Duration // of whole milliseconds, at least 2 of them
	runs  int           // of each job: it ends after them
	seed  uint64

	source string // in addresses
	url    string // of the sink
	bytes  int    // of each payload; 0 = none
}

// first returns the first due instant of a job: after from, by less than the interval, and uniformly.
func (j recurring) first(job int) time.Time {
	ms := 1 + mix(j.seed, uint64(job))%uint64(j.every.Milliseconds()-1) // #nosec G115 -- positive
	return j.from.Add(time.Duration(ms) * time.Millisecond)             // #nosec G115 -- below the interval
}

// end is when no run is due any more.
func (j recurring) end() time.Time { return j.from.Add(time.Duration(j.runs) * j.every) }

func (j recurring) name() string { return j.source }

// count and dueOf count the runs of the first job first, then those of the second.
func (j recurring) count() int { return j.n * j.runs }

func (j recurring) dueOf(run int) time.Time {
	return j.first(run/j.runs + 1).Add(time.Duration(run%j.runs) * j.every)
}

// runOf tells the runs of a job from one another by the due instant that they name. It must be one that was asked for, so that a
// system that names another one has missed that run.
func (j recurring) runOf(s *check.Sighting) (int, bool) {
	job := s.Ref.Line
	if job < 1 || job > j.n {
		return 0, false
	}
	after := s.Due.Sub(j.first(job))
	if after < 0 || after%j.every != 0 || after/j.every >= time.Duration(j.runs) {
		return 0, false
	}
	return (job-1)*j.runs + int(after/j.every), true
}

// appendBody adds the body of POST /v1/jobs for a job. Its own offset is stated to be none, so that it is due when its schedule says.
func (j recurring) appendBody(b []byte, job int) []byte {
	const instant = "2006-01-02T15:04:05.000Z"
	b = append(b, `{"http":{"url":"`...)
	b = append(b, j.url...)
	b = append(b, '/')
	b = append(b, j.source...)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(job), 10)
	b = append(b, `"},"schedule":{"every":"`...)
	b = append(b, j.every.String()...)
	b = append(b, `","anchor":"`...)
	b = j.first(job).UTC().AppendFormat(b, instant)
	b = append(b, `"},"jitter":"0s","start":"`...)
	b = j.from.UTC().AppendFormat(b, instant)
	b = append(b, `","end":"`...)
	b = j.end().UTC().AppendFormat(b, instant)
	b = append(b, '"')
	b = appendPayload(b, j.bytes, job)
	return append(b, '}')
}
