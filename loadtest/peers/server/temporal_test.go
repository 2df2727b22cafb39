package server

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestTemporalIsTunedByItsArguments(t *testing.T) {
	for _, row := range []struct {
		name          string
		cfg           TemporalConfig
		has, hasNot   string
		durability    string
		limitsAreFree bool
	}{
		{"tuned", TemporalConfig{Tuned: true}, "synchronous=full", "synchronous=normal", "acknowledged = on disk", true},
		{"relaxed", TemporalConfig{Tuned: true, Relaxed: true}, "synchronous=normal", "synchronous=full", "before it is on disk", true},
		{"as it comes", TemporalConfig{}, "--db-filename /x/t.db", "synchronous", "its defaults", false},
	} {
		got := strings.Join(row.cfg.arguments("/x/t.db", 7000), " ")
		if !strings.HasPrefix(got, "server start-dev --headless --ip 127.0.0.1 --port 7000 ") || !strings.Contains(got, row.has) || strings.Contains(got, row.hasNot) {
			t.Errorf("%s: arguments are %q, want %q in them and not %q", row.name, got, row.has, row.hasNot)
		}
		if free := strings.Contains(got, "history.rps=1000000"); free != row.limitsAreFree {
			t.Errorf("%s: arguments are %q, limits lifted: %t, want %t", row.name, got, free, row.limitsAreFree)
		}
		if d := TemporalDurability(row.cfg); !strings.Contains(d, row.durability) {
			t.Errorf("%s: durability is %q, want %q in it", row.name, d, row.durability)
		}
	}
}

func TestTemporalThatIsNotThereIsToldOf(t *testing.T) {
	_, err := StartTemporal(t.Context(), t.TempDir(), TemporalConfig{Program: "/none/temporal"})
	if err == nil || !strings.Contains(err.Error(), "make .local/bin/temporal") {
		t.Errorf("StartTemporal = %v, want how it is to be had", err)
	}
}

// TestTemporalStartsAndStops needs the program, which `make peers-workflows` builds.
func TestTemporalStartsAndStops(t *testing.T) {
	const program = "../../../.local/bin/temporal"
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("there is no", program)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := StartTemporal(ctx, t.TempDir(), TemporalConfig{Program: program, Tuned: true})
	if err != nil {
		if strings.Contains(err.Error(), "is in memory") {
			t.Skip(err)
		}
		t.Fatalf("StartTemporal: %v", err)
	}
	if v := s.Version(ctx); !strings.Contains(v, "Server 1.") {
		t.Errorf("version = %q, want that of its server", v)
	}
	if err := s.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v", err)
	}
}
