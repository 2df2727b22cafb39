package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

// child is this program in a process of its own.
type child struct {
	cmd            *exec.Cmd
	temp           string // its folder for temporary files
	stdout, stderr *clitest.Screen
}

// startChild runs a command line; before, if it is not empty, is shell that comes first. What is
// left is killed with the test.
func startChild(t *testing.T, before string, args ...string) *child {
	t.Helper()
	return startChildOn(t, nil, before, args...)
}

// startChildOn is startChild with a terminal for the standard output, if it is not nil.
func startChildOn(t *testing.T, terminal *os.File, before string, args ...string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := &child{temp: t.TempDir(), stdout: clitest.NewScreen(), stderr: clitest.NewScreen()}
	line := append([]string{"-c", before + "\n" + `exec "$0" "$@"`, os.Args[0]}, args...)
	c.cmd = exec.CommandContext(ctx, "/bin/sh", line...) // #nosec G204 -- this program
	c.cmd.Env = append(os.Environ(), clitest.MainEnv+"=1", "TMPDIR="+c.temp)
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	if terminal != nil {
		c.cmd.Stdout = terminal
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// end sends a signal. The child must end with success and leave no files.
func (c *child) end(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("carillon after %v: %v, want a good end\n%s%s", s, err, c.stdout, c.stderr)
	}
	left, err := os.ReadDir(c.temp)
	if err != nil || len(left) > 0 {
		t.Errorf("carillon after %v leaves %v (%v), want nothing", s, left, err)
	}
}

var (
	isUp     = regexp.MustCompile(`Carillon is up\.`)
	imported = regexp.MustCompile(`1200 jobs imported[^\n]*\n  Watch them in the console: http://\S+/console/`)
)

func TestDevEndsInOrder(t *testing.T) {
	for name, s := range map[string]syscall.Signal{
		"Ctrl-C": syscall.SIGINT, "told to stop": syscall.SIGTERM, "the terminal closed": syscall.SIGHUP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s == syscall.SIGHUP {
				needHangups(t)
			}
			c := startChild(t, "", "dev", "--port", "0")
			c.stdout.Await(t, isUp)
			c.end(t, s)
			if log := c.stderr.String(); !strings.Contains(log, `url="in process"`) || strings.Contains(log, ":4222") {
				t.Errorf("the log of dev tells of a server that is not there:\n%s", log)
			}
		})
	}
}

// With --auth dev asks for keys, and the one that it prints is one of an admin of all tenants.
func TestDevAsksForKeys(t *testing.T) {
	told := regexp.MustCompile(`(?s)API (http://\S+).*CARILLON_KEY=(\S+)\s`)
	c := startChild(t, "", "dev", "--auth", "--port", "0")
	c.stdout.Await(t, told)
	found := told.FindStringSubmatch(c.stdout.String())
	api, key := found[1], found[2]
	if r := clitest.Run(t.Context(), "", "whoami", "--api", api); r.Code != 1 || !strings.Contains(r.Stderr, "(401)") {
		t.Errorf("whoami without a key exits %d with %q, want a 401", r.Code, r.Stderr)
	}
	t.Setenv("CARILLON_KEY", key)
	if r := clitest.Run(t.Context(), "", "whoami", "--api", api); r.Code != 0 || !strings.Contains(r.Stdout, "admin") {
		t.Errorf("whoami with the key that is printed exits %d with %q %q, want an admin", r.Code, r.Stdout, r.Stderr)
	}
	c.end(t, syscall.SIGTERM)
	if r := clitest.Run(t.Context(), "", "dev", "--auth", "--demo"); r.Code != 2 || !strings.Contains(r.Stderr, "--auth") {
		t.Errorf("dev --auth --demo exits %d with %q, want it refused", r.Code, r.Stderr)
	}
}

// dev takes the settings of a node of a cluster, and workers of other languages can reach its NATS
// if --nats-port is set. Flags override the environment.
func TestDevTakesTheSettingsOfServe(t *testing.T) {
	for name, s := range map[string]struct {
		environment string
		flags       []string
	}{
		"by the environment": {"export CARILLON_EXECUTOR_SLOTS=7", nil},
		"by a flag":          {"export CARILLON_EXECUTOR_SLOTS=9", []string{"--slots", "7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDevSettings(t, s.environment, s.flags...)
		})
	}
}

