package clockcheck

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// reading is what is known of the clock of one host.
type reading struct {
	host   string        // "" = ours
	offset time.Duration // by which our clock is ahead of it, give or take …
	margin time.Duration // … half of the time that the answer took
	silent bool          // it did not answer: nothing is known

	unresolved bool // host is a name, and may be one of the others
}

// vote is what a reading says of our clock.
type vote string

const (
	agree  vote = "agree"
	differ vote = "differ"
	silent vote = "silent"
)

var votes = []vote{agree, differ, silent}

// vote returns what r says. A reading that is too coarse to tell counts as none.
func (r reading) vote() vote {
	switch {
	case r.host == "":
		return agree
	case r.silent:
		return silent
	case r.offset.Abs()+r.margin <= schema.MaxClockOffset:
		return agree
	case r.offset.Abs()-r.margin > schema.MaxClockOffset:
		return differ
	}
	return silent
}

// verdict is what the votes of all hosts come to.
type verdict int

const (
	undecided verdict = iota
	unchecked
	right
	off
)

// judgement is a verdict with its reasons.
type judgement struct {
	verdict verdict
	count   map[vote]int
	offset  time.Duration // the median of those that answered; 0 if none did
	against []string      // hosts that differ, in order

	unresolved []string // names that count as hosts since they cannot be resolved, in order
}

// judge applies the rule of the package's comment to one reading for each host.
func judge(readings []reading) judgement {
	j := judgement{count: make(map[vote]int)}
	var offsets []time.Duration
	others := 0
	for _, r := range readings {
		v := r.vote()
		j.count[v]++
		if r.host == "" {
			continue
		}
		others++
		if r.unresolved {
			j.unresolved = append(j.unresolved, r.host)
		}
		if v == differ {
			j.against = append(j.against, r.host)
		}
		if !r.silent {
			offsets = append(offsets, r.offset)
		}
	}
	slices.Sort(j.against)
	slices.Sort(j.unresolved)
	if len(offsets) > 0 {
		slices.Sort(offsets)
		j.offset = offsets[len(offsets)/2]
	}
	switch hosts := len(readings); {
	case others == 0:
		j.verdict = unchecked
	case 2*j.count[agree] > hosts:
		j.verdict = right
	case 2*(j.count[agree]+j.count[silent]) <= hosts:
		j.verdict = off
	}
	return j
}

// String says how the hosts voted.
func (j judgement) String() string {
	hosts := j.count[agree] + j.count[differ] + j.count[silent]
	switch {
	case j.verdict == unchecked:
		return "unchecked: no other host has a clock to compare with"
	case 2*j.count[agree] > hosts:
		return fmt.Sprintf("%d of %d hosts agree", j.count[agree], hosts)
	case 2*j.count[differ] > hosts:
		return fmt.Sprintf("the clock is off by %v: %d of %d hosts say so (%s)",
			j.offset.Round(time.Millisecond), j.count[differ], hosts, strings.Join(j.against, ", "))
	}
	text := fmt.Sprintf("no majority: %d of %d hosts agree with the clock of this node within %v",
		j.count[agree], hosts, schema.MaxClockOffset)
	if n := j.count[silent]; n > 0 {
		text += fmt.Sprintf(", %d did not answer", n)
	}
	if len(j.against) > 0 {
		text += fmt.Sprintf(", %d differ (%s)", len(j.against), strings.Join(j.against, ", "))
	}
	if len(j.unresolved) > 0 {
		text += fmt.Sprintf("; cannot be resolved, and count as hosts of their own: %s", strings.Join(j.unresolved, ", "))
	}
	return text
}
