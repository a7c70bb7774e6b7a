package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/draft"
	"github.com/sotabuild/sotabuild/stdlib/report"
)

type initOptions struct {
	model, gpus, precision, quantization, target string
}

func initCommand(a *app) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first campaign.hcl from what can be inferred",
		Long: "init reads the model's config, the tokenizer beside it, the GPUs and the serving\n" +
			"programs in PATH, and asks only for what it cannot find out.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.init(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", "hub id, or path of a checkpoint")
	f.StringVar(&o.gpus, "gpus", "", "product name and ids (\"NVIDIA H200:0,1\"), or cpu")
	f.StringVar(&o.precision, "precision", "", "bf16, fp16, fp32 or fp8")
	f.StringVar(&o.quantization, "quantization", "", "none, or the method")
	f.StringVar(&o.target, "target", "", "framework that is to be the fastest")
	return cmd
}

func (a *app) init(ctx context.Context, o initOptions) error {
	path := filepath.Join(a.dir, "campaign.hcl")
	if _, err := os.Stat(path); err == nil {
		return fail(codeUsage, fmt.Errorf("%s exists; init never overwrites a campaign", relative(path)), "edit it, or choose another folder with -C")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	facts, err := a.infer(ctx, o)
	if err != nil {
		return fail(codeUsage, err)
	}
	if err := a.ask(&facts, &o); err != nil {
		return err
	}
	src, diags := lang.Format("campaign.hcl", draft.Campaign(facts))
	if err := a.diagnose(diags); err != nil {
		return err
	}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return err
	}
	if err := writeNew(path, src); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "Wrote %s. Review it, then `%s`.\n", relative(path), report.Quote(append(a.again(), "plan")))
	return nil
}

// infer collects what flags and host say.
func (a *app) infer(ctx context.Context, o initOptions) (draft.Facts, error) {
	f := draft.Facts{Target: o.target, Programs: draft.FindPrograms(os.Getenv("PATH"))}
	own, err := filepath.Glob(filepath.Join(a.dir, "*.framework.hcl"))
	if err != nil {
		return f, err
	}
	for i := range own {
		own[i] = strings.TrimSuffix(filepath.Base(own[i]), ".framework.hcl")
	}
	if err := errors.Join(draft.CheckTarget(o.target, own), draft.CheckPrecision(o.precision)); err != nil {
		return f, err
	}
	if err := setModel(&f, o.model); err != nil {
		return f, err
	}
	override(&f.Model, o)
	switch {
	case o.gpus != "":
		g, cpu, err := draft.ParseGPUs(o.gpus)
		if err != nil {
			return f, err
		}
		f.GPUs, f.CPU = g, cpu
	default:
		f.GPUs = hostGPUs(ctx)
	}
	abs, err := filepath.Abs(a.dir)
	f.Name = filepath.Base(abs)
	return f, err
}

func setModel(f *draft.Facts, arg string) error {
	if arg == "" {
		return nil
	}
	m, err := draft.ReadModel(arg)
	f.Model = m
	return err
}

func override(m *draft.Model, o initOptions) {
	if o.precision != "" {
		m.Precision = o.precision
	}
	if o.quantization != "" {
		m.Quantization = o.quantization
	}
}

// ask puts the questions on a terminal; elsewhere they are an error that names
// the flags.
func (a *app) ask(f *draft.Facts, o *initOptions) error {
	in := bufio.NewReader(a.in)
	for {
		missing := f.Missing()
		if len(missing) == 0 {
			return nil
		}
		if file, ok := a.in.(*os.File); !ok || !terminal(file) {
			var hints []string
			for _, q := range missing {
				hints = append(hints, fmt.Sprintf("--%s: %s", q.Flag, q.Text))
			}
			return fail(codeUsage, errors.New("this cannot be inferred"), hints...)
		}
		q := missing[0]
		fmt.Fprintf(a.out, "%s: ", q.Text)
		answer, err := in.ReadString('\n')
		if err != nil && !(errors.Is(err, io.EOF) && answer != "") {
			return fail(codeUsage, fmt.Errorf("no answer for --%s", q.Flag))
		}
		if err := answerTo(f, o, q.Flag, strings.TrimSpace(answer)); err != nil {
			fmt.Fprintf(a.err, "sotabuild: %v\n", err)
		}
	}
}

func answerTo(f *draft.Facts, o *initOptions, flag, v string) error {
	switch flag {
	case "model":
		if err := setModel(f, v); err != nil {
			return err
		}
		override(&f.Model, *o)
	case "gpus":
		g, cpu, err := draft.ParseGPUs(v)
		if err != nil {
			return err
		}
		f.GPUs, f.CPU = g, cpu
	case "precision":
		if err := draft.CheckPrecision(v); err != nil {
			return err
		}
		o.precision = v
		override(&f.Model, *o)
	case "quantization":
		o.quantization = v
		override(&f.Model, *o)
	}
	return nil
}

// hostGPUs asks nvidia-smi; a host without it has none.
func hostGPUs(ctx context.Context) draft.GPUs {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--format=csv,noheader,nounits", "--query-gpu=index,name").Output()
	if err != nil {
		return draft.GPUs{}
	}
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil {
		return draft.GPUs{}
	}
	var g draft.GPUs
	for _, row := range rows {
		if len(row) == 2 && (g.Model == "" || g.Model == row[1]) {
			g.Model = row[1]
			g.IDs = append(g.IDs, row[0])
		}
	}
	return g
}
