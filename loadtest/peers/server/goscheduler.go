package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"carillon.dev/carillon/loadtest/api"
)

// GoschedulerConfig is what its caller chooses.
type GoschedulerConfig struct {
	Checkout string // folder of its source
	CQL      string // "ip:port" of the Cassandra
	Callers  int    // calls at a time (HttpConnector.Routines)
}

// A Goscheduler is one node of goscheduler, built from a checkout.
type Goscheduler struct {
	process *process
	url     string
	version string
}

// StartGoscheduler builds goscheduler, lets it make its schema, and returns when its API answers. It listens for its API on every address:
// nothing sets that.
func StartGoscheduler(ctx context.Context, dir string, cfg GoschedulerConfig) (*Goscheduler, error) {
	home, err := folder(dir, "goscheduler", nil)
	if err != nil {
		return nil, err
	}
	checkout, err := filepath.Abs(cfg.Checkout)
	if err != nil {
		return nil, fmt.Errorf("build goscheduler: %w", err)
	}
	path := filepath.Join(home, "goscheduler")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, ".")
	build.Dir, build.Env = checkout, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build goscheduler: %w: %s", err, out)
	}
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(home, "conf.json")
	text, err := cfg.file(filepath.Join(checkout, "cassandra", "cassandra.cql"), ports[1])
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, fmt.Errorf("configure goscheduler: %w", err)
	}
	g := &Goscheduler{url: "http://" + loopback(ports[0]), version: commit(ctx, checkout)}
	g.process, err = run(ctx, program{
		path: path,
		args: []string{"-conf", config, "-h", "127.0.0.1", "-p", strconv.Itoa(ports[1]), "-logtostderr"}, // else it logs everything twice
		env:  []string{"PORT=" + strconv.Itoa(ports[0]), "GOPATH="},                                      // it puts GOPATH before the path of its schema
		stop: syscall.SIGTERM, logTo: filepath.Join(home, "log"), readyFor: "ask for its health",
		ready: g.healthy,
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// file returns the configuration. What is not stated has the value of the checkout's conf/conf.json.
func (cfg GoschedulerConfig) file(schema string, ringPort int) ([]byte, error) {
	type object = map[string]any
	db := object{
		"Hosts": cfg.CQL, "Consistency": "ONE", "PageSize": 1500, "NumRetry": 2,
		// The first is the limit of every statement; in milliseconds.
		"ConnectionPool": object{"InitialConnectTimeout": 10_000, "ConnectTimeout": 10_000, "MaxNumConnections": 8},
	}
	ring := loopback(ringPort)
	text, err := json.MarshalIndent(object{
		"SchemaPath": schema,
		"Cluster": object{
			"ClusterName": "goscheduler", "Address": ring, "TChannelPort": strconv.Itoa(ringPort),
			"BootStrapServers": []string{ring}, "JoinSize": 1, "Log": object{"Enable": false}, "ReplicaPoints": 2,
		},
		"ClusterDB":  object{"ClusterKeySpace": "cluster", "DBConfig": db, "EntityHistorySize": 100},
		"ScheduleDB": object{"ScheduleKeySpace": "schedule_management", "ScheduleTableName": "schedules", "DBConfig": db},
		"AppLevelConfiguration": object{
			"FiredScheduleRetentionPeriod": 10, "FutureScheduleCreationPeriod": 30, "HttpRetries": 3, "HttpTimeout": 10_000, "PayloadSize": 1 << 20,
		},
		"NodeCrashReconcile": object{"NeedsReconcile": true, "ReconcileOffset": 3},
		"MonitoringConfig":   object{"Statsd": object{"Address": "127.0.0.1:8125", "Prefix": "goscheduler", "Enabled": false}},
		// A poller looks once in so many seconds at the minute that it is: more often, and runs are made twice.
		"Poller":                   object{"Interval": 60, "BufferSize": 1000, "DefaultCount": 1, "MaxQueryLimit": 10_000},
		"HttpConnector":            object{"Routines": cfg.Callers, "MaxRetry": 3, "TimeoutMillis": 10_000},
		"StatusUpdateConfig":       object{"Routines": 10},
		"AggregateSchedulesConfig": object{"BufferSize": 10_000, "Routines": 2, "BatchSize": 50, "FlushPeriod": 1},
		"CronConfig":               object{"App": "Athena", "Window": 5, "Routines": 1},
		"BulkActionConfig":         object{"BufferSize": 1, "Routines": 1},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("configure goscheduler: %w", err)
	}
	return text, nil
}

func (g *Goscheduler) healthy(ctx context.Context) error {
	_, err := api.AskOK(ctx, http.DefaultClient, api.Request{URL: g.HealthURL()})
	return err
}

// URL is that of its API, without a slash at the end.
func (g *Goscheduler) URL() string { return g.url }

// HealthURL answers 200.
func (g *Goscheduler) HealthURL() string { return g.url + "/goscheduler/healthcheck" }

// PID is that of its process.
func (g *Goscheduler) PID() int { return g.process.PID }

// Version is its commit.
func (g *Goscheduler) Version() string { return g.version }

// Ended is closed when it has ended by itself; Why then tells how.
func (g *Goscheduler) Ended() <-chan struct{} { return g.process.Done }

// Why returns how it ended and the end of its log.
func (g *Goscheduler) Why() error { return fmt.Errorf("goscheduler has ended: %s", g.process.tail()) }

// Stop stops it and waits for it; when ctx ends, it is killed.
func (g *Goscheduler) Stop(ctx context.Context) error { return g.process.end(ctx) }

// freePorts returns ports of the loopback address that nobody listens on.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var held []net.Listener // until all are found, so that they differ
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	var ports []int
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", loopback(0))
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// commit returns that of a checkout.
func commit(ctx context.Context, checkout string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", checkout, "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
