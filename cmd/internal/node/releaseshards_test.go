package node

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/ring"
)

// recordingRing is a ring of fixed members that records calls of SuspendDispatch, and when it is
// left.
type recordingRing struct {
	fixedRing
	rests chan bool
	left  chan struct{}
}

func (r recordingRing) SuspendDispatch(suspend bool) error {
	r.rests <- suspend
	return nil
}

func (r recordingRing) Run(ctx context.Context) error {
	defer close(r.left)
	return r.fixedRing.Run(ctx)
}

// The dispatcher stops first and the ring is left last. In between the executor may drain for long:
// unless the node announces it, no node would dispatch its shards for that time.
func TestStoppingNodeHandsItsShardsOnBeforeItDrains(t *testing.T) {
	w := newWorld(t, "a")
	told := recordingRing{rests: make(chan bool, 10), left: make(chan struct{})}
	open := w.opener("a")
	open.Ring = func(shards int, _ string) (Ring, error) {
		f, err := ring.Static(w.members, shards)
		told.fixedRing = fixedRing{f}
		return told, err
	}
	r := start(t, "a", open, nil).up()
	called, released := make(chan struct{}, 1), make(chan struct{})
	url := sink(t, func(http.ResponseWriter, *http.Request) {
		called <- struct{}{}
		<-released
	})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	r.create(url, time.Time{})
	<-called
	r.end()
	select {
	case rest := <-told.rests:
		if !rest {
			t.Error("the ring was told SuspendDispatch(false), want true")
		}
	case <-told.left:
		t.Fatal("the ring was left before it was told to suspend dispatch")
	case <-time.After(patience):
		t.Fatal("the ring was not told to suspend dispatch while a run is under way")
	}
	if status, body := get(t, r.url+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "process: the node is stopping\n") {
		t.Errorf("/readyz of a node that drains: %d\n%swant 503, because the node is stopping", status, body)
	}
	select {
	case <-told.left:
		t.Error("the ring was left while a run is under way")
	default:
	}
	release()
	r.stop()
	<-told.left
}
