package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"carillon.dev/carillon/schema"
)

// Run implements Target.
func (s *Script) Run(ctx context.Context, call Call) Result {
	t := call.Work.Script
	if t == nil {
		return Result{Outcome: schema.Failed, Error: "not a script task", Final: true}
	}
	// The list may have changed since the task was accepted, or be another one on this node.
	allowed, field, fault := s.find(call.Tenant, t)
	if fault != "" {
		return Result{Outcome: schema.Failed, Error: "script." + field + " " + fault, Final: true}
	}
	if ctx.Err() != nil {
		return scriptEnded(ctx)
	}
	p, err := s.launch(allowed, &call)
	if err != nil {
		s.log.Warn("script could not be started", "script", t.Command, "run", call.Run, "err", err)
		return Result{Outcome: schema.Failed, Error: launchFault(err)}
	}
	stopped, exited := p.await(ctx)
	if !exited {
		return s.abandon(ctx, p, &call)
	}
	state, left := p.reap()
	if left > 0 {
		s.log.Warn("a script left processes behind that could not be ended", "script", t.Command, "run", call.Run, "processes", left)
	}
	var res Result
	if stopped {
		res = scriptEnded(ctx)
	} else {
		res = p.verdict(state)
	}
	res.Output, res.OutputCut, res.Memory = p.head.kept, p.head.cut, p.head.memory
	return res
}

// abandon ends the attempt of a command that cannot be ended. The command is reaped once it has
// ended by itself; the attempt does not wait for that, since it may never be.
func (s *Script) abandon(ctx context.Context, p *process, call *Call) Result {
	s.log.Error("a script could not be ended: its attempt is over, and it may still run", "script", p.command.name, "run", call.Run, "pid", p.cmd.Process.Pid)
	p.sweep() // what else there is
	p.closePipes()
	res, gone := scriptEnded(ctx), make(chan struct{})
	if res.Outcome == schema.TimedOut {
		res.Error = "it had not ended at the time-out, and could not be killed: it may still run"
		res.Final = call.Work.Guarantee == schema.EffectivelyOnce // the next could overlap with it
	} else {
		res.Error += ": the script could not be killed, and may still run"
	}
	res.Output, res.OutputCut, res.Memory, res.Lingering = p.head.kept, p.head.cut, p.head.memory, gone
	go func() {
		defer close(gone)
		<-p.exited
		_, left := p.reap()
		s.log.Info("a script that could not be ended has ended", "script", p.command.name, "run", call.Run, "processes", left)
	}()
	return res
}

// verdict says how an attempt ended whose command ended by itself.
func (p *process) verdict(state *os.ProcessState) Result {
	if state == nil {
		return Result{Outcome: schema.Failed, Error: "how the script ended could not be found out"}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Result{Outcome: schema.Failed, Error: "killed by signal " + strconv.Itoa(int(status.Signal())) + " (" + status.Signal().String() + ")"}
	}
	return p.command.exited(state.ExitCode())
}

// scriptEnded says how an attempt ended whose command was ended because ctx was.
func scriptEnded(ctx context.Context) Result {
	res := Ended(ctx)
	if res.Outcome == schema.TimedOut {
		res.Error = "it had not ended at the time-out, and was killed"
	}
	return res
}

// launchFault says why a command could not be started, without its path.
func launchFault(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the script could not be started: its file or directory does not exist here"
	case errors.Is(err, fs.ErrPermission):
		return "the script could not be started: it may not be executed"
	}
	return "the script could not be started"
}

// process is a command under way.
type process struct {
	command *command
	cmd     *exec.Cmd
	marks   [][]byte
	exited  chan struct{} // closed when the command has ended and not been waited for: its number is no other process's
	output  *os.File
	input   *os.File
	io      sync.WaitGroup
	most    int  // bytes of the output that are kept
	head    body // of the output

	script    *Script
	run       schema.RunID
	abandoned <-chan struct{} // see Call
}

// ownDescriptors has what the node itself was started with (Go marks what it opens) closed where a
// command is started.
var ownDescriptors = sync.OnceFunc(func() {
	const closeRange, onExec, first, last = 436, 1 << 2, 3, 1<<32 - 1                     // close_range(2), CLOSE_RANGE_CLOEXEC, since Linux 5.11
	_, _, _ = syscall.Syscall(closeRange, uintptr(first), uintptr(last), uintptr(onExec)) // an older kernel passes them on
})

// launch starts the command.
func (s *Script) launch(c *command, call *Call) (*process, error) {
	ownDescriptors()
	env, marks := c.environment(call)
	p := &process{command: c, most: s.maxOutput, head: body{memory: s.budget.Grant(call.Tenant)}, script: s, run: call.Run, abandoned: call.Abandoned, exited: make(chan struct{})}
	for _, m := range marks {
		p.marks = append(p.marks, append([]byte(m), 0))
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		_ = outR.Close()
		_ = outW.Close()
		return nil, fmt.Errorf("pipe: %w", err)
	}
	p.output, p.input = outR, inW
	p.cmd = &exec.Cmd{
		Path: c.Path, Args: append(append([]string{c.Path}, c.Args...), call.Work.Script.Args...), Env: env, Dir: c.Dir,
		Stdin: inR, Stdout: outW, Stderr: outW,
		// Pdeathsig is sent when the thread that forks ends; those of Go do not, unless a goroutine
		// keeps one to itself, and none here does. Setsid rather than Setpgid: it makes a group as
		// well, leaves no terminal, and the session's number stays with children that make groups
		// of their own.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if c.as != nil {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.as.uid, Gid: c.as.gid} // and no other groups
	}
	err = p.cmd.Start()
	_ = inR.Close() // the child has its own
	_ = outW.Close()
	if err != nil {
		_ = outR.Close()
		_ = inW.Close()
		return nil, fmt.Errorf("start: %w", err)
	}
	p.io.Go(func() {
		_, _ = p.input.Write(call.Payload) // a command need not read it
		_ = p.input.Close()
	})
	p.io.Go(p.drain)
	go func() {
		p.untilExit()
		close(p.exited)
	}()
	return p, nil
}

