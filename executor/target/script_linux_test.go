package target

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// ourselves is how a command is told to run as whoever runs the tests.
func ourselves() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return ""
}

// shell makes a target whose command "x" is a text of a shell, and a call to it.
func shell(t *testing.T, text string, change ...func(*ScriptCommand)) (*Script, Call) {
	t.Helper()
	c := ScriptCommand{Path: "/bin/sh", Args: []string{"-c", text}, User: ourselves(), Grace: 100 * time.Millisecond}
	for _, f := range change {
		f(&c)
	}
	s, err := NewScript(ScriptConfig{Commands: map[string]ScriptCommand{"x": c}, Root: os.Geteuid() == 0})
	if err != nil {
		t.Fatalf("NewScript: %v", err)
	}
	call := callTo("")
	call.Run = schema.MakeEntryID(time.Now(), 0, uint64(time.Now().UnixNano())) // its processes are known by it
	call.Work = schema.Work{Script: &schema.ScriptTarget{Command: "x"}}.InForce()
	return s, call
}

// living returns the processes that carry the run of a call in their environment.
func living(t *testing.T, call Call) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		env, _ := os.ReadFile(dir + "/environ") // of a dead one: empty
		if bytes.Contains(env, []byte("CARILLON_RUN_ID="+call.Run.String())) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestScriptGivesPayloadAndFactsAndNothingElse(t *testing.T) {
	t.Setenv("NODE_SECRET", "s3cret")
	f, err := os.Open("/dev/null") // a descriptor of ours
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, call := shell(t, `cat; echo; env; pwd; ls /proc/$$/fd; [ -t 0 ] || echo no terminal; echo err >&2`, func(c *ScriptCommand) {
		c.Env, c.Dir = map[string]string{"LANG": "C"}, "/tmp"
	})
	call.Payload, call.Nominal = []byte(`{"a":1}`), call.Due.Add(-time.Hour)
	res := s.Run(t.Context(), call)
	if res.Outcome != schema.Succeeded || res.Error != "" || res.Status != 0 {
		t.Fatalf("Run: got %+v, want a success", res)
	}
	out := string(res.Output)
	for _, want := range []string{
		"{\"a\":1}\n", "CARILLON_RUN_ID=" + call.Run.String() + "\n", "CARILLON_JOB_ID=" + call.Run.String() + "\n", "CARILLON_ATTEMPT=3\n", "CARILLON_FENCE=1790000000000042\n",
		"CARILLON_DUE_AT=2026-11-21T09:00:00.250Z\n", "CARILLON_NOMINAL_AT=2026-11-21T08:00:00.250Z\n", "CARILLON_TENANT=" + call.Tenant + "\n", "IDEMPOTENCY_KEY=" + call.Run.String() + "\n", "TRACEPARENT=00-", "LANG=C\n", "PATH=/usr/local/bin:/usr/bin:/bin\n",
		"\n/tmp\n", "no terminal\n", "err\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output: got %q, want it to hold %q", out, want)
		}
	}
	if strings.Contains(out, "s3cret") || strings.Contains(out, "HOME=") {
		t.Errorf("output: got %q, want nothing of the node's environment", out)
	}
	for _, fd := range strings.Fields(out[strings.Index(out, "/tmp\n")+5:]) {
		if n, err := strconv.Atoi(fd); err == nil && n > 2 && n < 10 { // a shell may open 10 and more for itself
			t.Errorf("the command has descriptor %d", n)
		}
	}
}

func TestScriptVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		change func(*ScriptCommand)
		want   Result
	}{
		"success":                  {"echo hi", nil, Result{Outcome: schema.Succeeded, Output: []byte("hi\n")}},
		"failure":                  {"echo hi; exit 3", nil, Result{Outcome: schema.Failed, Status: 3, Error: "exit code 3", Output: []byte("hi\n")}},
		"a final failure":          {"exit 64", nil, Result{Outcome: schema.Failed, Status: 64, Error: "exit code 64", Final: true}},
		"killed":                   {"kill -KILL $$", nil, Result{Outcome: schema.Failed, Error: "killed by signal 9 (killed)"}},
		"no input is read":         {"exec <&-; echo hi", nil, Result{Outcome: schema.Succeeded, Output: []byte("hi\n")}},
		"output is closed":         {"exec >&- 2>&-; exit 5", nil, Result{Outcome: schema.Failed, Status: 5, Error: "exit code 5"}},
		"it does not exist":        {"", func(c *ScriptCommand) { c.Path = "/no/such/s3cret" }, Result{Outcome: schema.Failed, Error: "the script could not be started: its file or directory does not exist here"}},
		"its directory does not":   {"", func(c *ScriptCommand) { c.Dir = "/no/such/s3cret" }, Result{Outcome: schema.Failed, Error: "the script could not be started: its file or directory does not exist here"}},
		"it is a directory":        {"", func(c *ScriptCommand) { c.Path = "/tmp" }, Result{Outcome: schema.Failed, Error: "the script could not be started: it may not be executed"}},
		"it is no program":         {"", func(c *ScriptCommand) { c.Path = "/etc/passwd" }, Result{Outcome: schema.Failed, Error: "the script could not be started: it may not be executed"}},
		"the list does not let it": {"", func(c *ScriptCommand) { c.Tenants = []string{"nobody"} }, Result{Outcome: schema.Failed, Error: "script.command is not a command that may be run", Final: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s, call := shell(t, c.text, func(sc *ScriptCommand) {
				sc.FinalCodes = []int{64}
				if c.change != nil {
					c.change(sc)
				}
			})
			call.Payload = bytes.Repeat([]byte("x"), schema.MaxPayload)
			got := s.Run(t.Context(), call)
			if got.Outcome != c.want.Outcome || got.Error != c.want.Error || got.Status != c.want.Status || got.Final != c.want.Final || string(got.Output) != string(c.want.Output) {
				t.Errorf("Run: got %+v (%q), want %+v", got, got.Output, c.want)
			}
		})
	}
}

