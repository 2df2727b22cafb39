package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/journal"
)

// observations are the first starts of a wave, by run, as a handler or the sink saw them.
type observations struct {
	first   []time.Time // zero: none
	doubled int         // starts beyond the first
	strange int         // starts of runs that nobody asked for
}

// Lateness is in milliseconds. What began early counts as 0.
type Lateness struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
	From string  `json:"from"` // who saw it: "sink" or "handler"
}

// A verdict is what observations tell of a wave.
type verdict struct {
	late                   *Lateness // nil if nothing began
	missed, early, doubled int
	earliest               time.Duration // before its instant, of the run that was most early; 0 = none was
	last                   time.Time     // when the last run began; zero if none did
	began                  int
}

// judge compares o with when runs were due.
func judge(o observations, due func(i int) time.Time, from string) verdict {
	v := verdict{doubled: o.doubled}
	late := make([]time.Duration, 0, len(o.first))
	for i, at := range o.first {
		if at.IsZero() {
			v.missed++
			continue
		}
		d := at.Sub(due(i))
		if d < 0 {
			v.early++
			v.earliest = max(v.earliest, -d)
		}
		late = append(late, max(d, 0))
		if at.After(v.last) {
			v.last = at
		}
	}
	v.began = len(late)
	v.late = quantiles(late, from)
	return v
}

// quantiles sorts late. It returns nil if there is none.
func quantiles(late []time.Duration, from string) *Lateness {
	if len(late) == 0 {
		return nil
	}
	slices.Sort(late)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return &Lateness{ms(rank(late, 0.5)), ms(rank(late, 0.99)), ms(rank(late, 0.999)), ms(late[len(late)-1]), from}
}

// rank returns the smallest element of sorted that a share q of all does not exceed (nearest rank).
func rank[T any](sorted []T, q float64) T {
	n := int(math.Ceil(q*float64(len(sorted)) - 1e-9)) // the error of a float must not make it one more
	return sorted[min(max(n, 1), len(sorted))-1]
}

// readSink returns what a sink saw of n runs of a source, from its record, which must be complete. Those of the source
// ignored are passed over.
func readSink(record, source, ignored string, n int) (o observations, err error) {
	seen, all, err := journal.ReadSeenFile(record)
	if err == nil && !all {
		err = errors.New("it has gaps")
	}
	if err != nil {
		return o, fmt.Errorf("read sink's record: %w", err)
	}
	o.first = make([]time.Time, n)
	for i := range seen {
		line := seen[i].Ref.Line // counted from 1
		switch {
		case seen[i].Ref.Source == ignored:
		case seen[i].Ref.Source != source || line < 1 || line > n:
			o.strange++
		case o.first[line-1].IsZero():
			o.first[line-1] = seen[i].At
		default:
			o.doubled++
			if seen[i].At.Before(o.first[line-1]) {
				o.first[line-1] = seen[i].At
			}
		}
	}
	return o, nil
}
