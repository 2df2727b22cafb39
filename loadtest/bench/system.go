package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/process"
)

// A system takes jobs in and runs them, and is measured.
type system interface {
	// name is its name in results.
	name() string
	// intake returns the base URLs that jobs are sent to.
	intake() []string
	// nodes returns the base URLs of all nodes, for their metrics.
	nodes() []string
	// profiles returns the base URLs at which nodes that run serve profiles.
	profiles() []string
	// pids returns the process of each member; 0 = there is none now.
	pids() map[string]int
	// rest stops what work starts.
	rest(ctx context.Context) error
	// work starts the nodes that are to dispatch and execute, and returns when they are ready.
	work(ctx context.Context) error
	// kill kills the member that dispatches, with SIGKILL, and returns its name.
	kill(ctx context.Context) (string, error)
	// close stops everything.
	close(ctx context.Context) error
}

// A layout says which roles the nodes of a cluster have.
type layout int

const (
	together layout = iota // every node has every role
	// one node takes jobs in and dispatches; the others execute, and start when told to
	workers
	// one node takes jobs in; the others dispatch and execute, and start when told to
	outage
	oneKind // one node takes jobs in and executes, two only dispatch
	apart   // one node takes jobs in and dispatches, another one executes
	later   // every node has every role, and starts when told to
)

const (
	roleIntake   = "bucketer"
	roleDispatch = "dispatcher"
	roleExecute  = "executor"
)

// roles returns the roles of each node of a layout; nodes is how many work.
func (l layout) roles(nodes int) [][]string {
	var all [][]string
	switch l {
	case workers:
		all = append(all, []string{roleIntake, roleDispatch})
		for range nodes {
			all = append(all, []string{roleExecute})
		}
	case outage:
		all = append(all, []string{roleIntake})
		for range nodes {
			all = append(all, []string{roleDispatch, roleExecute})
		}
	case apart:
		all = [][]string{{roleIntake, roleDispatch}, {roleExecute}}
	case oneKind:
		all = [][]string{{roleIntake, roleExecute}, {roleDispatch}, {roleDispatch}}
	default:
		for range nodes {
			all = append(all, []string{roleIntake, roleDispatch, roleExecute})
		}
	}
	return all
}

// noopEnv is the setting executor.noop. Nodes inherit it from the environment.
const noopEnv = "CARILLON_EXECUTOR_NOOP"

// clusterSystem is a cluster that deploy/local starts.
type clusterSystem struct {
	dir      string
	spec     cluster.Spec
	log      *slog.Logger
	clusters []*cluster.Cluster // one for each time that members were added; the last one knows all
	late     int                // nodes, the last ones, that are not started before work; of later all
	idle     int                // of these, that do not run
}