// untilExit waits until the command has ended, and leaves it to be waited for. A wait in the kernel
// would keep a thread for as long, and Go ends a process that has 10,000 of them. So the poller
// waits, as it does for connections.
func (p *process) untilExit() {
	const pidfdOpen = 434                                                                                  // pidfd_open(2), since Linux 5.3, without blocking since 5.10
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(p.cmd.Process.Pid), uintptr(syscall.O_NONBLOCK), 0) // #nosec G115 -- positive
	if errno == 0 {
		f := os.NewFile(fd, "pidfd")
		defer func() { _ = f.Close() }() // nothing was written
		if conn, err := f.SyscallConn(); err == nil && conn.Read(func(uintptr) bool { return p.hasExited() }) == nil {
			return
		}
	}
	for pause := time.Millisecond; !p.hasExited(); pause = min(2*pause, scriptPoll) { // an older kernel, or one that does not let us
		time.Sleep(pause)
	}
}

// hasExited reports whether the command has ended. It does not wait.
func (p *process) hasExited() bool {
	const byPID = 1                   // P_PID
	pid := uintptr(p.cmd.Process.Pid) // #nosec G115 -- positive
	for {
		var info [16]uint64                                                                                                                                    // siginfo_t, of which the beginning is 0 if the command goes on
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, pid, uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT|syscall.WNOHANG, 0, 0) // #nosec G103 -- the kernel fills it in
		if errno != syscall.EINTR {
			return errno != 0 || info[0] != 0
		}
	}
}

// drain reads the output to its end and keeps its head.
func (p *process) drain() {
	buf := make([]byte, 32<<10)
	h, most := &p.head, p.most
	keep := min(most, freeOutput) // as yet
	for {
		n, err := p.output.Read(buf)
		for len(h.kept)+n > keep && keep < most && h.memory.grow() {
			keep = min(keep+grantStep, most)
		}
		fits := min(n, keep-len(h.kept))
		h.kept = append(h.kept, buf[:fits]...)
		if fits < n {
			h.cut, most = true, keep // and that is all, though room should come free: it is a head
		}
		if err != nil {
			return
		}
	}
}

// await waits until the command has ended, and ends it if ctx ends first: stopped means that it was
// told to. Without exited it goes on all the same.
func (p *process) await(ctx context.Context) (stopped, exited bool) {
	select {
	case <-p.exited:
		return false, true
	case <-ctx.Done():
	}
	if !errors.Is(context.Cause(ctx), ErrAbandoned) {
		p.signal(syscall.SIGTERM)
		if p.exitsWithin(p.command.Grace, p.abandoned) {
			return true, true
		}
	}
	p.signal(syscall.SIGKILL)
	return true, p.exitsWithin(p.script.killWait, nil)
}

// exitsWithin waits until the command has ended, for at most d, and not once it is abandoned.
func (p *process) exitsWithin(d time.Duration, silent <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-silent:
	case <-timer.C:
	}
	return false
}

// signal tells the group. The command was not waited for yet, so its number is no other's.
func (p *process) signal(s syscall.Signal) {
	kill := syscall.Kill
	if p.script.kill != nil {
		kill = p.script.kill
	}
	if err := kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) { // none left is as good
		p.script.signalFailures.Do(func() {
			p.script.log.Warn("a script could not be signalled", "script", p.command.name, "run", p.run, "signal", s.String(), "err", err)
		})
	}
}

// reap kills what the command has left behind, waits for the command itself and for the end of its
// output, and returns how it ended and how many processes are still there.
func (p *process) reap() (state *os.ProcessState, left int) {
	left = p.sweep()
	_ = p.cmd.Wait() // the state says it
	p.closePipes()
	return p.cmd.ProcessState, left
}

// sweep kills what a command has started, and returns how many processes are still there.
func (p *process) sweep() (left int) {
	for sweep := range scriptSweeps {
		p.signal(syscall.SIGKILL)
		p.script.sweeping <- struct{}{}
		left = p.killStrays()
		<-p.script.sweeping
		if left == 0 {
			break
		}
		time.Sleep(time.Millisecond << sweep) // until the kernel has ended them
	}
	return left
}

// closePipes waits for the end of the output, not for long, and closes our ends of the pipes. Then
// head is whole.
func (p *process) closePipes() {
	late := time.Now().Add(scriptDrainWait)
	_, _ = p.output.SetReadDeadline(late), p.input.SetWriteDeadline(late)
	p.io.Wait()
	_ = p.output.Close() // again, it does nothing
}

// killStrays kills the living processes of the session, and those that carry the attempt's
// environment, and returns how many it found.
func (p *process) killStrays() (found int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	names, err := proc.Readdirnames(-1)
	_ = proc.Close()
	if err != nil {
		return 0
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == p.cmd.Process.Pid || pid == os.Getpid() || !p.isStray(name) {
			continue
		}
		found++
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return found
}

// isStray reports whether a process lives and is of the command.
func (p *process) isStray(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	// pid (name) state ppid pgrp session …; the name may hold anything (proc_pid_stat(5)).
	at := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[at+1:])
	if at < 0 || len(fields) < 4 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return false
	}
	if string(fields[3]) == strconv.Itoa(p.cmd.Process.Pid) {
		return true
	}
	env, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		return false
	}
	for _, m := range p.marks {
		if !bytes.Contains(env, m) {
			return false
		}
	}
	return true
}
