package alerts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The places of a file of rules that say how long something is looked at: windows and offsets of
// expressions, and `for`.
var (
	windows = regexp.MustCompile(`\[(\d+)([smhd])\]`)
	offsets = regexp.MustCompile(`\boffset (\d+)([smhd])\b`)
	waits   = regexp.MustCompile(`(?m)^(\s+for: )(\d+)([smhd])$`)
)

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// Faster returns the text of a file of rules with every window, offset and `for` divided by a
// factor. A quotient must be whole seconds.
func Faster(text string, factor int) (string, error) {
	if factor < 1 {
		return "", fmt.Errorf("faster rules: the factor is %d, want at least 1", factor)
	}
	var fault error
	divide := func(number, unit string) string {
		n, err := strconv.Atoi(number)
		d := time.Duration(n) * units[unit] / time.Duration(factor)
		if fault == nil && (err != nil || d <= 0 || d%time.Second != 0) {
			fault = fmt.Errorf("faster rules: %s%s by %d is %v, want whole seconds", number, unit, factor, d)
		}
		return strconv.Itoa(int(d/time.Second)) + "s"
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "summary:") {
			out.WriteString(line) // for people
			continue
		}
		line = windows.ReplaceAllStringFunc(line, func(s string) string {
			m := windows.FindStringSubmatch(s)
			return "[" + divide(m[1], m[2]) + "]"
		})
		line = offsets.ReplaceAllStringFunc(line, func(s string) string {
			m := offsets.FindStringSubmatch(s)
			return "offset " + divide(m[1], m[2])
		})
		line = waits.ReplaceAllStringFunc(line, func(s string) string {
			m := waits.FindStringSubmatch(s)
			return m[1] + divide(m[2], m[3])
		})
		out.WriteString(line)
	}
	return out.String(), fault
}
