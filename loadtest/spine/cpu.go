package spine

import (
	"os"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// A meter adds up the CPU time of members over all their processes. A member that is killed keeps what was read last, so
// read shortly before a kill. It is safe for concurrent use.
type meter struct {
	read func(pid int) (time.Duration, error)

	mu   sync.Mutex                       // guards what follows
	used map[string]map[int]time.Duration // by member and pid
}

func newMeter(read func(pid int) (time.Duration, error)) *meter {
	return &meter{read: read, used: map[string]map[int]time.Duration{}}
}

// sample reads every process of pids (by member; 0 = there is none now) and returns the sums so far.
func (m *meter) sample(pids map[string]int) map[string]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for member, pid := range pids {
		if m.used[member] == nil {
			m.used[member] = map[int]time.Duration{}
		}
		if pid == 0 {
			continue
		}
		if t, err := m.read(pid); err == nil { // else it has just ended
			m.used[member][pid] = max(m.used[member][pid], t)
		}
	}
	sums := make(map[string]time.Duration, len(m.used))
	for member, processes := range m.used {
		for _, t := range processes {
			sums[member] += t
		}
	}
	return sums
}

// A Phase is a part of the run with the CPU seconds that each member used in it. A member is "cassandra-1" and so on;
// "sink" is the receiver and "load" this program.
type Phase struct {
	Name    string             `json:"name"`
	Seconds float64            `json:"seconds"`
	CPU     map[string]float64 `json:"cpu_seconds"`
}

// Of returns the CPU seconds of all members of a kind ("cassandra", "nats", "carillon", "sink", "load").
func (p Phase) Of(kind string) float64 {
	sum := 0.0
	for member, s := range p.CPU {
		if member == kind || strings.HasPrefix(member, kind+"-") {
			sum += s
		}
	}
	return sum
}

// A mark is what every member had used up to an instant.
type mark struct {
	at  time.Time
	cpu map[string]time.Duration
}

// phase returns what was used between two marks.
func phase(name string, from, to mark) Phase {
	p := Phase{Name: name, Seconds: to.at.Sub(from.at).Seconds(), CPU: map[string]float64{}}
	for member, t := range to.cpu {
		p.CPU[member] = (t - from.cpu[member]).Seconds()
	}
	return p
}

// pids returns the process of each member of a cluster; 0 = it has none now.
func pids(c *cluster.Cluster) map[string]int {
	all := map[string]int{}
	status := c.Status()
	for _, m := range status.Carillon {
		all[m.Name] = m.PID
	}
	for _, m := range status.Cassandra {
		all[m.Name] = m.PID
	}
	for _, m := range status.NATS {
		all[m.Name] = m.PID
	}
	return all
}

// sample reads the CPU times of everything.
func (r *run) sample() map[string]time.Duration {
	all := pids(r.cluster())
	all["sink"], all["load"] = r.sink.PID, os.Getpid()
	return r.meter.sample(all)
}

func (r *run) mark() mark { return mark{time.Now(), r.sample()} }

// sampleAlways samples until the function returned is called, so that what a member used before it dies is known.
func (r *run) sampleAlways() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				r.sample()
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
