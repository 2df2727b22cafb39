package wan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	// helperEnv makes the test program a server or a client in a region.
	helperEnv = "CARILLON_WAN_HELPER"
	// isolatedEnv says that the test program runs in a network namespace of its own, which stands
	// for the machine.
	isolatedEnv = "CARILLON_WAN_ISOLATED"
)

func TestMain(m *testing.M) {
	act, addr, _ := strings.Cut(os.Getenv(helperEnv), " ")
	switch act {
	case "serve":
		os.Exit(serveTCP(addr))
	case "dial":
		os.Exit(dialTCP(addr))
	}
	goleak.VerifyTestMain(m)
}

// serveTCP answers connections until its input ends.
func serveTCP(addr string) int {
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

// dialTCP connects to "addr limit" and prints how long it took.
func dialTCP(target string) int {
	addr, text, _ := strings.Cut(target, " ")
	limit, err := time.ParseDuration(text)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	begin := time.Now()
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return 1
	}
	fmt.Print(time.Since(begin))
	_ = conn.Close()
	return 0
}

// isolated reports whether the test runs on a machine of its own: a network namespace with a
// device "outside" to which its default route leads, and on which nothing else sends. If not, it
// runs the test again on one.
func isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolatedEnv) != "" {
		for _, argv := range [][]string{
			{"ip", "link", "set", "lo", "up"},
			{"ip", "link", "add", "outside", "type", "veth", "peer", "name", "world"},
			{"ip", "link", "set", "world", "up", "addrgenmode", "none"},
			{"ip", "link", "set", "outside", "arp", "off", "addrgenmode", "none"},
			{"ip", "address", "add", "192.0.2.9/24", "dev", "outside"},
			{"ip", "link", "set", "outside", "up"},
			{"ip", "route", "add", "default", "via", "192.0.2.1", "dev", "outside"},
		} {
			must(t, command(t, argv))
		}
		return true
	}
	if err := Available(); err != nil {
		if os.Getenv("CI") == "true" && os.Geteuid() == 0 {
			t.Fatalf("networks of regions are required where CI=true: %v", err)
		}
		t.Skipf("LEFT OUT: %s needs network namespaces: %v", t.Name(), err)
	}
	// The names of namespaces are those of the real machine, so the number must be free there, and
	// stay so.
	guard, err := listen(testNumber)
	if errors.Is(err, ErrTaken) {
		t.Skipf("LEFT OUT: %s: another program runs network %d", t.Name(), testNumber)
	}
	must(t, err)
	defer func() { _ = guard.Close() }()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("on a machine of its own: %v\n%s", err, out)
	}
	return false
}

// testNumber is the network of these tests.
const testNumber = MaxNumber

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, argv []string) error {
	_, err := run(t.Context(), argv)
	return err
}

// sent is how many packets have left the machine.
func sent(t *testing.T) int {
	t.Helper()
	text, err := run(t.Context(), []string{"ip", "-s", "link", "show", "outside"})
	must(t, err)
	_, after, found := strings.Cut(text, "TX:")
	lines := strings.Split(after, "\n")
	if !found || len(lines) < 2 || len(strings.Fields(lines[1])) < 2 {
		t.Fatalf("no count of sent packets in %q", text)
	}
	n, err := strconv.Atoi(strings.Fields(lines[1])[1]) // bytes, packets, …
	must(t, err)
	return n
}

// call sends a datagram to an address, as a client that outlived its region would.
func call(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "udp4", net.JoinHostPort(addr, "9042"))
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("anyone?"))
	return errors.Join(err, conn.Close())
}

func testSpec() Spec {
	return Spec{Number: testNumber, Regions: []Region{{"eu", []int{11, 12}}, {"us", []int{11}}}, Delay: 20 * ms}
}