// TestScriptIsStartedByNoShell: what the list lets through comes to the command letter by letter;
// nothing expands it, splits it or runs it.
func TestScriptIsStartedByNoShell(t *testing.T) {
	path, err := exec.LookPath("printf")
	if err != nil {
		t.Skip("there is no printf here")
	}
	dir := t.TempDir()
	s, call := shell(t, "", func(c *ScriptCommand) {
		c.Path, c.Args, c.AllowArgs, c.Dir = path, []string{"[%s]"}, []string{"(?s).*"}, dir
	})
	call.Work.Script.Args = []string{"$(touch x);*", "`touch x`", "a  b", "", "*", "$HOME", "; touch x", "| touch x", "> x", "&& touch x", "\n\"'", "~", "a\ntouch x"}
	want := "[" + strings.Join(call.Work.Script.Args, "][") + "]"
	if res := s.Run(t.Context(), call); res.Outcome != schema.Succeeded || string(res.Output) != want {
		t.Errorf("Run: got %+v (%q), want a success that prints %q", res, res.Output, want)
	}
	made, err := os.ReadDir(dir)
	if err != nil || len(made) != 0 {
		t.Errorf("what an argument says was done: the directory of the command holds %v, %v; want nothing", made, err)
	}
}

func TestScriptFloodIsBounded(t *testing.T) {
	s, call := shell(t, `head -c 100000000 /dev/zero; echo done >&2; exit 7`)
	res := s.Run(t.Context(), call)
	if res.Status != 7 || len(res.Output) != DefaultMaxOutput || !res.OutputCut {
		t.Errorf("Run of a flood of 100 MB: got exit code %d and %d bytes, cut %t; want 7, %d, and that it was cut", res.Status, len(res.Output), res.OutputCut, DefaultMaxOutput)
	}
}

func TestScriptOutputTakesRoom(t *testing.T) {
	const half = 2 * grantStep // what one tenant has
	for name, c := range map[string]struct {
		text      string
		max, left int
		cause     error // for which it is ended when it has written all
		kept      int
		cut       bool
	}{
		"short":                    {`head -c 65536 /dev/zero`, 1 << 20, 0, nil, freeOutput, false},
		"a byte more":              {`head -c 65537 /dev/zero`, 1 << 20, grantStep, nil, freeOutput + 1, false},
		"a byte more without room": {`head -c 65537 /dev/zero`, 1 << 20, 0, nil, freeOutput, true},
		"as much as there is":      {`head -c 196608 /dev/zero`, 1 << 20, 2 * half, nil, freeOutput + half, false},
		"more than there is":       {`head -c 1000000 /dev/zero`, 1 << 20, 2 * half, nil, freeOutput + half, true},
		"more than is kept":        {`head -c 1000000 /dev/zero`, 100, 2 * half, nil, 100, true},
		"more, at its end":         {`head -c 1000000 /dev/zero; touch "$0"; exec sleep 1000`, 1 << 20, 2 * half, ErrCancelled, freeOutput + half, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "written")
			s, call := shell(t, c.text, func(sc *ScriptCommand) { sc.Args = append(sc.Args, file) })
			s.maxOutput, s.budget = c.max, NewByteBudget(c.left)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.cause != nil {
				go func() {
					started(t, file)
					cancel(c.cause)
				}()
			}
			res := s.Run(ctx, call)
			if (res.Outcome == schema.Succeeded) != (c.cause == nil) || len(res.Output) != c.kept || res.OutputCut != c.cut {
				t.Errorf("Run: %s with %d bytes, cut %t; want %d, %t", res.Outcome, len(res.Output), res.OutputCut, c.kept, c.cut)
			}
			want := max(0, (c.kept-freeOutput+grantStep-1)/grantStep) * grantStep
			if got := c.left - s.budget.free; got != want || res.Memory.bytes != want {
				t.Errorf("Run: %d bytes of room are gone and %d said to be, want %d", got, res.Memory.bytes, want)
			}
		})
	}
}

