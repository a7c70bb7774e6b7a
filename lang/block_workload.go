package lang

import (
	"slices"
	"time"
)

var sizeWords = map[string]string{
	"input":       "Write input_len.",
	"output":      "Write output_len.",
	"max_tokens":  "Write output_len; every request makes exactly so many tokens.",
	"prompts":     "Write num_prompts.",
	"concurrency": "Concurrency is the same for all scenarios: write it in the workload block.",
	"dataset":     "The data set is the same for all scenarios: write it in the workload block.",
}

// sentAttrs are how requests are sent, in the workload block and in lanes.
var sentAttrs = []Attr{
	{"endpoint", choiceType("completions", "chat"), "", false, `"completions"`, "The API that is called.", "R055", into(func(w *Workload, v string) { w.Endpoint = v })},
	{"dataset", choiceType("random", "prefix", "sessions", "sharegpt", "multi-turn", "jsonl", "mooncake"), "", false, `"random"`, "Where prompts come from: random token ids (for chat, random words), ids that share prefixes, sessions of ids; or a file: first questions, whole conversations, JSON lines, a mooncake trace.", "R065", into(func(w *Workload, v string) { w.Dataset = v })},
	{"path", pathType, "", false, "", "The data set's file, where it has one.", "", into(func(w *Workload, v string) { w.Path = v })},
	{"sampling", samplingType, "", false, `{ temperature = 0 }`, "Sampling settings of every request.", "R055", into(func(w *Workload, v float64) { w.Temperature = v })},
	{"arrival", choiceType("inf", "constant", "poisson", "gamma", "trace"), "", false, `"inf"`, "When requests are sent; \"inf\" is all at once.", "", into(func(w *Workload, v string) { w.Arrival = v })},
	{"rate", positiveType, "requests/s", false, "", "Mean rate of the arrivals.", "", into(func(w *Workload, v float64) { w.Rate = &v })},
	{"burstiness", positiveType, "", false, "", "Shape of the gaps of arrival = \"gamma\": 1 is Poisson, less is more bursty.", "", into(func(w *Workload, v float64) { w.Pace.Burstiness = &v })},
	{"ramp", choiceType("linear", "exponential"), "", false, "", "The rate goes from rate to ramp_to.", "", into(func(w *Workload, v string) { w.Pace.Ramp = v })},
	{"ramp_to", positiveType, "requests/s", false, "", "Rate at the end of the ramp.", "", into(func(w *Workload, v float64) { w.Pace.RampTo = &v })},
	{"max_duration", durationType, "", false, "", "A cell that takes longer ends without a number, as timeout; no part of a key.", "", into(func(w *Workload, v time.Duration) { w.Pace.MaxDuration = v })},
	{"len_spread", partType, "share", false, `0`, "Lengths of random prompts and answers are drawn from (1 − r)·n to (1 + r)·n.", "", into(func(w *Workload, v float64) { w.Prompts.Spread = v })},
	{"prefix_groups", countType(1), "groups", false, "", "Groups of prompts that share their first tokens, with dataset = \"prefix\".", "", into(func(w *Workload, v int) { w.Prompts.Groups = v })},
	{"prefix_len", countType(1), "tokens", false, "", "Tokens that a group shares; part of input_len.", "", into(func(w *Workload, v int) { w.Prompts.Shared = v })},
	{"turns", countType(1), "turns", false, "", "Turns of a session, with dataset = \"sessions\"; each adds input_len and output_len.", "", into(func(w *Workload, v int) { w.Prompts.Turns = v })},
	{"think_time", durationType, "", false, "", "Mean time between the turns of a session.", "", into(func(w *Workload, v time.Duration) { w.Prompts.Think = v })},
	{"adapters", adaptersType, "", false, "", "Names of adapters that requests ask for in turn, with numbers for each.", "", into(func(w *Workload, v []string) { w.Prompts.Adapters = v })},
	{"cancel", shareType, "share", false, "", "Requests that the client leaves after cancel_after; they are neither successes nor failures.", "", into(func(w *Workload, v float64) { w.Prompts.Cancel = v })},
	{"cancel_after", durationType, "", false, "", "When the client leaves.", "", into(func(w *Workload, v time.Duration) { w.Prompts.CancelAfter = v })},
	{"concurrency", concurrencyType, "requests", false, `[null]`, "Requests in flight at most; each value is a cell of every scenario, null is unlimited.", "", into(func(w *Workload, v []*int) { w.Concurrency = v })},
	{"warmup", countType(0), "requests", false, `8`, "Requests before the measured ones, with prompts of their own.", "", into(func(w *Workload, v int) { w.Warmup = v })},
	{"seed", seedType, "", false, `1`, "Seed of the data set.", "", into(func(w *Workload, v int64) { w.Seed = v })},
}

