package trace

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"carillon.dev/carillon/schema"
)

// randomBits is how many bits of a trace id count as random: its last ones (W3C Trace Context,
// level 2).
const randomBits = 56

// Sampler decides which traces are sampled. It goes by their ids alone, so all nodes come to the
// same verdict. The zero Sampler is always_off.
type Sampler struct {
	// odds is how many of the 2⁵⁶ ids are sampled.
	odds uint64
	// on: what is not sampled is sent nevertheless where it matters: failed, late, retried.
	on bool
	// asksParent: a trace that others have begun is sampled if they sampled it.
	asksParent bool
}

// ParseSampler returns the sampler of that name with its argument, as OTEL_TRACES_SAMPLER and
// OTEL_TRACES_SAMPLER_ARG say them: always_on, always_off, traceidratio, each also after
// "parentbased_". "" is parentbased_always_on. A run is never part of a trace that others have
// begun, so to runs parentbased makes no difference.
func ParseSampler(name, arg string) (Sampler, error) {
	name, arg = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(arg)
	if name == "" {
		name = "parentbased_always_on"
	}
	kind, asksParent := strings.CutPrefix(name, "parentbased_")
	s := Sampler{asksParent: asksParent}
	switch kind {
	case "always_off":
	case "always_on":
		s.on, s.odds = true, 1<<randomBits
	case "traceidratio":
		ratio := 1.0
		if arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				return Sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is not a number from 0 to 1", arg)
			}
		}
		s.on, s.odds = true, uint64(ratio*(1<<randomBits))
	default:
		return Sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is none of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio", name)
	}
	return s, nil
}

// Samples reports whether the trace of that id is sampled.
func (s Sampler) Samples(id [16]byte) bool {
	random := binary.BigEndian.Uint64(id[8:]) & (1<<randomBits - 1)
	return random >= 1<<randomBits-s.odds
}

// SamplesRequest is Samples for a request whose caller says that it sampled the trace, or that it
// did not; hasParent: it says something.
func (s Sampler) SamplesRequest(id [16]byte, hasParent, parentSampled bool) bool {
	if s.asksParent && hasParent {
		return parentSampled
	}
	return s.Samples(id)
}

// SamplesRun reports whether the run that e starts is sampled. For a step of a workflow, that is
// whether the run of the workflow is.
func (s Sampler) SamplesRun(e *schema.Entry) bool {
	if e.Spec.Step != nil {
		return s.Samples(e.Spec.Step.Workflow)
	}
	return s.Samples(e.Run())
}
