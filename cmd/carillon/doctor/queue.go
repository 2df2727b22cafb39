package doctor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/dispatcher/queue/jetstream"
)

// QueueFacts is what was seen of NATS.
type QueueFacts struct {
	Err    error // why it could not be reached
	Seen   jetstream.Examination
	Clocks []ClockReading
	// Monitors is what the monitoring ports said that were named.
	Monitors []MonitorFacts
}

// MonitorFacts is what /varz of a NATS server says of JetStream.
type MonitorFacts struct {
	URL    string
	Err    error
	Name   string
	On     bool          // JetStream is on
	Sync   time.Duration // sync_interval
	Always bool          // it syncs before it answers
	Used   int64         // bytes
	Limit  int64         // bytes
}

// nearFull is the part of a limit from which on there is a warning.
const nearFull = 0.8

// judgeQueue judges NATS and the streams.
func judgeQueue(f *Facts) (fs findings) {
	q := f.Queue
	if q == nil {
		return nil
	}
	if q.Err != nil {
		fs.add(Error, "nats.reachable", oneLine(q.Err), "nodes that do not reach it take nothing in and start nothing", "see that NATS runs, that this machine reaches nats.urls, and nats.user, nats.password and nats.tls")
		return fs
	}
	e := &q.Seen
	fs.ok("nats.reachable", "NATS %s answers at %s", e.Version, e.URL)
	if e.JetStream != nil {
		fs.add(Error, "nats.jetstream", "JetStream does not answer: "+oneLine(e.JetStream), "nothing can be published, so nothing starts",
			"switch it on (jetstream in the server's configuration, and for the account); a server whose disk was full has switched it off: make room and start it again")
		return fs
	}
	fs.ok("nats.jetstream", "is on")
	for i := range e.Streams {
		judgeStream(f, &e.Streams[i], &fs)
	}
	if e.Cluster == "" && len(e.Streams) > 0 && !local(strings.TrimPrefix(strings.TrimPrefix(e.URL, "nats://"), "tls://")) {
		fs.add(Warning, "nats.replicas", "the NATS server is in no cluster", "while it is away nothing starts; what is due then starts late", "run three servers")
	}
	judgeLimit(&fs, "nats.storage", "the account", float64(e.Use.Storage), float64(e.Use.StorageLimit))
	for _, m := range q.Monitors {
		switch {
		case m.Err != nil:
			fs.add(Warning, "nats.monitor", fmt.Sprintf("%s: %s", m.URL, oneLine(m.Err)), "its sync_interval and storage were not looked at", "name the monitoring port (http_port) of a server")
			continue
		case !m.On:
			fs.add(Error, "nats.jetstream", fmt.Sprintf("server %s has JetStream off", m.Name), "its replicas do not count", "see its disk and its log, and start it again")
			continue
		case m.Always:
			fs.ok("nats.sync_interval", "server %s syncs each message", m.Name)
		default:
			fs.add(Info, "nats.sync_interval", fmt.Sprintf("server %s syncs every %v", m.Name, m.Sync), "a loss of power of all servers loses messages of that time; dispatchers publish those again, late by seconds: no run is lost", "")
		}
		judgeLimit(&fs, "nats.storage", "server "+m.Name, float64(m.Used), float64(m.Limit))
	}
	return fs
}

// judgeLimit tells of storage that is nearly full.
func judgeLimit(fs *findings, check, whose string, used, limit float64) {
	if limit <= 0 {
		return
	}
	what := fmt.Sprintf("%s uses %s of %s", whose, bytesText(used), bytesText(limit))
	if used < nearFull*limit {
		fs.ok(check, "%s", what)
		return
	}
	fs.add(Warning, check, what, "when it is full publications are refused, and runs start late", "let it have more (max_file_store), or remove other streams")
}

// judgeStream judges the stream of a lane.
func judgeStream(f *Facts, s *jetstream.StreamState, fs *findings) {
	switch {
	case errors.Is(s.Err, jetstream.ErrNoStream):
		fs.add(Warning, "nats.streams", fmt.Sprintf("stream %s: %s", s.Name, oneLine(s.Err)), "nodes make it within a second; none has started yet, or none reaches NATS", "start a node; if one runs, see its log")
		return
	case s.Err != nil:
		fs.add(Error, "nats.streams", fmt.Sprintf("stream %s: %s", s.Name, oneLine(s.Err)), "runs of its lane do not start", "see how the NATS servers stand: nats stream info "+s.Name)
		return
	}
	if s.Replicas < s.Wanted {
		fs.add(Warning, "nats.replicas", fmt.Sprintf("stream %s has %d replicas, %d are wanted", s.Name, s.Replicas, s.Wanted), "a server that fails may stop its lane", "run three NATS servers in one cluster: nodes then add the replicas within a minute")
	}
	if len(s.Behind) > 0 {
		fs.add(Warning, "nats.replicas", fmt.Sprintf("stream %s: replicas on %s are offline or behind", s.Name, strings.Join(s.Behind, ", ")), "the next server that fails may stop its lane", "start those servers, and see their disks")
	}
	if s.MaxBytes > 0 && float64(s.Bytes) >= nearFull*float64(s.MaxBytes) {
		fs.add(Warning, "nats.storage", fmt.Sprintf("stream %s holds %s of %s, %d messages", s.Name, bytesText(float64(s.Bytes)), bytesText(float64(s.MaxBytes)), s.Messages),
			"when it is full publications are refused, and runs start late", "see why executors do not take them: carillon cluster; runbook CarillonQueueFull")
	}
	if !fs.bad("nats.") {
		fs.ok("nats.streams", "%s: %d replicas, %d messages, %s", s.Name, s.Replicas, s.Messages, bytesText(float64(s.Bytes)))
	}
}

// bytesText shows a number of bytes.
func bytesText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%.4g %s", n, units[i])
}
