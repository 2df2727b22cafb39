package netns

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// helperEnv makes the test program a server or a client in a namespace, for TestCutAndHeal.
const helperEnv = "CARILLON_NETNS_HELPER"

func TestMain(m *testing.M) {
	act, addr, _ := strings.Cut(os.Getenv(helperEnv), " ")
	switch act {
	case "serve":
		os.Exit(serve(addr))
	case "dial":
		os.Exit(dial(addr))
	}
	goleak.VerifyTestMain(m)
}

// serve answers connections until its input ends.
func serve(addr string) int {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	fmt.Println("serving")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

const dialLimit = 700 * time.Millisecond

func dial(addr string) int {
	conn, err := net.DialTimeout("tcp", addr, dialLimit)
	if err != nil {
		return 1
	}
	_ = conn.Close()
	return 0
}

func TestNamesFitAndAreFound(t *testing.T) {
	n := New(MaxNumber)
	for _, name := range []string{n.bridge(), n.cable(254)} {
		if len(name) > 15 {
			t.Errorf("link %q has %d characters, the kernel takes 15", name, len(name))
		}
	}
	found := names{
		links:      []string{"lo", "eth0", "carillon3", "crl3v11", "crl12v101", "carillonX", "carillon9999"},
		namespaces: []string{"carillon12-nats-1", "carillon3-cassandra-1", "mine"},
	}
	if got, want := found.numbers(), []int{3, 12}; !slices.Equal(got, want) {
		t.Errorf("numbers = %d, want %d", got, want)
	}
	var got []string
	for _, argv := range New(3).removeCommands(found) {
		got = append(got, strings.Join(argv, " "))
	}
	want := []string{"ip link delete crl3v11", "ip netns delete carillon3-cassandra-1", "ip link delete carillon3"}
	if !slices.Equal(got, want) {
		t.Errorf("removeCommands = %q, want %q: nothing of others", got, want)
	}
}

func TestOnlyMembersAreCut(t *testing.T) {
	n := New(7)
	for _, from := range []string{"10.77.7.1", "10.77.8.11", "8.8.8.8", "all", "10.77.7.11 }"} {
		if err := n.Cut(t.Context(), "x", from); err == nil || !strings.Contains(err.Error(), "address "+from) {
			t.Errorf("Cut from %s = %v, want it refused", from, err)
		}
	}
}

// free returns a network that nobody uses, and keeps others from removing it as a leftover.
func free(t *testing.T) Network {
	t.Helper()
	if err := Available(); err != nil {
		if os.Getenv("CI") == "true" && os.Geteuid() == 0 {
			t.Fatalf("network namespaces are required where CI=true: %v", err)
		}
		t.Skipf("LEFT OUT: %s needs network namespaces: %v", t.Name(), err)
	}
	for number := MaxNumber; number > MaxNumber-20; number-- {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.%d.1:7199", number))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = ln.Close() })
		return New(number)
	}
	t.Fatal("no free network")
	return Network{}
}

func TestCutAndHeal(t *testing.T) {
	n := free(t)
	ctx := t.Context()
	if err := n.Remove(ctx); err != nil { // of a test that was killed
		t.Fatal(err)
	}
	if err := n.Make(ctx, []Member{{"a", 11}, {"b", 12}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Remove(context.Background()); err != nil {
			t.Error(err)
		}
		if left, err := Leftover(context.Background()); err != nil || slices.Contains(left, n.number) {
			t.Errorf("after Remove Leftover = %d, %v, want nothing of %d", left, err, n.number)
		}
	})
	addr := n.IP(12) + ":9000"
	startServer(t, n, addr)
	reaches := func(what string, want bool) {
		t.Helper()
		if got := dialFrom(t, n, addr); got != want {
			t.Errorf("%s: a reaches b = %t, want %t", what, got, want)
		}
		if dial(addr) != 0 {
			t.Errorf("%s: this program does not reach b", what)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	reaches("at first", true)
	do(n.Cut(ctx, "b", n.IP(11)))
	do(n.Cut(ctx, "b", n.IP(11))) // again: no error
	reaches("what a sends is cut", false)
	do(n.Heal(ctx, "b", n.IP(11)))
	do(n.Heal(ctx, "b", n.IP(11)))
	reaches("healed", true)
	do(n.Cut(ctx, "a", n.IP(12)))
	reaches("what b sends is cut", false)
	for _, member := range []string{"a", "b"} {
		if dropped, err := n.Dropped(ctx, member); err != nil || dropped == 0 {
			t.Errorf("Dropped(%s) = %d, %v, want some packets", member, dropped, err)
		}
	}
}

func startServer(t *testing.T, n Network, addr string) {
	t.Helper()
	cmd := helper(t, n, "b", "serve "+addr)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	line := make([]byte, 64)
	if got, err := out.Read(line); err != nil || string(line[:got]) != "serving\n" {
		t.Fatalf("server says %q, %v", line[:got], err)
	}
}

func dialFrom(t *testing.T, n Network, addr string) bool {
	t.Helper()
	return helper(t, n, "a", "dial "+addr).Run() == nil
}

func helper(t *testing.T, n Network, member, act string) *exec.Cmd {
	t.Helper()
	argv := n.Argv(member, []string{os.Args[0]})
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), helperEnv+"="+act)
	return cmd
}
