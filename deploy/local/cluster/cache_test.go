package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCheckSums(t *testing.T) {
	const ( // SHA-256 of "a" and of "b"
		sumA = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
		sumB = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"
	)
	for _, c := range []struct {
		name, sums string
		faults     []string
	}{
		{"as listed", sumA + "  a.jar\n" + sumB + "  b.jar\n", nil},
		{"one changed", sumA + "  a.jar\n" + sumA + "  b.jar\n", []string{"jar b.jar has the sum " + sumB}},
		{"one missing", sumA + "  a.jar\n" + sumB + "  b.jar\n" + sumB + "  c.jar\n", []string{"jar c.jar is missing"}},
		{"one not listed", sumA + "  a.jar\n", []string{"jar b.jar is not in the list"}},
		{"two faults", sumB + "  a.jar\n", []string{"jar a.jar has", "jar b.jar is not"}},
		{"broken list", sumA + " a.jar\n", []string{"unreadable line"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, jar := range []string{"a", "b"} {
				if err := os.WriteFile(filepath.Join(dir, jar+".jar"), []byte(jar), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := checkSums(dir, c.sums)
			if (err == nil) != (len(c.faults) == 0) {
				t.Fatalf("checkSums = %v, want faults %q", err, c.faults)
			}
			for _, fault := range c.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("checkSums = %v, want %q in it", err, fault)
				}
			}
		})
	}
}

// TestCommittedSums: the list in the repository is in the format that is read, in order, and has
// Cassandra in it.
func TestCommittedSums(t *testing.T) {
	err := checkSums(t.TempDir(), jarSums)
	if err == nil || !strings.Contains(err.Error(), "jar cassandra-all-5.0.6.jar is missing") || strings.Contains(err.Error(), "unreadable") {
		t.Errorf("checkSums of an empty folder = %v, want every jar missing", err)
	}
}

func TestPartIsMadeOnce(t *testing.T) {
	c := &cache{dir: t.TempDir(), say: func(string) {}}
	var made atomic.Int32
	build := func(path string) error {
		made.Add(1)
		return os.WriteFile(path, []byte("whole"), 0o600)
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			path, err := c.part(context.Background(), "thing", build)
			if err != nil {
				t.Errorf("part: %v", err)
				return
			}
			if text, err := os.ReadFile(path); string(text) != "whole" {
				t.Errorf("part holds %q (%v), want all of it", text, err)
			}
		})
	}
	wait.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times, want once", made.Load())
	}
}

