package measure

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/process"
)

func TestTreeCPUCountsProcessesThatRunAndThatRan(t *testing.T) {
	s := time.Second
	all := map[int]process.Stat{
		1:  {Parent: 0, Self: 100 * s},
		10: {Parent: 1, Self: 1 * s, Waited: 2 * s}, // the root: one child has ended
		11: {Parent: 10, Self: 4 * s},
		12: {Parent: 11, Self: 8 * s, Waited: 16 * s},
		20: {Parent: 1, Self: 32 * s}, // somebody else
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
