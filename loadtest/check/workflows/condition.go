package workflows

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// condition is the if of a step. state returns how a step before it stands: "succeeded", "failed" or
// "skipped"; "" if that is not known. known is false if the condition cannot be told yet.
type condition func(payload json.RawMessage, state func(step int) string) (holds, known bool)

var (
	ofInput = regexp.MustCompile(`^input\.(\w+) % (\d+) == (\d+)$`)
	ofState = regexp.MustCompile(`^steps\.(\w+)\.state == "(succeeded|failed|skipped)"$`)
)

// parseCondition reads an if. steps are those that stand before it, by name.
func parseCondition(text string, steps map[string]int) (condition, error) {
	if m := ofInput.FindStringSubmatch(text); m != nil {
		by, err := strconv.Atoi(m[2])
		rest, err2 := strconv.Atoi(m[3])
		if err != nil || err2 != nil || by == 0 {
			return nil, fmt.Errorf("if %q: no such numbers", text)
		}
		return func(payload json.RawMessage, _ func(int) string) (holds, known bool) {
			n, ok := number(payload, m[1])
			return n%by == rest, ok
		}, nil
	}
	if m := ofState.FindStringSubmatch(text); m != nil {
		step, ok := steps[m[1]]
		if !ok {
			return nil, fmt.Errorf("if %q: %q does not stand before it", text, m[1])
		}
		return func(_ json.RawMessage, state func(int) string) (holds, known bool) {
			is := state(step)
			return is == m[2], is != ""
		}, nil
	}
	return nil, fmt.Errorf("if %q is none that the judge can read", text)
}