func TestPartThatFailsLeavesNothing(t *testing.T) {
	c := &cache{dir: t.TempDir(), say: func(string) {}}
	broken := errors.New("broken")
	_, err := c.part(t.Context(), "thing", func(path string) error {
		return errors.Join(os.WriteFile(path, []byte("half"), 0o600), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatalf("part: %v, want the builder's error", err)
	}
	left, err := filepath.Glob(filepath.Join(c.dir, "thing*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || filepath.Base(left[0]) != "thing.lock" {
		t.Errorf("left behind: %q, want the lock only", left)
	}
}

func TestJavaMajor(t *testing.T) {
	for out, want := range map[string]int{
		`openjdk version "17.0.15" 2025-04-15`:                                         17,
		`java version "1.8.0_392"`:                                                     8,
		`openjdk version "21" 2023-09-19`:                                              21,
		`openjdk version "22-ea" 2024-03-19`:                                           22,
		`Picked up JAVA_TOOL_OPTIONS: -Dversion=1` + "\n" + `openjdk version "11.0.2"`: 11,
	} {
		if got, err := javaMajor(out); err != nil || got != want {
			t.Errorf("javaMajor(%q) = %d, %v; want %d", out, got, err, want)
		}
	}
	if _, err := javaMajor("command not found"); err == nil {
		t.Error("javaMajor of something else: no error")
	}
}

// A quietTB notes how a test would have ended.
type quietTB struct {
	testing.TB
	skipped, failed string
}

func (q *quietTB) Helper()                           {}
func (q *quietTB) Skipf(format string, args ...any)  { q.skipped = fmt.Sprintf(format, args...) }
func (q *quietTB) Fatalf(format string, args ...any) { q.failed = fmt.Sprintf(format, args...) }

func TestRequireWithoutJava(t *testing.T) {
	t.Setenv("JAVA_HOME", t.TempDir())
	if err := Available(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no Java by JAVA_HOME") {
		t.Errorf("Available() = %v, want ErrUnavailable that says why", err)
	}
	t.Run("by hand", func(t *testing.T) {
		t.Setenv("CI", "")
		q := &quietTB{TB: t}
		Require(q)
		if !strings.HasPrefix(q.skipped, "LEFT OUT: ") || q.failed != "" {
			t.Errorf("Require: skipped %q, failed %q; want a loud skip", q.skipped, q.failed)
		}
	})
	t.Run("in CI", func(t *testing.T) {
		t.Setenv("CI", "true")
		q := &quietTB{TB: t}
		Require(q)
		if q.failed == "" {
			t.Errorf("Require: skipped %q, failed %q; want a failure", q.skipped, q.failed)
		}
	})
}

func TestOldJavaIsRefused(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n"
	if err := os.WriteFile(filepath.Join(home, "bin", "java"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JAVA_HOME", home)
	if err := Available(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "is Java 11, and 17 or later") {
		t.Errorf("Available() = %v, want that Java 11 is too old", err)
	}
}

func TestBlocksDoNotMeet(t *testing.T) {
	spec := Spec{NATS: 1}
	first, release, err := reserveBlock(t.Context(), 50, spec)
	if err != nil {
		t.Fatal(err)
	}
	second, releaseSecond, err := reserveBlock(t.Context(), first, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer releaseSecond()
	if second == first {
		t.Errorf("claimed block %d twice", first)
	}
	release()

	// What listens on an address of a third member is in the way of a cluster of one, too.
	l, err := listen(t.Context(), first.addr(3, natsPort))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := first.reserve(t.Context(), spec); !errors.Is(err, errBusy) {
		t.Errorf("claim of a block in use: %v, want errBusy", err)
	}
	if _, release, err := reserveBlock(t.Context(), lastBlock+1, spec); err == nil {
		release()
		t.Error("claimBlock past the last: no error")
	}
}

// rowsFrame is the body of a RESULT of one text column and two rows: "ab", null.
func rowsFrame() []byte {
	var b []byte
	number := func(n int32) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	number(resultRows)
	number(flagGlobalTable)
	number(1)
	b = appendString(appendString(appendString(b, "ks"), "t"), "c")
	b = binary.BigEndian.AppendUint16(b, 0x000D)
	number(2)
	number(2)
	b = append(b, "ab"...)
	number(-1)
	return b
}

func TestParseRows(t *testing.T) {
	whole := rowsFrame()
	rows, _, err := parseRows(bytes.Clone(whole))
	if err != nil || len(rows) != 2 || string(rows[0][0]) != "ab" || rows[1][0] != nil {
		t.Fatalf("parseRows = %q, %v; want ab and null", rows, err)
	}
	for n := range whole {
		if _, _, err := parseRows(whole[:n]); !errors.Is(err, errShortFrame) {
			t.Errorf("parseRows of the first %d bytes of %d: %v, want errShortFrame", n, len(whole), err)
		}
	}
}

func FuzzParseRows(f *testing.F) {
	f.Add(rowsFrame())
	f.Fuzz(func(_ *testing.T, body []byte) {
		_, _, _ = parseRows(body) // must end, without a panic
	})
}

// TestFetchingIsAnnounced: the very first start takes minutes. The user is told why, and what it
// needs, before it begins.
func TestFetchingIsAnnounced(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "mvn"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	var said []string
	c := &cache{dir: t.TempDir(), say: func(line string) { said = append(said, line) }}
	if _, err := c.jars(t.Context()); err == nil {
		t.Fatal("jars with a Maven that fails: no error")
	}
	if want := "this happens once, may take minutes, and needs Maven and Java 17 or later"; len(said) != 1 || !strings.Contains(said[0], want) {
		t.Errorf("jars that are not there said %q, want %q", said, want)
	}
}
