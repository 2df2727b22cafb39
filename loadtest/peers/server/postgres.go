package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// PostgresConfig says how a PostgreSQL commits. fsync is on always.
type PostgresConfig struct {
	// Relaxed turns synchronous_commit off: a commit is acknowledged up to 0.6 s before it is on disk, and what a crash of
	// the machine takes with it is whole transactions. That is what Cassandra's periodic commit log does.
	Relaxed bool
}

// postgresSettings are for 2 cores, 8 GiB or more and a disk without seek times, as PostgreSQL's documentation advises: a
// quarter of the memory that databases share, checkpoints by time and not by the size of the log.
var postgresSettings = map[string]string{
	"shared_buffers":               "2GB",
	"effective_cache_size":         "6GB",
	"wal_buffers":                  "64MB",
	"max_wal_size":                 "16GB",
	"min_wal_size":                 "2GB",
	"checkpoint_timeout":           "15min",
	"checkpoint_completion_target": "0.9",
	"random_page_cost":             "1.1",
	"effective_io_concurrency":     "200",
	"maintenance_work_mem":         "256MB",
	"work_mem":                     "32MB",
	"max_connections":              "100",
	"wal_compression":              "on",
	"autovacuum_naptime":           "10s",
	"autovacuum_vacuum_cost_delay": "0",
}

// A Postgres is a PostgreSQL server, empty at first.
type Postgres struct {
	process *process
	socket  string // folder of its socket
	bin     string // folder of its programs
	config  PostgresConfig
}

// StartPostgres starts a PostgreSQL in a folder of its own below dir, and returns when it answers. It refuses to run as
// root, so if we are, it runs as the user postgres, which Debian's package makes.
func StartPostgres(ctx context.Context, dir string, cfg PostgresConfig) (*Postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	var as *syscall.Credential
	if os.Geteuid() == 0 {
		if as, err = credential("postgres"); err != nil {
			return nil, err
		}
		// Its parent is ours; the user must be able to pass through it.
		if err := os.Chmod(dir, 0o711); err != nil { // #nosec G302 -- to be passed through, not read
			return nil, fmt.Errorf("start postgres: %w", err)
		}
	}
	home, err := folder(dir, "postgres", as)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(home, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
	initdb.Dir = home
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a database cluster: %w: %s", err, out)
	}
	p := &Postgres{socket: home, bin: bin, config: cfg}
	args := []string{"-D", data, "-k", home, "-c", "listen_addresses=", "-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=" + p.synchronous()}
	for name, value := range postgresSettings {
		args = append(args, "-c", name+"="+value)
	}
	p.process, err = run(ctx, program{
		path: filepath.Join(bin, "postgres"), args: args, user: as, stop: syscall.SIGINT, logTo: filepath.Join(dir, "postgres.log"),
		readyFor: "pg_isready",
		ready: func(ctx context.Context) error {
			return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"), "-q", "-h", home, "-U", "postgres").Run()
		},
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Postgres) synchronous() string {
	if p.config.Relaxed {
		return "off"
	}
	return "on"
}

// URL is how a client connects: by the socket, as the superuser.
func (p *Postgres) URL() string {
	return "postgres:///postgres?host=" + p.socket + "&user=postgres"
}

// PID is that of the first process.
func (p *Postgres) PID() int { return p.process.PID }

// Version says which PostgreSQL it is.
func (p *Postgres) Version(ctx context.Context) string {
	return version(ctx, filepath.Join(p.bin, "postgres"))
}

// Stop stops it and waits for it; when ctx ends, it is killed. Clients should have gone.
func (p *Postgres) Stop(ctx context.Context) error { return p.process.end(ctx) }

// PostgresDurability says when a write counts as held.
func PostgresDurability(cfg PostgresConfig) string {
	if cfg.Relaxed {
		return "PostgreSQL: one copy, fsync on, synchronous_commit off (acknowledged up to 0.6 s before it is on disk)"
	}
	return "PostgreSQL: one copy, fsync on, synchronous_commit on (acknowledged = on disk)"
}

// postgresBin finds the programs: Debian has a folder for each version, of which the newest is taken.
func postgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", fmt.Errorf("find postgres: %w", err)
	}
	best, newest := "", -1
	for _, path := range found {
		bin := filepath.Dir(path)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(bin))); err == nil && v > newest {
			best, newest = bin, v
		}
	}
	if best != "" {
		return best, nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("find postgres: there is none; run loadtest/peers/install")
	}
	return filepath.Dir(path), nil
}

// credential is what a process needs to run as a user.
func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("find user: %w", err)
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uerr, gerr); err != nil {
		return nil, fmt.Errorf("find user %s: %w", name, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
