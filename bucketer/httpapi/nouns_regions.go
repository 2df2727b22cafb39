package httpapi

import (
	"time"

	"carillon.dev/carillon/schema"
)

// RegionsStand is how all regions and homes stand, as the node that answers knows: it asks nobody.
type RegionsStand struct {
	Region  string        `json:"region,omitempty" doc:"Of the node that answers; absent without regions"`
	AsOf    Time          `json:"as_of" doc:"When this was answered, from memory: lease_age_seconds of a home says how long ago it was read who serves it"`
	Regions []RegionStand `json:"regions" doc:"Empty without regions"`
	Homes   []HomeStand   `json:"homes" doc:"Empty without regions"`
}

// RegionStand is how a region stands.
type RegionStand struct {
	Name  string `json:"name" example:"eu"`
	Local bool   `json:"local,omitempty" doc:"The node that answers is in it"`
	// Absent where the data centre has no sign of life of it.
	LastSign  Time     `json:"last_sign_at,omitzero" doc:"The last sign of life of it that is here, by its clock"`
	Node      string   `json:"node,omitempty" doc:"The node that gave it"`
	Lag       *float64 `json:"lag_seconds,omitempty" doc:"How far this data centre may be behind it: the age of that sign, 0 to 2 s at rest"`
	Executors *int     `json:"executors,omitempty" doc:"Its executors, as that node knew; absent: it did not tell"`
}

// HomeStand is how a home stands.
type HomeStand struct {
	Home
	Shards int             `json:"shards" doc:"How many it has, those of later numbers included"`
	Since  Time            `json:"since,omitzero" doc:"When its epoch was decided, by the clock of who did"`
	By     string          `json:"by,omitempty" doc:"Who decided it: a key, a person, or automatic"`
	Reason string          `json:"reason,omitempty"`
	Change *HomeChangeView `json:"change,omitempty" doc:"The last move or fail-over of it that is known here, and how far it is"`
}

