package cluster

import (
	"bytes"
	"context"
	_ "embed" // the configuration of a node
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed cassandra/cassandra.yaml.tmpl
var cassandraYAML string

//go:embed cassandra/jvm.options
var jvmOptions string

//go:embed cassandra/logback.xml
var logbackXML []byte

const (
	cassandraMain = "org.apache.cassandra.service.CassandraDaemon"
	nodetoolMain  = "org.apache.cassandra.tools.NodeTool"

	// startLimit bounds the wait for one member to be ready; cold and loaded machines need a tenth
	// of it.
	startLimit = 2 * time.Minute
	// stopGrace is how long a member may take to stop by itself; a Carillon node drains for up to
	// 30 s.
	stopGrace = 45 * time.Second
)

// cassandraSizes are the parts of a node's configuration that go with its heap.
type cassandraSizes struct {
	Segment, CommitLog, Memtable, FileCache string
	Reads, Writes                           int
}

// profileSizes and profileFlags say what each profile means.
var (
	profileSizes = map[Profile]cassandraSizes{
		ProfileTest: {Segment: "8MiB", CommitLog: "256MiB", Memtable: "64MiB", FileCache: "32MiB", Reads: 8, Writes: 16},
		ProfileLoad: {Segment: "32MiB", CommitLog: "2048MiB", Memtable: "512MiB", FileCache: "256MiB", Reads: 32, Writes: 32},
	}
	profileFlags = map[Profile][]string{
		ProfileTest: {"-Xms64M", "-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"},
		ProfileLoad: {"-Xmx2G", "-XX:+UseG1GC"},
	}
)

// cassandraTokens are the tokens of the nodes of a cluster of the given size: they cut the ring
// into equal parts.
var cassandraTokens = map[int][]int64{
	1: {0},
	2: {-9223372036854775808, 0}, // of a region
	3: {-9223372036854775808, -3074457345618258603, 3074457345618258602},
}

// A cassandraNode is one node: where it lives and how it is set up.
type cassandraNode struct {
	index int // counted from 1
	dir   string
	plan  plan
	// replaces: it has no data, and takes the place of the node that had its address.
	replaces bool
}

var cassandraTemplate = template.Must(template.New("cassandra.yaml").
	Funcs(template.FuncMap{"quote": strconv.Quote}).Option("missingkey=error").Parse(cassandraYAML))

// config renders the node's cassandra.yaml.
func (n cassandraNode) config() ([]byte, error) {
	seeds := n.plan.seeds()
	if n.replaces { // a seed takes over no data
		seeds = slices.DeleteFunc(seeds, func(ip string) bool { return ip == n.ip() })
	}
	var out bytes.Buffer
	err := cassandraTemplate.Execute(&out, map[string]any{
		"Name":        memberName(kindCassandra, n.index),
		"Cluster":     n.plan.cassandraName(),
		"Token":       n.plan.token(n.index),
		"Replaces":    n.replaces,
		"Seeds":       strings.Join(seeds, ","),
		"IP":          n.ip(),
		"StoragePort": storagePort,
		"CQLPort":     cqlPort,
		"Data":        filepath.Join(n.dir, "data"),
		"CommitLog":   string(n.plan.Spec.CommitLog),
		"SyncMillis":  CommitLogPeriod.Milliseconds(),
		"Secure":      n.plan.Spec.Secure,
		"Views":       n.plan.Spec.Views,
		"Certificate": n.conf(certificateName),
		"Sizes":       profileSizes[n.plan.Spec.Profile],
	})
	if err != nil {
		return nil, fmt.Errorf("render cassandra.yaml: %w", err)
	}
	return out.Bytes(), nil
}

// writeConfig makes the node's folders and configuration files.
func (n cassandraNode) writeConfig() error {
	for _, sub := range []string{"conf", "data", "tmp"} {
		if err := os.MkdirAll(filepath.Join(n.dir, sub), 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	yaml, err := n.config()
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(n.conf("cassandra.yaml"), yaml, 0o600),
		writeFile(n.conf("logback.xml"), logbackXML, 0o600),
		writeFile(n.conf("cassandra-rackdc.properties"), fmt.Appendf(nil, "dc=%s\nrack=rack1\n", n.plan.Spec.DataCenter), 0o600),
	)
}

func (n cassandraNode) ip() string { return n.plan.ip(kindCassandra, n.index) }

func (n cassandraNode) conf(name string) string { return filepath.Join(n.dir, "conf", name) }

// command returns the command line of the node; of two equal flags the JVM takes the last.
func (n cassandraNode) command(tools javaTools, archive string) []string {
	argv := append([]string{tools.java.path}, jvmFlags()...)
	argv = append(argv, profileFlags[n.plan.Spec.Profile]...)
	if n.plan.Spec.Secure {
		// The first user is there at once, not after 10 s, and a password is checked in a
		// millisecond, not in a tenth of a second.
		argv = append(argv, "-Dcassandra.superuser_setup_delay_ms=0", "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4")
	}
	argv = append(argv, archive, "-Xshare:auto",
		"-Dcassandra.config=file://"+n.conf("cassandra.yaml"),
		"-Dlogback.configurationFile="+n.conf("logback.xml"),
		"-Dcassandra-rackdc.properties=file://"+n.conf("cassandra-rackdc.properties"),
		"-Dcassandra.logdir="+n.dir,
		"-Dcassandra.storagedir="+filepath.Join(n.dir, "data"),
		"-Djava.io.tmpdir="+filepath.Join(n.dir, "tmp"),
		"-Dcassandra-foreground=yes",
		// Waits that only matter between machines.
		"-Dcassandra.skip_wait_for_gossip_to_settle=0",
		"-Dcassandra.ring_delay_ms=100",
		// Gossip must not forget a node before it has joined, as it would after the ring delay: the
		// nodes would then never agree on a schema.
		"-Dcassandra.gossip_quarantine_delay_ms=60000",
		"-Dcassandra.shutdown_announce_in_ms=0",
		"-Dcassandra.jmx.local.port="+strconv.Itoa(n.plan.Block.jmxPort(n.index)),
	)
	if n.replaces {
		// The ring delay is how long a node watches gossip before it says that another one is
		// alive.
		argv = append(argv, "-Dcassandra.replace_address_first_boot="+n.ip(), "-Dcassandra.ring_delay_ms=5000")
	}
	return append(argv, "-cp", tools.classPath, cassandraMain)
}

// jvmFlags returns the lines of jvm.options that are flags.
func jvmFlags() []string {
	var flags []string
	for line := range strings.Lines(jvmOptions) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			flags = append(flags, line)
		}
	}
	return flags
}

