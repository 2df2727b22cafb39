package cassandra

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

//go:embed migrations/*.cql
var migrationFiles embed.FS

// What Open and Migrate find wrong with a keyspace, or with the client. Trying again does not help.
var (
	// ErrNotMigrated: the keyspace, or a migration of this version, is missing: run carillon
	// migrate.
	ErrNotMigrated = errors.New("keyspace is not migrated: run carillon migrate")
	// ErrNewer: the keyspace has a migration that this version does not know, and that it cannot
	// run beside.
	ErrNewer = errors.New("keyspace was migrated by a newer version")
	// ErrChanged: a migration was applied with another text than this version has.
	ErrChanged = errors.New("applied migration differs from this version's")
	// ErrRefused: the server and we refuse each other: user, password or certificate are wrong.
	ErrRefused = errors.New("the log-in or a certificate was refused")
)

// additiveSuffix ends the name of a migration that only adds tables and columns. A build that knows
// all migrations but this one runs on the keyspace as well. So nodes can be upgraded one after the
// other, and taken back to the build before. The name is stored, because the older build must know
// it.
//
// An older build neither reads nor writes what is added. So a newer one takes what is missing there
// for "not written", and writes nothing into older tables that the older build misunderstands.
const additiveSuffix = ".additive.cql"

// migration is one file of migrations: NNNN_name.cql, or NNNN_name.additive.cql.
type migration struct {
	version    int
	name       string // of the file
	checksum   string // SHA-256 of the file, hexadecimal
	statements []string
}

// loadMigrations reads the migrations of files, which must be numbered 1, 2, 3 …
func loadMigrations(files fs.FS) ([]migration, error) {
	paths, err := fs.Glob(files, "migrations/*.cql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	slices.Sort(paths)
	out := make([]migration, 0, len(paths))
	for i, path := range paths {
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		name := strings.TrimPrefix(path, "migrations/")
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: number %d was expected", name, i+1)
		}
		sum := sha256.Sum256(text)
		m := migration{version, name, hex.EncodeToString(sum[:]), splitCQL(string(text))}
		for _, statement := range m.statements {
			if strings.HasSuffix(name, additiveSuffix) && !adds.MatchString(statement) {
				return nil, fmt.Errorf("migration %s: its name says that it only adds, but this does not: %s", name, statement)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// adds matches the statements that an additive migration may have.
var adds = regexp.MustCompile(`^(CREATE TABLE IF NOT EXISTS|ALTER TABLE [a-z_]+ ADD IF NOT EXISTS)\s`)

// splitCQL returns the statements of a file. Comments begin with -- and end with the line; a
// statement ends with a semicolon at the end of a line; texts that hold either are not understood.
func splitCQL(text string) []string {
	var out []string
	var current strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "--")
		line = strings.TrimRight(line, " \t")
		if line == "" {
			continue
		}
		end := strings.HasSuffix(line, ";")
		current.WriteString(strings.TrimSuffix(line, ";"))
		if !end {
			current.WriteByte('\n')
			continue
		}
		out = append(out, current.String())
		current.Reset()
	}
	if rest := strings.TrimSpace(current.String()); rest != "" {
		out = append(out, rest)
	}
	return out
}

// applied is a row of the table migrations.
type applied struct {
	version   int
	name      string
	checksum  string
	appliedAt time.Time
}

// missing returns the known migrations that are not applied, or what is wrong with those that are.
// ahead is the name of an applied one that is not known here and that this version runs beside: the
// next one, if it is additive; "" if there is none.
func missing(known []migration, done []applied) (open []migration, ahead string, err error) {
	have := make(map[int]bool, len(done))
	var faults []error
	for _, a := range done {
		have[a.version] = true
		switch {
		case a.version == len(known)+1 && strings.HasSuffix(a.name, additiveSuffix):
			ahead = a.name
		case a.version > len(known):
			faults = append(faults, fmt.Errorf("%w: %s of %s; the newest one known here is %d",
				ErrNewer, a.name, a.appliedAt.Format(time.RFC3339), len(known)))
		case a.version < 1 || known[a.version-1].checksum != a.checksum:
			faults = append(faults, fmt.Errorf("%w: %s was applied at %s with checksum %.12s",
				ErrChanged, a.name, a.appliedAt.Format(time.RFC3339), a.checksum))
		}
	}
	for _, m := range known {
		if !have[m.version] {
			open = append(open, m)
		}
	}
	return open, ahead, errors.Join(faults...)
}

// appliedMigrations reads the table migrations. ErrNotMigrated means that there is no such table.
func (s *Store) appliedMigrations(ctx context.Context) ([]applied, error) {
	rows, err := readPages(ctx, s.core, selectMigrations, &s.smallRows, maxPageRows, nil,
		func(iter *gocql.Iter) (a applied, size int, keep, more bool) {
			more = iter.Scan(&a.version, &a.name, &a.checksum, &a.appliedAt)
			return a, 128, true, more
		})
	if noSuchTable(err) {
		return nil, ErrNotMigrated
	}
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	return rows, nil
}

// checkMigrated returns an error unless the keyspace has the migrations known here, and no other
// that this version cannot run beside.
func (s *Store) checkMigrated(ctx context.Context) error {
	known, err := loadMigrations(migrationFiles)
	if err != nil {
		return err
	}
	done, err := s.appliedMigrations(ctx)
	if err == nil {
		var open []migration
		var ahead string
		open, ahead, err = missing(known, done)
		switch {
		case err == nil && len(open) > 0:
			err = fmt.Errorf("%w: %s is missing", ErrNotMigrated, open[0].name)
		case err == nil && ahead != "":
			s.cfg.Logger.Info("the keyspace was migrated by the next version, which this one runs beside", "migration", ahead)
		}
	}
	if err != nil {
		return fmt.Errorf("keyspace %s: %w", s.cfg.Keyspace, err)
	}
	return nil
}

// noSuchTable reports whether err says that a statement names an unknown table.
func noSuchTable(err error) bool {
	var request gocql.RequestError
	return errors.As(err, &request) && request.Code() == gocql.ErrCodeInvalid &&
		(strings.Contains(request.Message(), "does not exist") || strings.Contains(request.Message(), "unconfigured table"))
}

// sessionError translates why a session could not be made: ErrRefused where the driver's text names
// something that does not get better by itself, else ErrUnavailable.
func sessionError(err error) error {
	text := err.Error()
	for _, lasting := range []string{"Bad credentials", "Provided username", "requires authentication", "authentication required", "x509:", "certificate"} {
		if strings.Contains(text, lasting) {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return fmt.Errorf("%w: %w", schema.ErrUnavailable, err)
}
