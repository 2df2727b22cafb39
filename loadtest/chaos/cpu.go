package chaos

import (
	"context"
	"os"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/wait"
)

// A Phase is a part of the run with the CPU seconds of each member. "sink" is the receiver, "load"
// this program.
type Phase struct {
	Name    string             `json:"name"`
	Seconds float64            `json:"seconds"`
	CPU     map[string]float64 `json:"cpu_seconds"`
}

// Of returns the CPU seconds of all members of a kind ("cassandra", "nats", "carillon", "sink",
// "load").
func (p Phase) Of(kind string) float64 {
	sum := 0.0
	for member, s := range p.CPU {
		if member == kind || strings.HasPrefix(member, kind+"-") {
			sum += s
		}
	}
	return sum
}

// A mark is the CPU of every member up to an instant.
type mark struct {
	at  time.Time
	cpu map[string]time.Duration
}

// phase returns the CPU between two marks.
func phase(name string, from, to mark) Phase {
	p := Phase{Name: name, Seconds: to.at.Sub(from.at).Seconds(), CPU: map[string]float64{}}
	for member, t := range to.cpu {
		p.CPU[member] = (t - from.cpu[member]).Seconds()
	}
	return p
}

// sample reads the CPU times of everything.
func (r *members) sample() map[string]time.Duration {
	all := r.cluster().Status().PIDs()
	all["sink"], all["load"] = r.sink.PID, os.Getpid()
	if r.limited != nil {
		all["sink-2"] = r.limited.PID
	}
	return r.meter.Sample(all)
}

func (r *members) mark() mark { return mark{time.Now(), r.sample()} }

// sampleAlways samples until it is stopped, so that the CPU of a member is known before it dies.
func (r *members) sampleAlways() (stop func()) {
	return wait.Every(context.Background(), sampleEvery, func(context.Context) { r.sample() })
}
