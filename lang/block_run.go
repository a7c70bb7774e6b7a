package lang

import "time"

// runBlocks are where nodes run and what comes beside the benchmark: loop,
// history, trace, executor, cache, secrets, and the names that files define.
var runBlocks = []Block{
	{
		Path: "history", Doc: "Where the model PR history is kept.", Rules: "R040 R041 R050",
		Attrs: []Attr{
			{"root", pathType, "", true, "", "Root folder of the history.", "R040", into(func(d *draft, v string) { d.Run.History = v })},
		},
		Words: map[string]string{"slug": "The slug is family in the model block."},
		open:  func(header) any { return &draft{} },
		close: within(func(d, b *draft) { d.Run.History = b.Run.History }),
	},
	{
		Path: "trace", Label: "the trace's name", Many: true, Doc: "A profile that already exists.",
		Attrs: []Attr{
			{"framework", nameType, "", true, "", "Framework that was profiled, by its label.", "", into(func(t *Trace, v string) { t.Framework = v })},
			{"path", pathType, "", true, "", "The trace's file or folder.", "", into(func(t *Trace, v string) { t.Path = v })},
			{"stage", choiceType("prefill", "decode", "mixed"), "", true, "", "What the server did meanwhile.", "", into(func(t *Trace, v string) { t.Stage = v })},
		},
		open:  func(h header) any { return &Trace{Name: h.name, Range: h.at} },
		close: within(func(d *draft, t *Trace) { d.Run.Traces = append(d.Run.Traces, *t) }),
	},
	{
		Path: "loop", Label: "the loop's kind", Labels: []string{"rlcr"}, Doc: "The loop that makes the target faster.", Rules: "R002 R020 R195",
		Attrs: []Attr{
			{"max_rounds", countType(1), "rounds", true, "", "Rounds after which it ends as not reached.", "", into(func(l *Loop, v int) { l.MaxRounds = v })},
		},
		open:  func(h header) any { return &Loop{Type: h.name, Range: h.at} },
		close: within(func(d *draft, l *Loop) { d.Run.Loop = l }),
	},
	{
		Path: "loop.agent", Label: "the agent's kind", Required: true, Labels: []string{"codex", "claude", "humanize", "script", "manual"}, Doc: "Who writes the patches.",
		Attrs: []Attr{
			{"command", commandType, "", false, "", "Program and arguments of a script; the other kinds have their own. loop.base_commit may stand in it.", "", into(func(a *Agent, v []string) { a.Command = v })},
			{"allowed_paths", globsType, "", true, "", "What it may change, relative to the checkout.", "", into(func(a *Agent, v []string) { a.AllowedPaths = v })},
			{"timeout", durationType, "", false, `"2h"`, "How long one draft may take.", "", into(func(a *Agent, v time.Duration) { a.Timeout = v })},
		},
		open:  func(h header) any { return &Agent{Type: h.name} },
		close: within(func(l *Loop, a *Agent) { l.Agent = *a }),
	},
	commandBlock("loop.build", "Builds the patched target; runs in the checkout.", func(l *Loop, v []string) { l.Build = v }),
	commandBlock("loop.correct", "Proves that a patch is correct; runs in the checkout.", func(l *Loop, v []string) { l.Correct = v }),
	commandBlock("loop.review", "Reviews a patch; runs in the checkout.", func(l *Loop, v []string) { l.Review = v }),
	{
		Path: "loop.stop", Label: "the predicate's name", Many: true, Doc: "A reason to stop, beside reached, tied, external and near_limit, which are prescribed.", Rules: "R195 R196 R197 R198 R199",
		Attrs: []Attr{
			{"when", predicateType, "", true, "", "Condition over facts of the finished round and of the loop.", "R195", into(func(s *Stop, v Predicate) { s.When = v })},
			{"reached", boolType, "", true, "", "Whether the goal is reached when this stops the loop.", "R195", into(func(s *Stop, v bool) { s.Reached = v })},
		},
		open:  func(h header) any { return &Stop{Name: h.name, Range: h.at} },
		close: within(func(l *Loop, s *Stop) { l.Stops = append(l.Stops, *s) }),
	},
	{
		Path: "loop.gate", Label: "the gate's name", Many: true, Doc: "A condition that a round must meet to go on, beside those that are prescribed.",
		Attrs: []Attr{
			{"when", predicateType, "", true, "", "Condition over facts of the finished round and of the loop; while it is false the round waits or ends blocked.", "", into(func(g *Gate, v Predicate) { g.When = v })},
			{"reason", textType, "", true, "", "What is said where it does not hold.", "", into(func(g *Gate, v string) { g.Reason = v })},
		},
		open:  func(h header) any { return &Gate{Name: h.name, Range: h.at} },
		close: within(func(l *Loop, g *Gate) { l.Gates = append(l.Gates, *g) }),
	},
	executorBlock("executor", "Where tasks run.", within(func(d *draft, e *Executor) { d.Run.Executor = *e })),
	{
		Path: "cache", Doc: "A store that is shared with others.",
		Attrs: []Attr{
			{"remote", textType, "", true, "", "Registry and repository, oci://HOST/NAME.", "", into(func(c *CacheConfig, v string) { c.Remote = v })},
			{"push", boolType, "", false, `false`, "Whether own results are uploaded.", "", into(func(c *CacheConfig, v bool) { c.Push = v })},
		},
		open:  func(header) any { return &CacheConfig{} },
		close: within(func(d *draft, c *CacheConfig) { d.Run.Cache = *c }),
	},
	{
		Path: "secrets", Doc: "Environment variables that reach the servers and are kept out of everything written.", Rules: "R031",
		Attrs: []Attr{
			{"env", envNamesType, "", true, "", "Names only, such as [\"HF_TOKEN\"].", "R031", into(func(d *draft, v []string) { d.Run.Secrets = v })},
		},
		open:  func(header) any { return &draft{} },
		close: within(func(d, b *draft) { d.Run.Secrets = b.Run.Secrets }),
	},
	{
		Path: "variable", Label: "the variable's name", Many: true, Doc: "A value that a *.auto.hclvars file, the environment (SOTABUILD_VAR_name) or --var sets, later wins; var.name is its value.",
		Attrs: []Attr{
			{Name: "type", Type: kindType, Doc: "What it takes; that of the default if left out, and text without one."},
			{Name: "default", Type: anyType, Doc: "The value if none is set; without it one must be set."},
			{Name: "doc", Type: textType, Doc: "What it is for."},
		},
		Words: map[string]string{"description": "Write doc."},
	},
	{Path: "locals", Many: true, Doc: "Names for values: local.name is the value of the attribute with that name. Any number of blocks."},
}

func commandBlock(path, doc string, set func(*Loop, []string)) Block {
	return Block{
		Path: path, Doc: doc,
		Attrs: []Attr{
			{"command", commandType, "", true, "", "Program and arguments; loop.base_commit may stand in it.", "", into(func(l *Loop, v []string) { l.Build = v })},
		},
		open:  func(header) any { return &Loop{} },
		close: within(func(l, b *Loop) { set(l, b.Build) }),
	}
}
