package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/cmd/internal/config"
)

const (
	// reloadEvery is the pause between two looks at the files of the configuration. They are read, not
	// watched: in Kubernetes they are links that are turned over, in folders that are replaced.
	reloadEvery = 10 * time.Second
	// maxReloadFile bounds what is read of each, bytes.
	maxReloadFile = 4 << 20
)

// Reload says how a running node learns that its configuration has changed.
type Reload struct {
	Source config.Source   // of the configuration that the node was made with
	Files  []string        // that were read for it
	Level  *slog.LevelVar  // of the log; nil: fixed
	Asked  <-chan struct{} // a value asks for a reload, whether files have changed or not
}

// errRestart: a change of the key cannot be put in force while the node runs.
var errRestart = errors.New("needs a restart")

// reloader reads the configuration again when it changes, puts in force what can be, and tells what
// cannot. What has a fault changes nothing.
type reloader struct {
	from  Reload
	apply map[string]func(config.Config) error // by key; errRestart if that is needed after all
	log   *slog.Logger

	made     config.Config     // what the parts were made with
	began    map[string]digest // of the files that a key names, at the start, by key
	inForce  config.Config     // what was read last without a fault
	contents map[string]digest // of the files that a key names, by key, as of inForce
	seen     map[string]digest // of each file that was looked at last, by path
	refused  map[string]bool   // keys of apply whose value needs a restart after all
	told     []string          // keys that need a restart, as they were logged last

	ok, restart prometheus.Gauge
}

type digest [sha256.Size]byte

// newReloader makes a reloader. It reads the files, to tell later changes from what is there.
func newReloader(cfg config.Config, from *Reload, apply map[string]func(config.Config) error, log *slog.Logger, reg prometheus.Registerer) (*reloader, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "carillon", Subsystem: "config", Name: name, Help: help})
	}
	r := &reloader{
		apply: apply, log: log, made: cfg, inForce: cfg, refused: make(map[string]bool),
		ok:      gauge("reload_ok", "0 if the configuration has changed and has a fault: that before is in force."),
		restart: gauge("restart_needed", "1 if settings have changed that are in force after a restart only: the log names them."),
	}
	r.ok.Set(1)
	for _, g := range []prometheus.Collector{r.ok, r.restart} {
		if err := reg.Register(g); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	if from == nil {
		return r, nil
	}
	r.from = *from
	r.contents = digests(cfg.Contents())
	r.began = r.contents
	r.seen = r.look(from.Files)
	return r, nil
}

// run looks for changes until ctx ends. Without a Reload there are none.
func (r *reloader) run(ctx context.Context) {
	if r.seen == nil {
		return
	}
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-r.from.Asked:
			asked = true
		case <-tick.C:
		}
		if seen := r.look(slices.Collect(maps.Keys(r.seen))); asked || !maps.Equal(seen, r.seen) {
			r.reload()
		}
	}
}

// look returns what lies in those files, and in those that the configuration in force names.
func (r *reloader) look(files []string) map[string]digest {
	seen := make(map[string]digest)
	for _, path := range slices.Concat(files, slices.Collect(maps.Values(r.inForce.Contents()))) {
		seen[path] = digestOf(path)
	}
	return seen
}

// reload reads the configuration and puts in force what it can.
func (r *reloader) reload() {
	c, files, err := r.from.Source.Load()
	if err != nil {
		r.seen = r.look(slices.Concat(files, slices.Collect(maps.Keys(r.seen)))) // the fault may be mended in any of them
		r.ok.Set(0)
		r.log.Error("the configuration could not be read again: that before stays in force", "err", err)
		return
	}
	contents := digests(c.Contents())
	var changed, faulty []string
	for _, key := range differing(r.inForce, c, r.contents, contents) {
		apply, known := r.apply[key]
		if !known {
			continue
		}
		err := apply(c)
		r.refused[key] = errors.Is(err, errRestart)
		switch {
		case err == nil:
			changed = append(changed, key)
		case !r.refused[key]:
			faulty = append(faulty, key)
			r.log.Error("a setting could not be put in force: that before stays", "key", key, "err", err)
		}
	}
	r.seen = r.look(slices.Concat(files, slices.Collect(maps.Values(c.Contents()))))
	if len(faulty) > 0 { // the next reload tries again
		r.ok.Set(0)
		return
	}
	r.inForce, r.contents = c, contents
	r.ok.Set(1)
	r.log.Info("the configuration was read again", "in_force", changed)
	r.tell(slices.DeleteFunc(differing(r.made, c, r.began, contents), func(key string) bool {
		return r.apply[key] != nil && !r.refused[key]
	}))
}

// tell says which keys need a restart, once.
func (r *reloader) tell(keys []string) {
	r.restart.Set(0)
	if len(keys) > 0 {
		r.restart.Set(1)
	}
	if slices.Equal(keys, r.told) {
		return
	}
	r.told = keys
	if len(keys) > 0 {
		r.log.Warn("settings have changed that are in force after a restart only", "keys", keys)
	} else {
		r.log.Info("no setting needs a restart any more")
	}
}

// differing returns the keys whose values differ, and those that name files whose content does.
func differing(a, b config.Config, inA, inB map[string]digest) []string {
	keys := config.Changes(a, b)
	for key := range inB {
		if before, ok := inA[key]; ok && before != inB[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// digests returns what lies in files, by the keys that name them.
func digests(files map[string]string) map[string]digest {
	sums := make(map[string]digest, len(files))
	for key, path := range files {
		sums[key] = digestOf(path)
	}
	return sums
}

// digestOf returns the digest of a file, that of nothing if it cannot be read.
func digestOf(path string) (d digest) {
	f, err := os.Open(path) // #nosec G304 -- the operator names it
	if err != nil {
		return d
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxReloadFile)); err != nil {
		return d
	}
	return digest(h.Sum(nil))
}

// reloads are what a node puts in force while it runs, by key.
func reloads(n *Node) map[string]func(config.Config) error {
	return map[string]func(config.Config) error{
		"log.level": func(c config.Config) error {
			if n.opts.Reload == nil || n.opts.Reload.Level == nil {
				return errRestart
			}
			var level slog.Level
			if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
				return err
			}
			n.opts.Reload.Level.Set(level)
			return nil
		},
		"secrets.keys": func(c config.Config) error {
			keyring, err := admin.ParseKeyring(c.Secrets.Keys)
			if err != nil {
				return err
			}
			n.administration.keyring.Replace(keyring)
			return nil
		},
		"api.tls.cert":        n.certs.replace,
		"api.tls.key":         n.certs.replace,
		"api.tls.client_ca":   n.certs.replace,
		"api.tls.client_auth": n.certs.replace,
		"api.tls.clients":     n.certs.replace,
		"executor.scripts": func(c config.Config) error {
			if n.scripts == nil || c.Executor.Scripts == "" {
				return errRestart // the executor has the target, or has not
			}
			next, err := loadScripts(c.Executor, nil, n.log)
			if err != nil {
				return err
			}
			n.scripts.Replace(next)
			return nil
		},
	}
}
