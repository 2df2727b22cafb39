package process

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseStat(t *testing.T) {
	const tail = " S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 20 0"
	if got, err := ParseStat("42 (a b) c)" + tail); err != nil || got != (Stat{1, 2 * time.Second, 270 * time.Millisecond}) {
		t.Errorf("ParseStat = %+v, %v, want 2s of its own, and 270 ms of what it waited for", got, err)
	}
	for _, bad := range []string{"", "42 (java)", "42 (java) S 1 2 3", "77 (x) S 42 7 7 0 -1 4 1 2 0 0 one 12 13 14 20", "42 (x)" + strings.ReplaceAll(tail, "150", "many")} {
		if got, err := ParseStat(bad); err == nil {
			t.Errorf("ParseStat(%q) = %+v, nil, want an error", bad, got)
		}
	}
	if got, err := CPU(os.Getpid()); err != nil || got < 0 {
		t.Errorf("CPU of this process = %s, %v", got, err)
	}
}

func TestParseResident(t *testing.T) {
	got, err := parseResident("Name:\tVmRSS: 7 kB\nVmHWM:\t  9000 kB\nVmRSS:\t   1536 kB\nRssAnon:\t 1 kB\n")
	if err != nil || got != 1536*1024 {
		t.Errorf("parseResident = %g, %v, want 1.5 MiB", got, err)
	}
	for _, bad := range []string{"", "Name:\tcarillon\nState:\tZ (zombie)\n", "VmRSS:\tmuch kB\n"} {
		if got, err := parseResident(bad); err == nil {
			t.Errorf("parseResident(%q) = %g, want an error", bad, got)
		}
	}
	if got, err := Resident(os.Getpid()); err != nil || got < 1<<20 {
		t.Errorf("Resident of this process = %g, %v, want a few MiB", got, err)
	}
}
