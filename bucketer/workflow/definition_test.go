package workflow

import (
	"errors"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestStoredFormIsStable: what is stored is what the API takes, and stays the same bytes.
func TestStoredFormIsStable(t *testing.T) {
	compact := string(appendCompact(nil, []byte(etl)))
	for name, text := range map[string]string{
		"the example":   compact,
		"every field":   `{"steps":[{"name":"a","task":"t","payload":{"x":"<&>"},"priority":"low","deadline":"1h0m0s"},{"name":"b","after":["a"],"when":"all_done","if":"true","nats":{"subject":"s"},"retry":{"max_attempts":2},"guarantee":"at_most_once","for_each":{"items":[1,"<",null],"max_concurrent":2}}]}`,
		"no items":      `{"steps":[{"name":"a","task":"t","for_each":{"items":[]}}]}`,
		"all of input":  `{"steps":[{"name":"a","workflow":"child","for_each":{"input":""}}]}`,
		"waits":         `{"steps":[{"name":"a","wait":{"for":"1m0s"}},{"name":"b","wait":{"until":"2026-11-21T09:30:00Z"}}]}`,
		"a script":      `{"steps":[{"name":"a","script":{"command":"c","args":["--x"]}}],"deadline":"24h0m0s"}`,
		"null payloads": `{"steps":[{"name":"a","task":"t","payload":null}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := mustDecode(t, text)
			if _, faults := Compile(d); len(faults) > 0 {
				t.Fatalf("Compile = %+v", faults)
			}
			got, err := Encode(d)
			if err != nil || string(got) != text {
				t.Errorf("Encode(Decode(%s)) = %s, %v", text, got, err)
			}
		})
	}
}

func TestWhatIsNotADefinitionIsNotUnderstood(t *testing.T) {
	for _, text := range []string{``, `null`, `[]`, `{"steps":{}}`, `{"deadline":5}`, `{"steps":[{"wait":{"for":"soon"}}]}`} {
		if d, err := Decode([]byte(text)); !errors.Is(err, schema.ErrNotUnderstood) {
			t.Errorf("Decode(%s) = %+v, %v; want ErrNotUnderstood", text, d, err)
		}
	}
}

func TestDue(t *testing.T) {
	for name, row := range map[string]struct {
		wait Wait
		want string // "" for an event
	}{
		"for":           {Wait{For: schema.Duration(90 * time.Second)}, "2026-11-21T09:31:30Z"},
		"less than ms":  {Wait{For: schema.Duration(time.Nanosecond)}, "2026-11-21T09:30:00.001Z"},
		"until":         {Wait{Until: "2026-11-21T11:00:00+01:00"}, "2026-11-21T10:00:00Z"},
		"until, past":   {Wait{Until: "2020-01-01T00:00:00.0000001Z"}, "2020-01-01T00:00:00.001Z"},
		"for an event":  {Wait{Event: "approved"}, ""},
		"with deadline": {Wait{Event: "approved", Deadline: schema.Duration(time.Hour)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			due, ok := row.wait.Due(testNow.In(time.FixedZone("x", 3600)))
			if got := due.Format(time.RFC3339Nano); ok != (row.want != "") || ok && got != row.want {
				t.Errorf("Due = %s, %v; want %q", got, ok, row.want)
			}
		})
	}
}

// TestNamesAreThoseOfTheAPI: the rule is bucketer.NameFault; package request compares the two.
func TestNamesAreThoseOfTheAPI(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "0-a_b.c": true, strings.Repeat("a", 63): true, "01a21c72-91fa-8011-ab7c-4d1e90a35f6": true,
		"": false, strings.Repeat("a", 64): false, "-a": false, ".a": false, "A": false, "a b": false, "a/b": false, "é": false, "a\n": false,
		"01a21c72-91fa-8011-ab7c-4d1e90a35f68": false,
	} {
		if got := nameFault(name) == ""; got != want {
			t.Errorf("nameFault(%q) says it is a name: %v, want %v", name, got, want)
		}
	}
}
