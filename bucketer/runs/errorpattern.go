package runs

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"carillon.dev/carillon/schema"
)

// MaxErrorPattern bounds an error's pattern, in characters, and errorLooked how much of the error's
// first line is looked at, in bytes.
const (
	MaxErrorPattern = 120
	errorLooked     = 1 << 10
)

// differs are the parts of errors that differ from one run to the next, by what stands for them, in
// the order in which they are replaced.
var differs = []struct {
	part *regexp.Regexp
	by   func(found string) string
}{
	{regexp.MustCompile(`(?i)\b[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}\b`), always("<id>")},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?`), always("<time>")},
	{regexp.MustCompile(`"(?:[^"\\]|\\.)*"`), always(`"…"`)},
	{regexp.MustCompile(`(?i)\b(?:0x)?[\da-f]{12,}\b`), hexadecimal},
	// A status of HTTP says something. Another number does not.
	{regexp.MustCompile(`(?i)(?:status|answered|HTTP/[\d.]+|HTTP|code)\s*:?\s*[1-5]\d\d\b|\d+(?:\.\d+)*`), numeral},
}

func always(text string) func(string) string { return func(string) string { return text } }

func hexadecimal(found string) string {
	if strings.ContainsFunc(found, unicode.IsDigit) {
		return "<hex>"
	}
	return found // a word
}

func numeral(found string) string {
	if len(found) == 1 || !unicode.IsDigit(rune(found[0])) {
		return found
	}
	return "<n>"
}

// maxSaid bounds what an error has of the answer that it is about, in characters.
const maxSaid = 200

// ErrorOf returns the error of a record as it is shown. Of an answer that says nothing but its
// status it has how the body begins, where that is text: which is what the callee has to say.
func ErrorOf(rec *schema.Record) string {
	if rec.Outcome != schema.Failed || rec.Status == 0 || rec.OutputBinary || !strings.HasPrefix(rec.Error, "answered ") || strings.ContainsAny(rec.Error, ":\n") {
		return rec.Error
	}
	said := strings.Join(strings.Fields(rec.Output), " ")
	if said == "" {
		return rec.Error
	}
	if runes := []rune(said); len(runes) > maxSaid {
		said = string(runes[:maxSaid-1]) + "…"
	}
	return rec.Error + ": " + said
}

// ErrorPattern returns what errors of one kind have in common: the first line of the error in the
// record of a dead letter, less what differs from one run to the next (ids, times, what stands in
// quotes, numbers that are no status), in at most MaxErrorPattern characters.
func ErrorPattern(rec *schema.Record) string {
	line, _, _ := strings.Cut(rec.Error, "\n")
	if len(line) > errorLooked {
		line = strings.ToValidUTF8(line[:errorLooked], "")
	}
	if strings.TrimSpace(line) == "" {
		switch {
		case rec.Status > 0:
			return "answered " + strconv.Itoa(rec.Status)
		case rec.Outcome == schema.TimedOut:
			return "timed out"
		case rec.Outcome == schema.Lost:
			return "lost with its executor"
		case rec.Outcome == "":
			return string(schema.Failed) // that it failed is all that is known
		}
		return string(rec.Outcome)
	}
	for _, d := range differs {
		line = d.part.ReplaceAllStringFunc(line, d.by)
	}
	line = strings.Join(strings.Fields(line), " ")
	if utf8.RuneCountInString(line) <= MaxErrorPattern {
		return line
	}
	return strings.TrimRight(string([]rune(line)[:MaxErrorPattern-1]), " ") + "…"
}

// patterns are those of records that were looked at together. When runs fail by the thousand, most
// errors are the same, and finding a pattern costs more than writing it down.
type patterns map[patternKey]string

type patternKey struct {
	text    string
	status  int
	outcome schema.Outcome
}

// of is ErrorPattern.
func (p patterns) of(rec *schema.Record) string {
	key := patternKey{rec.Error, rec.Status, rec.Outcome}
	pattern, ok := p[key]
	if !ok {
		pattern = ErrorPattern(rec)
		p[key] = pattern
	}
	return pattern
}
