package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/bench/answers"
	"github.com/sotabuild/sotabuild/stdlib/bench/score"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
)

// A campaign with an accuracy block asks every candidate fixed prompts in the
// server life that is measured, before its cells, compares the answers with
// those of the framework's own baseline, and lets the cells' rows through a
// gate: below the floor a row is quality_failed.

// answersDataset is the address of the fixed prompts.
const answersDataset = "dataset.accuracy"

// answerLen bounds the answers that are compared: after the first difference
// nothing is looked at.
const answerLen = 64

func answersSpec(c *lang.Campaign, f Facts) dataset.Spec {
	a, w := c.Judge.Accuracy, c.Load.Workload
	if a.Path != "" {
		return dataset.Spec{Kind: "jsonl", OutputLen: answerLen, Prompts: a.Prompts, VocabLo: c.Model.Vocab[0], VocabHi: c.Model.Vocab[1],
			Stream: "accuracy", Form: dataset.Form{File: f.Graded.String(), Path: a.Path}}
	}
	s := c.Load.Main()[0]
	words := w.Endpoint == "chat" || c.Model.Vocab == [2]int{}
	return dataset.Spec{Kind: "random", InputLen: s.InputLen, OutputLen: min(s.OutputLen, answerLen), Prompts: a.Prompts,
		VocabLo: c.Model.Vocab[0], VocabHi: c.Model.Vocab[1], Seed: w.Seed, Stream: "accuracy", Form: dataset.Form{Chat: words}}
}

func answersAddr(label, cand string) string   { return address("bench", label, cand) + ".answers" }
func agreementAddr(label, cand string) string { return address("accuracy", label, cand) }
func gateAddr(cell string) string             { return "gate." + cell }

// declareAccuracy declares a candidate's answers, in the life of the cell like,
// and how they agree with the baseline's; baseline says that there is one.
func (d *Declared) declareAccuracy(c *lang.Campaign, f Facts, fw lang.Framework, cand search.Candidate, like compile.Decl, baseline bool) {
	spec := NewBenchSpec(c, f, fw, cand, c.Load.Main()[0], nil)
	spec.Load = LoadSpec{API: spec.Load.API, Path: spec.Load.Path, MinSuccess: 1}
	spec.Answers = true
	like.Addr, like.Spec, like.Timeout = answersAddr(fw.Label, cand.Name), spec, CellTimeout(lang.Scenario{NumPrompts: c.Judge.Accuracy.Prompts})
	like.Inputs = []compile.Input{
		{Name: "prompts", From: answersDataset, Output: "prompts"},
		{Name: "check", From: address("check", fw.Label, cand.Name), Output: "flags"},
	}
	inputs := []compile.Input{{Name: "candidate", From: like.Addr, Output: "requests"}}
	if baseline {
		inputs = append(inputs, compile.Input{Name: "baseline", From: answersAddr(fw.Label, search.Baseline), Output: "requests"})
	}
	d.Decls = append(d.Decls, like, compile.Decl{
		Addr: agreementAddr(fw.Label, cand.Name), Kind: agreementKind, Block: block(fw),
		Spec:   AgreementSpec{MinAgreement: c.Judge.Accuracy.MinAgreement, MinScore: c.Judge.Accuracy.MinScore},
		Inputs: inputs,
	})
}

// AgreementSpec is the floor.
type AgreementSpec struct {
	MinAgreement float64 `key:"min_agreement"`
	MinScore     float64 `key:"min_score"`
}

// Agreement is the output of an accuracy node. Why is empty where the floor is
// kept.
type Agreement struct {
	score.Agreement
	Unit  string  `json:"unit,omitempty"`
	Right int     `json:"right"` // of Graded
	All   int     `json:"graded"`
	From  float64 `json:"score_low"` // 95 % bounds of the share that is right
	To    float64 `json:"score_high"`
	Why   string  `json:"why,omitempty"`
}