// Nodetool returns the command line of Cassandra's nodetool for the node name.
func (c *Cluster) Nodetool(ctx context.Context, name string, args ...string) ([]string, error) {
	m, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if m.kind != kindCassandra {
		return nil, fmt.Errorf("nodetool: %s is not a Cassandra node", name)
	}
	shared, err := openCache(c.say)
	if err != nil {
		return nil, err
	}
	tools, err := shared.javaTools(ctx)
	if err != nil {
		return nil, err
	}
	argv := append([]string{tools.java.path}, jvmFlags()...)
	argv = append(argv, "-cp", tools.classPath, nodetoolMain, "-h", "127.0.0.1", "-p", strconv.Itoa(c.plan.Block.jmxPort(m.index)))
	return c.within(m, append(argv, args...)), nil
}

// A nodeRow is what one node says of another, or of itself, in its gossip table.
type nodeRow struct{ ip, status, rpcReady, schema string }

// gossipQuery reads a node's view of the cluster.
const gossipQuery = "SELECT address, status_with_port, rpc_ready, \"schema\" FROM system_views.gossip_info"

// cassandraReady says whether the node at addr sees every node of want ("ip") serving and of one
// schema version; if not, it says what is missing.
func cassandraReady(ctx context.Context, addr string, security *Security, want []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := queryNode(ctx, addr, security, gossipQuery)
	if err != nil {
		return err
	}
	seen := make([]nodeRow, 0, len(rows))
	for _, cells := range rows {
		seen = append(seen, nodeRow{
			ip:     netIP(cells[0]),
			status: string(cells[1]), rpcReady: string(cells[2]), schema: string(cells[3]),
		})
	}
	return checkGossip(seen, want)
}

