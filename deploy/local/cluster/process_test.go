package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/netns"
)

func TestParseStat(t *testing.T) {
	// The fields after the name: state, 16 of no interest, number of threads, one more, start time,
	// and the rest.
	fields := func(state, threads string) string {
		return state + " 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 " + threads + " 0 4242 1000 10"
	}
	after := func(state string) string { return fields(state, "1") }
	for _, c := range []struct {
		name, stat string
		state      State
		fault      bool
	}{
		{name: "sleeping", stat: "7 (java) " + after("S"), state: Running},
		{name: "stopped by a signal", stat: "7 (java) " + after("T"), state: Frozen},
		{name: "zombie", stat: "7 (java) " + after("Z"), state: Stopped},
		{name: "zombie whose threads are still ending", stat: "7 (java) " + fields("Z", "38"), state: Running},
		{name: "name with blanks and parentheses", stat: "7 (a) Z 1 (b)) " + after("R"), state: Running},
		{name: "cut off", stat: "7 (java) S 1 1", fault: true},
		{name: "no name", stat: after("S"), fault: true},
		{name: "empty", fault: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, started, err := parseStat(c.stat)
			if c.fault {
				if err == nil {
					t.Fatalf("parseStat(%q): no error", c.stat)
				}
				return
			}
			if err != nil || state != c.state || started != 4242 {
				t.Errorf("parseStat(%q) = %v, %d, %v; want %v, 4242, nil", c.stat, state, started, err, c.state)
			}
		})
	}
}

// startSleeper starts a shell that runs script and returns its identity, once it has written
// "ready" to its log.
func startSleeper(t *testing.T, script string) identity {
	t.Helper()
	id, _ := startLogged(t, script)
	return id
}

// startLogged is startSleeper that also returns the path of the log.
func startLogged(t *testing.T, script string) (identity, string) {
	t.Helper()
	l := newLauncher(false)
	t.Cleanup(l.close)
	dir := t.TempDir()
	logFile := filepath.Join(dir, logName)
	id, err := l.start(dir, logFile, []string{"/bin/sh", "-c", script})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := id.kill(context.Background()); err != nil {
			t.Errorf("kill: %v", err)
		}
	})
	err = poll(t.Context(), func() (bool, error) { return strings.Contains(logTail(logFile), "ready"), nil })
	if err != nil {
		t.Fatalf("wait for the script: %v", err)
	}
	return id, logFile
}

const obedient = "echo ready; exec sleep 1000"

func TestSignalNeverHitsAStranger(t *testing.T) {
	id := startSleeper(t, obedient)
	for name, other := range map[string]identity{
		"same pid, started at another time": {id.PID, id.Started - 1, id.Boot},
		"same pid and time, another boot":   {id.PID, id.Started, "another"},
	} {
		if state := other.state(); state != Stopped {
			t.Errorf("%s: state() = %v, want stopped", name, state)
		}
		if err := other.signal(syscall.SIGKILL); !errors.Is(err, errGone) {
			t.Errorf("%s: signal: %v, want errGone", name, err)
		}
		if err := other.kill(t.Context()); err != nil {
			t.Errorf("%s: kill: %v, want nil: what is meant is gone", name, err)
		}
	}
	if state := id.state(); state != Running {
		t.Fatalf("the process itself is %v after all that, want running", state)
	}
	if err := id.kill(t.Context()); err != nil || id.state() != Stopped {
		t.Errorf("kill of the process itself: %v, then %v; want nil, stopped", err, id.state())
	}
}

