package schema_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// clocks is a store whose hosts' clocks differ from ours; a host with never does not answer.
type clocks []time.Duration

const never = time.Duration(1 << 62)

func (c clocks) Time(context.Context) (time.Time, error) {
	return time.Time{}, errors.New("no host answers")
}

func (c clocks) Clocks() (all []schema.HostClock) {
	for _, offset := range c {
		all = append(all, schema.HostClock{Time: func(context.Context) (time.Time, error) {
			if offset == never {
				return time.Time{}, errors.New("down")
			}
			return time.Now().Add(offset), nil
		}})
	}
	return all
}

// TestTimeByMost: a host whose clock is days ahead does not decide; of two the earlier does.
func TestTimeByMost(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name  string
		hosts clocks
		want  time.Duration // against our clock
	}{
		{"one", clocks{0}, 0},
		{"one of three is ahead", clocks{3 * day, 0, time.Second}, time.Second},
		{"one of three is behind", clocks{0, -3 * day, 0}, 0},
		{"one of two is ahead", clocks{3 * day, 0}, 0},
		{"the first is down", clocks{never, 0, 3 * day}, 0},
		{"all but one are down", clocks{never, time.Minute, never}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := schema.TimeByMost(t.Context(), c.hosts)
			if off := time.Until(got) - c.want; err != nil || off.Abs() > time.Minute/2 {
				t.Errorf("TimeByMost = %v, %v, off by %s from what most say", got, err, off)
			}
		})
	}
	if _, err := schema.TimeByMost(t.Context(), clocks{never}); err == nil {
		t.Error("none answers, and there is a time")
	}
}