// HomeChangeView tells of a move or a fail-over how far it is, and how it ended.
type HomeChangeView struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Forced bool   `json:"forced,omitempty" doc:"It is a fail-over"`
	Epoch  int64  `json:"epoch" doc:"In which the home was served when it began"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Phase  string `json:"phase" enum:"checking,comparing,announced,draining,deciding,done,refused,given-up,unknown" doc:"After done the other region begins some seconds later; after refused nothing was announced; after given-up the region before serves on; after unknown ask who serves the home"`
	// By the clock of whoever does it.
	BeganAt    Time   `json:"began_at"`
	PhaseSince Time   `json:"phase_since"`
	UpdatedAt  Time   `json:"updated_at" doc:"When it told so; every 2 s while it is under way"`
	Partitions int    `json:"partitions,omitempty" doc:"Minutes of shards that were compared …"`
	Of         int    `json:"of,omitempty" doc:"… of so many"`
	Rows       int    `json:"rows,omitempty" doc:"In which there are so many rows"`
	Fault      string `json:"fault,omitempty" doc:"Why it ended otherwise than done"`
}

// HomeChangeViewOf returns what a row of progress tells, which was written at that time.
func HomeChangeViewOf(p *schema.HomeProgress, at time.Time) *HomeChangeView {
	return &HomeChangeView{
		From: p.From, To: p.To, Forced: p.Forced, Epoch: p.Epoch, By: p.By, Reason: p.Reason, Phase: p.Phase, BeganAt: Time{p.Began}, PhaseSince: Time{p.Since},
		UpdatedAt: Time{at}, Partitions: p.Partitions, Of: p.Of, Rows: p.Rows, Fault: p.Fault,
	}
}

// HomeChangeAnswer is the answer to a move, a fail-over, or the plan of one.
type HomeChangeAnswer struct {
	Home    string          `json:"home" example:"eu"`
	From    string          `json:"from" doc:"The region that served it"`
	To      string          `json:"to"`
	Epoch   int64           `json:"epoch" doc:"In which the other region serves it, or is to"`
	Planned bool            `json:"planned" doc:"Nothing was done"`
	Plan    HomePlan        `json:"plan"`
	Change  *HomeChangeView `json:"change,omitempty" doc:"How far it is; absent from a plan"`
}

// HomePlan says what a move or a fail-over costs.
type HomePlan struct {
	LastSign    *float64         `json:"last_sign_seconds,omitempty" doc:"How old the last sign of life is of the region that serves the home; absent: it never gave one"`
	Lag         *float64         `json:"lag_seconds,omitempty" doc:"How far the region that takes over is behind that sign; absent: not known"`
	LagFault    string           `json:"lag_fault,omitempty" doc:"Why that is not known"`
	LostAtMost  *float64         `json:"lost_at_most_seconds,omitempty" doc:"Of a fail-over: of so long may be missing what was acknowledged, until the region returns"`
	Executors   *int             `json:"executors,omitempty" doc:"Of the region that takes over; absent: it does not tell"`
	Announced   float64          `json:"announced_seconds" doc:"How long it is announced, and the home still served"`
	Drained     float64          `json:"drained_seconds" doc:"How long the home is drained: nothing is taken in"`
	Begins      float64          `json:"begins_seconds" doc:"How long after the epoch the other region begins, about"`
	Unavailable float64          `json:"unavailable_seconds" doc:"For how long nothing is taken in or published of the home, about; of a fail-over from the epoch on"`
	Backlog     *HomeBacklogView `json:"backlog,omitempty" doc:"What is under way, about; only in a plan"`
	Refused     []string         `json:"refused" doc:"Why it would be refused"`
}

// HomeBacklogView is what is under way in a home, estimated from some of its shards.
type HomeBacklogView struct {
	Settled      Time   `json:"settled" doc:"Everything due before is finished"`
	UnderWay     int64  `json:"under_way" doc:"Runs due since, at most so many of which wait or run: those that run may be started again, unless they are guarded"`
	LookedAt     int64  `json:"looked_at" doc:"Runs that the other region looks at: due since 10 minutes before"`
	DueMeanwhile int64  `json:"due_meanwhile" doc:"Runs that become due while nobody publishes: they start late"`
	More         bool   `json:"more,omitempty" doc:"There are more: counting is bounded"`
	Shards       int    `json:"shards" doc:"Of the home"`
	Sampled      int    `json:"sampled" doc:"Of those, counted"`
	Fault        string `json:"fault,omitempty" doc:"Why it is not known"`
}

// HomePlanOf returns a plan as the API answers it.
func HomePlanOf(p *schema.ChangePlan) HomePlan {
	out := HomePlan{
		LagFault: p.LagFault, Executors: p.Executors, Announced: p.Announced.Seconds(), Drained: p.Drained.Seconds(), Begins: p.Begins.Seconds(),
		Unavailable: p.Unavailable().Seconds(), Refused: []string{},
	}
	seconds := func(d time.Duration, known bool) *float64 {
		if !known {
			return nil
		}
		s := d.Seconds()
		return &s
	}
	out.LastSign = seconds(p.LastSign, p.HasSign)
	out.Lag = seconds(p.Lag, p.HasSign && p.LagFault == "")
	out.LostAtMost = seconds(p.LostAtMost, p.LostAtMost > 0)
	if b := &p.Backlog; b.Fault != "" || b.Shards > 0 {
		out.Backlog = &HomeBacklogView{
			Settled: Time{b.Settled}, UnderWay: b.UnderWay, LookedAt: b.LookedAt, DueMeanwhile: b.DueMeanwhile, More: b.More, Shards: b.Shards, Sampled: b.Sampled, Fault: b.Fault,
		}
	}
	for _, f := range p.Refused {
		out.Refused = append(out.Refused, f.Message)
	}
	return out
}
