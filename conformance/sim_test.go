package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simDefinition describes `sotabuild simserve`, as docs/bench.md does.
const simDefinition = `definition "sim" {
  help "server" {
    command = ["{program}", "simserve", "--help"]
  }
  server {
    command    = ["{program}", "simserve", "--model", "{model}", "--served-model-name", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
    stop {
      first  = "1s"
      second = "500ms"
    }
  }
}
`

// TestSimserveIsDocumented: the definition that users are shown is the one that
// the simulated campaigns run.
func TestSimserveIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "```hcl\n"+simDefinition+"```\n") {
		t.Errorf("docs/bench.md does not show\n%s", simDefinition)
	}
}

// simulated is a server of a simulated campaign: a schedule as flags, and the
// program that has them; sotabuild itself if that is "".
type simulated struct{ label, program, flags string }

// simCampaign compares simulated servers, the first of them as the target; blocks
// are its sla, workload and scenarios, and what is the test's own.
func simCampaign(blocks string, servers ...simulated) string {
	var others []string
	for _, s := range servers[1:] {
		others = append(others, fmt.Sprintf("%q", s.label))
	}
	text := fmt.Sprintf(`campaign "simulated" {
  target  = %q
  compare = [%s]
  smoke   = true
}
model "m" {
  path         = "model"
  precision    = "fp32"
  quantization = "none"
  max_context  = 1024
}
%s`, servers[0].label, strings.Join(others, ", "), blocks)
	for _, s := range servers {
		program := s.program
		if program == "" {
			program = filepath.Join(bin, "sotabuild")
		}
		text += fmt.Sprintf("framework %q {\n  use     = \"sim\"\n  program = %q\n  flags   = { %s }\n}\n", s.label, program, s.flags)
	}
	return text
}

// simSite is a site with such a campaign.
func simSite(t *testing.T, campaign string) *site {
	t.Helper()
	return newSite(t, map[string]string{"sim.framework.hcl": simDefinition, "model/config.json": fakeModel, "campaign.hcl": campaign})
}
