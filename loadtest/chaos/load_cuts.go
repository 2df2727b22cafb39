package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// cutFiles files are imported one after the other. Each import is killed cutsPerFile times
	// before it may end. A file must have more than bucketer.MaxChunk lines: a node writes a
	// smaller one to its end even if the client dies.
	cutFiles    = 10
	cutsPerFile = 100
	// The jobs of a file begin to be due cutSoon after its first cut: some run between cuts.
	cutSoon = time.Second
	// afterCut lies between a kill and the count: nodes finish what they have begun.
	afterCut = 50 * time.Millisecond
	// leastCut bounds the time that an import is given at most before it is killed.
	leastCut = 50 * time.Millisecond
)

// A cutsCourse is the course of ImportCuts.
type cutsCourse struct{ *run }

// play imports files, kills each import at random points, and then lets it through.
func (r cutsCourse) play(ctx context.Context) error {
	begin, start, _, err := r.idle(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 2)) // #nosec G404 -- a repeatable choice, no secret
	n := r.cfg.Jobs / cutFiles
	// An import that is not killed tells how long the others may last.
	longest, err := r.uncut(ctx, n)
	if err != nil {
		return err
	}
	killed, ended, partial, existing := 0, 0, 0, 0
	for i := range cutFiles {
		spec := r.jobs(fmt.Sprintf("cut-%d", i+1), n, time.Now().Add(cutSoon), r.cfg.Span)
		if err := writeJobs(r.askedFile(spec.Source), spec); err != nil {
			return err
		}
		first := r.linesCreated(ctx)
		for j := range cutsPerFile {
			before := r.linesCreated(ctx)
			was, err := r.cutImport(ctx, spec.Source, j, time.Duration(rng.Int64N(int64(longest))))
			if err != nil {
				return err
			}
			if !was {
				ended++
				continue
			}
			killed++
			if err := wait.For(ctx, afterCut); err != nil {
				return err
			}
			if after := r.linesCreated(ctx); after > before && after-first < n {
				partial++
			}
		}
		res, err := r.importFile(ctx, spec)
		if err != nil {
			return err
		}
		existing += res.Existing
	}
	r.figure("imports killed -9 (of these, lines were created and not all; ended before the kill)", "%d (%d; %d)", killed, partial, ended)
	r.figure("lines that the import that was let through found there already", "%d of %d", existing, n*cutFiles)
	if killed < cutFiles*cutsPerFile/2 {
		r.broken("only %d of %d imports were killed: the others had ended", killed, cutFiles*cutsPerFile)
	}
	if existing == 0 || partial == 0 {
		r.broken("no import was killed in its middle: nothing was tested")
	}
	imported := r.mark()
	return r.finish(ctx, begin, start, imported)
}

// uncut imports a file without a kill until a try finds all lines there, and returns how long that
// try took. It is the shortest of all: the others create lines.
func (r cutsCourse) uncut(ctx context.Context, n int) (took time.Duration, err error) {
	spec := r.jobs("uncut", n, time.Now().Add(cutSoon), r.cfg.Span)
	if err := writeJobs(r.askedFile(spec.Source), spec); err != nil {
		return 0, err
	}
	for i := range 4 {
		began := time.Now()
		was, err := r.cutImport(ctx, spec.Source, i, time.Hour)
		took = time.Since(began)
		if err != nil || was {
			return 0, errors.Join(err, errors.New("an import that nobody cut did not end"))
		}
	}
	_, err = r.importFile(ctx, spec)
	return max(took, leastCut), err
}

// cutImport runs `carillon-load import` as a process and kills it after a while. killed is false if
// it had ended by then.
func (r cutsCourse) cutImport(ctx context.Context, source string, number int, after time.Duration) (killed bool, err error) {
	acks := filepath.Join(r.cfg.Dir, fmt.Sprintf("%s.%d.cut", source, number))
	args := []string{"import", r.askedFile(source), "--acks", acks, "--api", strings.Join(r.client.URLs, ",")}
	c, err := process.Start(ctx, r.cfg.Program, args, io.Discard, io.Discard)
	if err != nil {
		return false, err
	}
	// holds this very process, also when its number is given to another
	p, err := os.FindProcess(c.PID)
	if err != nil {
		return false, fmt.Errorf("find the import: %w", err)
	}
	defer func() { _ = p.Release() }() // gives the handle back
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-c.Done:
		return false, errors.Join(c.Err, os.Remove(acks))
	case <-timer.C:
	}
	killed = p.Kill() == nil
	<-c.Done
	if err := os.Remove(acks); err != nil && !errors.Is(err, os.ErrNotExist) {
		return killed, err
	}
	return killed, ctx.Err()
}

// linesCreated is how many jobs all nodes have created so far, also those whose answers were not
// read. A node that does not answer counts none.
func (r cutsCourse) linesCreated(ctx context.Context) int {
	total := 0.0
	for _, url := range r.client.URLs {
		if n, err := r.counter(ctx, url, `carillon_entries_written_total{kind="run"}`); err == nil {
			total += n
		}
	}
	return int(total)
}

// dues returns the due instants of a file of jobs, in ms of Unix time, by line.
func (r *run) dues(source string) ([]int64, error) {
	asks, err := r.readAsked(source)
	if err != nil {
		return nil, err
	}
	due := make([]int64, len(asks))
	for i := range asks {
		due[asks[i].Ref.Line-1] = asks[i].At.UnixMilli()
	}
	return due, nil
}
