package measure

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const line = "77 (a b) c) S 42 77 77 0 -1 4194304 100 200 0 0 11 12 13 14 20 0 1 0 5 6 7"
	got, err := parseStat(line)
	want := stat{parent: 42, self: 230 * time.Millisecond, waited: 270 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("parseStat(%q) = %+v, %v, want %+v", line, got, err, want)
	}
	for _, bad := range []string{"", "77 (x) S 1", "77 (x) S 42 7 7 0 -1 4 1 2 0 0 one 12 13 14 20"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("parseStat(%q) = nil, want an error", bad)
		}
	}
}

func TestTreeCPUCountsProcessesThatRunAndThatRan(t *testing.T) {
	s := time.Second
	all := map[int]stat{
		1:  {parent: 0, self: 100 * s},
		10: {parent: 1, self: 1 * s, waited: 2 * s}, // the root: one child has ended
		11: {parent: 10, self: 4 * s},
		12: {parent: 11, self: 8 * s, waited: 16 * s},
		20: {parent: 1, self: 32 * s}, // somebody else
	}
	if got := treeCPU(all, 10); got != 31*s {
		t.Errorf("treeCPU(10) = %s, want 31s", got)
	}
	if got := treeCPU(all, 99); got != 0 {
		t.Errorf("treeCPU of a process that is not there = %s, want 0", got)
	}
}

func TestUsageFindsTheChildrenOfAServer(t *testing.T) {
	// The shell's child burns time and ends, so that its time is found as that which the shell has waited for.
	cmd := exec.Command("sh", "-c", `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo; read x`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("LEFT OUT: no shell: %v", err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	used, err := usage(map[string]int{"server": cmd.Process.Pid})
	if err != nil {
		t.Fatalf("usage: %v", err)
	}
	if used["server"] < 20*time.Millisecond {
		t.Errorf("server used %s, want at least 20ms", used["server"])
	}
	if _, ok := used["client"]; !ok || len(used) != 2 {
		t.Errorf("usage = %v, want server and client (pid %d)", used, os.Getpid())
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // read fails at the end of its input
}