// checkGossip is nil if rows show every node of want serving and of one schema version.
func checkGossip(rows []nodeRow, want []string) error {
	schema := ""
	for _, ip := range want {
		row := nodeRow{}
		for _, r := range rows {
			if r.ip == ip {
				row = r
			}
		}
		switch {
		case row.ip == "":
			return fmt.Errorf("node %s is not in gossip yet", ip)
		case !strings.HasPrefix(row.status, "NORMAL"):
			return fmt.Errorf("node %s has status %q, want NORMAL", ip, row.status)
		case row.rpcReady != "true":
			return fmt.Errorf("node %s does not serve clients yet", ip)
		case row.schema == "" || schema != "" && row.schema != schema:
			return fmt.Errorf("node %s has schema version %q, another has %q", ip, row.schema, schema)
		}
		schema = row.schema
	}
	return nil
}

// javaTools are the parts that every node of every cluster is started from.
type javaTools struct {
	java      java
	classPath string
}

func (c *cache) javaTools(ctx context.Context) (javaTools, error) {
	j, err := findJava(ctx)
	if err != nil {
		return javaTools{}, err
	}
	jars, err := c.jars(ctx)
	if err != nil {
		return javaTools{}, err
	}
	return javaTools{java: j, classPath: strings.Join(jars, string(filepath.ListSeparator))}, nil
}

// classArchive returns the archive of loaded classes (AppCDS) that takes the start of a node from
// 13 s to 3 s. It is made by starting a throwaway node once.
func (c *cache) classArchive(ctx context.Context, tools javaTools) (string, error) {
	name := "cassandra-classes-" + shortHash(tools.java.path, tools.java.version, tools.classPath, jvmOptions) + ".jsa"
	return c.part(ctx, name, func(path string) error {
		c.say("starting Cassandra once to archive its classes: the starts to come are faster by it")
		return trainArchive(ctx, tools, path)
	})
}

func trainArchive(ctx context.Context, tools javaTools, path string) (err error) {
	spec := Spec{Cassandra: 1}.withDefaults()
	b, release, err := reserveBlock(ctx, firstTestBlock, spec)
	if err != nil {
		return err
	}
	defer release()
	dir, err := os.MkdirTemp("", "carillon-archive-*")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := plan{Spec: spec, Block: b}
	node := cassandraNode{index: 1, dir: dir, plan: p}
	if err := node.writeConfig(); err != nil {
		return err
	}
	l := newLauncher(false)
	defer l.close()
	logFile := filepath.Join(dir, logName)
	id, err := l.start(dir, logFile, node.command(tools, "-XX:ArchiveClassesAtExit="+path))
	if err != nil {
		return err
	}
	// writing the archive takes seconds
	defer func() { err = errors.Join(err, id.stop(context.WithoutCancel(ctx), startLimit)) }()
	return awaitReady(ctx, id, logFile, func(ctx context.Context) error {
		return cassandraReady(ctx, p.addr(kindCassandra, 1, cqlPort), nil, []string{node.ip()})
	})
}

// awaitReady waits until ready answers nil, the process ends, or startLimit has passed. The error
// says what was missing last and how the member's log ends.
func awaitReady(ctx context.Context, id identity, logFile string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var missing error
	err := poll(ctx, func() (bool, error) {
		if id.state() == Stopped {
			return false, errors.New("the process ended while it was starting")
		}
		err := ready(ctx)
		if err != nil && ctx.Err() == nil { // at the deadline every call fails, which says nothing
			missing = err
		}
		return err == nil, nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("wait until ready: %w (last: %w)\nend of %s:\n%s", err, missing, logFile, logTail(logFile))
}

// tailBytes is how much of a log an error shows.
const tailBytes = 3000

// logTail returns the last lines of a log.
func logTail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(text) > tailBytes {
		text = text[len(text)-tailBytes:]
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	return string(text)
}

// netIP writes the bytes of an inet cell as an address.
func netIP(cell []byte) string {
	ip, _ := netip.AddrFromSlice(cell)
	return ip.String()
}
