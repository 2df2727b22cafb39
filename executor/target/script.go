package target

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"carillon.dev/carillon/schema"
)

// Bounds of scripts.
const (
	// DefaultScriptArgs is how many arguments a task may give to a command that takes some and says
	// no number.
	DefaultScriptArgs = 16
	// DefaultScriptGrace is the time between SIGTERM and SIGKILL.
	DefaultScriptGrace = 5 * time.Second
	// maxScriptGrace bounds what an operator may set: a stop of the node waits as long.
	maxScriptGrace = time.Minute
	// scriptKillWait is how long after SIGKILL the end of a command is waited for. A command that
	// waits for a dead file system, or has become another user's, may never end.
	scriptKillWait = 5 * time.Second
	// scriptPath is the PATH of a command whose environment names none.
	scriptPath = "/usr/local/bin:/usr/bin:/bin"
	// scriptDrainWait bounds how long output is waited for after the last known process was killed.
	scriptDrainWait = time.Second
	// scriptSweeps bounds how often processes are looked for that a command has left behind.
	scriptSweeps = 10
	// scriptSweepers bounds the attempts that look for such processes at once: a read of /proc
	// holds a thread.
	scriptSweepers = 16
	// scriptPoll is the longest time between two checks whether a command has ended, where the
	// kernel does not tell.
	scriptPoll = 50 * time.Millisecond
)

// ScriptCommand is a command of the operator's allow list: all that a task says of it is its name
// and the arguments that AllowArgs lets through.
type ScriptCommand struct {
	Path string   `yaml:"path"` // absolute; started as it is, by no shell
	Args []string `yaml:"args"` // before those of the task
	// AllowArgs are patterns (RE2), one of which each argument of a task must match whole. Empty: a
	// task gives none.
	AllowArgs []string `yaml:"allow_args"`
	MaxArgs   int      `yaml:"max_args"` // 0: DefaultScriptArgs
	// User and Group (by name or number) own the process. Another user than ours needs us to be
	// root, and root itself must be named. Empty: ours, if we are not root; the user's own group.
	User    string            `yaml:"user"`
	Group   string            `yaml:"group"`
	Dir     string            `yaml:"dir"`     // absolute; empty: /
	Env     map[string]string `yaml:"env"`     // all there is, besides PATH and the facts of the attempt
	Tenants []string          `yaml:"tenants"` // those that may run it; empty: all
	// FinalCodes are exit codes after which no attempt follows.
	FinalCodes []int `yaml:"final_codes"`
	// MaxRunning bounds how many of each tenant run at once on this node, with those that could not
	// be ended; 0: the slots do. Runs beyond it are deferred.
	MaxRunning int `yaml:"max_running"`
	// Grace is the time between SIGTERM and SIGKILL; 0: DefaultScriptGrace.
	Grace time.Duration `yaml:"grace"`
}

// ScriptConfig is what Script needs. Whether a file may be executed is found out when it is.
type ScriptConfig struct {
	Commands  map[string]ScriptCommand // by the name that tasks say
	Root      bool                     // the process is root's
	MaxOutput int                      // bytes of an output that are kept; default DefaultMaxOutput
	Budget    *ByteBudget              // for what is kept beyond 64 KiB of each
	Logger    *slog.Logger
}

// command is a ScriptCommand that is made ready.
type command struct {
	ScriptCommand
	name     string
	patterns []*regexp.Regexp
	env      []string
	as       *owner // nil: ourselves
}

// owner is the user and group of a process.
type owner struct{ uid, gid uint32 }

