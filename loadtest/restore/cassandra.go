package restore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/wait"
)

// nodetool runs Cassandra's nodetool on a node.
func (d *drill) nodetool(ctx context.Context, node string, args ...string) error {
	argv, err := d.cluster.Nodetool(ctx, node, args...)
	if err != nil {
		return err
	}
	d.Log.Info("nodetool", "node", node, "args", strings.Join(args, " "))
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput() //nolint:gosec // java
	if err != nil {
		return fmt.Errorf("nodetool %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// each does something to all Cassandra nodes at once.
func (d *drill) each(ctx context.Context, do func(ctx context.Context, node string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range d.stores() {
		g.Go(func() error { return do(ctx, node) })
	}
	return g.Wait()
}

// saved is where the copy of a node's table is kept. nodetool import takes keyspace and table from
// the names of the folders, and without a word leaves out what lies elsewhere. schema is the file
// with the statements of the keyspace.
func (d *drill) saved(node, table string) string {
	return filepath.Join(d.Dir, "backup", node, keyspace, table)
}

func (d *drill) schema() string { return filepath.Join(d.Dir, "backup", "schema.cql") }

// backUp takes a snapshot of every node at about the same time, copies it with the schema, and
// removes it from the nodes.
func (d *drill) backUp(ctx context.Context) error {
	d.report.Snapshot = time.Now().UTC()
	if err := d.each(ctx, func(ctx context.Context, node string) error {
		return d.nodetool(ctx, node, "snapshot", "-t", tag, keyspace)
	}); err != nil {
		return err
	}
	for _, node := range d.stores() {
		folders, err := filepath.Glob(filepath.Join(d.data(node), "data", keyspace, "*", "snapshots", tag))
		if err != nil {
			return err
		}
		for _, folder := range folders {
			// …/carillon/runs-0123…/snapshots/carillon-drill
			table, _, _ := strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(folder))), "-")
			if err := os.CopyFS(d.saved(node, table), os.DirFS(folder)); err != nil {
				return err
			}
		}
	}
	var schema strings.Builder
	err := d.cluster.EachRow(ctx, "DESCRIBE KEYSPACE "+keyspace, func(row [][]byte) error {
		schema.WriteString(string(row[len(row)-1]) + "\n")
		return nil
	})
	if err == nil {
		err = os.WriteFile(d.schema(), []byte(schema.String()), 0o600)
	}
	if err != nil {
		return fmt.Errorf("describe the keyspace: %w", err)
	}
	if d.report.Bytes, err = sizeOf(filepath.Join(d.Dir, "backup")); err != nil {
		return err
	}
	return d.each(ctx, func(ctx context.Context, node string) error {
		return d.nodetool(ctx, node, "clearsnapshot", "-t", tag)
	})
}

// restore starts empty Cassandra nodes, makes the keyspace as it was described, and gives each node
// the files that it had.
func (d *drill) restore(ctx context.Context) error {
	if err := d.cluster.PowerOn(ctx, d.stores()...); err != nil {
		return err
	}
	text, err := os.ReadFile(d.schema())
	if err != nil {
		return err
	}
	for statement := range strings.SplitSeq(string(text), ";\n") {
		if statement = strings.TrimSpace(statement); statement == "" {
			continue
		}
		if err := d.cluster.EachRow(ctx, statement, func([][]byte) error { return nil }); err != nil {
			return fmt.Errorf("%.60s…: %w", statement, err)
		}
	}
	if err := d.each(ctx, d.importAll); err != nil {
		return err
	}
	rows := 0
	if err := d.cluster.EachRow(ctx, "SELECT * FROM "+keyspace+".migrations", func([][]byte) error { rows++; return nil }); err != nil {
		return err
	}
	if d.report.Tables == 0 || rows == 0 {
		return errUnsaved
	}
	if len(d.stores()) == 1 {
		return nil
	}
	return d.nodetool(ctx, d.stores()[0], "repair", "-full", keyspace)
}

// importAll loads what was saved of a node, table by table.
func (d *drill) importAll(ctx context.Context, node string) error {
	tables, err := os.ReadDir(filepath.Dir(d.saved(node, "x")))
	if err != nil {
		return err
	}
	n := 0
	for _, t := range tables {
		data, err := filepath.Glob(filepath.Join(d.saved(node, t.Name()), "*-Data.db"))
		if err != nil {
			return err
		}
		if len(data) == 0 {
			continue
		}
		n++
		for try := 1; ; try++ {
			err := d.nodetool(ctx, node, "import", "--copy-data", keyspace, t.Name(), d.saved(node, t.Name()))
			if err == nil {
				break
			}
			if try == importTries || !strings.Contains(err.Error(), "does not exist") && !strings.Contains(err.Error(), "Unknown") {
				return err
			}
			if err := wait.For(ctx, time.Second); err != nil {
				return err
			}
		}
	}
	if node == d.stores()[0] {
		d.report.Tables = n
	}
	return nil
}
