package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/cmd/internal/config"
)

// minSecret is the shortest text that is taken out wherever it stands. A shorter one stands in other
// words too; as the value of its key it is not shown anyway.
const minSecret = 4

// hider takes secrets out of texts.
type hider struct{ secrets []string }

// newHider returns a hider of these secrets, also as JSON, URLs and base64 write them.
func newHider(secrets []string) hider {
	var all []string
	add := func(s string) {
		written := []string{s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s))}
		if quoted, err := json.Marshal(s); err == nil {
			written = append(written, strings.Trim(string(quoted), `"`))
		}
		for _, w := range written {
			if len(w) >= minSecret {
				all = append(all, w)
			}
		}
	}
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		add(s)
		if raw, err := base64.StdEncoding.DecodeString(s); err == nil {
			add(string(raw))
			add(fmt.Sprintf("%x", raw))
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	// the longest first: one may be a part of another
	slices.SortStableFunc(all, func(a, b string) int { return len(b) - len(a) })
	return hider{all}
}

// text returns s without secrets.
func (h hider) text(s string) string {
	for _, secret := range h.secrets {
		s = strings.ReplaceAll(s, secret, config.Hidden)
	}
	return s
}

// entry is a file of a bundle.
type entry struct {
	name string
	text []byte
}

// entries returns the files of a bundle.
func (f *Facts) entries(r *Report) ([]entry, error) {
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		return nil, err
	}
	all := []entry{{"README.txt", []byte(bundleReadme)}, {"findings.txt", text.Bytes()}, {"versions.txt", []byte(f.versions())}}
	put := func(name string, v any) error {
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		all = append(all, entry{name, append(b, '\n')})
		return nil
	}
	faults := []error{put("findings.json", r)}
	if f.Configured {
		faults = append(faults, put("config.json", f.Config.Redacted()))
	}
	if f.Store != nil && f.Store.Err == nil {
		e := &f.Store.Seen
		grace := make(map[string]string, len(e.Grace))
		for table, d := range e.Grace {
			grace[table] = d.String()
		}
		faults = append(faults, put("cassandra.json", map[string]any{
			"version": e.Version, "datacenter": e.Datacenter, "settings": e.Settings, "replication": e.Replication, "migrations": e.Migrations,
			"nodes": e.Nodes, "gc_grace": grace, "shards": f.Store.Settings.Shards, "retention": f.Store.Settings.Retention.String(),
		}))
	}
	if f.Queue != nil && f.Queue.Err == nil {
		e := f.Queue.Seen
		e.JetStream = nil // an error; it is a finding
		e.Streams = slices.Clone(e.Streams)
		for i := range e.Streams {
			e.Streams[i].Err = nil
		}
		faults = append(faults, put("nats.json", e))
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Err != nil {
			continue
		}
		dir := path.Join("nodes", fileName(n.Name))
		faults = append(faults, put(path.Join(dir, "cluster.json"), n.Cluster), put(path.Join(dir, "regions.json"), n.Regions))
		if n.Metrics != nil {
			all = append(all, entry{path.Join(dir, "metrics.txt"), n.Metrics})
		}
	}
	return all, errors.Join(faults...)
}

// versions tells what built this program, and what runs where it is asked.
func (f *Facts) versions() string {
	var b strings.Builder
	fmt.Fprintf(&b, "carillon %s\n%s %s/%s\n", f.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if strings.HasPrefix(s.Key, "vcs.") {
				fmt.Fprintf(&b, "%s %s\n", s.Key, s.Value)
			}
		}
	}
	if f.Store != nil {
		fmt.Fprintf(&b, "cassandra %s\n", f.Store.Seen.Version)
	}
	if f.Queue != nil {
		fmt.Fprintf(&b, "nats %s\n", f.Queue.Seen.Version)
	}
	for i := range f.Nodes {
		fmt.Fprintf(&b, "node %s %s\n", f.Nodes[i].Name, f.Nodes[i].Cluster.Version)
	}
	return b.String()
}

// fileName makes a name of a file of any text.
func fileName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, text)
	return name[:min(len(name), 100)]
}

const bundleReadme = `What "carillon doctor --bundle" saw of an installation of Carillon.

findings.txt, findings.json   what is not as it should be, and what to do
config.json                   the configuration of a node; secrets are "` + config.Hidden + `"
versions.txt                  what built and runs what
cassandra.json, nats.json     settings and state of the servers
nodes/NAME                    GET /v1/cluster, GET /v1/regions and /metrics of each node

It holds no passwords, keys or tokens of the configuration, no payloads and no outputs of runs. It
does hold names: of machines, tenants, tasks and jobs, and addresses. Look before you send it.
`

// writeBundle writes the files, compressed, into w. No text of them has a secret left that hide
// knows.
func writeBundle(w io.Writer, entries []entry, at time.Time, hide hider) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, e := range entries {
		text := []byte(hide.text(string(e.text)))
		head := &tar.Header{Name: path.Join("carillon-doctor", hide.text(e.name)), Mode: 0o600, Size: int64(len(text)), ModTime: at.Truncate(time.Second)}
		if err := t.WriteHeader(head); err != nil {
			return fmt.Errorf("write %s: %w", e.name, err)
		}
		if _, err := t.Write(text); err != nil {
			return fmt.Errorf("write %s: %w", e.name, err)
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}

// saveBundle makes the file, which must not be there, readable by its owner alone.
func saveBundle(file string, entries []entry, at time.Time, hide hider) (err error) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the operator names it
	if err != nil {
		return fmt.Errorf("make the bundle: %w", err)
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			_ = os.Remove(file) // half of a bundle is none
		}
	}()
	return writeBundle(out, entries, at, hide)
}
