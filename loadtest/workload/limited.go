package workload

import (
	"encoding/json"
	"fmt"
	"time"
)

// Limited describes recurring jobs with a limit on their runs at once. Shapes rotate over the jobs.
// All run from Start up to End and miss nothing (run_all). The same Limited makes the same jobs.
type Limited struct {
	N          int
	Start, End time.Time
	Shapes     []LimitedShape
	// Source and Target are those of [Spec]: job n calls "<target>/<manner>/<source>/<n>".
	Source, Target string
}

// A LimitedShape is the differences between jobs with a limit.
type LimitedShape struct {
	Every time.Duration
	// Work is how long the receiver works on each call; 0 = it answers at once.
	Work time.Duration
	// Limit and OnLimit are the job's concurrency, Guarantee its guarantee, in the words of the
	// API.
	Limit     int
	OnLimit   string
	Guarantee string
}

// Of returns the shape of job n, from 1.
func (l Limited) Of(n int) LimitedShape { return l.Shapes[(n-1)%len(l.Shapes)] }

// Body returns the body of POST /v1/jobs for job n, from 1.
func (l Limited) Body(n int) ([]byte, error) {
	if len(l.Shapes) == 0 {
		return nil, fmt.Errorf("make job: no shapes")
	}
	s := l.Of(n)
	if err := (Recurring{N: l.N, Every: s.Every, From: l.Start, Start: l.Start, End: l.End, Source: l.Source, Target: l.Target}).Validate(); err != nil {
		return nil, fmt.Errorf("make job: %w", err)
	}
	type concurrency struct {
		Limit   int    `json:"limit"`
		OnLimit string `json:"on_limit"`
	}
	b := struct {
		recurringBody
		Guarantee   string      `json:"guarantee,omitempty"`
		Timeout     string      `json:"timeout"`
		Concurrency concurrency `json:"concurrency"`
	}{Guarantee: s.Guarantee, Timeout: "30s", Concurrency: concurrency{s.Limit, s.OnLimit}}
	b.Start, b.End = l.Start.UTC(), l.End.UTC()
	b.Schedule.Every = s.Every.String()
	b.Misfire = &Misfire{Policy: "run_all"}
	b.Payload.Ref = fmt.Sprintf("%s/%d", l.Source, n)
	b.HTTP.URL = fmt.Sprintf("%s/%s/%d", l.Target, l.Source, n)
	if s.Work > 0 {
		b.HTTP.URL = fmt.Sprintf("%s/work-%s/%s/%d", l.Target, s.Work, l.Source, n)
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("make job: %w", err)
	}
	return text, nil
}
