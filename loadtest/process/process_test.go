package process

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseCPU(t *testing.T) {
	const tail = " S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0"
	if got, err := parseCPU("42 (a b) c)" + tail); err != nil || got != 2*time.Second {
		t.Errorf("parseCPU = %s, %v, want 2s", got, err)
	}
	for _, bad := range []string{"", "42 (java)", "42 (java) S 1 2 3", "42 (x)" + strings.ReplaceAll(tail, "150", "many")} {
		if got, err := parseCPU(bad); err == nil {
			t.Errorf("parseCPU(%q) = %s, nil, want an error", bad, got)
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