func TestScriptOutputsOfATenantLeaveRoom(t *testing.T) {
	s, call := shell(t, `head -c 196607 /dev/zero`)
	leavesRoom(t, func(room *ByteBudget, tenant string) Result {
		s.budget, call.Tenant = room, tenant
		return s.Run(t.Context(), call)
	})
}

// started waits until a command has made a file.
func started(t *testing.T, file string) {
	t.Helper()
	for range 2000 {
		if _, err := os.Stat(file); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond) // another process makes it: there is nothing to wait on
	}
	t.Errorf("%s was not made", file)
}

func TestScriptEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		cause  error
		want   schema.Outcome
		output string
	}{
		"SIGTERM is heeded":           {`exec 2>/dev/null; trap 'echo bye; exit 0' TERM; touch "$0"; while :; do sleep 0.01; done`, ErrCancelled, schema.Cancelled, "bye\n"},
		"SIGTERM is ignored":          {`trap '' TERM; touch "$0"; while :; do sleep 0.01; done`, ErrTimeout, schema.TimedOut, ""},
		"children ignore it":          {`(trap '' TERM; exec sleep 1000) & (trap '' TERM; exec sleep 1000) & touch "$0"; wait`, ErrTimeout, schema.TimedOut, ""},
		"children make groups":        {`timeout 1000 sh -c 'trap "" TERM; touch "$0"; sleep 1000 & sleep 1000' "$0"`, ErrCancelled, schema.Cancelled, ""},
		"children leave the session":  {`setsid sleep 1000 & touch "$0"; wait`, ErrCancelled, schema.Cancelled, ""},
		"grandchildren leave it":      {`setsid sh -c 'trap "" TERM; sleep 1000 & sleep 1000' & touch "$0"; wait`, ErrStopped, schema.Failed, ""},
		"the session is lost":         {`trap 'echo bye; exit 0' TERM; touch "$0"; while :; do sleep 0.01; done`, ErrAbandoned, schema.Failed, ""},
		"it was stopped (by SIGSTOP)": {`touch "$0"; kill -STOP $$`, ErrTimeout, schema.TimedOut, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("setsid"); err != nil && strings.Contains(c.text, "setsid") {
				t.Skip("there is no setsid here")
			}
			file := filepath.Join(t.TempDir(), "started")
			s, call := shell(t, c.text, func(sc *ScriptCommand) {
				sc.Args = append(sc.Args, file)
				if c.output != "" {
					sc.Grace = time.Minute // however slow it is, it is let to say that
				}
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				started(t, file)
				cancel(c.cause)
			}()
			res := s.Run(ctx, call)
			if res.Outcome != c.want || res.Final || string(res.Output) != c.output || res.Error == "" {
				t.Errorf("Run ended by %v: got %+v (%q), want %s with %q", c.cause, res, res.Output, c.want, c.output)
			}
			if pids := living(t, call); len(pids) > 0 {
				t.Errorf("processes %v of the run live on", pids)
			}
		})
	}
}

// A script that has a minute to end after its time-out is killed once another attempt may begin.
func TestScriptInItsGraceEndsWhenItMustBeSilent(t *testing.T) {
	dir := t.TempDir()
	begun, termed, silent := filepath.Join(dir, "begun"), filepath.Join(dir, "termed"), make(chan struct{})
	s, call := shell(t, `trap 'touch "$1"' TERM; touch "$0"; while :; do sleep 0.01; done`, func(sc *ScriptCommand) {
		sc.Args, sc.Grace = append(sc.Args, begun, termed), time.Minute
	})
	call.Abandoned = silent
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		started(t, begun)
		cancel(ErrTimeout)
		started(t, termed)
		close(silent)
	}()
	from := time.Now()
	if res := s.Run(ctx, call); res.Outcome != schema.TimedOut || time.Since(from) > time.Minute/2 {
		t.Errorf("Run ended after %v: %+v, want it timed out, and killed as soon as it must be silent", time.Since(from), res)
	}
	if pids := living(t, call); len(pids) > 0 {
		t.Errorf("processes %v of the run live on", pids)
	}
}

