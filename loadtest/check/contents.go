package check

import (
	"cmp"
	"slices"
)

// This file judges what calls carry: payload and headers as asked for, and headers that name the
// run.

// A Hash is FNV-1a of 64 bits. The zero Hash is that of nothing.
type Hash uint64

const (
	hashBasis = 14695981039346656037
	hashPrime = 1099511628211
)

// Add returns the hash of more: of what h stands for, followed by b.
func (h Hash) Add(b []byte) Hash {
	if len(b) == 0 {
		return h
	}
	if h == 0 {
		h = hashBasis
	}
	for _, c := range b {
		h = (h ^ Hash(c)) * hashPrime
	}
	return h
}

// AddHeader returns the hash of a set of headers with one more, in any order.
func (h Hash) AddHeader(name, value string) Hash {
	return h + Hash(0).Add([]byte(name)).Add([]byte{0}).Add([]byte(value))
}

// JSONType is the content type of a payload.
const JSONType = "application/json"

// Sent is the content of a call, as the sink recorded it.
type Sent struct {
	Key  string // Idempotency-Key
	Job  string // Carillon-Job-Id
	Type string // Content-Type
	// Body is the hash of the body, and Custom that of the headers whose names begin with "X-".
	Body, Custom Hash
}

// contents finds a call with other content than was asked for. jobID is the job that the calls
// name; "" for the run itself.
func (j *judge) contents(r *run, jobID string) {
	if r.job == nil {
		return
	}
	if jobID == "" {
		jobID = r.id
	}
	altered := func(s *Sighting) (what string) {
		switch sent := s.Sent; {
		case sent == nil:
			return ""
		case sent.Key != r.id:
			return "the idempotency key " + cmp.Or(sent.Key, "(none)")
		case sent.Job != jobID:
			return "the job " + cmp.Or(sent.Job, "(none)")
		case s.Attempt < 1:
			return "no attempt number"
		case s.Due.IsZero():
			return "no due time"
		case sent.Body != 0 && sent.Type != JSONType:
			return "the content type " + cmp.Or(sent.Type, "(none)")
		case r.job.Known && sent.Body != r.job.Body:
			return "another payload than was asked for"
		case r.job.Known && sent.Custom != r.job.Custom:
			return "other headers than were asked for"
		}
		return ""
	}
	i := slices.IndexFunc(r.seen, func(s *Sighting) bool { return altered(s) != "" })
	if i < 0 {
		return
	}
	j.rep.Altered++
	j.fault(FaultAltered, r, "attempt %d, which arrived %s, carries %s", r.seen[i].Attempt, stamp(r.seen[i].At), altered(r.seen[i]))
}

// placed judges where the attempts of a run were made that requires labels of its executor. An
// executor whose labels are not known is not judged. A run counts once.
func (j *judge) placed(r *run) {
	if r.job == nil || len(r.job.Requires) == 0 {
		return
	}
	for _, a := range r.attempts() {
		has, known := j.h.Labels[a.Executor]
		if !known || a.StartedAt.IsZero() {
			continue
		}
		for name, value := range r.job.Requires {
			if is, ok := has[name]; !ok || is != value {
				j.rep.Misplaced++
				j.fault(FaultMisplaced, r, "attempt %d was made by %s, which has the labels %v, and %s=%s is required", a.Number, a.Executor, has, name, value)
				return
			}
		}
	}
}
