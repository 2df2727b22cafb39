package sink

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxHold bounds how long a call is worked on, left without an answer, or dripped to.
	MaxHold = 10 * time.Minute
	// DripEvery is the time between two bytes of a dripped answer.
	DripEvery = 100 * time.Millisecond
	// MaxRetryAfter bounds a Retry-After (the API's bound).
	MaxRetryAfter = 24 * time.Hour
	// always is more attempts than any run has.
	always = 1 << 30
)

// A manner is how one call is answered. An address asks for it by segments before the last two of its
// path, which name the job: "/work-500ms/fail-2/s1/17". Other segments mean nothing.
//
//	work-500ms    work for so long before the answer, to the end even if the caller goes away
//	fail, fail-2  answer 500: each attempt, or the first two of each run
//	status-404    answer so instead of 200; beside fail-2 this is the status of the failures
//	after-3s      add Retry-After to each failure (whole seconds, rounded up)
//	hang          never answer
//	drip          answer 200 with a body that grows by a byte every DripEvery and never ends
//	cut, cut-2    close the connection instead of answering: each attempt, or the first two
//
// What hangs or drips ends when the caller goes away.
type manner struct {
	work       time.Duration
	fail, cut  int64 // attempts up to this number
	status     int   // 0 = 200
	after      time.Duration
	hang, drip bool
}

// mannerOf reads the path of an address. The usual one, of two segments, costs nothing.
func mannerOf(path string) manner {
	var m manner
	for range 2 {
		i := strings.LastIndexByte(path, '/')
		if i <= 0 {
			return m
		}
		path = path[:i]
	}
	for segment := range strings.SplitSeq(path, "/") {
		verb, arg, stated := strings.Cut(segment, "-")
		n, nerr := strconv.ParseInt(arg, 10, 32)
		switch verb {
		case "work":
			if d, err := time.ParseDuration(arg); err == nil {
				m.work = min(max(d, 0), MaxHold)
			}
		case "fail":
			m.fail = upTo(n, nerr, stated)
		case "cut":
			m.cut = upTo(n, nerr, stated)
		case "status":
			if nerr == nil && n >= 200 && n <= 599 {
				m.status = int(n)
			}
		case "after":
			if d, err := time.ParseDuration(arg); err == nil {
				d = min(max(d, 0), MaxRetryAfter)
				m.after = (d + time.Second - 1).Truncate(time.Second)
			}
		case "hang":
			m.hang = !stated
		case "drip":
			m.drip = !stated
		}
	}
	return m
}

// upTo returns the last attempt that "fail-n" means; 0 = none.
func upTo(n int64, err error, stated bool) int64 {
	switch {
	case !stated:
		return always
	case err != nil:
		return 0
	default:
		return n
	}
}

// upToAttempt reports whether an attempt is among the first `last`; 0 = it has no number and counts
// as the first.
func upToAttempt(last, attempt int64) bool { return last > 0 && attempt <= last }

// answers returns the status of the answer to an attempt, and its Retry-After; status 0 = close the
// connection.
func (m manner) answers(attempt int64) (status int, after time.Duration, failed bool) {
	status, failed = http.StatusOK, upToAttempt(m.fail, attempt)
	failure := http.StatusInternalServerError
	switch {
	case upToAttempt(m.cut, attempt):
		return 0, 0, failed
	case m.fail > 0 && m.status >= 400:
		failure = m.status
	case m.status != 0:
		status = m.status
	}
	if failed {
		status = failure
	}
	if status >= 400 {
		after = m.after
	}
	return status, after, failed
}

// held reports whether the answer is delayed.
func (m manner) held() bool { return m.work > 0 || m.hang || m.drip }

// hold works, hangs or drips. It returns when the caller went away; zero if it is still there.
func (m manner) hold(w http.ResponseWriter, r *http.Request) (gone time.Time) {
	left := r.Context().Done()
	if m.work > 0 {
		over := time.NewTimer(m.work)
		defer over.Stop()
		for working := true; working; {
			select {
			case <-over.C:
				working = false
			case <-left:
				gone, left = time.Now(), nil
			}
		}
	}
	if !gone.IsZero() || !m.hang && !m.drip {
		return gone
	}
	over := time.NewTimer(MaxHold)
	defer over.Stop()
	if !m.drip {
		select {
		case <-over.C:
			return time.Time{}
		case <-left:
			return time.Now()
		}
	}
	w.WriteHeader(http.StatusOK)
	flow := http.NewResponseController(w)
	tick := time.NewTicker(DripEvery)
	defer tick.Stop()
	for {
		if _, err := w.Write([]byte{'.'}); err != nil {
			return time.Now()
		}
		_ = flow.Flush() // the next write tells
		select {
		case <-tick.C:
		case <-over.C:
			return time.Time{}
		case <-left:
			return time.Now()
		}
	}
}
