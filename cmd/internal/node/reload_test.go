package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// reloading is a reloader that runs in a bubble, on files of its own.
type reloading struct {
	t   *testing.T
	dir string
	r   *reloader
	log bytes.Buffer // read after synctest.Wait
	// what was put in force, in order: "key=value"
	applied []string
	refuse  error // by what puts log.level in force
	asked   chan struct{}
}

// reload runs f with a reloader of that configuration, which may name files by %DIR%.
func reload(t *testing.T, text string, files map[string]string, f func(l *reloading)) {
	t.Helper()
	l := &reloading{t: t, dir: t.TempDir()}
	for name, content := range files {
		l.write(name, content)
	}
	l.write("carillon.yaml", text)
	synctest.Test(t, func(t *testing.T) {
		l.asked = make(chan struct{}, 1) // of the bubble
		source := config.Source{File: filepath.Join(l.dir, "carillon.yaml")}
		cfg, read, err := source.Load()
		if err != nil {
			t.Fatal(err)
		}
		apply := map[string]func(config.Config) error{
			"log.level": func(c config.Config) error {
				if l.refuse == nil {
					l.applied = append(l.applied, "log.level="+c.Log.Level)
				}
				return l.refuse
			},
			"secrets.keys": func(c config.Config) error {
				l.applied = append(l.applied, "secrets.keys="+strings.Join(c.Secrets.Keys, "+"))
				return nil
			},
		}
		l.r, err = newReloader(cfg, &Reload{Source: source, Files: read, Asked: l.asked}, apply, slog.New(slog.NewTextHandler(&l.log, nil)), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.r.run(ctx) }()
		synctest.Wait()
		f(l)
		cancel()
		<-done
	})
}

