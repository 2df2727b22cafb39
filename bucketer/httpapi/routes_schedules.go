package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

const previewPath = "/v1/schedules/preview"

type previewAsk struct{ body }

type previewAnswer struct{ Body Preview }

// scheduleRoutes serves previews of schedules.
type scheduleRoutes struct{ *Server }

func (s scheduleRoutes) route() {
	huma.Register(s.api, s.operation("preview-schedule", http.MethodPost, previewPath, "The next times of a schedule, and what is to be known about it", 200, 400, 408, 413, 415, 422, 429, 503), s.previewSchedule)
	s.describeBody(previewPath, http.MethodPost, reflect.TypeFor[request.PreviewRequest](), "application/json")
}

// noteSpan is how far from its first time on a preview looks for changes of the zone.
const noteSpan = 365 * 24 * time.Hour

func (s scheduleRoutes) previewSchedule(ctx context.Context, in *previewAsk) (*previewAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	p, err := d.Preview(text, s.config.Now())
	if err != nil {
		return nil, s.fail(ctx, "preview schedule", err)
	}
	if slices.ContainsFunc(p.Schedule.Any, func(one schema.Schedule) bool { return one.Calendar != nil }) {
		all, err := calendars(s.Server)
		if err == nil {
			err = all.ResolveCalendars(ctx, tenantOf(ctx), &p.Schedule)
		}
		if err != nil {
			return nil, s.fail(ctx, "preview schedule", err)
		}
	}
	compiled, err := schedule.Compile(p.Schedule, 0)
	if err != nil {
		return nil, s.fail(ctx, "preview schedule", err)
	}
	out := &previewAnswer{Preview{Description: compiled.Describe(), Times: []Time{}, Zones: schedule.ZonesVersion()}}
	until := p.From.Add(noteSpan)
	for t := range compiled.From(p.From) {
		if len(out.Body.Times) == p.Count {
			break
		}
		out.Body.Times = append(out.Body.Times, Time{t})
		if t.After(until) {
			until = t
		}
	}
	out.Body.Notes = append([]string{}, compiled.Notes(p.From, until)...)
	if len(out.Body.Times) == 0 {
		out.Body.Notes = append(out.Body.Notes, "there is no time after "+p.From.Format(timeFormat))
	}
	if hashed.MatchString(p.Schedule.Cron) || slices.ContainsFunc(p.Schedule.Any, func(s schema.Schedule) bool { return hashed.MatchString(s.Cron) }) {
		out.Body.Notes = append(out.Body.Notes, "H stands for a number that is drawn from the job's id: a job has other times than these, always the same ones")
	}
	if window := jitterOf(&p, compiled); window > 0 {
		out.Body.Notes = append(out.Body.Notes, fmt.Sprintf("each job is due up to %v after these times, by an offset of its own that stays the same; a jitter of 0s turns it off", window))
	}
	return out, nil
}

// hashed finds an H that stands for a number, and not in a name such as THU.
var hashed = regexp.MustCompile(`(?i)(^|[\s,])H([\s,/(]|$)`)

// jitterOf returns the window of a job with the schedule of p.
func jitterOf(p *request.Preview, compiled *schedule.Schedule) time.Duration {
	if p.JitterStated {
		return p.Schedule.Jitter.Std()
	}
	return schedule.DefaultJitter(compiled.Shortest())
}
