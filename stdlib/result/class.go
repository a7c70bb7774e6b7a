package result

import "github.com/sotabuild/sotabuild/executors"

// Class is a failure class; those of the supervisor and those of the client
// share one name space.
type Class = executors.Class

// Classes that a benchmark client or a judge assigns. Request classes describe
// one request; a cell whose success rate falls below the rule takes the most
// frequent one.
const (
	HTTPStatus      Class = "http_status"
	StreamError     Class = "stream_error"
	Truncated       Class = "truncated"
	NoTokens        Class = "no_tokens"
	ShortOutput     Class = "short_output"
	LongOutput      Class = "long_output"
	PromptMismatch  Class = "prompt_mismatch"
	CountMismatch   Class = "count_mismatch"
	WrongModel      Class = "wrong_model"
	ConnFailed      Class = "conn_failed"
	Stalled         Class = "stalled"
	BadStream       Class = "bad_stream"
	ClientLimited   Class = "client_limited"
	Throttled       Class = "throttled"
	RateNotReached  Class = "rate_not_reached"
	CacheUnequal    Class = "cache_unequal"
	Saturated       Class = "saturated"
	QualityFailed   Class = "quality_failed"
	SpecUnrepresent Class = "spec_unrepresentative"
	UnknownFlag     Class = "unknown_flag"
	BadFlagValue    Class = "bad_flag_value"
	NoHelp          Class = "no_help"
	NoResult        Class = "no_result"
	NoCounters      Class = "no_counters"
	Busy            Class = "busy"
	HostUnfit       Class = "host_unfit"
	NoWeights       Class = "no_weights"
)

// ClassRow is one row of the table of failure classes.
type ClassRow struct {
	Class   Class
	Status  Status
	Retries int  // further attempts within one apply
	Keep    bool // the failure is a lasting result of the candidate
	Reject  bool // the run was no acceptable sample; kept, never ranked
	Meaning string
}

// Classes is the table, in display order. What is not in it is a bug.
var Classes = []ClassRow{
	{executors.ClassOOM, OOM, 0, true, false, "the server ran out of memory"},
	{executors.ClassStartFailed, Failed, 0, false, false, "the server program could not be executed"},
	{executors.ClassServerDied, Failed, 1, true, false, "the server ended before its work was done"},
	{executors.ClassUnhealthy, Timeout, 1, false, false, "the server was not healthy in time"},
	{executors.ClassPortInUse, Failed, 0, false, false, "the server's port belongs to another process"},
	{executors.ClassNotOurs, Failed, 0, false, false, "another server answered on the endpoint"},
	{executors.ClassClientFailed, Failed, 0, false, false, "the benchmark client broke"},
	{executors.ClassTimeout, Timeout, 1, false, false, "the cell passed its deadline"},
	{executors.ClassNoOutput, Failed, 0, false, false, "a declared output is missing or empty"},
	{executors.ClassStopFailed, Failed, 0, false, false, "the server could not be ended"},
	{executors.ClassChanged, Failed, 0, false, false, "a program, a model or a data set changed while it was in use"},
	{executors.ClassInterrupted, Failed, 0, false, false, "stopped before it was done"},
	{executors.ClassPreempted, Failed, 3, false, false, "its place was taken away: by a higher priority, or with its node"},
	{executors.ClassLost, Failed, 1, false, false, "the executor lost sight of the task"},
	{ConnFailed, Failed, 0, false, false, "connections were refused or reset"},
	{HTTPStatus, Failed, 0, true, false, "the server answered with an HTTP error"},
	{StreamError, Failed, 0, true, false, "an error object inside a 200 stream"},
	{Truncated, Failed, 0, true, false, "a stream ended without its last event"},
	{BadStream, Failed, 0, true, false, "a stream that is not what the API promises"},
	{Stalled, Timeout, 0, true, false, "no bytes for longer than allowed"},
	{NoTokens, Failed, 0, true, false, "a success without a token"},
	{ShortOutput, Failed, 0, true, false, "fewer output tokens than asked with ignore_eos"},
	{LongOutput, Failed, 0, true, false, "more output tokens than asked"},
	{PromptMismatch, Failed, 0, true, false, "the server counted another prompt length than was sent"},
	{CountMismatch, Failed, 0, true, false, "usage is missing or contradicts the events"},
	{WrongModel, Failed, 0, true, false, "the server serves another model"},
	{ClientLimited, Failed, 1, false, true, "the client could not keep up: no number"},
	{Throttled, Failed, 1, false, true, "the hardware throttled: no number"},
	{Busy, Failed, 1, false, true, "others used the server or its GPUs: nothing was measured"},
	{RateNotReached, Failed, 0, false, true, "the asked request rate was not reached"},
	{CacheUnequal, Failed, 0, false, true, "cached shares of compared rows differ"},
	{Saturated, Failed, 0, true, false, "the queue grew without bound"},
	{QualityFailed, Failed, 0, true, false, "below the accuracy floor"},
	{SpecUnrepresent, Failed, 0, true, false, "speculation on random tokens is not representative"},
	{UnknownFlag, Skipped, 0, true, false, "the flag is not in the program's own help"},
	{BadFlagValue, Skipped, 0, true, false, "the program's own help does not allow the value"},
	{NoHelp, Failed, 0, false, false, "the program did not print its help"},
	{NoResult, Failed, 0, false, false, "no candidate gave a number"},
	{NoCounters, Failed, 0, false, false, "the kernel's counters could not be read: the digest has a blocker"},
	{HostUnfit, Failed, 0, false, false, "the host is out of range before anything is measured"},
	{NoWeights, Failed, 1, false, false, "the pinned revision could not be fetched whole"},
}

// Lookup finds a class's row in the table.
func Lookup(c Class) (ClassRow, bool) {
	for _, r := range Classes {
		if r.Class == c {
			return r, true
		}
	}
	return ClassRow{}, false
}
