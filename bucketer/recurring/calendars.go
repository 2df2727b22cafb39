package recurring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

const (
	// refreshAtOnce bounds the jobs that a change of a calendar changes at once. Each waits for its
	// cut.
	refreshAtOnce = 64
	// refreshFor bounds how long a change of a calendar waits for the jobs that use it. Mend
	// changes the others, and those that a crash leaves.
	refreshFor = 20 * time.Second
	// usersShown bounds the jobs that an answer names which use a calendar, usersPage those read at
	// once.
	usersShown = 20
	usersPage  = 100
)

// ErrManyCalendars: the tenant has as many calendars as there may be (409).
var ErrManyCalendars = errors.New("there are as many calendars as there may be")

// CalendarInUseError is the error of deleting a calendar that jobs use (409).
type CalendarInUseError struct {
	Jobs []string // names, or ids of those that have none; at most usersShown
	More bool     // there are others
}

// Error implements error.
func (e *CalendarInUseError) Error() string {
	return fmt.Sprintf("the calendar is used by %d jobs or more", len(e.Jobs))
}

// CalendarKeeper keeps the calendars of tenants. A generation of a job holds the dates of its
// calendars, so that it names the same times for ever: a calendar that changes changes the jobs
// that use it.
type CalendarKeeper struct {
	*Reader
	changer *Changer
}

// CalendarChange is what a change of a calendar came to.
type CalendarChange struct {
	Calendar schema.Calendar
	Created  bool
	// Jobs is how many jobs use it, and Open how many of them go by the old dates for some minutes
	// more.
	Jobs, Open int
}

// PutCalendar creates a calendar or replaces its dates, and then changes the jobs that use it, each
// as by ChangeJob: 2 s after the answer nothing starts by the old dates, unless the answer counts
// open jobs. Those follow with Mend, and so do all after an error. It answers ErrManyCalendars.
func (j *CalendarKeeper) PutCalendar(ctx context.Context, c schema.Calendar) (CalendarChange, error) {
	out := CalendarChange{}
	c.UpdatedAt = j.now().UTC().Truncate(time.Microsecond)
	c.CreatedAt = c.UpdatedAt.Truncate(time.Millisecond)
	was, err := j.store.Calendar(ctx, c.Tenant, c.Name)
	switch {
	case err == nil:
		c.CreatedAt, c.CreatedBy = was.CreatedAt, was.CreatedBy
	case errors.Is(err, schema.ErrNotFound):
		out.Created = true
		// Two that add at once may both find room for one.
		all, err := j.store.Calendars(ctx, c.Tenant, "", schema.MaxCalendars)
		if err != nil {
			return out, err
		}
		if len(all) >= schema.MaxCalendars {
			return out, ErrManyCalendars
		}
	case !errors.Is(err, schema.ErrNotUnderstood):
		return out, err
	}
	if !c.UpdatedAt.After(was.UpdatedAt) { // written by a node whose clock is ahead
		c.UpdatedAt = was.UpdatedAt.Add(time.Microsecond)
	}
	if err := j.store.PutCalendar(ctx, c); err != nil {
		return out, err
	}
	out.Calendar = c
	if out.Created {
		return out, nil
	}
	out.Jobs, out.Open, err = j.refreshUsers(ctx, c.Tenant, c.Name)
	return out, err
}

// refreshUsers changes the jobs that use a calendar. It returns how many there are, and how many
// were not changed in time.
func (j *CalendarKeeper) refreshUsers(ctx context.Context, tenant, name string) (users, open int, err error) {
	bounded, cancel := context.WithTimeout(ctx, refreshFor)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(refreshAtOnce)
	var mu sync.Mutex
	err = j.eachUser(ctx, tenant, name, func(job *schema.Job) bool {
		users++
		id := job.ID
		g.Go(func() error {
			if err := j.changer.refresh(bounded, tenant, id); err != nil {
				j.log.Debug("a job goes by the old dates of a calendar", "job", id, "calendar", name, "err", err)
				mu.Lock()
				defer mu.Unlock()
				open++
			}
			return nil
		})
		return true
	})
	_ = g.Wait() // each tells of its error
	return users, open, err
}

