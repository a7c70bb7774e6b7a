package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// options is the command line.
type options struct {
	Model     string
	Host      string
	Port      int
	Name      string
	MaxSeqs   int
	MaxTokens int
	MaxLen    int // 0 is the model's
	Threads   int
	Kernel    string
	Prefix    bool
	LoadDelay float64 // seconds
	Profiles  string  // folder; "" is not armed
	Shapes    bool    // traces have operators and shapes
	Version   bool
}

func (o options) loadDelay() time.Duration {
	return time.Duration(o.LoadDelay * float64(time.Second))
}

// flag is one row of the command line. value points into an options that holds
// the default.
type flag struct {
	name, meta string
	value      any // *string, *int, *float64 or *bool
	low, high  float64
	help       string
}

var kernels = []string{"naive", "blocked"}

// flags are the flags in the order of the help.
func (o *options) flags() []flag {
	return []flag{
		{"version", "", &o.Version, 0, 0, "show the program's version and exit"},
		{"model", "DIR", &o.Model, 0, 0, "folder with the model's config.json; the weights are made from its seed (required)"},
		{"host", "HOST", &o.Host, 0, 0, "address to listen on"},
		{"port", "INT", &o.Port, 0, 65535, "port to listen on; 0 takes a free one and prints it"},
		{"served-model-name", "NAME", &o.Name, 0, 0, "the model's name in requests and answers; without it the name of the model's folder"},
		{"max-num-seqs", "INT", &o.MaxSeqs, 1, 1024, "most sequences that run at once; others wait"},
		{"max-batched-tokens", "INT", &o.MaxTokens, 1, 65536, "most tokens in one step; longer prompts are read in chunks; at least --max-num-seqs"},
		{"max-model-len", "INT", &o.MaxLen, 0, 131072, "most tokens of prompt and answer together; 0 is the model's max_position_embeddings"},
		{"threads", "INT", &o.Threads, 1, 256, "threads that compute a step"},
		{"kernel", "{" + strings.Join(kernels, ",") + "}", &o.Kernel, 0, 0, "matrix multiplication: naive is the formula as it stands, blocked computes four sums at once; both give the same bits"},
		{"prefix-cache", "", &o.Prefix, 0, 0, "keep keys and values of whole blocks of 16 tokens and reuse them for prompts that begin the same"},
		{"load-delay", "SECONDS", &o.LoadDelay, 0, 3600, "wait before loading the model, with /health answering 503: for tests of clients"},
		{"profiler-dir", "DIR", &o.Profiles, 0, 0, "arm the profiler: POST /start_profile and /stop_profile write a trace of the steps between them to this folder"},
		{"profiler-shapes", "", &o.Shapes, 0, 0, "traces also have operators, with the shapes of their inputs"},
	}
}

func defaults() options {
	return options{Host: "127.0.0.1", Port: 8000, MaxSeqs: 8, MaxTokens: 256, Threads: 1, Kernel: "blocked"}
}

// parseOptions reads and checks a command line. The error is pflag.ErrHelp
// where help was asked for, else names all that is wrong.
func parseOptions(args []string) (options, error) {
	o := defaults()
	set := pflag.NewFlagSet("tinyserve", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	for _, f := range o.flags() {
		switch v := f.value.(type) {
		case *string:
			set.StringVar(v, f.name, *v, f.help)
		case *int:
			set.IntVar(v, f.name, *v, f.help)
		case *float64:
			set.Float64Var(v, f.name, *v, f.help)
		case *bool:
			set.BoolVar(v, f.name, *v, f.help)
		}
	}
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; every value needs a flag before it", set.Arg(0))
	}
	if o.Version {
		return o, nil
	}
	return o, o.check()
}

func (o *options) check() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	for _, f := range o.flags() {
		var v float64
		switch p := f.value.(type) {
		case *int:
			v = float64(*p)
		case *float64:
			v = *p
		default:
			continue
		}
		if !(v >= f.low && v <= f.high) {
			bad("--%s must be between %.0f and %.0f, not %s", f.name, f.low, f.high, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	if o.Model == "" {
		bad("--model is missing: give the folder with the model's config.json")
	}
	if !slices.Contains(kernels, o.Kernel) {
		bad("--kernel must be one of %s, not %q", strings.Join(kernels, ", "), o.Kernel)
	}
	if o.MaxTokens < o.MaxSeqs {
		bad("--max-batched-tokens (%d) must be at least --max-num-seqs (%d): a step computes one token of every running sequence", o.MaxTokens, o.MaxSeqs)
	}
	if o.Name == "" && o.Model != "" {
		abs, err := filepath.Abs(o.Model)
		if err != nil {
			bad("naming the model: %w", err)
		}
		o.Name = filepath.Base(abs)
	}
	return errors.Join(errs...)
}

// The columns of the help.
const (
	helpColumn = 24
	helpWidth  = 78
)

// usage is the first lines of the help.
func usage() string {
	words := []string{"[-h]"}
	o := defaults()
	for _, f := range o.flags() {
		word := strings.TrimSpace("--" + f.name + " " + f.meta)
		if f.name != "model" {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.TrimRight(wrap("usage: tinyserve ", words), "\n")
}

// help is the whole help, in the form of Python's argparse.
func help() string {
	var b strings.Builder
	b.WriteString(usage())
	b.WriteString("\n\nServe a small random transformer over an OpenAI-compatible HTTP interface.\n\noptions:\n")
	b.WriteString(entry("  -h, --help", "show this help message and exit"))
	o := defaults()
	for _, f := range o.flags() {
		text := f.help
		switch v := f.value.(type) {
		case *string:
			if *v != "" {
				text += fmt.Sprintf(" (default: %s)", *v)
			}
		case *int:
			text += fmt.Sprintf(" (default: %d)", *v)
		case *float64:
			text += fmt.Sprintf(" (default: %v)", *v)
		}
		b.WriteString(entry(strings.TrimRight("  --"+f.name+" "+f.meta, " "), text))
	}
	return b.String()
}

// entry is one flag with its text in the second column, on a line of its own
// where the flag is long.
func entry(flag, text string) string {
	lead := fmt.Sprintf("%-*s", helpColumn, flag)
	if len(flag) > helpColumn-2 {
		lead = flag + "\n" + strings.Repeat(" ", helpColumn)
	}
	return wrap(lead, strings.Fields(text))
}

// wrap sets words after lead, further lines indented to lead's last line.
func wrap(lead string, words []string) string {
	indent := len(lead) - strings.LastIndex(lead, "\n") - 1
	var b strings.Builder
	b.WriteString(lead)
	column := indent
	for i, w := range words {
		switch {
		case i == 0:
		case column+1+len(w) > helpWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(w)
		column += len(w)
	}
	return b.String() + "\n"
}
