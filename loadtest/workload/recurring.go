package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Misfire is the misfire policy of a job, in the words of the API; empty fields are not stated.
type Misfire struct {
	Policy   string `json:"policy,omitempty"`
	Deadline string `json:"deadline,omitempty"`
}

// Recurring describes recurring jobs. The same Recurring makes the same jobs.
//
//	75 %  intervals that leave the jitter to the system
//	10 %  intervals with a jitter of their own
//	10 %  cron expressions with seconds
//	 5 %  such expressions in zones that are an odd half hour off
//
// Every second interval states an anchor, at a random phase.
type Recurring struct {
	N int
	// Every is the distance of two runs of each job. Cron expressions are made only if it is whole
	// seconds of which a minute is a multiple.
	Every time.Duration
	// From is what anchors are counted from; an instant shortly before the jobs are made.
	From time.Time
	// Start and End bound the nominal times of all jobs: at or after Start, and before End. Zero =
	// not stated.
	Start, End time.Time
	// Misfires rotate over the jobs; none = nothing is stated.
	Misfires []Misfire
	Seed     uint64
	// Source and Target are those of [Spec]: job n calls "<target>/<source>/<n>".
	Source, Target string
}

// Validate reports every fault of r.
func (r Recurring) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.N < 1 {
		bad("n is %d, want at least 1", r.N)
	}
	if r.Every < time.Second || r.Every%time.Millisecond != 0 {
		bad("every is %s, want at least a second and whole milliseconds", r.Every)
	}
	if r.From.IsZero() {
		bad("from is not given")
	}
	if r.Start.Nanosecond()%int(time.Millisecond) != 0 || r.End.Nanosecond()%int(time.Millisecond) != 0 {
		bad("start is %s and end is %s, want whole milliseconds", r.Start, r.End)
	}
	if !r.End.IsZero() && r.End.Before(r.Start.Add(r.Every)) {
		bad("end is %s and start is %s, want at least %s between them", r.End, r.Start, r.Every)
	}
	addressed(r.Source, r.Target, bad)
	return errors.Join(errs...)
}

type recurringBody struct {
	HTTP     recurringTarget   `json:"http"`
	Schedule recurringSchedule `json:"schedule"`
	Start    time.Time         `json:"start,omitzero"`
	End      time.Time         `json:"end,omitzero"`
	Jitter   string            `json:"jitter,omitempty"`
	Misfire  *Misfire          `json:"misfire,omitempty"`
	Payload  struct {
		Ref string `json:"ref"`
	} `json:"payload"`
}

type recurringTarget struct {
	URL string `json:"url"`
}

type recurringSchedule struct {
	Every    string    `json:"every,omitempty"`
	Anchor   time.Time `json:"anchor,omitzero"`
	Cron     string    `json:"cron,omitempty"`
	Timezone string    `json:"timezone,omitempty"`
}

// Body returns the body of POST /v1/jobs for job n, from 1.
func (r Recurring) Body(n int) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("make job: %w", err)
	}
	rng := rand.New(rand.NewPCG(r.Seed, uint64(n))) // #nosec G404 G115 -- a repeatable choice
	b := recurringBody{Start: r.Start.UTC(), End: r.End.UTC()}
	b.HTTP.URL = fmt.Sprintf("%s/%s/%d", r.Target, r.Source, n)
	b.Payload.Ref = fmt.Sprintf("%s/%d", r.Source, n)
	if len(r.Misfires) > 0 {
		m := r.Misfires[(n-1)%len(r.Misfires)]
		b.Misfire = &m
	}
	kind := rng.IntN(20)
	crons := r.Every%time.Second == 0 && time.Minute%r.Every == 0
	switch {
	case kind < 3 && crons:
		seconds := int(r.Every / time.Second)
		b.Schedule.Cron = fmt.Sprintf("%d/%d * * * * *", rng.IntN(seconds), seconds)
		if kind == 0 {
			b.Schedule.Timezone = []string{"Asia/Kathmandu", "America/St_Johns"}[rng.IntN(2)]
			b.Jitter = "1s"
		}
	default:
		b.Schedule.Every = r.Every.String()
		if rng.IntN(2) == 0 {
			b.Schedule.Anchor = r.From.UTC().Truncate(time.Millisecond).Add(-time.Duration(rng.Int64N(r.Every.Milliseconds())) * time.Millisecond)
		}
		if kind < 5 {
			b.Jitter = []string{"0s", "500ms", "5s"}[rng.IntN(3)]
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("make job: %w", err)
	}
	return text, nil
}