// startCluster starts Cassandra, NATS and the nodes of a layout.
func startCluster(ctx context.Context, dir string, spec cluster.Spec, l layout, noop bool, log *slog.Logger) (*clusterSystem, error) {
	if err := os.Setenv(noopEnv, strconv.FormatBool(noop)); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	spec.Roles = l.roles(spec.Nodes)
	spec.Nodes = len(spec.Roles)
	spec.Profiles = true
	s := &clusterSystem{dir: dir, spec: spec, log: log}
	switch l {
	case workers, outage:
		s.late = spec.Nodes - 1
	case later:
		s.late = spec.Nodes
	}
	s.idle = s.late
	if err := s.up(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// up starts all members but the idle ones.
func (s *clusterSystem) up(ctx context.Context) error {
	spec := s.spec
	spec.Nodes -= s.idle
	spec.Roles = spec.Roles[:spec.Nodes]
	c, err := cluster.Up(ctx, cluster.Options{
		Dir: s.dir, Attached: true, Say: func(line string) { s.log.Debug("cluster", "says", line) },
	}, spec)
	if err != nil {
		return fmt.Errorf("start cluster: %w", err)
	}
	s.clusters = append(s.clusters, c)
	return nil
}

// now returns the cluster as its folder describes it: also while work adds nodes to it.
func (s *clusterSystem) now() (*cluster.Cluster, error) {
	return cluster.Open(cluster.Options{Dir: s.dir})
}

// status returns the members; none if the folder cannot be read.
func (s *clusterSystem) status() cluster.Status {
	c, err := s.now()
	if err != nil {
		return cluster.Status{}
	}
	return c.Status()
}

func (s *clusterSystem) name() string { return "carillon" }

func (s *clusterSystem) intake() []string {
	var urls []string
	for _, n := range s.status().Carillon {
		if slices.Contains(n.Roles, roleIntake) && n.State == cluster.Running {
			urls = append(urls, n.API)
		}
	}
	return urls
}

func (s *clusterSystem) nodes() []string {
	var urls []string
	for _, n := range s.status().Carillon {
		urls = append(urls, n.API)
	}
	return urls
}

// firstProfiles is the port at which the first node serves profiles; the others have the next ones.
const firstProfiles = 19081

func (s *clusterSystem) profiles() []string {
	var urls []string
	for i, n := range s.status().Carillon {
		if at, err := url.Parse(n.API); err == nil && n.State == cluster.Running {
			urls = append(urls, "http://"+net.JoinHostPort(at.Hostname(), strconv.Itoa(firstProfiles+i)))
		}
	}
	return urls
}

// natsURL is where workers connect to.
func (s *clusterSystem) natsURL() string { return s.status().NATS[0].URL }

func (s *clusterSystem) pids() map[string]int { return s.status().PIDs() }

// rest stops the nodes that start only when they are to work, if they have been started.
func (s *clusterSystem) rest(ctx context.Context) error {
	if s.idle > 0 || s.late == 0 {
		return nil
	}
	c, err := s.now()
	if err != nil {
		return err
	}
	nodes := s.status().Carillon
	for _, n := range nodes[len(nodes)-s.late:] {
		err = errors.Join(err, c.Stop(ctx, n.Name))
	}
	s.idle = s.late
	return err
}

func (s *clusterSystem) work(ctx context.Context) error {
	if s.idle == 0 {
		return nil
	}
	s.idle = 0
	return s.up(ctx)
}

func (s *clusterSystem) kill(ctx context.Context) (string, error) {
	var victim string
	for _, n := range s.status().Carillon { // the last one: it dispatches in every layout
		if slices.Contains(n.Roles, roleDispatch) && n.State == cluster.Running {
			victim = n.Name
		}
	}
	c, err := s.now()
	if err != nil {
		return "", err
	}
	return victim, c.Kill(ctx, victim)
}

func (s *clusterSystem) close(ctx context.Context) error {
	var err error
	for _, c := range slices.Backward(s.clusters) {
		err = errors.Join(err, c.Close(ctx))
	}
	return err
}

// devSystem is `carillon dev`, a process with everything in it.
type devSystem struct {
	program, dir string
	server       *process.Server // nil: it is stopped
	api          string          // stays the same over restarts
}

var (
	devListens  = regexp.MustCompile(`(?m)^Carillon is up\..* API (\S+)`)
	devProfiles = regexp.MustCompile(`profiles are served.* at=(http://[^/\s]+)/debug/pprof/`)
)

const (
	// devStart bounds the wait for carillon dev.
	devStart = time.Minute
	// devLog is the file of its output.
	devLog = "log"
)

// startDev starts program (carillon) with its data in dir.
func startDev(ctx context.Context, program, dir string, noop bool) (*devSystem, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start carillon dev: %w", err)
	}
	if err := os.Setenv(noopEnv, strconv.FormatBool(noop)); err != nil {
		return nil, fmt.Errorf("start carillon dev: %w", err)
	}
	s := &devSystem{program: program, dir: dir}
	if err := s.work(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *devSystem) name() string { return "carillon-dev" }

func (s *devSystem) intake() []string { return []string{s.api} }

func (s *devSystem) nodes() []string { return []string{s.api} }

// profiles are where the log says: at a free port of the last start.
func (s *devSystem) profiles() []string {
	text, err := os.ReadFile(filepath.Join(s.dir, devLog))
	if err != nil || s.server == nil {
		return nil
	}
	all := devProfiles.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return nil
	}
	return []string{string(all[len(all)-1][1])}
}

func (s *devSystem) pids() map[string]int {
	if s.server == nil {
		return map[string]int{nodeKind: 0}
	}
	return map[string]int{nodeKind: s.server.PID}
}

// rest stops the process; its data stays.
func (s *devSystem) rest(context.Context) error {
	if s.server == nil {
		return nil
	}
	err := s.server.End()
	s.server = nil
	return err
}

func (s *devSystem) work(ctx context.Context) (err error) {
	if s.server != nil {
		return nil
	}
	port := "0"
	if s.api != "" {
		_, port, _ = strings.Cut(strings.TrimPrefix(s.api, "http://"), ":")
	}
	args := []string{"dev", "--port", port, "--data-dir", filepath.Join(s.dir, "data"), "--admin-listen", "127.0.0.1:0"}
	server, err := process.StartServer(ctx, s.program, args, filepath.Join(s.dir, devLog), devListens, devStart)
	if err != nil {
		return err
	}
	s.server = server
	if s.api == "" {
		s.api = server.Said
	}
	return nil
}

// kill fails: nobody takes over from a single process.
func (s *devSystem) kill(context.Context) (string, error) {
	return "", errors.New("carillon dev has no second dispatcher")
}

func (s *devSystem) close(ctx context.Context) error { return s.rest(ctx) }
