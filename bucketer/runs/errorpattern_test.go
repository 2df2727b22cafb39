package runs

import (
	"strings"
	"testing"
	"unicode/utf8"

	"carillon.dev/carillon/schema"
)

func TestErrorPattern(t *testing.T) {
	together := make(patterns)
	for name, row := range map[string]struct {
		rec  schema.Record
		want string
	}{
		"a status":                  {schema.Record{Error: "answered 500 Internal Server Error"}, "answered 500 Internal Server Error"},
		"a status and a number":     {schema.Record{Error: "answered 404 Not Found: no order 81723"}, "answered 404 Not Found: no order <n>"},
		"an id":                     {schema.Record{Error: "order 0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60 is gone"}, "order <id> is gone"},
		"quotes, a host":            {schema.Record{Error: `Post "https://a.test/x?y=1": dial tcp 10.0.0.7:8080: connect: connection refused`}, `Post "…": dial tcp <n>:<n>: connect: connection refused`},
		"a time":                    {schema.Record{Error: "at 2026-11-26T10:00:00.123Z: late"}, "at <time>: late"},
		"a hash":                    {schema.Record{Error: "hash deadbeefdeadbeef00 differs"}, "hash <hex> differs"},
		"a word of letters a to f":  {schema.Record{Error: "deadbeefdeadbeef differs"}, "deadbeefdeadbeef differs"},
		"digits that say something": {schema.Record{Error: "step 3 of 5"}, "step 3 of 5"},
		"lines":                     {schema.Record{Error: "first\nsecond"}, "first"},
		"spaces":                    {schema.Record{Error: "  spaces   here "}, "spaces here"},
		"no error, timed out":       {schema.Record{Outcome: schema.TimedOut}, "timed out"},
		"no error, lost":            {schema.Record{Outcome: schema.Lost}, "lost with its executor"},
		"no error, a status":        {schema.Record{Outcome: schema.Failed, Status: 503, Error: " "}, "answered 503"},
		"nothing at all":            {schema.Record{}, "failed"},
	} {
		if got := ErrorPattern(&row.rec); got != row.want {
			t.Errorf("%s: ErrorPattern(%q) = %q, want %q", name, row.rec.Error, got, row.want)
		}
		for range 2 {
			if got := together.of(&row.rec); got != row.want {
				t.Errorf("%s: of %q beside others = %q, want %q", name, row.rec.Error, got, row.want)
			}
		}
	}
	for _, text := range []string{strings.Repeat("ä", 1<<20), strings.Repeat(`"`, 100_000), strings.Repeat("\xff", 5000)} {
		if got := ErrorPattern(&schema.Record{Error: text}); utf8.RuneCountInString(got) > MaxErrorPattern || !utf8.ValidString(got) && utf8.ValidString(text) {
			t.Errorf("ErrorPattern of %d bytes = %d characters, want at most %d, in UTF-8", len(text), utf8.RuneCountInString(got), MaxErrorPattern)
		}
	}
}
