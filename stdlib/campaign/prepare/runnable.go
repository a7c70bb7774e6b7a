package prepare

import (
	"errors"
	"fmt"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
)

// Runnable says why a valid campaign cannot be applied by this build: parts of
// the language whose runner does not exist yet are an error here, all at once,
// never a part that is silently left out.
func Runnable(c *lang.Campaign) error {
	var errs []error
	no := func(r lang.Range, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if r.File != "" {
			text = fmt.Sprintf("%s:%d: %s", r.File, r.Line, text)
		}
		errs = append(errs, errors.New(text))
	}
	executor := func(e lang.Executor) {
		switch e.Type {
		case "kubernetes":
			no(e.Range, "executor %q cannot run tasks in this build yet; write executor \"docker\" {} or another kind, or give --executor KIND", e.Type)
		}
	}
	executor(c.Run.Executor)
	for _, fw := range campaign.Compared(c) {
		if fw.Executor != nil {
			executor(*fw.Executor)
		}
		if len(fw.Processes) > 0 {
			no(fw.Processes[0].Range, "framework %q has several processes, and this build starts one server for each; leave the process blocks out", fw.Label)
		}
		if fw.CompileCache != "" {
			no(fw.Range, "framework %q: compile_cache cannot be %s in this build yet, every server starts with the caches it finds; leave it out", fw.Label, fw.CompileCache)
		}
		if v := fw.Verification; v != nil {
			no(v.Range, "framework %q asks for its verification, and this build has no such step yet; leave the block out, and TokenSpeed out of a comparison with vllm", fw.Label)
		}
		if len(fw.URL) > 0 {
			no(fw.Range, "framework %q is a running url, and this build measures only servers that it starts; write image = \"…\" or program = \"…\"", fw.Label)
		}
	}
	if c.Run.Loop != nil {
		no(c.Run.Loop.Range, "loop %q: this build has no loop runner yet; leave the block out to benchmark", c.Run.Loop.Type)
	}
	if c.Run.Cache.Remote != "" {
		no(lang.Range{}, "cache: this build has no remote store yet; leave remote out")
	}
	if c.Run.History != "" {
		no(lang.Range{}, "history: this build reads no PR history yet; leave the block out")
	}
	return errors.Join(errs...)
}
