package doctor

import (
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// ClockReading is the clock of a host, as it was read once.
type ClockReading struct {
	Host   string        // "cassandra 10.0.0.1"
	Offset time.Duration // by which it is ahead of ours, give or take …
	Margin time.Duration // … half of the time that the answer took
	Err    error         // it did not answer
}

// clockWarning is from where on a difference of clocks is worth a warning: half of what nodes allow.
const clockWarning = schema.MaxClockOffset / 2

// judgeClocks compares clocks with the one in the middle, ours among them.
func judgeClocks(f *Facts) (fs findings) {
	all := []ClockReading{{Host: "this machine"}}
	if f.Store != nil {
		all = append(all, f.Store.Clocks...)
	}
	if f.Queue != nil {
		all = append(all, f.Queue.Clocks...)
	}
	all = slices.DeleteFunc(all, func(c ClockReading) bool { return c.Err != nil })
	if len(all) < 2 {
		return nil
	}
	offsets := make([]time.Duration, len(all))
	for i, c := range all {
		offsets[i] = c.Offset
	}
	slices.Sort(offsets)
	middle := offsets[len(offsets)/2]
	widest := time.Duration(0)
	for i, c := range all {
		off := c.Offset - middle
		sure := max(off.Abs()-c.Margin, 0) // the difference is at least that
		widest = max(widest, sure)
		what := fmt.Sprintf("the clock of %s is %v from that in the middle of %d", c.Host, off.Round(time.Millisecond), len(all))
		do := "set it by NTP (chronyc tracking), the same sources on every machine"
		switch {
		case sure <= clockWarning:
		case i == 0:
			fs.add(Warning, "clocks", what, "a node on this machine is not ready beyond 1 s: it dispatches nothing and refuses writes", do)
		case sure <= schema.MaxClockOffset:
			fs.add(Warning, "clocks", what, "beyond 1 s it votes against right nodes", do)
		default:
			fs.add(Error, "clocks", what, "it votes against nodes that are right, and rows that a wrong Cassandra expires go at the wrong time", do)
		}
	}
	if len(fs) == 0 {
		fs.ok("clocks", "%d clocks agree within %v", len(all), (widest + time.Millisecond).Round(time.Millisecond))
	}
	return fs
}