// refresh changes a job to the dates that its calendars have now.
func (j *Changer) refresh(ctx context.Context, tenant string, id schema.JobID) error {
	_, err := j.ChangeJob(ctx, tenant, id, 0, func(*schema.JobSpec) error { return nil })
	var never schedule.Faults
	switch {
	case errors.Is(err, bucketer.ErrFinished), errors.Is(err, schema.ErrNotFound):
		return nil
	case errors.As(err, &never):
		j.log.Warn("a job keeps the old dates of its calendar: by the new ones it would never be due", "tenant", tenant, "job", id, "err", err)
		return nil
	}
	return err
}

// eachUser calls visit for each job that uses a calendar, until it returns false.
func (j *CalendarKeeper) eachUser(ctx context.Context, tenant, name string, visit func(*schema.Job) bool) error {
	for after := (schema.EntryID{}); ; {
		ids, err := j.store.Subscribers(ctx, tenant, schema.CalendarEvent(name), after, usersPage)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return nil
		}
		after = ids[len(ids)-1]
		of := make([]schema.JobID, len(ids))
		for i := range ids {
			of[i] = schema.JobID(ids[i])
		}
		jobs, err := j.Jobs(ctx, of)
		if err != nil {
			return err
		}
		for _, id := range ids {
			job, ok := jobs[schema.JobID(id)]
			if ok && !job.Current.State.Ended() && slices.Contains(calendarsOf(&job.Current.Spec), name) && !visit(job) {
				return nil
			}
		}
		if len(ids) < usersPage {
			return nil
		}
	}
}

// Calendar returns a calendar, or schema.ErrNotFound.
func (j *CalendarKeeper) Calendar(ctx context.Context, tenant, name string) (schema.Calendar, error) {
	return j.store.Calendar(ctx, tenant, name)
}

// Calendars returns at most limit calendars of a tenant with a name after `after`, in name order.
func (j *CalendarKeeper) Calendars(ctx context.Context, tenant, after string, limit int) ([]schema.Calendar, error) {
	return j.store.Calendars(ctx, tenant, after, limit)
}

// DeleteCalendar deletes a calendar that no job uses. It answers *CalendarInUseError, or
// schema.ErrNotFound. A job that is made at the same time may keep the dates that the calendar had.
func (j *CalendarKeeper) DeleteCalendar(ctx context.Context, tenant, name string) (schema.Calendar, error) {
	was, err := j.store.Calendar(ctx, tenant, name)
	if err != nil && !errors.Is(err, schema.ErrNotUnderstood) {
		return was, err
	}
	var used CalendarInUseError
	err = j.eachUser(ctx, tenant, name, func(job *schema.Job) bool {
		if used.More = len(used.Jobs) == usersShown; used.More {
			return false
		}
		who := job.Current.Spec.Name
		if who == "" {
			who = job.ID.String()
		}
		used.Jobs = append(used.Jobs, who)
		return true
	})
	switch {
	case err != nil:
		return was, err
	case len(used.Jobs) > 0:
		return was, &used
	}
	return was, j.store.DeleteCalendar(ctx, tenant, name, bucketer.Latest(j.now(), was.UpdatedAt))
}