var (
	agreementKind = &compile.Kind{
		Name: "accuracy", Version: 1, Purity: compile.Pure, Outputs: []string{"agreement"},
		Func: agree, Policy: policy,
	}
	gateKind = &compile.Kind{
		Name: "gate", Version: 1, Purity: compile.Pure, Outputs: []string{"row"}, KeepsFailures: true,
		Func: gate, Policy: policy,
	}
)

// agree compares two sets of answers. What cannot be compared does not pass.
func agree(_ context.Context, j compile.Job) compile.Result {
	s := j.Spec.(AgreementSpec)
	var sets [2]answers.Set
	for i, name := range []string{"baseline", "candidate"} {
		var b []byte
		err := fmt.Errorf("there is no %s", name)
		if slices.ContainsFunc(j.Inputs, func(in compile.InputValue) bool { return in.Name == name }) {
			b, err = inputBytes(j, name)
		}
		if err == nil {
			err = json.Unmarshal(b, &sets[i])
		}
		if err != nil || len(sets[i].Answers) == 0 {
			return ok("agreement", Agreement{Why: fmt.Sprintf("the %s gave no answers to the fixed prompts", name)})
		}
	}
	got, err := sets[1].Agree(sets[0])
	out := Agreement{Agreement: got, Unit: sets[1].Unit}
	out.Right, out.All, out.From, out.To = sets[1].Grade()
	switch {
	case err != nil:
		out.Why = err.Error()
	case got.Tokens < s.MinAgreement:
		out.Why = fmt.Sprintf("%.4f of the tokens of greedy answers agree with the baseline's before the first difference (%d of %d answers are equal; by %s), at least %g is asked for",
			got.Tokens, got.Equal, got.Prompts, out.Unit, s.MinAgreement)
	case s.MinScore > 0 && float64(out.Right) < s.MinScore*float64(out.All):
		out.Why = fmt.Sprintf("%d of %d graded answers are right (95 %% interval of the share %.3f to %.3f), a share of %g is asked for", out.Right, out.All, out.From, out.To, s.MinScore)
	case s.MinScore > 0 && out.All == 0:
		out.Why = "no prompt of the graded set has an answer"
	}
	return ok("agreement", out)
}

// gate passes a row on, with the agreement as a fact, or as quality_failed.
func gate(_ context.Context, j compile.Job) compile.Result {
	var row result.Row
	var a Agreement
	for name, to := range map[string]any{"row": &row, "agreement": &a} {
		b, err := inputBytes(j, name)
		if err == nil {
			err = json.Unmarshal(b, to)
		}
		if err != nil {
			return compile.Result{Outcome: failure(result.NoResult, fmt.Sprintf("reading the %s: %v", name, err))}
		}
	}
	if a.Prompts > 0 {
		row.Facts.Accuracy = &a.Tokens
	}
	if row.Status == result.OK && a.Why != "" {
		row.Fail(result.QualityFailed, a.Why)
	}
	return ok("row", row)
}

// collectAnswers makes the row of a candidate's answers, which are its
// "requests".
func collectAnswers(step compile.StepResult) compile.Result {
	var file []byte
	if step.Class == "" {
		b, err := os.ReadFile(filepath.Join(step.Dir, answers.File))
		if err != nil {
			step.Class, step.Reason = string(executors.ClassNoOutput), "the answers cannot be read: "+err.Error()
		}
		file = b
	}
	row := result.Row{Version: result.RowVersion, Status: result.OK}
	out := compile.Result{Outcome: cache.Outcome{State: cache.OK}}
	if step.Class != "" {
		row.Fail(result.Class(step.Class), step.Reason)
		out.Outcome = failure(row.Class, row.Reason)
		file = []byte("{}\n")
	}
	b, err := json.Marshal(row)
	if err != nil {
		panic("campaign: a row cannot be written as JSON: " + err.Error())
	}
	out.Outputs = []compile.Value{{Name: "row", Bytes: b}, {Name: "requests", Bytes: file}, {Name: "seen", Bytes: []byte("{}\n")}}
	return out
}
