package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// TwoBuilds rolls a cluster from an older build of Carillon to this one, and back.
const TwoBuilds Scenario = "two-builds"

// The acts of a rolling upgrade. The newer build migrates, and the older one runs on the result.
const (
	ActMigrate    Act = "migrate with the newer build"
	ActStartNewer Act = "start the newer build of"
	ActStartOlder Act = "start the older build of"
)

var buildPlans = []Plan{{
	Name: TwoBuilds, Takes: 6 * time.Minute, Members: three,
	Does:     "an older build, rolled up to this one and down again, side by side (F33)",
	Promises: "nothing missed; both work on the newer layout of the keyspace",
	Load: steady(3*time.Minute, deathCosts, func(m cluster.Spec) []chain {
		c := chain{do(15, ActMigrate, "")}
		for i := range m.Nodes {
			c = append(c, rebuilt(ActStartNewer, numbered("carillon", i+1), seconds(25+20*i))...)
		}
		c = append(c, agree(85))
		for i := range m.Nodes {
			c = append(c, rebuilt(ActStartOlder, numbered("carillon", i+1), seconds(95+20*i))...)
		}
		return []chain{append(c, agree(155))}
	}),
}}

// rebuilt stops a node and starts another build of it.
func rebuilt(start Act, member string, at seconds) chain {
	return chain{do(at, ActStop, member), do(at, start, member)}
}

// migrationsDir is where the layout of the keyspace is written, one file a migration.
const migrationsDir = "schema/cassandra/migrations"

// olderCommit returns the commit of the older build where none is stated: the one before the newest
// migration, if that one only adds, so that builds that do not know it run beside it. Otherwise the
// commit that brought it: the oldest build for the present layout.
func olderCommit(ctx context.Context, top string) (string, error) {
	// The newest migration that was added, by its number, with its commit above it.
	out, err := output(ctx, top, "git", "log", "--diff-filter=A", "--name-only", "--no-renames", "--format=%H", "--", migrationsDir)
	if err != nil {
		return "", err
	}
	commit, newest, at := "", "", ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case !strings.HasPrefix(line, migrationsDir):
			commit = line
		case line > newest:
			newest, at = line, commit
		}
	}
	switch {
	case at == "":
		return "", fmt.Errorf("no commit brings a migration in %s", migrationsDir)
	case strings.HasSuffix(newest, ".additive.cql"):
		return at + "^", nil
	default:
		return at, nil
	}
}

// twoBuilds is the preparation of TwoBuilds.
type twoBuilds struct{ *run }

// build builds the older program and this one, and has the cluster start with the older.
func (r twoBuilds) build(ctx context.Context) error {
	top, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	if r.cfg.Older == "" {
		if r.cfg.Older, err = olderCommit(ctx, top); err != nil {
			return err
		}
	}
	commit, err := output(ctx, top, "git", "rev-parse", "--verify", r.cfg.Older+"^{commit}")
	if err != nil {
		return fmt.Errorf("find the older build: %w", err)
	}
	r.report.Older = commit
	source := filepath.Join(r.cfg.Dir, "older")
	if err := os.Mkdir(source, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	archive := filepath.Join(r.cfg.Dir, "older.tar")
	for _, argv := range [][]string{
		{"git", "archive", "--output", archive, commit},
		{"tar", "-x", "-f", archive, "-C", source},
	} {
		if _, err := output(ctx, top, argv[0], argv[1:]...); err != nil {
			return fmt.Errorf("unpack %s: %w", commit, err)
		}
	}
	if r.older, err = r.buildOne(ctx, source, "older"); err != nil {
		return err
	}
	if r.newer, err = r.buildOne(ctx, top, "newer"); err != nil {
		return err
	}
	r.cfg.Cluster.Program = r.older
	return errors.Join(os.RemoveAll(source), os.Remove(archive))
}

// buildOne builds carillon from a source tree; its version is its name.
func (r twoBuilds) buildOne(ctx context.Context, source, name string) (string, error) {
	path := filepath.Join(r.cfg.Dir, "carillon-"+name)
	r.log.Info("building", "program", name)
	_, err := output(ctx, source, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version="+name, "-o", path, "./cmd/carillon")
	if err != nil {
		return "", fmt.Errorf("build the %s carillon: %w", name, err)
	}
	return path, nil
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...) // #nosec G204 -- git, tar and go
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s %s: %w", program, args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// startBuild starts a stopped node as another program. The note names the versions that run then.
func startBuild(program func(*run) string) func(ctx context.Context, r *run, member string) (string, error) {
	return func(ctx context.Context, r *run, member string) (string, error) {
		c := r.cluster()
		if err := c.StartProgram(ctx, member, program(r)); err != nil {
			return "", err
		}
		var versions []string
		for _, n := range c.Status().Carillon {
			version := "no answer"
			if v, err := r.askView(ctx, n.API); err == nil {
				version = v.Version
			}
			versions = append(versions, n.Name+" "+version)
		}
		return strings.Join(versions, ", "), nil
	}
}

// buildActs are the acts of TwoBuilds.
var buildActs = acts{
	ActMigrate: func(ctx context.Context, r *run, _ string) (string, error) {
		return "the older build is " + r.report.Older, r.cluster().Migrate(ctx, r.newer)
	},
	ActStartNewer: startBuild(func(r *run) string { return r.newer }),
	ActStartOlder: startBuild(func(r *run) string { return r.older }),
}
