package queue

import (
	"strconv"

	"carillon.dev/carillon/schema"
)

// prefix of every subject and stream name.
const prefix = "carillon"

// Stream returns the name of a lane's stream.
func Stream(lane Lane) string { return prefix + "_runs_" + strconv.Itoa(int(lane)) }

// RunSubject returns the subject of a lane and priority: carillon.run.<lane>.<priority>.
func RunSubject(lane Lane, p schema.Priority) string {
	return prefix + ".run." + strconv.Itoa(int(lane)) + "." + string(p.Or())
}

// RunSubjects returns the subject filter of all of a lane's runs.
func RunSubjects(lane Lane) string { return prefix + ".run." + strconv.Itoa(int(lane)) + ".>" }

// ConsumerName returns the name of the durable consumer of a lane and priority.
func ConsumerName(p schema.Priority) string { return "executors_" + string(p.Or()) }

// NearSubject returns the subject of near hints of a shard.
func NearSubject(s schema.Shard) string { return prefix + ".near." + strconv.Itoa(int(s)) }

// DoneSubject returns the subject of notices of a shard.
func DoneSubject(s schema.Shard) string { return prefix + ".done." + strconv.Itoa(int(s)) }

// SignalSubject returns the subject of a signal's topic.
func SignalSubject(topic string) string { return prefix + ".signal." + topic }
