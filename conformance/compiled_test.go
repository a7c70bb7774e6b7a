package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCompiledPlan moves one thing after the other that a plan is made from. The
// compiled form of the campaign is made anew exactly where it has to be, and in
// every form the plan is, to the byte, the one that is made without it.
func TestCompiledPlan(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	program, err := os.ReadFile(filepath.Join(bin, "badserve"))
	if err != nil {
		t.Fatal(err)
	}
	tool, err := os.ReadFile(filepath.Join(bin, "sotabuild"))
	if err != nil {
		t.Fatal(err)
	}
	s.program("badserve", program)
	s.program("tool", append(tool, 0)) // the same of another build
	campaign := strings.ReplaceAll(s.read("campaign.hcl"), filepath.Join(bin, "badserve"), "badserve") +
		"variable \"prompts\" {\n  default = 4\n}\nframework \"idle\" {\n  use = \"badserve\"\n  program = \"badserve\"\n}\n" // idle takes no part: a warning
	s.write("campaign.hcl", campaign)
	x := compiling{site: s, tool: filepath.Join(bin, "sotabuild")}

	x.after("nothing is kept", true)
	x.after("nothing", false)
	if err := os.Chtimes(filepath.Join(s.dir, "campaign.hcl"), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	x.after("other times of a file", false)
	s.write("campaign.hcl", campaign+"# a word\n")
	x.after("a comment", true)
	s.write("campaign.hcl", strings.Replace(campaign, "num_prompts = 8", "num_prompts = var.prompts", 1))
	x.after("a scenario", true)
	x.env = "SOTABUILD_VAR_prompts=5"
	x.after("a variable of the environment", true)
	x.args = []string{"--var", "prompts=6"}
	x.after("a variable of the command line", true)
	x.env, x.args = "", nil
	x.after("none of both", true)
	s.write("x.auto.hclvars", "prompts = 7\n")
	x.after("a file of variables", true)
	s.write("notes.txt", "prompts = 8\n")
	x.after("a file that nobody reads", false)
	x.remove("x.auto.hclvars")
	x.after("a file that is gone", true)
	s.write("badserve.framework.hcl", s.read("badserve.framework.hcl")+"# a word\n")
	x.after("a definition", true)
	s.write("model/config.json", strings.Replace(s.read("model/config.json"), "{", "{ ", 1))
	x.after("the model's own file", true)
	x.args = []string{"--executor", "local"}
	x.after("an executor", true)
	x.args = nil
	x.after("and none", true)
	x.tool = filepath.Join(s.dir, "tool")
	x.after("another build", true)
	x.tool = filepath.Join(bin, "sotabuild")
	x.after("and this one", true)
	s.program("badserve", append(program, 0))
	x.args = []string{"--refresh=false"}
	x.after("a program that nobody looks at", false)
	x.args = nil
	x.after("a program", true)
	s.must(0, "apply", "--target", "help.good.server")
	x.after("helps that are known", true)
	s.must(0, "apply")
	x.after("results", false)
	for name, damage := range map[string]func(b []byte) []byte{
		"half of it": func(b []byte) []byte { return b[:len(b)/2] },
		"a bit":      func(b []byte) []byte { b[len(b)/3] ^= 1; return b },
		"nothing":    func([]byte) []byte { return nil },
	} {
		b := damage([]byte(s.read(".sotabuild/compiled")))
		s.write(".sotabuild/compiled", string(b))
		x.after(name+" of the kept form", true)
	}
	if st := x.stat(); st.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, want it private", st.Mode())
	}
}

// TestCompiledPlanOfRounds plans rounds of a loop, which need more of the campaign
// than its compiled form holds.
func TestCompiledPlanOfRounds(t *testing.T) {
	t.Parallel()
	s := steadySite(t, "one", "two")
	x := compiling{site: s, tool: filepath.Join(bin, "sotabuild")}
	x.after("nothing is kept", true)
	x.after("nothing", false)
	if out := s.must(0, "plan", "--refresh=false").out; !strings.Contains(out, "repeat.chat.round[…]") {
		t.Errorf("the plan has no rounds:\n%s", out)
	}
	s.must(0, "apply")
	x.after("helps and results", true)
	x.after("nothing", false)
	if out := s.must(0, "plan", "--refresh=false").out; !strings.Contains(out, "repeat.chat.round[1]") {
		t.Errorf("the plan has no round that is over:\n%s", out)
	}
}

// compiling is a site whose plans are compared with those of no compiled form.
type compiling struct {
	*site
	tool string
	env  string
	args []string
}

func (s *site) program(name string, b []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), b, 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (x *compiling) remove(name string) {
	x.t.Helper()
	if err := os.Remove(filepath.Join(x.dir, name)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *compiling) stat() os.FileInfo {
	x.t.Helper()
	st, err := os.Stat(filepath.Join(x.dir, ".sotabuild", "compiled"))
	if err != nil {
		x.t.Fatal(err)
	}
	return st
}

// plan is one form of the plan, with all that is said beside it.
func (x *compiling) plan(form ...string) string {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	like := x.command(ctx)
	cmd := exec.CommandContext(ctx, x.tool, append(append([]string{"-C", x.dir, "plan"}, x.args...), form...)...)
	cmd.Env = append(like.Env, x.env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// after plans after a move: with the compiled form as it is, with the one that is
// there now, and with none. anew says whether the first has to make another.
func (x *compiling) after(move string, anew bool) {
	x.t.Helper()
	before, err := os.Stat(filepath.Join(x.dir, ".sotabuild", "compiled"))
	first := x.plan("--json")
	if made := err != nil || !os.SameFile(before, x.stat()); made != anew {
		x.t.Errorf("after %s the campaign was compiled: %v, want %v", move, made, anew)
	}
	forms := [][]string{{"--json"}, {"--json", "--refresh=false"}, {}, {"--all"}, {"--format", "markdown"}}
	var taken []string
	for _, form := range forms {
		at := x.stat()
		taken = append(taken, x.plan(form...))
		if !os.SameFile(at, x.stat()) {
			x.t.Errorf("after %s, plan %v compiled the campaign again", move, form)
		}
	}
	for i, form := range forms {
		x.remove(".sotabuild/compiled")
		if scratch := x.plan(form...); taken[i] != scratch || i == 0 && first != scratch {
			x.t.Errorf("after %s, plan %v says\n%s\nand without a compiled form\n%s", move, form, taken[i], scratch)
		}
	}
}
