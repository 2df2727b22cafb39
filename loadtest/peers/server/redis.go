package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
)

// An AOF says when Redis writes a command to its append-only file.
type AOF string

// The ways there are.
const (
	AOFAlways   AOF = "always"   // on disk before it is acknowledged
	AOFEverySec AOF = "everysec" // on disk within a second or two
	AOFOff      AOF = "off"      // never: a restart is empty
)

// A Redis is a Redis server, empty at first.
type Redis struct {
	process *process
	socket  string
	path    string
}

// StartRedis starts a Redis in a folder of its own below dir, and returns when it answers.
func StartRedis(ctx context.Context, dir string, aof AOF) (*Redis, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("find redis-server: there is none; run loadtest/peers/install")
	}
	home, err := folder(dir, "redis", nil)
	if err != nil {
		return nil, err
	}
	r := &Redis{socket: filepath.Join(home, "redis.sock"), path: path}
	args := []string{"--port", "0", "--unixsocket", r.socket, "--unixsocketperm", "700", "--dir", home, "--daemonize", "no", "--save", ""}
	if aof == AOFOff {
		args = append(args, "--appendonly", "no")
	} else {
		args = append(args, "--appendonly", "yes", "--appendfsync", string(aof))
	}
	r.process, err = run(ctx, program{
		path: path, args: args, stop: syscall.SIGTERM, logTo: filepath.Join(dir, "redis.log"), readyFor: "connect",
		ready: func(ctx context.Context) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Socket is the address of its Unix socket.
func (r *Redis) Socket() string { return r.socket }

// PID is that of its process.
func (r *Redis) PID() int { return r.process.PID }

// Version says which Redis it is.
func (r *Redis) Version(ctx context.Context) string { return version(ctx, r.path) }

// Stop stops it and waits for it; when ctx ends, it is killed.
func (r *Redis) Stop(ctx context.Context) error { return r.process.end(ctx) }

// RedisDurability says when a write counts as held.
func RedisDurability(aof AOF) string {
	what := map[AOF]string{
		AOFAlways:   "appendfsync always (acknowledged = on disk)",
		AOFEverySec: "appendfsync everysec (acknowledged up to 2 s before it is on disk)",
		AOFOff:      "no append-only file (in memory only: a restart loses everything)",
	}[aof]
	return fmt.Sprintf("Redis: one copy, %s", what)
}
