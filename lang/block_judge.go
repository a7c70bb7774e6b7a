package lang

import "time"

// fairnessFields are what must be equal for all frameworks (R127).
var fairnessFields = []string{"gpu_count", "gpu_ids", "weights", "tokenizer", "precision", "quantization", "endpoint", "sampling", "request_shape"}

// judgeBlocks are how rows are judged: sla, accuracy, fairness, noise, quality.
var judgeBlocks = []Block{
	{
		Path: "sla", Always: true,
		Doc:   "Limits that a row must keep to be ranked; what is left out is no limit.",
		Rules: "R055",
		Attrs: []Attr{
			{"max_p50_ttft_ms", millisType, "ms", false, "", "Median time to the first token.", "", into(func(s *SLA, v time.Duration) { s.MaxP50TTFT = &v })},
			{"max_p50_tpot_ms", millisType, "ms", false, "", "Median time per output token after the first.", "", into(func(s *SLA, v time.Duration) { s.MaxP50TPOT = &v })},
			{"max_p50_e2e_ms", millisType, "ms", false, "", "Median time of a whole request.", "", into(func(s *SLA, v time.Duration) { s.MaxP50E2E = &v })},
			{"min_success_rate", shareType, "share", false, `1`, "Successful requests among those sent.", "", into(func(s *SLA, v float64) { s.MinSuccessRate = v })},
		},
		Words: map[string]string{
			"max_ttft_ms": "Which one? Write max_p50_ttft_ms.", "max_tpot_ms": "Which one? Write max_p50_tpot_ms.", "max_p99_ttft_ms": "Rows are judged by medians: write max_p50_ttft_ms. The 99th percentile is reported beside it.",
			"max_p99_tpot_ms": "Rows are judged by medians: write max_p50_tpot_ms. The 99th percentile is reported beside it.", "max_p50_ttft": "The unit is in the name: write max_p50_ttft_ms.", "max_p50_tpot": "The unit is in the name: write max_p50_tpot_ms.",
			"max_p50_itl_ms": "The gap between tokens is judged as max_p50_tpot_ms.", "success_rate": "Write min_success_rate.",
		},
		open:  func(h header) any { return &SLA{Range: h.at} },
		close: within(func(d *draft, s *SLA) { d.Judge.SLA = *s }),
	},
	{
		Path: "accuracy",
		Doc:  "A row below this floor is quality_failed and never ranked.",
		Attrs: []Attr{
			{"prompts", countType(1), "prompts", false, `32`, "Prompts that are compared.", "", into(func(a *Accuracy, v int) { a.Prompts = v })},
			{"min_agreement", shareType, "share", true, "", "Tokens that agree with the greedy answers of the framework's own baseline candidate before the first difference.", "", into(func(a *Accuracy, v float64) { a.MinAgreement = v })},
			{"path", pathType, "", false, "", "JSON lines with prompt and answer, in place of prompts like the first scenario's.", "", into(func(a *Accuracy, v string) { a.Path = v })},
			{"min_score", partType, "share", false, `0`, "Graded answers that must be right.", "", into(func(a *Accuracy, v float64) { a.MinScore = v })},
		},
		open:  func(header) any { return &Accuracy{} },
		close: within(func(d *draft, a *Accuracy) { d.Judge.Accuracy = a }),
	},
	{
		Path: "rate_search",
		Doc:  "Asks for the highest request rate at which each framework's best candidate keeps the SLA: doubling until it breaks, then bisection. Each round is a cell with arrivals of a Poisson process.",
		Attrs: []Attr{
			{"start", positiveType, "requests/s", true, "", "Rate of the first round.", "", into(func(r *RateSearch, v float64) { r.Start = v })},
			{"rounds", countType(1), "rounds", false, `5`, "Rounds at most.", "", into(func(r *RateSearch, v int) { r.Rounds = v })},
			{"within", shareType, "share", false, `0.05`, "Ends when the bracket is narrower than this share of its upper end.", "", into(func(r *RateSearch, v float64) { r.Within = v })},
			{"num_prompts", countType(1), "requests", false, "", "Requests of a round; as the scenario, if left out.", "", into(func(r *RateSearch, v int) { r.NumPrompts = v })},
		},
		open:  func(h header) any { return &RateSearch{Range: h.at} },
		close: within(func(d *draft, r *RateSearch) { d.Judge.Rate = r }),
	},
	{
		Path:  "fairness",
		Doc:   "Which of the fields that must be equal may stay unobserved.",
		Rules: "R127",
		Attrs: []Attr{
			{"waive", textsType, "", false, `{}`, "Field = \"reason\".", "R127", into(func(d *draft, v map[string]string) { d.Judge.Waived = v })},
		},
		open:  func(header) any { return &draft{} },
		close: within(func(d, b *draft) { d.Judge.Waived = b.Judge.Waived }),
	},
	{
		Path: "noise", Always: true,
		Doc:   "When a difference is one. Where the block is written, the winner of each scenario and every other framework's best that is less behind it than ten times the threshold, or than 10 % where that is more, are measured again in turns, each repeat a new server life, until it is shown who is ahead or that they are tied. Without it nothing is repeated.",
		Rules: "R122 R123",
		Attrs: []Attr{
			{"threshold", shareType, "share", false, `0.01`, "Band within which two are tied.", "R122", into(func(n *Noise, v float64) { n.Threshold = v })},
			{"min_repeats", countType(1), "server lives", false, `3`, "Repeats of each before a difference counts.", "R123", into(func(n *Noise, v int) { n.MinRepeats = v })},
			{"max_repeats", countType(2), "server lives", false, `20`, "Repeats of each, after which the rest is called unresolved.", "R123", into(func(n *Noise, v int) { n.MaxRepeats = v })},
		},
		Words: map[string]string{"repeats": "Write min_repeats and max_repeats."},
		open:  func(h header) any { return &Noise{Written: h.at != Range{}} },
		close: within(func(d *draft, n *Noise) { d.Judge.Noise = *n }),
	},
	{
		Path: "quality", Always: true,
		Doc: "What makes a sample acceptable; judged when it is used, not keyed.",
		Attrs: []Attr{
			{"max_age", durationType, "", false, "", "Older samples are measured again; left out, any age will do.", "", into(func(q *Quality, v time.Duration) { q.MaxAge = v })},
			{"power_cap", choiceType("record", "reject"), "", false, `"record"`, "What a software power cap during the run means.", "", into(func(q *Quality, v string) { q.PowerCap = v })},
			{"cached_share", partType, "share", false, `0.02`, "By how much cached prompt tokens of compared rows may differ.", "", into(func(q *Quality, v float64) { q.CachedShare = v })},
		},
		open:  func(header) any { return &Quality{} },
		close: within(func(d *draft, q *Quality) { d.Judge.Quality = *q }),
	},
}
