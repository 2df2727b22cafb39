package schema

import (
	"context"
	"time"
)

// StatsRetention is how long counts stay.
const StatsRetention = 14 * 24 * time.Hour

// MinuteStats counts what a node saw in one minute.
type MinuteStats struct {
	Minute time.Time `json:"-"` // its begin
	Node   string    `json:"-"` // and which of its lives: unique

	// Due: entries that were handed to executors for the first time.
	Due       int64 `json:"due,omitempty"`
	Started   int64 `json:"started,omitempty"`   // runs that were started for the first time
	Succeeded int64 `json:"succeeded,omitempty"` // attempts, as the next
	Failed    int64 `json:"failed,omitempty"`    // timed out and lost ones too
	Missed    int64 `json:"missed,omitempty"`    // runs
	Retried   int64 `json:"retried,omitempty"`   // retries that were written
	// Lateness counts first starts by class: those later than the class before and at most UpTo.
	Lateness []LatenessClass `json:"lateness,omitempty"`

	Written int64 `json:"-"` // write timestamp, µs; not read back
}

// LatenessClass is a class of lateness and how many starts were in it.
type LatenessClass struct {
	UpTo  Duration `json:"up_to"`
	Count int64    `json:"count"`
}

// StatsHour returns the hour in which a minute lies: hours since the Unix epoch.
func StatsHour(t time.Time) int { return int(floorDiv(t.Unix(), 3600)) }

// StatsStore holds counts of minutes. They leave after StatsRetention.
type StatsStore interface {
	// PutStats writes what a node counted in a minute; the latest write stands.
	PutStats(ctx context.Context, s MinuteStats) error
	// Stats returns all counts of an hour, by minute and node. Those that cannot be understood are
	// left out.
	Stats(ctx context.Context, hour int) ([]MinuteStats, error)
}
