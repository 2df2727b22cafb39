package target

import "carillon.dev/carillon/schema"

// Health is what an attempt tells of its target.
type Health int

// What an attempt tells of its target.
const (
	UnknownHealth Health = iota
	Healthy
	Unhealthy
)

// Health says what the result tells of its target: one that refuses a run is healthy.
func (res *Result) Health() Health {
	switch {
	case res.Uncalled:
		return UnknownHealth
	case res.Outcome == schema.Succeeded:
		return Healthy
	case res.Outcome == schema.TimedOut:
		return Unhealthy
	case res.Outcome != schema.Failed || res.Stopped:
		return UnknownHealth
	case res.Ailing, res.Status >= 500, res.Status == 429, res.Status == 0 && !res.Final:
		return Unhealthy
	case res.Status > 0:
		return Healthy
	}
	return UnknownHealth
}