// Script is the Target of tasks of the kind script: commands that the operator allows, run without
// a shell.
//
// # What a command gets
//
// The payload on its standard input, the facts of the attempt as environment (CARILLON_RUN_ID,
// CARILLON_JOB_ID, CARILLON_ATTEMPT, CARILLON_FENCE, CARILLON_DUE_AT, CARILLON_NOMINAL_AT of a
// recurring job's run, CARILLON_TENANT, IDEMPOTENCY_KEY, TRACEPARENT), and nothing of our own
// environment, descriptors or terminal. Both outputs are one stream, of which the head is kept; the
// rest is read and dropped, so that a flood costs no memory and the command is not held up.
//
// Exit code 0 is a success. Any other is a failure, final if it is among FinalCodes; the record has
// it as its status.
//
// # How it ends
//
// A command is the first of a session and a process group of its own, and is killed if we die. On a
// time-out or a cancel the group gets SIGTERM, and after Grace SIGKILL; of effectively_once work
// whose executor must be silent SIGKILL at once. Whatever way the command ends, all that it left
// behind is killed then: its group, its session, and what carries its environment (run and fence).
// Not covered: a process that has left the session and changed its environment or that we may not
// look at; and, if we ourselves are killed, everything but the command.
//
// A command that goes on scriptKillWait after SIGKILL is left alone: it hangs in the kernel (a dead
// NFS mount), or we may not signal it (it has become another user's). The attempt ends as it would
// have, without what is written from then on, and says that the command may still run; until it has
// ended it keeps its place of MaxRunning. A time-out of effectively_once work is final then, since
// the next attempt could overlap with it; what a stop cut short of it begins again as late as after
// an HTTP call.
//
// Neither memory nor processor time are bounded: give the node's service such limits, they are
// inherited.
type Script struct {
	commands       atomic.Pointer[map[string]*command]
	maxOutput      int
	budget         *ByteBudget
	log            *slog.Logger
	sweeping       chan struct{}  // cap scriptSweepers: held during a sweep
	signalFailures rate.Sometimes // signals that fail are told of now and then

	killWait time.Duration                         // scriptKillWait, but in tests
	kill     func(pid int, s syscall.Signal) error // of tests; nil: the kernel's
}

// NewScript returns a Script of those commands. It looks users up, and reads nothing else. The
// error names every fault of c.
func NewScript(c ScriptConfig) (*Script, error) {
	s := &Script{
		maxOutput: c.MaxOutput, budget: c.Budget, log: c.Logger, sweeping: make(chan struct{}, scriptSweepers),
		signalFailures: rate.Sometimes{Interval: 10 * time.Second}, killWait: scriptKillWait,
	}
	if s.maxOutput == 0 {
		s.maxOutput = DefaultMaxOutput
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var faults []error
	commands := make(map[string]*command, len(c.Commands))
	for _, name := range slices.Sorted(maps.Keys(c.Commands)) {
		made, err := c.Commands[name].ready(name, c.Root)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		commands[name] = made
	}
	s.commands.Store(&commands)
	return s, errors.Join(faults...)
}

// Replace has s allow the commands of another, and no others. What runs goes on as it began.
func (s *Script) Replace(by *Script) { s.commands.Store(by.commands.Load()) }

// command returns the command of that name; nil: there is none.
func (s *Script) command(name string) *command { return (*s.commands.Load())[name] }

// ready checks the command and fills in what it leaves out.
func (sc ScriptCommand) ready(name string, root bool) (*command, error) {
	c := &command{ScriptCommand: sc, name: name}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("script %s: "+format, append([]any{name}, args...)...))
	}
	if !filepath.IsAbs(c.Path) || filepath.Clean(c.Path) != c.Path {
		fault("path %q is not absolute, or has parts such as ..", c.Path)
	}
	if c.Dir == "" {
		c.Dir = "/"
	} else if !filepath.IsAbs(c.Dir) {
		fault("dir %q is not absolute", c.Dir)
	}
	for _, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			fault("args: one holds NUL")
		}
	}
	for _, text := range c.AllowArgs {
		p, err := regexp.Compile(`\A(?:` + text + `)\z`)
		if err != nil {
			fault("allow_args: %q is not a pattern: %w", text, err)
			continue
		}
		c.patterns = append(c.patterns, p)
	}
	for _, b := range []struct {
		what      string
		n, lo, hi int
	}{
		{"max_args", c.MaxArgs, 0, 64}, {"max_running", c.MaxRunning, 0, 1_000_000}, {"grace (s)", int(c.Grace.Seconds()), 0, int(maxScriptGrace.Seconds())},
	} {
		if b.n < b.lo || b.n > b.hi {
			fault("%s: %d is not between %d and %d", b.what, b.n, b.lo, b.hi)
		}
	}
	for _, code := range c.FinalCodes {
		if code < 1 || code > 255 {
			fault("final_codes: %d is not between 1 and 255", code)
		}
	}
	if c.MaxArgs == 0 {
		c.MaxArgs = DefaultScriptArgs
	}
	if c.Grace == 0 {
		c.Grace = DefaultScriptGrace
	}
	if _, stated := c.Env["PATH"]; !stated {
		c.env = append(c.env, "PATH="+scriptPath)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(c.Env[k], 0) || strings.HasPrefix(k, "CARILLON_") {
			fault("env: %q cannot be set", k)
		}
		c.env = append(c.env, k+"="+c.Env[k])
	}
	var err error
	if c.as, err = ownerOf(c.User, c.Group, root); err != nil {
		fault("%w", err)
	}
	return c, errors.Join(faults...)
}

