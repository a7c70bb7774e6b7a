package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Fairness is a field that has to be equal for all frameworks of a scenario, by
// the name that a campaign waives it by (R127).
type Fairness struct {
	Field   string       `json:"field"`
	Verdict FairnessWord `json:"verdict"`
	Reason  string       `json:"reason,omitempty"` // what differs or is not known, or why it is waived
}

// FairnessWord is how a field came out.
type FairnessWord string

// The words. Waived is a field that is not known and need not be; what was seen
// to differ is never waived.
const (
	Equal   FairnessWord = "equal"
	Differs FairnessWord = "differs"
	Unknown FairnessWord = "unknown"
	Waived  FairnessWord = "waived"
)

// Passed reports whether the field does not stand against a comparison.
func (f Fairness) Passed() bool { return f.Verdict == Equal || f.Verdict == Waived }

// fairnessFields are the nine fields of R127 in its order, with the value that a
// row shows; "" is not known.
var fairnessFields = []struct {
	name string
	of   func(v View, r *result.Row) string
}{
	{"gpu_count", func(_ View, r *result.Row) string { return strconv.Itoa(r.Subject.Hardware.GPUCount) }},
	{"gpu_ids", func(_ View, r *result.Row) string {
		if r.Subject.Hardware.GPUCount == 0 {
			return "none"
		}
		return strings.Join(r.Subject.Hardware.GPUIDs, ", ")
	}},
	{"weights", func(_ View, r *result.Row) string { return r.Subject.Weights }},
	{"tokenizer", func(v View, r *result.Row) string {
		if v.Model.Tokenizer == "" {
			return given("the model's own", r, "tokenizer", "tokenizer_path")
		}
		return given(v.Model.Tokenizer, r, "tokenizer", "tokenizer_path")
	}},
	{"precision", func(v View, r *result.Row) string { return given(v.Model.Precision, r, "dtype", "precision") }},
	{"quantization", func(v View, r *result.Row) string { return given(v.Model.Quantization, r, "quantization", "quant") }},
	{"endpoint", func(_ View, r *result.Row) string { return r.Workload.Endpoint }},
	{"sampling", func(v View, _ *result.Row) string {
		return "temperature " + strconv.FormatFloat(v.Workload.Temperature, 'g', -1, 64)
	}},
	{"request_shape", func(_ View, r *result.Row) string {
		text := fmt.Sprintf("%s, %d in, %d out, %s", r.Workload.Kind, r.Workload.InputLen, r.Workload.OutputLen, result.Count(r.Workload.NumPrompts, "prompt"))
		if r.Workload.Mix != "" {
			text += ", mixed with " + r.Workload.Mix
		}
		return text
	}},
}

// given is what the campaign declares of every server's model, with a flag that
// says otherwise for this one.
func given(declared string, r *result.Row, flags ...string) string {
	for _, f := range r.Subject.Flags {
		name := strings.ReplaceAll(strings.TrimLeft(f.Name, "-"), "-", "_")
		if text := fmt.Sprint(f.Value); slices.Contains(flags, name) && !strings.EqualFold(text, declared) {
			return fmt.Sprintf("%s, flag %s = %s", declared, f.Name, text)
		}
	}
	return declared
}

// Fair judges the fields over the rows that are ok; nil where fewer than two
// frameworks have one. waived is field to reason.
func (v View) Fair(s Scenario, waived map[string]string) []Fairness {
	seen := map[string]bool{}
	for _, c := range s.Cells {
		if c.Row.Status == result.OK {
			seen[c.Framework] = true
		}
	}
	if len(seen) < 2 {
		return nil
	}
	var out []Fairness
	for _, f := range fairnessFields {
		by := map[string][]string{} // frameworks by value
		for _, c := range s.Cells {
			if x := f.of(v, c.Row); c.Row.Status == result.OK && !slices.Contains(by[x], c.Framework) {
				by[x] = append(by[x], c.Framework)
			}
		}
		verdict := Fairness{Field: f.name, Verdict: Equal}
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(by)), func(x string) bool { return x == "" })
		switch reason, ok := waived[f.name]; {
		case len(known) > 1:
			verdict.Verdict = Differs
			var parts []string
			for _, x := range known {
				parts = append(parts, fmt.Sprintf("%s of %s", x, strings.Join(by[x], ", ")))
			}
			verdict.Reason = strings.Join(parts, "; ")
		case by[""] != nil && ok:
			verdict.Verdict, verdict.Reason = Waived, reason
		case by[""] != nil:
			verdict.Verdict, verdict.Reason = Unknown, "not shown by "+strings.Join(by[""], ", ")
		}
		out = append(out, verdict)
	}
	return out
}

// unfair names the fields of a scenario that do not pass.
func (s Scenario) unfair() (out []string) {
	for _, f := range s.Fairness {
		if !f.Passed() {
			out = append(out, f.Field+" "+string(f.Verdict))
		}
	}
	return out
}

// fairness shows the nine fields, and which comparisons do not pass.
func (v View) fairness(b *strings.Builder) {
	t := markdown.Table{Head: []string{"Scenario", "Field", "Verdict", "Why"}}
	for _, s := range v.Scenarios {
		equal := 0
		for _, f := range s.Fairness {
			if f.Verdict == Equal {
				equal++
				continue
			}
			t.Rows = append(t.Rows, []string{markdown.Code(s.Name), markdown.Code(f.Field), string(f.Verdict), markdown.Text(f.Reason)})
		}
		if equal > 0 {
			t.Rows = append(t.Rows, []string{markdown.Code(s.Name), fmt.Sprintf("%d of %d fields", equal, len(s.Fairness)), string(Equal), ""})
		}
	}
	if t.Rows == nil {
		return
	}
	b.WriteString("## Fairness\n\nWhat has to be equal for all frameworks: tokenizer, precision and quantization as declared for the model unless a flag says otherwise, the others as the rows have them.\n\n")
	t.Write(b)
	for _, s := range v.Scenarios {
		if u := s.unfair(); u != nil {
			fmt.Fprintf(b, "The comparison in %s is **not shown to be fair**: %s. What no program shows passes only when `fairness { waive = { FIELD = \"reason\" } }` names it; what differs never does.\n\n", markdown.Code(s.Name), markdown.Text(strings.Join(u, ", ")))
		}
	}
}
