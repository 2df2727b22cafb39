package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// RegionChanges has other regions serve homes (package node).
type RegionChanges interface {
	// Stand tells how all regions and homes stand. It does no I/O.
	Stand() RegionsStand
	// Faults returns what is wrong with a change whatever the regions are: unknown names.
	Faults(c schema.HomeChange) []schema.ChangeFault
	// Plan says what a change would cost. It takes some seconds. Its errors are
	// *schema.ChangeRefusedError and *schema.ChangeUnderWayError.
	Plan(ctx context.Context, c schema.HomeChange) (schema.ChangePlan, error)
	// Begin makes a change: a fail-over is done when it returns, a move goes on, and GET shows how
	// far it is. Besides those of Plan its error may be a *schema.ChangeLostError.
	Begin(ctx context.Context, c schema.HomeChange) (schema.ChangePlan, schema.HomeProgress, error)
}

const (
	regionsPath  = "/v1/admin/regions"
	movePath     = regionsPath + "/{home}/move"
	failoverPath = regionsPath + "/{home}/failover"
)

type (
	regionsStandAnswer struct{ Body RegionsStand }
	homeChangeIn       struct {
		Home string `path:"home" doc:"The home's name" example:"eu"`
		body
	}
	homeChangeOut struct {
		Status int
		Body   HomeChangeAnswer
	}
)

// regionRoutes serves regions to whoever runs the cluster.
type regionRoutes struct{ *Server }

