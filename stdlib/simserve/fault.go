package simserve

import (
	"net/http"
	"slices"
)

// Fault is what goes wrong with a request.
type Fault string

// The faults.
const (
	None         Fault = ""
	HTTP500      Fault = "http_500"
	Reset        Fault = "reset"
	NotStream    Fault = "not_stream"
	ErrorEvent   Fault = "error_event"
	BadJSON      Fault = "bad_json"
	Cut          Fault = "cut"
	Abort        Fault = "abort"
	NoFinish     Fault = "no_finish"
	NoDone       Fault = "no_done"
	StallFirst   Fault = "stall_first"
	Stall        Fault = "stall"
	StallEnd     Fault = "stall_end"
	NoTokens     Fault = "no_tokens"
	ShortOutput  Fault = "short_output"
	LongOutput   Fault = "long_output"
	PromptCount  Fault = "prompt_count"
	OutputCount  Fault = "output_count"
	NoUsage      Fault = "no_usage"
	TwoChoices   Fault = "two_choices"
	LateToken    Fault = "late_token"
	WrongModel   Fault = "wrong_model"
	AnswersModel Fault = "answers_model"
	HTTP429      Fault = "http_429"
	StallHead    Fault = "stall_head"
	Page         Fault = "page"
	Empty        Fault = "empty"
	ErrorFirst   Fault = "error_first"
	ErrorObject  Fault = "error_object"
	ErrorClose   Fault = "error_close"
	HalfEvent    Fault = "half_event"
	DoneTwice    Fault = "done_twice"
	AfterDone    Fault = "after_done"
	OddFinish    Fault = "odd_finish"
	UsageFalls   Fault = "usage_falls"
	CachedOver   Fault = "cached_over"
)

// FaultRow is one row of the table of faults.
type FaultRow struct {
	Fault   Fault
	Meaning string
}

// Faults is the table, in display order. "Half-way" is after half of the
// events.
var Faults = []FaultRow{
	{HTTP500, "status 500 with an error object, no stream"},
	{Reset, "the connection ends before any answer"},
	{NotStream, "status 200 with a whole JSON answer, no event stream"},
	{ErrorEvent, "half-way an error event and [DONE], as of a dead engine"},
	{BadJSON, "half-way an event that is no JSON"},
	{Cut, "half-way the connection ends"},
	{Abort, "half-way finish reason abort and [DONE], as of a server that shuts down"},
	{NoFinish, "no finish reason"},
	{NoDone, "no [DONE]"},
	{StallFirst, "comments for ever instead of the first token"},
	{Stall, "half-way silence for ever"},
	{StallEnd, "silence for ever after [DONE]: the answer does not end"},
	{NoTokens, "all events are without text"},
	{ShortOutput, "half of the tokens, then finish reason stop"},
	{LongOutput, "one token more than asked for"},
	{PromptCount, "usage counts one prompt token too many"},
	{OutputCount, "usage counts half of the output tokens"},
	{NoUsage, "no usage"},
	{TwoChoices, "half-way an event of a second choice"},
	{LateToken, "a token after the finish reason"},
	{WrongModel, "the model list and all answers name another model"},
	{AnswersModel, "the answers name another model than the list"},
	{HTTP429, "status 429 with an error object, as of a full server"},
	{StallHead, "no answer at all, not even a status"},
	{Page, "status 200 with a web page, as of a gateway"},
	{Empty, "status 200 and an event stream without an event"},
	{ErrorFirst, "an error event instead of the first token, then [DONE]"},
	{ErrorObject, "half-way an object of kind error, which is no error field"},
	{ErrorClose, "half-way an error event, then the stream ends without [DONE]"},
	{HalfEvent, "half-way the stream ends properly, inside an event"},
	{DoneTwice, "[DONE] twice"},
	{AfterDone, "an event with a token after [DONE]"},
	{OddFinish, "a finish reason that no API has"},
	{UsageFalls, "counts on two events, the later one lower"},
	{CachedOver, "usage counts more cached tokens than prompt tokens"},
}

const otherModel = "another-model"

// fault says what goes wrong with request i. A header of the request decides
// before the configuration; not ok if it names no fault.
func (s *server) fault(i int, r *http.Request) (f Fault, ok bool) {
	if asked := Fault(r.Header.Get("X-Sim-Fault")); asked != "" {
		return asked, slices.ContainsFunc(Faults, func(row FaultRow) bool { return row.Fault == asked })
	}
	if i < s.After || (i-s.After)%s.Every != 0 {
		return None, true
	}
	return s.Fault, true
}
