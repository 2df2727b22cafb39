package homes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// A region that is lost can be failed over by itself (Config.Automatic). A node does that if its
// region serves a home itself, and all reads for 30 s told the same beat of the region that serves
// another one. So a region that is cut off fails nothing over: it reads nothing, and begins anew
// when it can. Of several that do so at once one writes the next epoch, which must be the one after
// that which was read. Nothing goes back by itself: the region of the newest epoch is alive then.

// AutomaticAfter is for how long a region gives no sign of life before its homes are failed over.
const AutomaticAfter = 30 * time.Second

// byItself is who writes an epoch (schema.Epoch.By) if no person does.
const byItself = "automatic"

// watch is what this node has seen of the beats of all regions. Its times are of the monotonic
// clock.
type watch struct {
	last map[string]seen // by region
	read time.Time       // before the last read that was answered was sent
	from time.Time       // since when nothing was left out
}

// seen is a beat, and when the first answer came that told it.
type seen struct {
	node  string
	count int64
	since time.Time
}

// observe takes in a read of the beats, which was sent and answered at those times. Two reads that
// lie as far apart as a lease lives prove nothing together: what is between them we have not seen.
func (w *watch) observe(beats []schema.Beat, sent, answered time.Time) {
	if w.last == nil || elapsedSince(w.read, sent) >= schema.HomeLeaseLife {
		w.last = make(map[string]seen)
	}
	if len(w.last) == 0 {
		w.from = answered
	}
	w.read = sent
	for _, b := range beats {
		if was, ok := w.last[b.Region]; !ok || was.node != b.Node || was.count != b.Count {
			w.last[b.Region] = seen{b.Node, b.Count, answered}
		}
	}
}

// elapsedSince returns how much time has passed, by whichever clock says more.
func elapsedSince(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// silent returns for how long all reads told the same beat of a region; 0: none was told.
func (w *watch) silent(region string) time.Duration {
	was, ok := w.last[region]
	if !ok {
		return 0
	}
	return max(w.read.Sub(was.since), 0)
}

// silence is for how long regions gave no sign of life, as of a read.
type silence struct {
	read time.Time // before it was sent
	of   map[string]time.Duration
}

// silence returns that of regions. One of which no beat was told is silent since nothing is left
// out.
func (w *watch) silence(regions []string) *silence {
	s := &silence{read: w.read, of: make(map[string]time.Duration, len(regions))}
	for _, r := range regions {
		s.of[r] = w.silent(r)
		if _, ok := w.last[r]; !ok {
			s.of[r] = max(w.read.Sub(w.from), 0)
		}
	}
	return s
}

// failOver fails over the homes of regions that are silent, if our region serves one.
func (k *Keeper) failOver(ctx context.Context, newest []schema.Epoch) {
	serves := slices.ContainsFunc(newest, func(e schema.Epoch) bool {
		_, err := k.ServedHome(e.Home)
		return err == nil
	})
	if !serves {
		return
	}
	for _, e := range newest {
		silent := k.watch.silent(e.Region)
		if e.Number == 0 || e.Region == k.cfg.Region || silent < AutomaticAfter {
			continue
		}
		beat := k.watch.last[e.Region]
		reason := fmt.Sprintf("region %s has given no sign of life for %v since that of node %s, as node %s saw", e.Region, silent.Round(100*time.Millisecond), beat.node, k.cfg.Node)
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		stands, err := k.cfg.Store.InsertEpoch(bounded, e.Next(k.cfg.Region, byItself, reason, k.cfg.Now()))
		cancel()
		switch {
		case errors.Is(err, schema.ErrConflict):
			k.cfg.Logger.Info("somebody else decided who serves a home", "home", e.Home, "region", stands.Region, "by", stands.By, "reason", stands.Reason)
		case err != nil:
			k.cfg.Logger.Warn("a home was not failed over; it is tried again", "home", e.Home, "err", err)
		default:
			k.cfg.Logger.Warn("a home is failed over", "home", e.Home, "epoch", stands.Number, "reason", reason)
		}
	}
}