func TestScriptLeavesNothingBehind(t *testing.T) {
	for name, text := range map[string]string{
		"a child in the background": `sleep 1000 & exit 0`,
		"one of another session":    `setsid sleep 1000 & sleep 0.05; exit 0`,
		"many":                      `for i in 1 2 3 4 5 6 7 8 9 10; do (trap '' TERM HUP; sleep 1000 & sleep 1000) & done; exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			s, call := shell(t, text)
			if res := s.Run(t.Context(), call); res.Outcome != schema.Succeeded {
				t.Errorf("Run: got %+v, want a success", res)
			}
			if pids := living(t, call); len(pids) > 0 {
				t.Errorf("processes %v of the run live on", pids)
			}
		})
	}
}

// A process that nobody can recognise keeps the output open: the attempt ends all the same.
func TestScriptIsNotHeldUpByWhatEscapes(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid here")
	}
	file := filepath.Join(t.TempDir(), "pid")
	s, call := shell(t, `setsid env -i sh -c 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 1000' "$0" & while ! [ -e "$0" ]; do sleep 0.01; done; echo hi`, func(sc *ScriptCommand) { sc.Args = append(sc.Args, file) })
	res := s.Run(t.Context(), call)
	if res.Outcome != schema.Succeeded || string(res.Output) != "hi\n" {
		t.Errorf("Run: got %+v (%q), want a success with its output", res, res.Output)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("kill what escaped: %v: it was to be out of reach", err)
	}
}

// threads returns how many threads this process has.
func threads(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Go ends a process of 10,000 threads: however many scripts are under way, they must not keep one
// each.
func TestScriptsUnderWayKeepNoThreads(t *testing.T) {
	const scripts = 120
	dir := t.TempDir()
	s, call := shell(t, `touch "$0/$CARILLON_ATTEMPT"; exec sleep 1000`, func(sc *ScriptCommand) { sc.Args = append(sc.Args, dir) })
	before := threads(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var running sync.WaitGroup
	for i := range scripts {
		call := call
		call.Number, call.Run = i, schema.MakeEntryID(time.Now(), 0, uint64(time.Now().UnixNano())+uint64(i))
		running.Go(func() {
			if res := s.Run(ctx, call); res.Outcome != schema.Cancelled {
				t.Errorf("Run: got %+v, want it cancelled", res)
			}
		})
	}
	for i := 0; i < scripts && !t.Failed(); i++ {
		started(t, filepath.Join(dir, strconv.Itoa(i)))
	}
	if more := threads(t) - before; more > scripts/2 {
		t.Errorf("%d scripts are under way on %d threads more than before", scripts, more)
	}
	cancel(ErrCancelled)
	running.Wait()
}

// Where there is no pidfd it is looked at what has become of a command.
func TestScriptHasExitedWhenItHas(t *testing.T) {
	hold, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	p := &process{cmd: exec.CommandContext(t.Context(), "/bin/sh", "-c", `read line; exit 3`)}
	p.cmd.Stdin = hold
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if p.hasExited() {
		t.Error("hasExited of a command that goes on: got true")
	}
	_ = release.Close()
	p.untilExit()
	for range 2 {
		if !p.hasExited() {
			t.Error("hasExited of a command that has ended and was not waited for: got false")
		}
	}
	if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("Wait after it: %v, want exit code 3: it was left to be waited for", err)
	}
}

func TestScriptRunsAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run commands as others")
	}
	s, call := shell(t, `id -u; id -G; head -c 1 /etc/shadow >&2`, func(c *ScriptCommand) { c.User = "65534"; c.Group = "65534" })
	res := s.Run(t.Context(), call)
	if out := string(res.Output); res.Status == 0 || !strings.HasPrefix(out, "65534\n65534\n") || !strings.Contains(out, "denied") {
		t.Errorf("Run as nobody: got %+v (%q), want user and only group 65534, who may not read /etc/shadow", res, out)
	}
}

func TestScriptDoesNotStartWhatHasEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "started")
	s, call := shell(t, `touch "$0"`, func(sc *ScriptCommand) { sc.Args = append(sc.Args, file) })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCancelled)
	if res := s.Run(ctx, call); res.Outcome != schema.Cancelled {
		t.Errorf("Run with an ended context: got %+v, want cancelled", res)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command was started")
	}
}

// The process of an executor that dies takes its commands with it.
func TestScriptDiesWithItsExecutor(t *testing.T) {
	if file := os.Getenv("SCRIPT_TEST_CHILD"); file != "" {
		s, call := shell(t, `echo $$ > "$0.new"; mv "$0.new" "$0"; trap '' TERM; while :; do sleep 0.01; done`, func(sc *ScriptCommand) { sc.Args = append(sc.Args, file) })
		s.Run(t.Context(), call)
		return
	}
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestScriptDiesWithItsExecutor$")
	cmd.Env = append(os.Environ(), "SCRIPT_TEST_CHILD="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started(t, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed
	for range 2000 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		time.Sleep(5 * time.Millisecond) // the kernel ends it
	}
	t.Errorf("command %d lives on after its executor was killed", pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}