// testDevSettings starts dev with 7 slots, and checks that it has them and that workers can
// connect.
func testDevSettings(t *testing.T, environment string, flags ...string) {
	c := startChild(t, environment, append([]string{"dev", "--port", "0", "--nats-port", "0"}, flags...)...)
	c.stdout.Await(t, regexp.MustCompile(`workers nats://127\.0\.0\.1:\d+ `))
	api, address := regexp.MustCompile(`API (\S+)`).FindStringSubmatch(c.stdout.String()), regexp.MustCompile(`workers nats://(\S+)`).FindStringSubmatch(c.stdout.String())
	clitest.Await(t, "carillon dev has 7 slots", func() bool {
		resp, err := http.Get(api[1] + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\ncarillon_executor_slots 7\n")
	})
	nats, err := net.Dial("tcp", address[1])
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(nats).ReadString('\n')
	if err = errors.Join(err, nats.Close()); err != nil || !strings.HasPrefix(line, "INFO ") {
		t.Errorf("what workers are told to connect to says %q, %v, want INFO", line, err)
	}
	c.end(t, syscall.SIGTERM)
}

// A process that was started by nohup outlives its terminal.
func TestNohupIsHeeded(t *testing.T) {
	c := startChild(t, "trap '' HUP", "dev", "--port", "0")
	c.stdout.Await(t, isUp)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(status), "SigIgn:")
	ignored, err := strconv.ParseUint(strings.Fields(text)[0], 16, 64)
	if err != nil || ignored&(1<<(syscall.SIGHUP-1)) == 0 {
		t.Errorf("carillon under nohup ignores the signals %x (%v), want SIGHUP among them", ignored, err)
	}
	c.end(t, syscall.SIGTERM)
}

func TestDevReportsEveryFault(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, row := range map[string]struct {
		args string
		want []string
	}{
		"all at once":     {"dev --log-level loud --admin-listen nowhere --port 70000", []string{"log.level", "admin.listen", "--port"}},
		"demo, noop":      {"dev --demo --executor-noop", []string{"--executor-noop makes none"}},
		"workflows, noop": {"dev --demo-workflows --executor-noop", []string{"--executor-noop makes none"}},
		"two demos":       {"dev --demo --demo-workflows", []string{"--demo and --demo-workflows: state one of them"}},
		"ports":           {"dev --port -1 --nats-port 65536", []string{"--port: -1", "--nats-port: 65536"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.Run(t.Context(), "", strings.Fields(row.args)...)
			if r.Code != 2 || r.Stdout != "" {
				t.Errorf("carillon %s exits %d and prints %q, want 2 and nothing", row.args, r.Code, r.Stdout)
			}
			for _, want := range row.want {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("carillon %s says %q, want %q in it", row.args, r.Stderr, want)
				}
			}
			if strings.Contains(r.Stderr, "embedded") || strings.Contains(r.Stderr, "cassandra") {
				t.Errorf("carillon %s says %q, which nobody set", row.args, r.Stderr)
			}
		})
	}
}

func TestTakenPortHasAHint(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]bool{
		"dev --port " + port:                               true,
		"dev --demo --port " + port:                        true,
		"dev --port 0 --admin-listen " + l.Addr().String(): false,
		"dev --port 0 --nats-port " + port:                 false,
	} {
		r := clitest.Run(t.Context(), "", strings.Fields(args)...)
		if r.Code != 1 || !strings.Contains(r.Stderr, "address already in use") || strings.Contains(r.Stderr, "--port 0 takes a free one") != want {
			t.Errorf("carillon %s exits %d with %q, want 1, and the hint: %t", args, r.Code, r.Stderr, want)
		}
	}
}

// A demo that is interrupted prints no hints.
func TestCutDemoSaysNoHello(t *testing.T) {
	c := startChild(t, "", "dev", "--demo", "--port", "0")
	c.stdout.Await(t, imported)
	c.end(t, syscall.SIGINT)
	if isUp.MatchString(c.stdout.String()) {
		t.Errorf("a demo that is cut prints\n%s", c.stdout)
	}
}
