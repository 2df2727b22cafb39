package cli

import (
	"testing"
	"time"
)

// Dates and words are days of the time zone of now, also where a day has 25 hours.
func TestInstant(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 25, 22, 0, 0, 0, berlin) // clocks were put back at 03:00
	for text, want := range map[string]string{
		"-10m":                      "2026-10-25T20:50:00Z",
		"0s":                        "2026-10-25T21:00:00Z",
		"-1d":                       "2026-10-24T20:00:00Z",
		"+40d":                      "2026-12-04T21:00:00Z",
		"-99999d":                   "",
		"d":                         "",
		"1.5d":                      "",
		"today":                     "2026-10-24T22:00:00Z",
		"yesterday":                 "2026-10-23T22:00:00Z",
		"tomorrow":                  "2026-10-25T23:00:00Z",
		"2026-11-01":                "2026-10-31T23:00:00Z",
		"2026-11-21T10:00:00+01:00": "2026-11-21T09:00:00Z",
		"2026-11-21T10:00:00.5Z":    "2026-11-21T10:00:00.5Z",
		"someday":                   "",
		"2026-02-30":                "",
		"2026-11-21T10:00:00":       "",
		"":                          "",
	} {
		got, err := Instant("from", text, now)
		if (err != nil) != (want == "") || err == nil && got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("Instant(%q) = %v, %v; want %q", text, got.UTC(), err, want)
		}
	}
}