// ownerOf finds a user and a group by name or number; nil means ourselves.
func ownerOf(name, group string, root bool) (*owner, error) {
	switch {
	case name == "" && root:
		return nil, errors.New("user: must be named, since the node runs as root: commands are root's only if that is said")
	case name == "" && group == "":
		return nil, nil //nolint:nilnil // nil is ourselves
	case name == "":
		return nil, errors.New("group: is set, and user is not")
	case !root:
		return nil, errors.New("user: only a node that runs as root can start processes of others")
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("user: there is no %q", name)
		}
	}
	gid := u.Gid
	if group != "" {
		g, err := user.LookupGroup(group)
		if err != nil {
			if g, err = user.LookupGroupId(group); err != nil {
				return nil, fmt.Errorf("group: there is no %q", group)
			}
		}
		gid = g.Gid
	}
	uidN, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gidN, gerr := strconv.ParseUint(gid, 10, 32)
	if err := errors.Join(uerr, gerr); err != nil {
		return nil, fmt.Errorf("user: %w", err)
	}
	return &owner{uint32(uidN), uint32(gidN)}, nil
}

// Fault says what is wrong with a script task of the tenant, and of which field: "command", "args"
// or one of args such as "args[2]". Empty: nothing. It never repeats an argument.
func (s *Script) Fault(tenant string, t *schema.ScriptTarget) (field, fault string) {
	_, field, fault = s.find(tenant, t)
	return field, fault
}

// find is Fault that returns the command as well: the list may be another one a moment later.
func (s *Script) find(tenant string, t *schema.ScriptTarget) (c *command, field, fault string) {
	c = s.command(t.Command)
	if c == nil || len(c.Tenants) > 0 && !slices.Contains(c.Tenants, tenant) {
		return nil, "command", "is not a command that may be run" // to a tenant who may not, it does not exist
	}
	if len(t.Args) > 0 && len(c.patterns) == 0 {
		return nil, "args", "must be absent: this command takes none"
	}
	if len(t.Args) > c.MaxArgs {
		return nil, "args", "must be at most " + strconv.Itoa(c.MaxArgs)
	}
	for i, a := range t.Args {
		if strings.ContainsRune(a, 0) || !slices.ContainsFunc(c.patterns, func(p *regexp.Regexp) bool { return p.MatchString(a) }) {
			return nil, "args[" + strconv.Itoa(i) + "]", "is not an argument that this command takes"
		}
	}
	return c, "", ""
}

// Limit returns how many attempts of the task's command may run at once here; 0: as many as there
// are slots.
func (s *Script) Limit(t *schema.ScriptTarget) int {
	if c := s.command(t.Command); c != nil {
		return c.MaxRunning
	}
	return 0
}

// environment returns what a process of the attempt gets, and the two lines by which it is known.
func (c *command) environment(call *Call) (env, marks []string) {
	f := factsOf(call)
	marks = []string{"CARILLON_RUN_ID=" + f.run, "CARILLON_FENCE=" + f.fence}
	env = append(slices.Clone(c.env), marks...)
	if f.nominal != "" {
		env = append(env, "CARILLON_NOMINAL_AT="+f.nominal)
	}
	return append(env,
		"CARILLON_JOB_ID="+f.job, "CARILLON_ATTEMPT="+f.attempt, "CARILLON_DUE_AT="+f.due, "CARILLON_TENANT="+call.Tenant,
		"IDEMPOTENCY_KEY="+f.run, "TRACEPARENT="+f.trace,
	), marks
}

// exited says how an attempt ended whose command ended by itself.
func (c *command) exited(code int) Result {
	res := Result{Outcome: schema.Succeeded}
	if code != 0 {
		res.Outcome, res.Status, res.Error = schema.Failed, code, "exit code "+strconv.Itoa(code)
		res.Final = slices.Contains(c.FinalCodes, code)
	}
	return res
}
