package lang

import "time"

// frameworkBlocks are the serving systems: framework with search.
var frameworkBlocks = []Block{
	{
		Path: "framework", Label: "the framework's name", Many: true, Required: true,
		Doc:   "One serving system. The label names a definition unless use does.",
		Rules: "R033 R053 R055 R060 R061 R062 R063",
		Attrs: []Attr{
			{Name: forEach, Type: eachType, Doc: "Repeats the block for each element, named LABEL_KEY; each.key and each.value stand inside."},
			{"use", nameType, "", false, "", "Name of the definition; the label if left out.", "R033", into(func(f *Framework, v string) { f.Use = v })},
			{"image", imageType, "", false, "", "Container image that holds the program: NAME:TAG of a registry, docker-archive:FILE or oci:FOLDER. May stand beside program.", "", into(func(f *Framework, v string) { f.Image = v })},
			{"program", pathType, "", false, "", "The server program on the host, for executors without containers. Where the image has it at the same path, it is taken from there.", "", into(func(f *Framework, v string) { f.Program = v })},
			{"url", urlsType, "", false, "", "Addresses of a server that already runs; nothing is started, and what cannot be seen is not exposed.", "", into(func(f *Framework, v []string) { f.URL = v })},
			{"checkout", pathType, "", false, "", "Git work tree of the system, which a loop patches.", "R020", into(func(f *Framework, v string) { f.Checkout = v })},
			{"tree", pathType, "", false, "", "Folder around the program whose content is the software; without it the program's file alone identifies it. In an image it is the folder that lies around the program in the same way.", "", into(func(f *Framework, v string) { f.Tree = v })},
			{"start_timeout", durationType, "", false, `"10m"`, "How long the server may take until it is healthy; no part of a key.", "", into(func(f *Framework, v time.Duration) { f.StartTimeout = v })},
			{"port", portType, "", false, `0`, "Fixed port; 0 takes a free one.", "", into(func(f *Framework, v int) { f.Port = v })},
			{"env", envType, "", false, "", "Environment of the server, laid over the definition's; all of it is keyed. Secrets stand in the secrets block.", "", into(func(f *Framework, v map[string]string) { f.Env = v })},
			{"compile_cache", choiceType("cold", "warm", "shared"), "", false, "", "Whether compiled kernels of earlier starts are there: none, those of one start before the measured one, or one cache for all candidates. Left out: as the program does by itself.", "", into(func(f *Framework, v string) { f.CompileCache = v })},
			{"endpoint", nameType, "", false, "", "Role of the process that requests go to, where there are several.", "", into(func(f *Framework, v string) { f.Endpoint = v })},
			{"flags", flagsType, "", false, "", "Server flags of every candidate, with underscores and without leading dashes.", "R053 R058", into(func(f *Framework, v []Flag) { f.Flags = v })},
		},
		Words: map[string]string{
			"base_server_flags": "Write flags.", "server_command": "The command stands in the framework's definition; its flags stand in flags.", "search_space": "Write search { space = { … } }.",
			"enabled": "Leave a framework out by naming it in excluded of the campaign block.", "docker": "Write image.", "container": "Write image.", "command": "The command stands in the framework's definition; write use = \"NAME\" for one of your own.",
			"verified": "A verification is a step that runs, not a word that is written. Ask for it with: verification {}", "environment": "Write env.",
			"definition": "Write use.", "path": "Write program for a program on the host, checkout for a work tree.",
		},
		open: func(h header) any {
			return &Framework{Label: h.name, Use: h.label, Range: h.at, Search: Search{MaxCandidates: 10}}
		},
		close: within(func(d *draft, f *Framework) { d.Frameworks = append(d.Frameworks, *f) }),
	},
	{
		Path:  "framework.search",
		Doc:   "Flags whose values are tried: the baseline first, then the product of the values, the last flag fastest, up to max_candidates.",
		Rules: "R053 R054 R075",
		Attrs: []Attr{
			{"max_candidates", countType(1), "candidates", false, `10`, "How many candidates are measured at most, the baseline among them.", "R054", into(func(s *Search, v int) { s.MaxCandidates = v })},
			{"space", spaceType, "", true, "", "The values of each searched flag, as lists.", "R053", into(func(s *Search, v []Axis) { s.Space = v })},
		},
		Words: map[string]string{"max_candidates_per_framework": "Write max_candidates.", "search_space": "Write space.", "tier": "The size of the search is max_candidates."},
		open:  func(h header) any { return &Search{Range: h.at} },
		close: within(func(f *Framework, s *Search) { f.Search = *s }),
	},
	{
		Path: "framework.process", Label: "the process's role", Many: true,
		Doc: "One of several processes of a system, such as a router, a prefill and a decode server.",
		Attrs: []Attr{
			{"command", commandType, "", false, "", "Its command, with the words of the definition's server command; that one if left out.", "", into(func(x *Process, v []string) { x.Command = v })},
			{"count", countType(1), "copies", false, `1`, "How many of it run.", "", into(func(x *Process, v int) { x.Count = v })},
			{"gpus", countType(0), "GPUs of each copy", false, `0`, "All processes together use the campaign's GPUs, each once.", "R055", into(func(x *Process, v int) { x.GPUs = v })},
			{"after", rolesType, "", false, "", "Roles that are healthy before it starts.", "", into(func(x *Process, v []string) { x.After = v })},
			{"health", urlPathType, "", false, "", "Answers 200 when it is ready; the definition's if left out.", "", into(func(x *Process, v string) { x.Health = v })},
			{"flags", flagsType, "", false, "", "Flags of this process, laid over the framework's.", "", into(func(x *Process, v []Flag) { x.Flags = v })},
		},
		Words: map[string]string{"role": "The role is the block's label: process \"router\" {", "replicas": "Write count.", "depends_on": "Write after."},
		open:  func(h header) any { return &Process{Role: h.name, Range: h.at} },
		close: within(func(f *Framework, x *Process) { f.Processes = append(f.Processes, *x) }),
	},
	{
		Path:  "framework.verification",
		Doc:   "Asks for a step that proves the benchmark path end to end before the framework takes part: serve, one stream, a short bench. It is a step that runs, never a word that is believed.",
		Rules: "R039",
		Attrs: []Attr{
			{"requests", countType(1), "requests", false, `5`, "Requests of the short bench.", "R039", into(func(v *Verification, n int) { v.Requests = n })},
		},
		open:  func(h header) any { return &Verification{Range: h.at} },
		close: within(func(f *Framework, v *Verification) { f.Verification = v }),
	},
	executorBlock("framework.executor", "Where this framework's tasks run, if not where the campaign's do.", within(func(f *Framework, e *Executor) { f.Executor = e })),
}

