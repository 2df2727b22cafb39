package capacity

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// Kind is what runs do.
type Kind string

// The kinds.
const (
	HTTP Kind = "http"
	NATS Kind = "nats"
	Noop Kind = "noop" // nothing: for comparison with measurements
)

// A Demand is a load and the machines that shall carry it. There are no defaults: every field
// counts.
type Demand struct {
	// Rate is how many runs are due per second in all regions together, for hours.
	Rate     float64       `json:"rate"`
	Duration time.Duration `json:"duration_ns"` // of a run, the mean
	Kind     Kind          `json:"kind"`
	Payload  int           `json:"payload_bytes"`

	Resident  float64       `json:"resident"`     // jobs stored that are not due yet …
	Ahead     time.Duration `json:"ahead_ns"`     // … spread over this span
	Retention time.Duration `json:"retention_ns"` // for which rows stay after their due time

	Regions     int `json:"regions"`
	Replication int `json:"replication"` // of Cassandra and of streams, in each region

	Cores int     `json:"cores"`      // of each machine
	Disk  float64 `json:"disk_bytes"` // of each Cassandra machine
}

// Bounds of a demand, within which the arithmetic makes sense.
const (
	minRate      = 1e-3
	maxRate      = 1e9
	maxResident  = 1e15
	maxDuration  = 24 * time.Hour
	maxRetention = 10 * 365 * 24 * time.Hour
	maxRegions   = 16
	maxCores     = 1024
	maxDisk      = 1e15
)

// Validate reports every fault of d together.
func (d Demand) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(d.Rate >= minRate && d.Rate <= maxRate, "rate: %g is not between %g and %g runs a second", d.Rate, minRate, float64(maxRate))
	check(d.Duration > 0 && d.Duration <= maxDuration, "duration: %v is not above 0 and at most %v", d.Duration, maxDuration)
	check(slices.Contains([]Kind{HTTP, NATS, Noop}, d.Kind), "kind: %q is neither http, nats nor noop", d.Kind)
	check(d.Payload >= 0 && d.Payload <= schema.MaxPayload, "payload: %d is not between 0 and %d bytes", d.Payload, schema.MaxPayload)
	check(d.Resident >= 0 && d.Resident <= maxResident, "resident: %g is not between 0 and %g jobs", d.Resident, float64(maxResident))
	check(d.Ahead >= schema.BucketSpan && d.Ahead <= maxRetention, "ahead: %v is not between %v and 10 years", d.Ahead, schema.BucketSpan)
	check(d.Retention > 0 && d.Retention <= maxRetention, "retention: %v is not above 0 and at most 10 years", d.Retention)
	check(d.Regions >= 1 && d.Regions <= maxRegions, "regions: %d is not between 1 and %d", d.Regions, maxRegions)
	check(d.Replication >= 1 && d.Replication <= 5, "replication: %d is not between 1 and 5", d.Replication)
	check(d.Cores >= 1 && d.Cores <= maxCores, "cores: %d is not between 1 and %d", d.Cores, maxCores)
	check(d.Disk >= 1e9 && d.Disk <= maxDisk, "disk: %g is not between 1e9 and %g bytes", d.Disk, float64(maxDisk))
	return errors.Join(faults...)
}

// carried returns the rate that one region must be able to carry. With several regions, one may be
// lost:
//
//	one region       rate
//	several regions  rate ÷ (regions − 1)
func (d Demand) carried() float64 {
	return d.Rate / float64(max(d.Regions-1, 1))
}

// executeCPU returns the CPU of an executor for one run, µs.
func (d Demand) executeCPU() float64 {
	switch d.Kind {
	case Noop:
		return executeNoop.v()
	case NATS:
		return executeNATS.v()
	}
	return executeHTTP.v()
}

// natsCPU returns the CPU of one replica of a stream for one run, µs. A NATS run costs two messages
// more.
func (d Demand) natsCPU() float64 {
	if d.Kind == NATS {
		return natsHTTP.v() + natsNoop.v()
	}
	return natsHTTP.v()
}
