package prepare

import (
	"fmt"

	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
)

// Input is a file or folder of this host that a campaign names beside its
// programs and images.
type Input struct {
	Attr string // where it is written: "model.path"
	Path string // absolute
}

// Inputs are those of a campaign, in the order of its blocks.
func Inputs(c *lang.Campaign) []Input {
	var out []Input
	if c.Model.Path != "" {
		out = append(out, Input{"model.path", c.Model.Path})
	}
	if campaign.TokenizerApart(c) {
		out = append(out, Input{"model.tokenizer", c.Model.Tokenizer})
	}
	for _, w := range c.Load.Workloads() {
		at := "workload.path"
		if w.Lane != "" && w.Lane != "main" {
			at = "lane." + w.Lane + ".path"
		}
		if w.Path != "" {
			out = append(out, Input{at, w.Path})
		}
	}
	if a := c.Judge.Accuracy; a != nil && a.Path != "" {
		out = append(out, Input{"accuracy.path", a.Path})
	}
	return out
}

// PortHolder names who listens on a port of this host; "" is nobody.
func PortHolder(port int) (string, error) {
	sockets, err := proc.Listeners(port)
	if err != nil || len(sockets) == 0 {
		return "", err
	}
	return proc.Owner(sockets[0]), nil
}

// taken says that a framework's fixed port is not free where it runs, as far as
// that can be seen from here: containers and jobs have ports of their own. The
// port may be free again when its server starts.
func taken(fw lang.Framework, at campaign.Place) string {
	if fw.Port == 0 || at.Executor != "local" {
		return ""
	}
	holder, err := PortHolder(fw.Port)
	if err != nil || holder == "" {
		return "" // what cannot be seen is found out by the task that claims it
	}
	return fmt.Sprintf("its fixed port %d is held by %s, so that its servers cannot start; end that process, or write port = 0 (or leave port out) for a free one", fw.Port, holder)
}