func (l *reloading) write(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(strings.ReplaceAll(text, "%DIR%", l.dir)), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// later lets the files be looked at once more.
func (l *reloading) later() {
	time.Sleep(reloadEvery)
	synctest.Wait()
}

// want compares what was put in force since it was last asked, and both metrics.
func (l *reloading) want(when string, ok, restart float64, applied ...string) {
	l.t.Helper()
	if !slices.Equal(l.applied, applied) {
		l.t.Errorf("%s: %q were put in force, want %q", when, l.applied, applied)
	}
	l.applied = nil
	if gotOK, gotRestart := valueOf(l.t, l.r.ok), valueOf(l.t, l.r.restart); gotOK != ok || gotRestart != restart {
		l.t.Errorf("%s: reload_ok %v, restart_needed %v; want %v, %v", when, gotOK, gotRestart, ok, restart)
	}
}

// said returns how often the log has a text, and empties it.
func (l *reloading) said(text string) int {
	n := strings.Count(l.log.String(), text)
	l.log.Reset()
	return n
}

const reloadable = "node: {name: a}\ncassandra: {hosts: [127.0.0.1]}\nnats: {urls: ['nats://127.0.0.1:4222']}\n"

func aKey(name string, fill byte) string {
	return name + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

func TestChangesOfTheFilesAreInForceWithoutARestart(t *testing.T) {
	old, next := aKey("old", 1), aKey("new", 2)
	with := reloadable + "secrets: {keys_file: %DIR%/keys}\n"
	reload(t, with, map[string]string{"keys": old}, func(l *reloading) {
		l.later()
		l.want("nothing has changed", 1, 0)
		l.write("carillon.yaml", with+"log: {level: debug}\n")
		l.later()
		l.want("another level", 1, 0, "log.level=debug")
		l.later()
		l.want("nothing has changed since", 1, 0)
		l.write("keys", next+"\n"+old)
		l.later()
		l.want("another key in its file", 1, 0, "secrets.keys="+next+"+"+old)
		if text := l.log.String(); strings.Contains(text, old) || strings.Contains(text, next) {
			l.t.Errorf("the log repeats a key: %s", text)
		}
	})
}

func TestAReloadIsAskedFor(t *testing.T) {
	reload(t, reloadable, nil, func(l *reloading) {
		l.write("carillon.yaml", reloadable+"log: {level: warn}\n")
		l.asked <- struct{}{}
		synctest.Wait() // no time passes
		l.want("asked for", 1, 0, "log.level=warn")
	})
}

func TestWhatNeedsARestartIsNamed(t *testing.T) {
	tls := reloadable + "executor: {slots: 7}\n"
	tls = strings.Replace(tls, "hosts: [127.0.0.1]", "hosts: [127.0.0.1], password: hunter1, tls: {enabled: true, ca: %DIR%/ca}", 1)
	reload(t, tls, map[string]string{"ca": "one"}, func(l *reloading) {
		changed := strings.NewReplacer("slots: 7", "slots: 8", "hunter1", "hunter2").Replace(tls) + "log: {level: warn}\n"
		l.write("carillon.yaml", changed)
		l.later()
		l.want("slots, a password and the level have changed", 1, 1, "log.level=warn")
		if text := l.log.String(); !strings.Contains(text, `keys="[cassandra.password executor.slots]"`) || strings.Contains(text, "hunter") {
			l.t.Errorf("the log says %s; want the two keys that need a restart, and no value", text)
		}
		l.said("")
		l.write("carillon.yaml", changed+"# of no account\n")
		l.later()
		if l.want("a comment", 1, 1); l.said("after a restart only") != 0 {
			l.t.Error("the same keys are told again")
		}
		l.write("ca", "two")
		l.later()
		if l.want("another certificate", 1, 1); l.said(`keys="[cassandra.password cassandra.tls.ca executor.slots]"`) != 1 {
			l.t.Error("a changed file of certificates is not named")
		}
		l.write("ca", "one")
		l.write("carillon.yaml", tls)
		l.later()
		if l.want("all as it was", 1, 0, "log.level=info"); l.said("no setting needs a restart") != 1 {
			l.t.Error("the log does not say that no restart is needed any more")
		}
	})
}

func TestAFaultyConfigurationChangesNothing(t *testing.T) {
	reload(t, reloadable, nil, func(l *reloading) {
		l.write("carillon.yaml", reloadable+"log: {level: loud}\nexecutor: {slots: 9}\n")
		l.later()
		if l.want("a level that there is not", 0, 0); l.said(`log.level: \"loud\" is not`) != 1 {
			l.t.Error("the log does not name the fault")
		}
		l.later()
		if l.want("the same fault", 0, 0); l.said("could not be read again") != 0 {
			l.t.Error("the same fault is told again")
		}
		l.write("carillon.yaml", reloadable+"log: {level: error}\nring: {key_file: %DIR%/none}\n")
		l.later()
		l.want("a file that there is not", 0, 0)
		l.write("none", base64.StdEncoding.EncodeToString(make([]byte, 32)))
		l.later()
		l.want("the file is there", 1, 1, "log.level=error")
		if err := os.Remove(filepath.Join(l.dir, "carillon.yaml")); err != nil {
			l.t.Fatal(err)
		}
		l.later()
		l.want("no configuration", 0, 1)
	})
}

func TestWhatCannotBePutInForceIsTriedAgain(t *testing.T) {
	reload(t, reloadable, nil, func(l *reloading) {
		l.refuse = errors.New("broken")
		l.write("carillon.yaml", reloadable+"log: {level: debug}\n")
		l.later()
		l.want("the level is not taken", 0, 0)
		l.refuse = nil
		l.asked <- struct{}{}
		synctest.Wait()
		l.want("asked again", 1, 0, "log.level=debug")
		l.refuse = errRestart
		l.write("carillon.yaml", reloadable+"log: {level: warn}\n")
		l.later()
		if l.want("it needs a restart after all", 1, 1); l.said("keys=[log.level]") != 1 {
			l.t.Error("the log does not name log.level")
		}
	})
}

// A node without a Reload looks at nothing, and has the metrics.
func TestWithoutAReloadNothingIsLookedAt(t *testing.T) {
	reg := prometheus.NewRegistry()
	r, err := newReloader(config.Default(), nil, nil, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	r.run(t.Context()) // returns
	if families, err := reg.Gather(); err != nil || len(families) != 2 {
		t.Errorf("Gather = %v, %v; want both metrics", families, err)
	}
}

// A node puts level, keys and scripts in force; and scripts need a restart where there were none.
func TestANodeReloads(t *testing.T) {
	dir := t.TempDir()
	scripts := filepath.Join(dir, "scripts.yaml")
	allow := func(name string) {
		text := "commands: {" + name + ": {path: /bin/true"
		if os.Geteuid() == 0 {
			text += ", user: root"
		}
		if err := os.WriteFile(scripts, []byte(text+"}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	allow("before")
	level := new(slog.LevelVar)
	cfg := config.Default()
	cfg.Executor.Scripts = scripts
	n := New(cfg, Options{Reload: &Reload{Level: level}})
	if _, err := n.openScripts(nil); err != nil {
		t.Fatal(err)
	}
	keyring := testKeyring(t, aKey("old", 1))
	n.administration = &administration{keyring: keyring}
	with, sealed, err := keyring.Seal([]byte("x"), "p")
	if err != nil {
		t.Fatal(err)
	}
	acts := reloads(n)
	allow("after")
	cfg.Log.Level, cfg.Secrets.Keys = "debug", []string{aKey("new", 2), aKey("old", 1)}
	for _, key := range []string{"log.level", "secrets.keys", "executor.scripts"} {
		if err := acts[key](cfg); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %v, want debug", level.Level())
	}
	if got, err := keyring.Open(with, sealed, "p"); err != nil || string(got) != "x" {
		t.Errorf("Open of what was sealed before = %q, %v", got, err)
	}
	if with, _, err := keyring.Seal(nil, "p"); err != nil || with != "new" {
		t.Errorf("Seal with %q, %v; want the new key", with, err)
	}
	if allowed := []bool{scriptAllowed(n, "before"), scriptAllowed(n, "after")}; !slices.Equal(allowed, []bool{false, true}) {
		t.Errorf("before and after are allowed: %v; want the new list alone", allowed)
	}
	cfg.Executor.Scripts = ""
	if err := acts["executor.scripts"](cfg); !errors.Is(err, errRestart) {
		t.Errorf("scripts are switched off: %v, want that it needs a restart", err)
	}
	n.scripts, cfg.Executor.Scripts = nil, scripts
	if err := acts["executor.scripts"](cfg); !errors.Is(err, errRestart) {
		t.Errorf("scripts are switched on: %v, want that it needs a restart", err)
	}
}

func testKeyring(t *testing.T, keys ...string) *admin.Keyring {
	t.Helper()
	k, err := admin.ParseKeyring(keys)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func scriptAllowed(n *Node, name string) bool {
	field, _ := n.scripts.Fault("t", &schema.ScriptTarget{Command: name})
	return field == ""
}

func valueOf(t *testing.T, g prometheus.Gauge) float64 {
	t.Helper()
	var m dto.Metric
	if err := g.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}
