package wan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Link is one direction between two regions.
type Link struct {
	From  string        `json:"from"`
	To    string        `json:"to"`
	Cut   bool          `json:"cut"`
	Delay time.Duration `json:"delay"` // nanoseconds

	Frames int64 `json:"frames"` // delivered since the network was made
	Bytes  int64 `json:"bytes"`  // in them
	Lost   int64 `json:"lost"`   // frames, by cuts or since too many were under way
}

// A Control changes links of a network that runs in this program or another one. A name "" stands
// for every region.
type Control struct{ number int }

// NewControl returns the control of network number.
func NewControl(number int) Control { return Control{number} }

// Cut loses all that one region sends to another, what is under way too, until Heal.
func (c Control) Cut(ctx context.Context, from, to string) error {
	_, err := c.ask(ctx, request{Act: actCut, From: from, To: to})
	return err
}

// Heal ends Cut. It is no error if there was none.
func (c Control) Heal(ctx context.Context, from, to string) error {
	_, err := c.ask(ctx, request{Act: actHeal, From: from, To: to})
	return err
}

// Delay sets how long frames from one region to another are under way, of those sent from now on.
func (c Control) Delay(ctx context.Context, from, to string, d time.Duration) error {
	_, err := c.ask(ctx, request{Act: actDelay, From: from, To: to, Delay: d})
	return err
}

// Links returns every link, in the order of the regions.
func (c Control) Links(ctx context.Context) ([]Link, error) {
	return c.ask(ctx, request{Act: actLinks})
}

type act string

const (
	actCut   act = "cut"
	actHeal  act = "heal"
	actDelay act = "delay"
	actLinks act = "links"
)

// request and answer are what a connection to the control socket carries, one of each, in JSON.
type request struct {
	Act      act
	From, To string
	Delay    time.Duration
}

type answer struct {
	Error string
	Links []Link
}

const (
	controlLimit = 5 * time.Second // for one request
	maxRequest   = 1 << 10         // bytes
	maxAnswer    = 1 << 18
)

// ask sends a request to the program that runs the network.
func (c Control) ask(ctx context.Context, r request) (links []Link, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("network %d: %s: %w", c.number, r.Act, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", controlAddr(c.number).Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // the answer is complete, or an error
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return nil, err
	}
	var a answer
	if err := json.NewDecoder(io.LimitReader(conn, maxAnswer)).Decode(&a); err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Links, nil
}

// serve answers requests until ctx ends. The listener stays open.
func serve(ctx context.Context, l *net.UnixListener, s *switchboard) {
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) }) // Accept returns
	defer stop()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil { // of one connection, or of memory: the next may be better
			continue
		}
		open.Go(func() {
			defer func() { _ = conn.Close() }()
			if trusted(conn) {
				_ = conn.SetDeadline(time.Now().Add(controlLimit))
				s.talk(conn)
			}
		})
	}
}

// A switchboard knows the hub's ports by the names of regions.
type switchboard struct {
	regions []Region
	hub     *hub
}

// talk answers one request.
func (s *switchboard) talk(conn io.ReadWriter) {
	var r request
	if err := json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&r); err != nil {
		return
	}
	var a answer
	if err := s.do(r); err != nil {
		a.Error = err.Error()
	} else if r.Act == actLinks {
		a.Links = s.links()
	}
	_ = json.NewEncoder(conn).Encode(a) // the asker has gone, or not
}

// do changes the lines that a request names: all of them, or none and an error.
func (s *switchboard) do(r request) error {
	lines, err := s.find(r.From, r.To)
	if err != nil {
		return err
	}
	if err := checkDelay(r.Delay); err != nil {
		return err
	}
	for _, l := range lines {
		switch r.Act {
		case actCut:
			l.cut.Store(true)
		case actHeal:
			l.cut.Store(false)
		case actDelay:
			l.delay.Store(int64(r.Delay))
		case actLinks:
		default:
			return fmt.Errorf("%q is no act", r.Act)
		}
	}
	return nil
}

// find returns the lines from one region to another; "" is every region.
func (s *switchboard) find(from, to string) (lines []*line, err error) {
	var known []string
	for _, r := range s.regions {
		known = append(known, r.Name)
	}
	for _, name := range []string{from, to} {
		if name != "" && !slices.Contains(known, name) {
			return nil, fmt.Errorf("no region %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	if from == to && from != "" {
		return nil, fmt.Errorf("there is no link from %s to itself", from)
	}
	for i, a := range s.regions {
		for j, b := range s.regions {
			if i != j && (from == "" || from == a.Name) && (to == "" || to == b.Name) {
				lines = append(lines, s.hub.lines[i][j])
			}
		}
	}
	return lines, nil
}

func (s *switchboard) links() (links []Link) {
	for i, from := range s.regions {
		for j, to := range s.regions {
			if i == j {
				continue
			}
			l := s.hub.lines[i][j]
			links = append(links, Link{
				From: from.Name, To: to.Name, Cut: l.cut.Load(), Delay: time.Duration(l.delay.Load()),
				Frames: l.passed.Load(), Bytes: l.bytes.Load(), Lost: l.lost.Load(),
			})
		}
	}
	return links
}