func (s regionRoutes) route() {
	op := s.operation("get-regions-stand", http.MethodGet, regionsPath, "How all regions and homes stand, and which home is about to be served elsewhere", 200, 503)
	op.Description = "Answered from memory, also while no majority of the data centres answers. GET /v1/regions has less, for every key."
	huma.Register(s.api, op, s.stand)
	about := "With plan it only says what that would cost. Else it needs the reason, which is kept, and as confirm the name of the home. It listens 6 s for signs of life, compares no clocks, and names every reason for which it refuses. " +
		"Of two who do so at once one goes on; the other is told who did what, and when (409). "
	op = s.operation("move-home", http.MethodPost, movePath, "Have another region serve a home, while both are well; also to bring it back", 202, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	op.Description = about + "It goes on after the answer: " + regionsPath + " shows how far it is. First the rows of all data centres are compared, then it is announced for 12 s, drained, and decided. " +
		"If the node stops, it gives the move up; if it dies before the epoch is decided, begin the move again."
	huma.Register(s.api, op, s.move)
	op = s.operation("fail-over-home", http.MethodPost, failoverPath, "Have another region serve a home whose region is lost", 200, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	op.Description = about + "Ask a node of the region that is to serve the home: how far that one is behind is known there alone. It is refused while the lost region gives signs of life, and, unless accept_lag says otherwise, while that one is behind by more than 10 s. " +
		"After 503 unknown look who serves the home, and do it again."
	huma.Register(s.api, op, s.failOver)
	s.alsoAnswers(movePath, http.MethodPost, http.StatusOK, http.StatusAccepted)
	for _, path := range []string{movePath, failoverPath} {
		s.describeBody(path, http.MethodPost, reflect.TypeFor[request.HomeChangeRequest](), "application/json")
	}
}

func (s regionRoutes) stand(context.Context, *struct{}) (*regionsStandAnswer, error) {
	seen := RegionsStand{AsOf: Time{s.config.Now()}}
	if s.deps.RegionChanges != nil {
		seen = s.deps.RegionChanges.Stand()
	}
	seen.Regions, seen.Homes = append([]RegionStand{}, seen.Regions...), append([]HomeStand{}, seen.Homes...)
	return &regionsStandAnswer{seen}, nil
}

func (s regionRoutes) move(ctx context.Context, in *homeChangeIn) (*homeChangeOut, error) {
	return s.change(ctx, "move home", in, false)
}

func (s regionRoutes) failOver(ctx context.Context, in *homeChangeIn) (*homeChangeOut, error) {
	return s.change(ctx, "fail home over", in, true)
}

// change makes a change of who serves a home, or plans it.
func (s regionRoutes) change(ctx context.Context, act string, in *homeChangeIn, forced bool) (*homeChangeOut, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	c, plan, err := request.HomeChange(d, in.Home, forced, text)
	if s.config.ReadOnly && !plan {
		return nil, readOnly()
	}
	if s.deps.RegionChanges == nil {
		return nil, notFound("This node has no regions.")
	}
	if err := also(err, s.unknown(c)); err != nil {
		return nil, s.fail(ctx, act, err)
	}
	c.By = actorOf(ctx)
	if plan {
		p, err := s.deps.RegionChanges.Plan(ctx, c)
		if err == nil {
			err = already(&p)
		}
		if err != nil {
			return nil, s.fail(ctx, act, err)
		}
		return &homeChangeOut{Status: http.StatusOK, Body: answerOf(&p, nil)}, nil
	}
	p, progress, err := s.deps.RegionChanges.Begin(ctx, c)
	if err == nil {
		err = already(&p)
	}
	if err != nil {
		return nil, s.fail(ctx, act, err)
	}
	out := &homeChangeOut{Status: http.StatusAccepted, Body: answerOf(&p, HomeChangeViewOf(&progress, s.config.Now()))}
	action := "move"
	if forced {
		out.Status, action = http.StatusOK, "failover"
	}
	s.noteChange(ctx, action, &out.Body, c.Reason)
	return out, nil
}

// auditedEpoch is what the audit log has of who serves a home.
type auditedEpoch struct {
	Region string `json:"region"`
	Epoch  int64  `json:"epoch"`
}

// noteChange notes in the audit log of the tenant of the caller's key that a home is moved or
// failed over: it is no tenant's.
func (s regionRoutes) noteChange(ctx context.Context, action string, a *HomeChangeAnswer, reason string) {
	who := callerOf(ctx)
	tenant := who.of
	if tenant == "" {
		tenant = who.tenant
	}
	s.noteFor(ctx, tenant, action, "home/"+a.Home, auditedEpoch{a.From, a.Epoch - 1}, auditedEpoch{a.To, a.Epoch}, reason)
}

// unknown returns what is wrong with the names of a change.
func (s regionRoutes) unknown(c schema.HomeChange) (faults []bucketer.Fault) {
	for _, f := range s.deps.RegionChanges.Faults(c) {
		if f.Field != "to" || c.To != "" { // else it was told that it is missing
			faults = append(faults, changeFault(f))
		}
	}
	return faults
}

// already is the error of a change to the region that serves the home.
func already(p *schema.ChangePlan) error {
	if !p.Already {
		return nil
	}
	return &schema.ChangeRefusedError{Faults: []schema.ChangeFault{{Field: "to", Message: "region " + p.Was.Region + " serves home " + p.Was.Home + " already"}}}
}

func answerOf(p *schema.ChangePlan, change *HomeChangeView) HomeChangeAnswer {
	return HomeChangeAnswer{
		Home: p.Change.Home, From: p.Was.Region, To: p.Change.To, Epoch: p.Was.Number + 1, Planned: change == nil, Plan: HomePlanOf(p), Change: change,
	}
}

// changeFault returns a fault of a change as the API answers it.
func changeFault(f schema.ChangeFault) bucketer.Fault {
	at := "body." + f.Field
	if f.Field == "home" {
		at = "path.home"
	}
	return bucketer.Fault{Location: at, Message: f.Message}
}

// changeProblem returns the problem of a change of who serves a home; nil: err is none of one.
func changeProblem(err error) *Problem {
	var (
		refused *schema.ChangeRefusedError
		other   *schema.ChangeUnderWayError
		lost    *schema.ChangeLostError
	)
	switch {
	case errors.As(err, &refused):
		var faults []bucketer.Fault
		for _, f := range refused.Faults {
			faults = append(faults, changeFault(f))
		}
		if refused.Unknown() {
			return invalid(faults...)
		}
		return &Problem{
			Type: problemType + "home-not-changed", Title: "The home stays where it is", Status: http.StatusConflict, Errors: faults,
			Detail: "Nothing was announced or changed. The faults say why, and what to do.",
		}
	case errors.As(err, &other):
		return &Problem{
			Type: problemType + "change-under-way", Title: "Somebody else is at it", Status: http.StatusConflict,
			Detail: "Nothing was announced or changed by this request. " + other.Error(),
		}
	case errors.As(err, &lost):
		return &Problem{Type: problemType + "home-decided", Title: "Somebody else was faster", Status: http.StatusConflict, Detail: lost.Error() + "."}
	}
	return nil
}