// TestNoPacketLeavesTheMachine: neither before there are regions, nor while there are, nor after.
func TestNoPacketLeavesTheMachine(t *testing.T) {
	if !isolated(t) {
		return
	}
	ctx, spec := t.Context(), testSpec()
	us, nobody := IP(testNumber, 2, 11), IP(testNumber, 3, 11)
	must(t, call(ctx, us))
	unguarded := sent(t)
	if unguarded == 0 || Blackholed(ctx, us) == nil {
		t.Fatalf("without a blackhole %d packets left the machine: the test sees nothing", unguarded)
	}

	// A network whose first region cannot be made: it is blackholed all the same.
	must(t, command(t, []string{"ip", "link", "add", tapName(testNumber, 1), "type", "veth"}))
	if _, err := makeAll(ctx, spec); err == nil {
		t.Fatal("makeAll with a device of that name: no error")
	}
	must(t, command(t, []string{"ip", "link", "add", "occupied", "type", "veth", "peer", "name", "cable"}))
	must(t, command(t, []string{"ip", "link", "set", "occupied", "up"}))
	must(t, command(t, []string{"ip", "link", "set", "cable", "up"}))
	must(t, command(t, []string{"ip", "route", "add", "10.79.4.0/24", "dev", "occupied"}))
	if _, err := Start(ctx, spec); err == nil || !strings.Contains(err.Error(), "belong to another network") {
		t.Errorf("Start where the addresses are another's = %v, want it refused", err)
	}
	must(t, command(t, []string{"ip", "link", "delete", "occupied"}))

	w, err := Start(ctx, spec) // removes that device too
	must(t, err)
	for _, addr := range []string{IP(testNumber, 1, 11), us, IP(testNumber, 2, 99)} {
		if err := Blackholed(ctx, addr); err == nil {
			t.Errorf("%s is not reached while its region is there", addr)
		}
	}
	for _, addr := range []string{nobody, IP(0, 1, 11)} {
		must(t, Blackholed(ctx, addr))
		if err := call(ctx, addr); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a datagram to %s: %v, want that the kernel refuses it", addr, err)
		}
	}
	// From a region nothing else is reached.
	for _, addr := range []string{"192.0.2.1", "8.8.8.8", "10.77.1.1"} {
		if err := command(t, Argv(testNumber, "eu", []string{"ip", "route", "get", addr})); err == nil {
			t.Errorf("a region has a route to %s", addr)
		}
	}
	must(t, w.Close(ctx))
	if left, err := Leftover(ctx); err != nil || slices.Contains(left, testNumber) {
		t.Errorf("after Close: Leftover = %d, %v", left, err)
	}
	must(t, Blackholed(ctx, us))
	if err := call(ctx, us); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a datagram to a region that is gone: %v, want that the kernel refuses it", err)
	}
	if n := sent(t); n != unguarded {
		t.Errorf("%d packets left the machine", n-unguarded)
	}
}

// TestRegionsAreJoined: two regions reach each other with the delay, not through a cut, and this
// machine reaches both at all times.
func TestRegionsAreJoined(t *testing.T) {
	if !isolated(t) {
		return
	}
	ctx, spec := t.Context(), testSpec()
	w, err := Start(ctx, spec)
	must(t, err)
	if _, err := Start(ctx, spec); !errors.Is(err, ErrTaken) {
		t.Errorf("Start of the same network: %v, want ErrTaken", err)
	}
	addr := IP(testNumber, 2, 11) + ":9000"
	stop := startServer(t, addr)
	c := NewControl(testNumber)
	reaches := func(what string, want bool) {
		t.Helper()
		limit := 700 * ms
		if want {
			limit = 30 * time.Second
		}
		took, ok := dialFrom(t, fmt.Sprintf("%s %s", addr, limit))
		if ok != want {
			t.Errorf("%s: eu reaches us = %t, want %t", what, ok, want)
		}
		if ok && took < 2*spec.Delay {
			t.Errorf("%s: a connection took %s, less than a round trip", what, took)
		}
		if dialTCP(addr+" 10s") != 0 {
			t.Errorf("%s: this program does not reach us", what)
		}
	}
	link := func(from string) Link {
		t.Helper()
		links, err := c.Links(ctx)
		must(t, err)
		i := slices.IndexFunc(links, func(l Link) bool { return l.From == from })
		return links[i]
	}
	reaches("at first", true)
	must(t, c.Cut(ctx, "eu", "us"))
	reaches("what eu sends is cut", false)
	if there, back := link("eu"), link("us"); there.Lost == 0 || back.Lost != 0 {
		t.Errorf("lost %d and back %d, want some and none", there.Lost, back.Lost)
	}
	must(t, c.Heal(ctx, "", ""))
	reaches("healed", true)
	must(t, c.Cut(ctx, "us", "eu"))
	reaches("what us sends is cut", false)
	if link("us").Lost == 0 {
		t.Error("nothing that us sent was lost")
	}
	if err := Remove(ctx, testNumber); !errors.Is(err, ErrTaken) {
		t.Errorf("Remove while a server runs in a region = %v, want ErrTaken", err)
	}
	if err := Free(ctx, testNumber); !errors.Is(err, ErrTaken) {
		t.Errorf("Free of a network that runs = %v, want ErrTaken", err)
	}
	stop()
	must(t, w.Close(ctx))
	if err := Free(ctx, testNumber); err != nil {
		t.Errorf("Free after Close = %v", err)
	}
	if left, err := Leftover(ctx); err != nil || slices.Contains(left, testNumber) {
		t.Errorf("after Close: Leftover = %d, %v", left, err)
	}
}

// startServer runs a server in us until stop.
func startServer(t *testing.T, addr string) (stop func()) {
	t.Helper()
	cmd := helper("us", "serve "+addr)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line := make([]byte, 64)
	if got, err := out.Read(line); err != nil || string(line[:got]) != "serving\n" {
		t.Fatalf("server says %q, %v", line[:got], err)
	}
	return func() {
		t.Helper()
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
	}
}

// dialFrom connects from eu.
func dialFrom(t *testing.T, target string) (took time.Duration, ok bool) {
	t.Helper()
	out, err := helper("eu", "dial "+target).Output()
	if err != nil {
		return 0, false
	}
	took, err = time.ParseDuration(string(out))
	must(t, err)
	return took, true
}

func helper(region, act string) *exec.Cmd {
	argv := Argv(testNumber, region, []string{os.Args[0]})
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), helperEnv+"="+act)
	return cmd
}
