package schema

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of rates.
const (
	// MaxRate is how many starts a second a rate may allow at most.
	MaxRate = 100_000
	// maxRateCount bounds the number in a rate, whatever its span.
	maxRateCount = 100_000_000
)

// ReservationLife is how long after its reserved instant a run may start. Later it needs a new
// reservation. It bounds how many starts reserved for different instants can fall together.
const ReservationLife = 2 * time.Second

// Rate is how many runs of a task may start in a span. The zero Rate is no bound.
type Rate struct {
	Count int
	Per   time.Duration // a second, a minute or an hour
}

var rateUnits = []struct {
	unit string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// ParseRate reads a rate such as "100/s", "10/m" or "1000/h": a positive number without sign or
// leading zeros, a slash, and s, m or h. It is at most MaxRate a second.
func ParseRate(text string) (Rate, error) {
	number, unit, ok := strings.Cut(text, "/")
	for _, u := range rateUnits {
		if !ok || u.unit != unit {
			continue
		}
		n, err := strconv.Atoi(number)
		switch {
		case err != nil && number != "" && strings.Trim(number, "0123456789") == "" && number[0] != '0', err == nil && n > maxRateCount,
			err == nil && n > 0 && float64(n)/u.per.Seconds() > MaxRate:
			return Rate{}, fmt.Errorf("must be at most %d a second", MaxRate)
		case err != nil, n < 1, strconv.Itoa(n) != number:
			ok = false
		default:
			return Rate{n, u.per}, nil
		}
	}
	return Rate{}, fmt.Errorf(`must be a number of starts in a second, a minute or an hour, such as "100/s", "10/m" or "1000/h"`)
}

// String returns the rate as ParseRate reads it, "" for none.
func (r Rate) String() string {
	for _, u := range rateUnits {
		if r.Per == u.per {
			return strconv.Itoa(r.Count) + "/" + u.unit
		}
	}
	return ""
}

// In returns how many starts the rate allows in a span, at least 1.
func (r Rate) In(d time.Duration) int {
	return max(int(float64(r.Count)*d.Seconds()/r.Per.Seconds()), 1)
}

// after returns how long after the first start number n (from 0) comes.
func (r Rate) after(n int) time.Duration {
	whole, rest := n/r.Count, n%r.Count
	return time.Duration(whole)*r.Per + r.Per*time.Duration(rest)/time.Duration(r.Count)
}

// Reservations are instants at which runs of a task may start: Count of them, from First on, spread
// evenly as the rate says.
type Reservations struct {
	Rate  Rate
	First time.Time
	Count int
}

// At returns reservation number i, from 0.
func (s Reservations) At(i int) time.Time { return s.First.Add(s.Rate.after(i)) }

// RateLease returns the key of the lease from which starts are reserved. Each rate has its own: a
// changed rate begins anew, and is not held up by what was reserved before.
func RateLease(task TaskName, r Rate) string {
	return "rate/" + task.Tenant + "/" + task.Name + "/" + r.String()
}

// Reserve returns the lease of a rate with the next n starts reserved in it at now by who, a name
// that is used once; and those reservations. None lies more than reach ahead of now, so there may
// be fewer than n. If there are none, the lease is as it was.
//
// The lease's fence is the instant, in µs, from which on starts are free:
//
//	first = max(fence, now)      end = first + n ÷ rate      new fence = end
//
// So starts that nobody reserved by their time are lost; there is no burst credit.
func (l Lease) Reserve(r Rate, n int, now time.Time, reach time.Duration, who string) (Lease, Reservations) {
	first := time.UnixMicro(int64(l.Fence)).UTC()
	if earliest := now.Add(time.Microsecond - 1).Truncate(time.Microsecond).UTC(); first.Before(earliest) {
		first = earliest
	}
	s := Reservations{Rate: r, First: first}
	last := now.Add(reach)
	for s.Count = max(n, 0); s.Count > 0 && s.At(s.Count-1).After(last); {
		// Few at the end lie beyond: halving comes close, and then one by one.
		if half := s.Count / 2; half > 0 && s.At(half-1).After(last) {
			s.Count = half
			continue
		}
		s.Count--
	}
	if s.Count == 0 {
		return l, s
	}
	end := s.At(s.Count)
	return Lease{Key: l.Key, Fence: Fence(end.Add(time.Microsecond - 1).UnixMicro()), Record: []byte(who)}, s
}

// ReservationsExpire returns until when the lease of a rate is kept: an hour after the last
// reserved start. By then it says nothing.
func (l Lease) ReservationsExpire() time.Time {
	return time.UnixMicro(int64(l.Fence)).Add(time.Hour).UTC()
}

// TaskName names a task of a tenant.
type TaskName struct{ Tenant, Name string }

// RateStore lists the tasks that may have a rate, so that nobody has to read every task. The task
// itself is authoritative.
type RateStore interface {
	// PutRated notes, as of at, that a task may have a rate or (false) that it has none. Of two
	// notes the later stands; of the same instant, that it has none.
	PutRated(ctx context.Context, task TaskName, rated bool, at time.Time) error
	// RatedTasks returns the tasks after `after` (zero: from the first) that may have a rate, by
	// tenant and name, at most limit.
	RatedTasks(ctx context.Context, after TaskName, limit int) ([]TaskName, error)
}