// calendarsOf returns the names of the calendars of a job, each once.
func calendarsOf(spec *schema.JobSpec) (names []string) {
	if spec.Schedule == nil {
		return nil
	}
	for i := range spec.Schedule.Any {
		if c := spec.Schedule.Any[i].Calendar; c != nil && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// ResolveCalendars fills in the dates that the calendars of a schedule have now. It does not change
// what the schedule points to. A calendar that is not there is bucketer.Faults, located as in the
// body of a request.
func (j *CalendarKeeper) ResolveCalendars(ctx context.Context, tenant string, s *schema.Schedule) error {
	return resolveCalendars(ctx, j.store, tenant, s)
}

func resolveCalendars(ctx context.Context, store schema.CalendarStore, tenant string, s *schema.Schedule) error {
	if s == nil || !slices.ContainsFunc(s.Any, func(one schema.Schedule) bool { return one.Calendar != nil }) {
		return nil
	}
	known := make(map[string]*schema.Calendar)
	var faults bucketer.Faults
	s.Any = slices.Clone(s.Any)
	for i := range s.Any {
		one := &s.Any[i]
		if one.Calendar == nil {
			continue
		}
		name := one.Calendar.Name
		c, ok := known[name]
		if !ok {
			found, err := store.Calendar(ctx, tenant, name)
			switch {
			case errors.Is(err, schema.ErrNotFound):
			case err != nil:
				return err
			default:
				c = &found
			}
			known[name] = c
		}
		if c == nil {
			at := "body.schedule.calendar.name"
			if s.Listed {
				at = fmt.Sprintf("body.schedules[%d].calendar.name", i)
			}
			faults = append(faults, bucketer.Fault{Location: at, Message: "names no calendar of the tenant", Value: name})
			continue
		}
		one.Calendar = &schema.ScheduleCalendar{Name: name, On: one.Calendar.On, Dates: c.Dates, Version: c.UpdatedAt.UnixMicro()}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// resolveCalendars is ResolveCalendars of a job's schedule.
func (j *upkeep) resolveCalendars(ctx context.Context, spec *schema.JobSpec) error {
	if spec.Schedule == nil {
		return nil
	}
	s := *spec.Schedule
	if err := resolveCalendars(ctx, j.store, spec.Tenant, &s); err != nil {
		return err
	}
	spec.Schedule = &s
	return nil
}

// useCalendars notes that a job uses its calendars, before its row says so.
func (j *upkeep) useCalendars(ctx context.Context, job *schema.Job) error {
	for _, name := range calendarsOf(&job.Current.Spec) {
		err := j.store.PutSubscription(ctx, schema.Subscription{
			Tenant: job.Current.Spec.Tenant, Event: schema.CalendarEvent(name), Subscriber: schema.EntryID(job.ID), Written: time.UnixMicro(job.Current.Number),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// leaveCalendars notes that a job does not use calendars any more. If that fails, it is looked at
// in vain.
func (j *upkeep) leaveCalendars(ctx context.Context, was, is *schema.Job) {
	for _, name := range calendarsOf(&was.Current.Spec) {
		if !is.Current.State.Ended() && slices.Contains(calendarsOf(&is.Current.Spec), name) {
			continue
		}
		err := j.store.DeleteSubscription(ctx, schema.Subscription{
			Tenant: was.Current.Spec.Tenant, Event: schema.CalendarEvent(name), Subscriber: schema.EntryID(was.ID), Written: time.UnixMicro(is.Current.Number - 1),
		})
		if err != nil {
			j.log.Debug("a job stays noted with a calendar that it does not use", "job", was.ID, "calendar", name, "err", err)
		}
	}
}

// outdated returns the jobs that go by other dates than their calendars have: a change of a
// calendar was cut short. It reads each calendar once.
func (j *Planner) outdated(ctx context.Context, jobs []schema.Job) (stale []*schema.Job, err error) {
	type key struct{ tenant, name string }
	versions := make(map[key]int64)
	for i := range jobs {
		job := &jobs[i]
		spec := &job.Current.Spec
		if job.Current.State.Ended() || spec.Schedule == nil {
			continue
		}
		for k := range spec.Schedule.Any {
			c := spec.Schedule.Any[k].Calendar
			if c == nil {
				continue
			}
			of := key{spec.Tenant, c.Name}
			version, ok := versions[of]
			if !ok {
				found, err := j.store.Calendar(ctx, of.tenant, of.name)
				switch {
				case errors.Is(err, schema.ErrNotFound), errors.Is(err, schema.ErrNotUnderstood): // the job keeps its dates
				case err != nil:
					return stale, err
				default:
					version = found.UpdatedAt.UnixMicro()
				}
				versions[of] = version
			}
			if version > c.Version {
				stale = append(stale, job)
				break
			}
		}
	}
	return stale, nil
}