var portType = Type{Name: "port number; 0 is a free one", decode: func(g *given) any {
	n, ok := g.whole()
	if ok && n != 0 && (n < 1024 || n > 65535) {
		return g.wrong("%d is no port for a server. Write a number from 1024 to 65535, or leave it out for a free one.", n)
	}
	return orNil(int(n), ok)
}}

// executorBlock is the row of an executor block, which stands at two places.
func executorBlock(path, doc string, closing func(parent, self any)) Block {
	return Block{
		Path: path, Label: "the executor's kind",
		Labels: executorNames(),
		Doc:    doc,
		Attrs: []Attr{
			{"shm_size", bytesType, "", false, "", "Size of /dev/shm in a container.", "", into(func(e *Executor, v int64) { e.ShmSize = v })},
			{"ipc", choiceType("host", "private"), "", false, "", "Whose shared memory a container sees.", "", into(func(e *Executor, v string) { e.IPC = v })},
			{"options", flagsType, "", false, "", "Further settings of that kind of executor, such as a partition; each kind has its own.", "", into(func(e *Executor, v []Flag) { e.Options = v })},
		},
		Words: map[string]string{"type": "The kind is the block's label: executor \"docker\" {", "partition": "Write options = { partition = \"…\" }."},
		open:  func(h header) any { return &Executor{Type: h.name, Range: h.at} },
		close: closing,
	}
}
