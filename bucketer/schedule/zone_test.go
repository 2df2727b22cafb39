package schedule

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"
)

// TestZonesAreWhatTheirDataSays compares the spans with the time package: at every change, and at
// random instants.
func TestZonesAreWhatTheirDataSays(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	if len(zoneNames) < 500 {
		t.Fatalf("there are %d zones, want more than 500", len(zoneNames))
	}
	for _, name := range zoneNames {
		if len(name) > maxZoneName {
			t.Errorf("zone %q: its name is longer than %d bytes", name, maxZoneName)
		}
		loc, ok := Location(name)
		z, known := zoneNamed(name)
		if !ok || !known {
			t.Fatalf("zone %q: location: %v, zoneNamed: %v, want both", name, ok, known)
		}
		offsetAt := func(instant int64) int64 {
			_, offset := time.Unix(instant, 0).In(loc).Zone()
			return int64(offset)
		}
		for i, s := range z.spans {
			if got := offsetAt(s.start); got != s.offset {
				t.Fatalf("zone %q: offset from %d on is %d, want %d", name, s.start, s.offset, got)
			}
			if i == 0 {
				continue
			}
			before := z.spans[i-1]
			if got := offsetAt(s.start - 1); got != before.offset {
				t.Fatalf("zone %q: offset until %d is %d, want %d", name, s.start, before.offset, got)
			}
			// What a gap leaves out and what an overlap has twice must not reach another change:
			// times are placed one by one.
			jump := max(s.offset-before.offset, before.offset-s.offset)
			if i > 1 && s.start-before.start <= 2*jump {
				t.Errorf("zone %q: a change of %d s at %d, %d s after the one before", name, jump, s.start, s.start-before.start)
			}
		}
		for range 50 {
			instant := rng.Int64N(horizonSeconds)
			if got, want := z.spans[z.spanAt(instant)].offset, offsetAt(instant); got != want {
				t.Fatalf("zone %q: offset at %d is %d, want %d", name, instant, got, want)
			}
		}
	}
}

// TestZonesComeFromTheEmbeddedData sets what the time package would prefer.
func TestZonesComeFromTheEmbeddedData(t *testing.T) {
	tokyo, err := read(zoneFiles()["Asia/Tokyo"])
	if err != nil {
		t.Fatalf("read Asia/Tokyo: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "Europe"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Europe", "Vienna"), tokyo, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZONEINFO", dir)
	if loc, err := time.LoadLocation("Europe/Vienna"); err != nil {
		t.Fatalf("LoadLocation: %v", err)
	} else if _, offset := time.Unix(0, 0).In(loc).Zone(); offset != 9*3600 {
		t.Fatalf("LoadLocation(Europe/Vienna) with ZONEINFO has the offset %d: the test shows nothing", offset)
	}
	z, ok := zoneNamed("Europe/Vienna")
	if !ok || z.spans[0].offset != 3600 {
		t.Errorf("zoneNamed(Europe/Vienna) with ZONEINFO = %+v, %v, want an offset of 3600 s in 1970", z.spans[0], ok)
	}
}

// TestZonesVersion compares version and data with those of the toolchain, if it has the same
// release.
func TestZonesVersion(t *testing.T) {
	t.Parallel()
	if !regexp.MustCompile(`^20[0-9]{2}[a-z]+$`).MatchString(ZonesVersion()) {
		t.Errorf("ZonesVersion() = %q, want one such as 2025c", ZonesVersion())
	}
	dir := filepath.Join(runtime.GOROOT(), "lib", "time") //nolint:staticcheck // the toolchain that runs the test is the one that is meant
	script, err := os.ReadFile(filepath.Join(dir, "update.bash"))
	if err != nil {
		t.Skipf("the toolchain's zone data is not here: %v", err)
	}
	release := regexp.MustCompile(`(?m)^DATA=(\S+)`).FindSubmatch(script)
	if len(release) != 2 {
		t.Skip("the toolchain does not say which release it has")
	}
	if string(release[1]) != ZonesVersion() {
		t.Skipf("the toolchain has %s, this package %s: see its comment for how to follow", release[1], ZonesVersion())
	}
	data, err := os.ReadFile(filepath.Join(dir, "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, []byte(zoneData)) {
		t.Errorf("the embedded data is not that of release %s", ZonesVersion())
	}
}
