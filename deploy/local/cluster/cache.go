package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modulePath is the module whose folder is the top of the repository.
const modulePath = "carillon.dev/carillon"

// natsModule is where the NATS server comes from, at the version in go.mod.
const natsModule = "github.com/nats-io/nats-server/v2"

// cacheEnv names the folder of the cache, when it is not .local/cache at the top of the repository.
const cacheEnv = "CARILLON_CACHE"

// A cache holds what is expensive to make and the same for every cluster: Cassandra's jars, its
// class archive, the NATS server. Everything in it appears by a rename, under a file lock, so a
// half-made part is never seen and programs running side by side make each part once.
type cache struct {
	dir string
	top string // of the repository
	say func(string)
}

// openCache returns the cache, making its folder.
func openCache(say func(string)) (*cache, error) {
	top, err := repositoryTop()
	if err != nil {
		return nil, err
	}
	dir := os.Getenv(cacheEnv)
	if dir == "" {
		dir = filepath.Join(top, ".local", "cache")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("find cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	return &cache{dir: dir, top: top, say: say}, nil
}

// repositoryTop returns the folder of this module's go.mod, at or above the working folder.
func repositoryTop() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+modulePath+"\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find repository: no go.mod of %s at or above %s", modulePath, start)
		}
	}
}

// part returns the path of the named part, calling make to make it if it is not there. make is
// given a path beside the final one, with nothing at it.
func (c *cache) part(ctx context.Context, name string, build func(path string) error) (string, error) {
	path := filepath.Join(c.dir, name)
	if exists(path) {
		return path, nil
	}
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return "", fmt.Errorf("wait for %s: %w", name, err)
	}
	defer unlock()
	if exists(path) {
		return path, nil // made while we waited
	}
	tmp := path + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	if err := build(tmp); err != nil {
		return "", fmt.Errorf("make %s: %w", name, errors.Join(err, os.RemoveAll(tmp)))
	}
	if err := os.Rename(tmp, path); err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	return path, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// natsServer returns the path of the NATS server's program.
func (c *cache) natsServer(ctx context.Context) (string, error) {
	version, err := c.goTool(ctx, "list", "-m", "-f", "{{.Version}}", natsModule)
	if err != nil {
		return "", fmt.Errorf("find version of the NATS server: %w", err)
	}
	return c.part(ctx, "nats-server-"+version, func(path string) error {
		c.say("building NATS server " + version + ": this happens once, and may take minutes")
		_, err := c.goTool(ctx, "build", "-trimpath", "-o", path, natsModule)
		return err
	})
}

// goTool runs the go command at the top of the repository and returns what it prints.
func (c *cache) goTool(ctx context.Context, args ...string) (string, error) {
	return run(ctx, c.top, "go", args...)
}

// run runs a program to its end and returns its output, trimmed; the error holds what it wrote to
// its error output.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stderr.String() + stdout.String())
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, said)
	}
	return strings.TrimSpace(stdout.String()), nil
}
