package lang

import "time"

// definitionBlocks are the framework definitions, in *.framework.hcl files and
// built in. Their paths begin with a point-free root of their own, so that they
// are unknown at the top of a campaign file.
var definitionBlocks = []Block{
	{
		Path: "file.definition", Label: "the framework's canonical name", Many: true, Required: true,
		Doc:   "Describes a serving system: how to ask its help, serve with it and know that it is well.",
		Rules: "R033 R060 R061 R062 R063",
		Attrs: []Attr{
			{"metrics", textsType, "", false, "", "Names of server metrics by meaning: such as running and waiting.", "", into(func(d *Definition, v map[string]string) { d.Metrics = v })},
			{"sources", globsType, "", false, "", "Paths of its repository that a loop may patch.", "", into(func(d *Definition, v []string) { d.Sources = v })},
		},
		open:  func(h header) any { return &Definition{Name: h.name, Source: h.at.File, Range: h.at} },
		close: within(func(list *[]*Definition, d *Definition) { *list = append(*list, d) }),
	},
	{
		Path: "file.definition.help", Label: "which help it is", Many: true, Doc: "A help text. \"server\" lists the flags that a candidate may pass.", Rules: "R056 R058 R072",
		Attrs: []Attr{
			{"command", commandType, "", true, "", "Prints the text; {program} is the program.", "R056", into(func(h *Help, v []string) { h.Command = v })},
			{"stderr", boolType, "", false, `false`, "The text is on standard error.", "", into(func(h *Help, v bool) { h.Stderr = v })},
		},
		open:  func(h header) any { return &Help{Name: h.name} },
		close: within(func(d *Definition, h *Help) { d.Helps = append(d.Helps, *h) }),
	},
	{
		Path: "file.definition.version", Doc: "Asks the program for its version.", Rules: "R056",
		Attrs: []Attr{
			{"command", commandType, "", true, "", "Prints the version, on either stream.", "R056", into(func(v *Version, x []string) { v.Command = x })},
			{"pattern", regexpType, "", true, "", "Its first group is the version.", "R056", into(func(v *Version, x string) { v.Pattern = x })},
		},
		open:  func(header) any { return &Version{} },
		close: within(func(d *Definition, v *Version) { d.Version = v }),
	},
	{
		Path: "file.definition.server", Required: true, Doc: "How to serve and where the API is.", Rules: "R060 R061 R062 R063",
		Attrs: []Attr{
			{"command", commandType, "", false, "", "The server's command, without a shell: {program}, {model} is the path of the weights, {served_name} the name that requests ask for and the server's model list must have, {host} and {port} where it listens, {flags} a candidate's flags, as a word of its own. Left out: it cannot be started, only be a url.", "R060 R061 R062 R063", into(func(s *Server, v []string) { s.Command = v })},
			{"program", textType, "", false, "", "The program's name inside an image; the definition's name if left out.", "", into(func(s *Server, v string) { s.Program = v })},
			{"flag_style", choiceType("kebab", "snake", "go"), "", false, `"kebab"`, "--a-b, --a_b or -a-b.", "", into(func(s *Server, v string) { s.FlagStyle = v })},
			{"booleans", choiceType("bare", "value", "pair"), "", false, `"bare"`, "True is --x, and false is nothing, --x false, or --no-x.", "", into(func(s *Server, v string) { s.Booleans = v })},
			{"env", textsType, "", false, "", "Environment of the server.", "", into(func(s *Server, v map[string]string) { s.Env = v })},
			{"health", urlPathType, "", false, `"/health"`, "Answers 200 when the server is ready.", "", into(func(s *Server, v string) { s.Health = v })},
			{"models", urlPathType, "", false, `"/v1/models"`, "Lists the served models.", "", into(func(s *Server, v string) { s.Models = v })},
			{"completions", urlPathType, "", false, `"/v1/completions"`, "The completions API.", "", into(func(s *Server, v string) { s.Completions = v })},
			{"chat", urlPathType, "", false, `"/v1/chat/completions"`, "The chat API.", "", into(func(s *Server, v string) { s.Chat = v })},
			{"metrics", urlPathType, "", false, `"/metrics"`, "Path of its own metrics.", "", into(func(s *Server, v string) { s.Metrics = v })},
		},
		open:  func(header) any { return &Server{} },
		close: within(func(d *Definition, s *Server) { d.Server = *s }),
	},
	{
		Path: "file.definition.server.identity", Doc: "A second proof that the server is ours.",
		Attrs: []Attr{
			{"path", urlPathType, "", true, "", "What is fetched.", "", into(func(i *Identity, v string) { i.Path = v })},
			{"contains", textType, "", true, "", "What the answer contains.", "", into(func(i *Identity, v string) { i.Contains = v })},
		},
		open:  func(header) any { return &Identity{} },
		close: within(func(s *Server, i *Identity) { s.Identity = i }),
	},
	{
		Path: "file.definition.server.stop", Doc: "How long it gets to end: TERM, first, TERM, second, KILL.",
		Attrs: []Attr{
			{"first", durationType, "", true, "", "Wait after the first TERM.", "", into(func(s *StopTimes, v time.Duration) { s.First = v })},
			{"second", durationType, "", true, "", "Wait after the second TERM.", "", into(func(s *StopTimes, v time.Duration) { s.Second = v })},
		},
		open:  func(header) any { return &StopTimes{} },
		close: within(func(s *Server, t *StopTimes) { s.Stop = *t }),
	},
	{
		Path: "file.definition.flags", Doc: "What is known of the flags.", Rules: "R055 R062 R071",
		Attrs: []Attr{
			{"context", flagNameType, "", false, "", "Flag that bounds the sequence length.", "", into(func(f *FlagRules, v string) { f.Context = v })},
			{"context_per", flagNameType, "", false, "", "Flag that the context is divided by: slots that share it.", "", into(func(f *FlagRules, v string) { f.ContextPer = v })},
			{"context_from_model", boolType, "", false, `false`, "Without that flag the program takes the context of the model's own config, so that a candidate may leave it out.", "", into(func(f *FlagRules, v bool) { f.ContextFromModel = v })},
			{"parallel", flagNamesType, "", false, "", "Flags whose product is the number of GPUs.", "R055", into(func(f *FlagRules, v []string) { f.Parallel = v })},
			{"memory", flagNameType, "", false, "", "Flag of the share of GPU memory.", "", into(func(f *FlagRules, v string) { f.Memory = v })},
			{"fixed", flagsType, "", false, "", "Flags that every candidate gets and no campaign changes.", "R062", into(func(f *FlagRules, v []Flag) { f.Fixed = v })},
			{"not_searched", textsType, "", false, "", "Flag = \"reason\": may not stand in a search space.", "R071", into(func(f *FlagRules, v map[string]string) { f.NotSearched = v })},
			{"aliases", textsType, "", false, "", "Other spelling = \"the spelling that the program is given\".", "R058", into(func(f *FlagRules, v map[string]string) { f.Aliases = v })},
		},
		open:  func(header) any { return &FlagRules{} },
		close: within(func(d *Definition, f *FlagRules) { d.Flags = *f }),
	},
	{
		Path: "file.definition.flags.rule", Label: "the rule's name", Many: true, Doc: "What flags mean together: one needs another, or excludes it.",
		Attrs: []Attr{
			{"flag", flagNameType, "", true, "", "Where this flag is given or searched, the other one counts.", "", into(func(r *FlagRule, v string) { r.Flag = v })},
			{"needs", flagNameType, "", false, "", "This one must be given or searched too.", "", into(func(r *FlagRule, v string) { r.Needs = v })},
			{"excludes", flagNameType, "", false, "", "This one must not be given or searched. A rule has one of the two.", "", into(func(r *FlagRule, v string) { r.Excludes = v })},
			{"because", textType, "", true, "", "A sentence that says why.", "", into(func(r *FlagRule, v string) { r.Because = v })},
		},
		open:  func(h header) any { return &FlagRule{Name: h.name} },
		close: within(func(f *FlagRules, r *FlagRule) { f.Rules = append(f.Rules, *r) }),
	},
	{
		Path: "file.definition.failure", Label: "the failure class", Many: true, Doc: "Text of the server's log that tells why it ended.", Rules: "R075",
		Labels: []string{"oom", "port_in_use", "start_failed", "server_died"},
		Attrs: []Attr{
			{"match", regexpType, "", true, "", "Searched in the log, first match of all failure blocks in this order.", "", into(func(f *FailureRule, v string) { f.Match = v })},
		},
		open:  func(h header) any { return &FailureRule{Class: h.name} },
		close: within(func(d *Definition, f *FailureRule) { d.Failures = append(d.Failures, *f) }),
	},
	{
		Path: "file.definition.native_bench", Doc: "Its own benchmark client, for the record.", Rules: "R056",
		Attrs: []Attr{
			{"command", commandType, "", true, "", "The command, with {url} and {model}.", "", into(func(d *Definition, v []string) { d.Native = v })},
		},
		open:  func(header) any { return &Definition{} },
		close: within(func(d, b *Definition) { d.Native = b.Native }),
	},
	{
		Path: "file.definition.profiler", Doc: "How its profiler is armed and driven. {dir} is the folder for traces, {stage} what is profiled, {steps} how many engine steps, {range} the first and the last of them counted from the start, as 10-15.", Rules: "R140",
		Attrs: []Attr{
			{"flags", flagsType, "", false, "", "Flags that arm it; no candidate that is measured has them.", "", into(func(x *Profiler, v []Flag) { x.Flags = v })},
			{"env", textsType, "", false, "", "Environment that arms it.", "", into(func(x *Profiler, v map[string]string) { x.Env = v })},
			{"offline", boolType, "", false, `false`, "It cannot be started and stopped while it serves: traces of it are made apart and named by trace blocks.", "R140", into(func(x *Profiler, v bool) { x.Offline = v })},
		},
		open:  func(h header) any { return &Profiler{} },
		close: within(func(d *Definition, x *Profiler) { d.Profiler = x }),
	},
	{
		Path: "file.definition.profiler.mapping", Doc: "How a second trace is armed that lends its operators, lines and shapes to the first: GPU graphs off, stacks and shapes on. Without the block none is taken.",
		Attrs: []Attr{
			{"flags", flagsType, "", false, "", "Flags that are given too, or in place of the candidate's or the profiler's of the same name.", "", into(func(m *Mapping, v []Flag) { m.Flags = v })},
			{"env", textsType, "", false, "", "Environment that is set too.", "", into(func(m *Mapping, v map[string]string) { m.Env = v })},
			{"body", textType, "", false, "", "JSON that is sent to start in place of its body.", "", into(func(m *Mapping, v string) { m.Body = v })},
		},
		open:  func(header) any { return &Mapping{} },
		close: within(func(x *Profiler, m *Mapping) { x.Mapping = m }),
	},
	callBlock("file.definition.profiler.start", "The request that starts it.", func(x *Profiler, c *Call) { x.Start = c }),
	callBlock("file.definition.profiler.stop", "The request that stops it; it answers when the files are written.", func(x *Profiler, c *Call) { x.Stop = c }),
}

// callBlock is the row of a request to the server.
func callBlock(path, doc string, set func(*Profiler, *Call)) Block {
	return Block{
		Path: path, Doc: doc,
		Attrs: []Attr{
			{"path", urlPathType, "", true, "", "Where it is posted to.", "", into(func(c *Call, v string) { c.Path = v })},
			{"body", textType, "", false, "", "JSON that is sent, such as jsonencode({ num_steps = 5 }); no body if left out.", "", into(func(c *Call, v string) { c.Body = v })},
		},
		open:  func(header) any { return &Call{} },
		close: within(set),
	}
}

var flagNameType = Type{Name: "name of a flag", decode: func(g *given) any {
	s, ok := textType.decode(g).(string)
	if !ok || !(pair{g, s, g.at}).flagName() {
		return nil
	}
	return s
}}

var flagNamesType = Type{Name: "list of names of flags", decode: func(g *given) any {
	return g.distinct(func(s string) string {
		if !flagName.MatchString(s) {
			return "flags are written without leading dashes and with underscores, such as \"max_num_seqs\""
		}
		return ""
	})
}}
