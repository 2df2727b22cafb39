package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// StreamPrefix begins the names of Carillon's streams.
const StreamPrefix = "carillon_runs_"

// A Stream is one of Carillon's streams.
type Stream struct {
	Name     string `json:"name"`
	Messages int    `json:"messages"`
	Replicas int    `json:"replicas"`
	Leader   string `json:"leader,omitempty"` // the server that leads it; "" = none, or there is but one server
}

// Streams returns Carillon's streams.
func (n *Conn) Streams() ([]Stream, error) {
	var list struct {
		Streams []struct {
			Config struct {
				Name     string `json:"name"`
				Replicas int    `json:"num_replicas"`
			} `json:"config"`
			State struct {
				Messages int `json:"messages"`
			} `json:"state"`
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
		} `json:"streams"`
	}
	if err := n.Request("$JS.API.STREAM.LIST", "", &list); err != nil {
		return nil, err
	}
	var all []Stream
	for _, s := range list.Streams {
		if strings.HasPrefix(s.Config.Name, StreamPrefix) {
			all = append(all, Stream{s.Config.Name, s.State.Messages, s.Config.Replicas, s.Cluster.Leader})
		}
	}
	return all, nil
}

// Streams asks one server for Carillon's streams.
func Streams(ctx context.Context, url string) (all []Stream, err error) {
	n, err := Dial(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	return n.Streams()
}

// Resize sets the most bytes (max_bytes) of Carillon's streams. It reports whether a stream had
// another size, and which.
func Resize(ctx context.Context, url string, bytes int64) (changed bool, before int64, err error) {
	n, err := Dial(ctx, url)
	if err != nil {
		return false, 0, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	var list struct {
		Streams []struct {
			Config map[string]json.RawMessage `json:"config"`
		} `json:"streams"`
	}
	if err := n.Request("$JS.API.STREAM.LIST", "", &list); err != nil {
		return false, 0, err
	}
	for _, s := range list.Streams {
		var name string
		var is int64
		if err := errors.Join(json.Unmarshal(s.Config["name"], &name), json.Unmarshal(s.Config["max_bytes"], &is)); err != nil {
			return changed, before, fmt.Errorf("read the configuration of a stream: %w", err)
		}
		if !strings.HasPrefix(name, StreamPrefix) || is == bytes {
			continue
		}
		s.Config["max_bytes"] = json.RawMessage(strconv.FormatInt(bytes, 10))
		config, err := json.Marshal(s.Config)
		if err != nil {
			return changed, before, fmt.Errorf("change the size of a stream: %w", err)
		}
		if err := n.Request("$JS.API.STREAM.UPDATE."+name, string(config), nil); err != nil {
			return changed, before, err
		}
		changed, before = true, is
	}
	return changed, before, nil
}

// DeleteStreams deletes Carillon's streams with all messages, and returns what they were.
func DeleteStreams(ctx context.Context, url string) (gone []Stream, err error) {
	n, err := Dial(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	all, err := n.Streams()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: there is no stream %s… to delete", ErrNATS, StreamPrefix)
	}
	for _, s := range all {
		if err := n.Request("$JS.API.STREAM.DELETE."+s.Name, "", nil); err != nil {
			return gone, err
		}
		gone = append(gone, s)
	}
	return gone, nil
}