func TestStop(t *testing.T) {
	const polite = `trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done`
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("by SIGTERM, frozen %t", frozen), func(t *testing.T) {
			id, logFile := startLogged(t, polite)
			if frozen {
				if err := id.signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := id.stop(t.Context(), 10*time.Second); err != nil || id.state() != Stopped {
				t.Errorf("stop: %v, then %v", err, id.state())
			}
			if !strings.Contains(logTail(logFile), "asked") {
				t.Error("it was killed before it could stop by itself")
			}
		})
	}
	t.Run("by SIGKILL when it does not listen", func(t *testing.T) {
		id := startSleeper(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
		if err := id.stop(t.Context(), 50*time.Millisecond); err != nil || id.state() != Stopped {
			t.Errorf("stop: %v, then %v", err, id.state())
		}
	})
	t.Run("gone already", func(t *testing.T) {
		id := startSleeper(t, obedient)
		for range 2 {
			if err := id.stop(t.Context(), time.Minute); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
	})
}

// parentEnv makes the test program a parent that starts a process and waits to be killed; its value
// is "attached", "detached", or "cluster" for the servers of a test.
const parentEnv = "CARILLON_TEST_PARENT"

// parent is the main function of such a parent.
func parent(mode string) {
	dir := os.Getenv(parentEnv + "_DIR")
	if mode == "cluster" || mode == "namespaces" {
		spec := Spec{NATS: 1, Namespaces: mode == "namespaces"}
		if _, err := Up(context.Background(), Options{Dir: dir, Attached: true}, spec); err != nil {
			panic(err)
		}
		fmt.Println("up")
		select {} // until killed
	}
	if _, err := newLauncher(mode == "detached").start(dir, filepath.Join(dir, logName), []string{"/bin/sh", "-c", obedient}); err != nil {
		panic(err)
	}
	select {} // until killed
}

// TestDeathOfTheParent kills a program that has started a process, so that it can clean up nothing:
// with SIGKILL, and with SIGTERM as a time-out does, which no test handles.
func TestDeathOfTheParent(t *testing.T) {
	for _, c := range []struct {
		mode string
		sig  syscall.Signal
		want State
	}{
		{"attached", syscall.SIGKILL, Stopped},
		{"attached", syscall.SIGTERM, Stopped},
		{"detached", syscall.SIGKILL, Running},
		{"detached", syscall.SIGTERM, Running},
	} {
		t.Run(fmt.Sprintf("%s, %v", c.mode, c.sig), func(t *testing.T) {
			dir := t.TempDir()
			parent := exec.CommandContext(t.Context(), os.Args[0])
			parent.Env = append(os.Environ(), parentEnv+"="+c.mode, parentEnv+"_DIR="+dir)
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			var id identity
			err := poll(t.Context(), func() (ok bool, err error) {
				id, ok, err = readIdentity(dir)
				return ok, err
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := id.kill(context.Background()); err != nil {
					t.Errorf("kill: %v", err)
				}
			})
			if state := id.state(); state != Running {
				t.Fatalf("before the death of the parent: %v, want running", state)
			}
			if err := parent.Process.Signal(c.sig); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // killed, as asked
			if c.want == Stopped {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if err := id.waitStopped(ctx); err != nil {
					t.Errorf("wait for the death of the child: %v", err)
				}
				return
			}
			if state := id.state(); state != Running {
				t.Errorf("after the death of the parent: %v, want running", state)
			}
		})
	}
}

// TestServersDoNotOutliveTheirTests: a test program that is told to go leaves no server behind,
// though none of its cleanups runs. It leaves its network namespaces, which the next start removes.
func TestServersDoNotOutliveTheirTests(t *testing.T) {
	t.Run("on the loopback", func(t *testing.T) { killProgram(t, "cluster") })
	t.Run("in namespaces", func(t *testing.T) {
		if err := NamespacesAvailable(); err != nil {
			t.Skipf("LEFT OUT: %s needs network namespaces: %v", t.Name(), err)
		}
		left := int(killProgram(t, "namespaces").plan.Block)
		next, err := Up(t.Context(), Options{Dir: t.TempDir(), Attached: true}, Spec{NATS: 1, Namespaces: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Close(context.Background()); err != nil {
			t.Error(err)
		}
		numbers, err := netns.Leftover(t.Context())
		if err != nil || slices.Contains(numbers, left) {
			t.Errorf("after the next start: Leftover = %d, %v, want nothing of %d", numbers, err, left)
		}
	})
}

// killProgram ends a program that holds a cluster with one NATS server, and waits until the server
// has gone. It returns the cluster.
func killProgram(t *testing.T, mode string) *Cluster {
	t.Helper()
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+mode, parentEnv+"_DIR="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("the program with a cluster says %q, %v; want up", line, err)
	}
	c, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	server, state := c.process(member{kindNATS, 1})
	t.Cleanup(func() {
		if err := server.kill(context.Background()); err != nil {
			t.Errorf("kill: %v", err)
		}
	})
	if state != Running {
		t.Fatalf("before the program is told to go its server is %v, want running", state)
	}
	if err := parent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as asked
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := server.waitStopped(ctx); err != nil {
		t.Errorf("wait for the end of the server: %v", err)
	}
	return c
}

func TestReadIdentity(t *testing.T) {
	dir := t.TempDir()
	if _, ok, err := readIdentity(dir); ok || err != nil {
		t.Errorf("readIdentity without a file: %t, %v; want false, nil", ok, err)
	}
	want := identity{PID: 4, Started: 5, Boot: "b"}
	if err := writeIdentity(dir, want); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := readIdentity(dir); !ok || err != nil || got != want {
		t.Errorf("readIdentity = %v, %t, %v; want %v, true, nil", got, ok, err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, pidFile), []byte(strconv.Itoa(4)+"?"), 0o600); err != nil {
		t.Fatal(err)
	}
	var syntax *json.SyntaxError
	if _, _, err := readIdentity(dir); !errors.As(err, &syntax) {
		t.Errorf("readIdentity of a broken file: %v, want a syntax error", err)
	}
}

// TestLock: the lock waits for its holder, gives up with the context, and is free after unlock.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ended, path); !errors.Is(err, context.Canceled) {
		t.Errorf("lock of a held one, context ended: %v, want context.Canceled", err)
	}
	unlock()
	again, err := lock(ended, path)
	if err != nil {
		t.Fatalf("lock of a free one: %v", err)
	}
	again()
}