var sentWords = map[string]string{
	"temperature": "Write sampling = { temperature = 0 }.", "max_concurrency": "Write concurrency, a list.", "qps": "Write arrival = \"poisson\" and rate.",
	"request_rate": "Write arrival = \"poisson\" and rate; without them all requests are sent at once.", "num_prompts": "The number of prompts stands in each scenario block.",
	"input_len": "Lengths stand in scenario blocks.", "output_len": "Lengths stand in scenario blocks.", "warmups": "Write warmup.",
}

// workloadBlocks are what is sent: scenario, workload, lane.
var workloadBlocks = []Block{
	{
		Path: "scenario", Label: "the scenario's name", Many: true,
		Doc:   "One request shape: a pair of lengths. Without any scenario block of the main lane, chat (1000 in, 1000 out) and summarization (8000 in, 1000 out) with 80 prompts each are measured.",
		Rules: "R064 R065 R066 R067 R068 R069",
		Attrs: []Attr{
			{Name: forEach, Type: eachType, Doc: "Repeats the block for each element, named LABEL_KEY; each.key and each.value stand inside."},
			{"input_len", lengthType, "tokens", true, "", "Length of every prompt.", "R066 R067 R068", into(func(s *Scenario, v int) { s.InputLen = v })},
			{"output_len", lengthType, "tokens", true, "", "Length of every answer.", "R066 R067 R068", into(func(s *Scenario, v int) { s.OutputLen = v })},
			{"num_prompts", countType(1), "requests", false, `80`, "Requests that are measured, without warm-up.", "R065", into(func(s *Scenario, v int) { s.NumPrompts = v })},
			{"lane", nameType, "", false, "", "The lane block that says how the requests are sent; left out, the workload block does.", "R073 R074", into(func(s *Scenario, v string) { s.Lane = v })},
		},
		Words: sizeWords,
		open:  func(h header) any { return &Scenario{Name: h.name, Range: h.at} },
		close: within(func(d *draft, s *Scenario) { d.Load.Scenarios = append(d.Load.Scenarios, *s) }),
	},
	{
		Path: "scenario.mix", Label: "the shape's name", Many: true,
		Doc: "A share of a scenario's random requests that has another pair of lengths; the scenario's own pair is what the shares leave. How many have which is exact, their order is drawn by the seed.",
		Attrs: []Attr{
			{"share", shareType, "share", true, "", "Of the scenario's num_prompts.", "", into(func(s *Shape, v float64) { s.Share = v })},
			{"input_len", lengthType, "tokens", true, "", "Length of their prompts.", "", into(func(s *Shape, v int) { s.InputLen = v })},
			{"output_len", lengthType, "tokens", true, "", "Length of their answers.", "", into(func(s *Shape, v int) { s.OutputLen = v })},
		},
		Words: map[string]string{"weight": "Write share, a part of 1.", "num_prompts": "The scenario says how many there are of all shapes; write share."},
		open:  func(h header) any { return &Shape{Name: h.name, Range: h.at} },
		close: within(func(s *Scenario, x *Shape) { s.Mix = append(s.Mix, *x) }),
	},
	{
		Path: "workload", Always: true,
		Doc:   "How the requests are sent; the same for every framework and all of it keyed.",
		Rules: "R055 R064 R065 R069 R073",
		Attrs: slices.Concat(sentAttrs, []Attr{
			{"lane", nameType, "", false, `"main"`, "Lanes other than \"main\" have their own table and never enter the winner table.", "R073 R074", into(func(w *Workload, v string) { w.Lane = v })},
			{"production", boolType, "", false, `false`, "This workload is the user's production workload and replaces the default scenarios.", "R064", into(func(w *Workload, v bool) { w.Production = v })},
			{"reason", textType, "", false, "", "Why the default scenarios do not stand for production.", "R064", into(func(w *Workload, v string) { w.Reason = v })},
		}),
		Words: sentWords,
		open:  func(header) any { return &Workload{} },
		close: within(func(d *draft, w *Workload) { d.Load.Workload = *w }),
	},
	{
		Path: "lane", Label: "the lane's name", Many: true,
		Doc:   "A workload beside the main one: the scenarios that name the lane are sent by it. They have a table of their own and no winner, and stand beside the main scenarios, which they never replace.",
		Rules: "R073 R074",
		Attrs: sentAttrs,
		Words: sentWords,
		open:  func(h header) any { return &Workload{Lane: h.name} },
		close: within(func(d *draft, w *Workload) { d.Load.Lanes = append(d.Load.Lanes, *w) }),
	},
}

// lengthType is a number of tokens. A list gets its own answer: a list of
// lengths is how other tools write the pairs, and some take their product.
var lengthType = Type{Name: "whole number ≥ 1", decode: func(g *given) any {
	if t := g.value.Type(); t.IsTupleType() || t.IsListType() {
		g.p.add(cWrongType, g.at, "%q is one length: a scenario is one pair of lengths, and lists of them are never multiplied with each other. Write one scenario block for each pair.", g.row.Name)
		return nil
	}
	return countType(1).decode(g)
}}
