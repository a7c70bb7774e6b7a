package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/creation"
	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/arrival"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/solo"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// backends are the names that other tools give the wire forms.
var backends = map[string]bench.API{
	"openai": bench.Completions, "vllm": bench.Completions, "completions": bench.Completions, "sglang-oai": bench.Completions,
	"openai-chat": bench.Chat, "chat": bench.Chat, "sglang-oai-chat": bench.Chat,
	"sglang": bench.SGLang, "llamacpp": bench.LlamaCpp,
}

// benchFlags are the flags of `sotabuild bench`, named as in vllm bench serve
// where they mean the same.
type benchFlags struct {
	o                          solo.Options
	backend, rate, vocab       string
	burstiness                 float64
	concurrency                int
	rampForm                   string
	rampFrom, rampTo           float64
	goodput, headers, adapters []string
	mix                        []string
	body, keyEnv               string
	maxDuration                time.Duration
	cancel                     []float64
}

func (b *benchFlags) add(cmd *cobra.Command) {
	f, o := cmd.Flags(), &b.o
	f.SortFlags = false
	f.StringVar(&o.Model, "model", "", "model to ask for (default: the only one that is served)")
	f.StringVar(&b.backend, "backend", "openai", "openai, openai-chat, sglang (/generate) or llamacpp (/completion)")
	f.StringVar(&o.Path, "endpoint", "", "path, where it is not the backend's usual one")
	f.StringVar(&o.Set.Name, "dataset-name", "random", "which prompts, see below")
	f.StringVar(&o.Set.Path, "dataset-path", "", "file of prompts")
	f.IntVar(&o.Set.Prompts, "num-prompts", 100, "requests; 0 is all of a file")
	f.IntVar(&o.Set.In, "input-len", 128, "tokens a prompt")
	f.IntVar(&o.Set.Out, "output-len", 64, "tokens an answer; 0 is as recorded, where the file says it")
	f.Float64Var(&o.Set.Spread, "len-spread", 0, "draw lengths from (1 − r)·n to (1 + r)·n")
	f.StringSliceVar(&b.mix, "mix", nil, "`SHARE:IN:OUT`, a share of random prompts with other lengths than --input-len and --output-len; may be repeated")
	f.StringVar(&b.vocab, "vocab", "", "token ids to draw from, `LO:HI` without HI (default from 100 to the end of the vocabulary, or to 10000 where the server does not tell it)")
	f.IntVar(&o.Set.Groups, "prefix-groups", 4, "prefix: groups of prompts")
	f.IntVar(&o.Set.Prefix, "prefix-len", 64, "prefix: tokens that a group shares")
	f.IntVar(&o.Set.Turns, "turns", 3, "sessions: turns of each")
	f.Float64Var(&o.Set.Think, "think-time", 0, "sessions: mean seconds between turns")
	f.StringSliceVar(&b.adapters, "lora-modules", nil, "`NAMES` of adapters with commas between, to ask for in turn, with numbers for each")
	f.Float64SliceVar(&b.cancel, "cancel", nil, "`SHARE,SECONDS`: the client leaves this share of requests after so long")
	f.StringVar(&b.rate, "request-rate", "inf", "requests per second, inf, or trace for the times of the file")
	f.Float64Var(&b.burstiness, "burstiness", 1, "shape of the gaps: 1 Poisson, less more bursty, inf even")
	f.StringVar(&b.rampForm, "ramp-up-strategy", "", "linear or exponential, from --ramp-up-start-rps to --ramp-up-end-rps")
	f.Float64Var(&b.rampFrom, "ramp-up-start-rps", 0, "rate at the start")
	f.Float64Var(&b.rampTo, "ramp-up-end-rps", 0, "rate at the end")
	f.IntVar(&b.concurrency, "max-concurrency", 0, "requests in flight at most; 0 is no limit")
	f.Int64Var(&o.Load.Seed, "seed", 0, "of prompts and gaps")
	f.IntVar(&o.Load.Warmup, "num-warmups", 6, "requests before, never counted: the first alone, then the others together")
	f.BoolVar(&o.Rules.IgnoreEOS, "ignore-eos", false, "answers of exactly --output-len tokens")
	f.Float64Var(&o.Rules.Temperature, "temperature", 0, "always sent")
	f.BoolVar(&o.Rules.NoStream, "no-stream", false, "ask for whole answers: no time to the first token")
	f.StringSliceVar(&b.goodput, "goodput", nil, "`LIMITS` in ms that a good request keeps: ttft:200,tpot:15,e2el:3000")
	f.Float64Var(&o.Rules.MinSuccess, "min-success-rate", 1, "share of requests that must succeed")
	f.Float64Var(&o.Rules.Stop.MaxFailing, "max-failing", 0.5, "end when more than this share of the last 50 failed")
	f.DurationVar(&b.maxDuration, "max-duration", 0, "end after so long, warm-up counted; 0 is never")
	f.StringSliceVar(&b.headers, "header", nil, "`NAME=VALUE` of every request; env:VAR takes a variable's value")
	f.StringVar(&b.keyEnv, "api-key-env", "", "environment variable with the API key")
	f.StringVar(&b.body, "extra-body", "", "JSON object of further fields")
	f.StringVar(&o.Look.Metrics, "metrics-path", "/metrics", "the server's metrics; empty does not look")
	f.BoolVar(&o.Look.GPU, "gpu", false, "sample this machine's GPUs")
	f.Float64Var(&o.Look.Price, "price-per-hour", 0, "of all GPUs, in dollars")
	f.BoolVar(&o.Look.Busy, "allow-busy", false, "measure though others use the server or its GPUs")
	f.StringVar(&o.Out, "result-dir", "", "folder for row, requests, prompts, vLLM's form and the page")
	f.Lookup("cancel").DefValue = "" // and not [], which nobody would write
	var kinds strings.Builder
	for _, k := range solo.Kinds() {
		fmt.Fprintf(&kinds, "  %-12s %s\n", k[0], k[1])
	}
	cmd.Long = strings.TrimRight(cmd.Long, "\n") + "\n\nDatasets:\n" + kinds.String()
}

// options checks the flags and makes the options of them.
func (b *benchFlags) options(server string) (solo.Options, error) {
	o := b.o
	o.URL = strings.TrimSuffix(server, "/")
	var errs []error
	var ok bool
	if o.API, ok = backends[b.backend]; !ok {
		errs = append(errs, fmt.Errorf("--backend %q: write openai, openai-chat, sglang or llamacpp", b.backend))
	}
	errs = append(errs, bench.CheckURL(o.URL), b.load(&o.Load), b.words(&o), b.parts(&o.Set), o.Set.Check(), errors.Join(o.Load.Check()...))
	o.Rules.Total = b.maxDuration
	o.Rules.Stop.Saturation = o.Load.Arrival != bench.Inf
	_, bad := o.Rules.Check()
	errs = append(errs, bad...)
	if b.body != "" {
		if err := json.Unmarshal([]byte(b.body), &o.Body); err != nil {
			errs = append(errs, fmt.Errorf("--extra-body is no JSON object: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return o, err
	}
	var err error
	o.Temp, err = creation.SystemTemp() // run drops it
	return o, err
}

// parts is --mix.
func (b *benchFlags) parts(s *solo.Set) error {
	for _, m := range b.mix {
		f := strings.Split(m, ":")
		var p dataset.Part
		var errs [3]error
		if len(f) == 3 {
			p.Share, errs[0] = strconv.ParseFloat(f[0], 64)
			p.In, errs[1] = strconv.Atoi(f[1])
			p.Out, errs[2] = strconv.Atoi(f[2])
		}
		if len(f) != 3 || errors.Join(errs[:]...) != nil {
			return fmt.Errorf("--mix %q: write SHARE:IN:OUT, such as 0.2:8000:100", m)
		}
		s.Mix = append(s.Mix, p)
	}
	return nil
}

// load is --request-rate, --burstiness and the ramp.
func (b *benchFlags) load(l *bench.Load) error {
	if b.concurrency < 0 {
		l.Arrival = bench.Inf
		return fmt.Errorf("--max-concurrency %d: write 0 for no limit", b.concurrency)
	}
	if b.concurrency > 0 {
		l.Concurrency = &b.concurrency
	}
	switch {
	case b.rampForm != "":
		l.Ramp = &arrival.Ramp{Form: b.rampForm, From: b.rampFrom, To: b.rampTo}
	case b.rate == "inf" || b.rate == "trace":
		l.Arrival = b.rate
		return nil
	default:
		r, err := strconv.ParseFloat(b.rate, 64)
		if err != nil {
			l.Arrival = bench.Inf
			return fmt.Errorf("--request-rate %q: write a number, inf or trace", b.rate)
		}
		l.Rate = &r
	}
	switch {
	case b.burstiness > 1e6:
		l.Arrival = bench.Constant
	case b.burstiness == 1:
		l.Arrival = bench.Poisson
	default:
		l.Arrival, l.Burstiness = bench.Gamma, &b.burstiness
	}
	return nil
}

// goodputNames are vllm's words for what a request is held to.
var goodputNames = map[string]string{"ttft": "ttft/send", "tpot": "tpot/excl-first", "e2el": "e2e", "e2e": "e2e"}

// words reads the flags that are small languages.
func (b *benchFlags) words(o *solo.Options) error {
	var errs []error
	for _, g := range b.goodput {
		name, value, _ := strings.Cut(g, ":")
		ms, err := strconv.ParseFloat(value, 64)
		if err != nil || goodputNames[name] == "" {
			errs = append(errs, fmt.Errorf("--goodput %q: write ttft:MS, tpot:MS or e2el:MS", g))
			continue
		}
		o.Rules.Goodput = append(o.Rules.Goodput, judge.Limit{ID: goodputNames[name], Max: ms / 1e3})
	}
	o.Headers = map[string]string{}
	for _, h := range b.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("--header %q: write NAME=VALUE", h))
		}
		o.Headers[name] = value
	}
	if b.keyEnv != "" {
		o.Headers["Authorization"] = "Bearer env:" + b.keyEnv
	}
	o.Set.Ids.Lo, o.Set.Ids.Seed, o.Set.Adapters = 100, o.Load.Seed, b.adapters
	if b.vocab != "" {
		if _, err := fmt.Sscanf(b.vocab, "%d:%d", &o.Set.Ids.Lo, &o.Set.Ids.Hi); err != nil {
			errs = append(errs, fmt.Errorf("--vocab %q: write LO:HI", b.vocab))
		}
	}
	switch len(b.cancel) {
	case 0:
	case 2:
		o.Set.Cancel = [2]float64{b.cancel[0], b.cancel[1]}
	default:
		errs = append(errs, errors.New("--cancel: write SHARE,SECONDS"))
	}
	return errors.Join(errs...)
}

// knownMetric refuses an id that no row has, before anything is measured.
func knownMetric(flag, id string) error {
	if _, known := result.Define(id); known {
		return nil
	}
	name, _, _ := strings.Cut(id, ":")
	name, _, _ = strings.Cut(name, "/")
	var near, all []string
	for _, d := range result.Definitions {
		all = append(all, d.ID)
		if name != "" && strings.HasPrefix(d.ID, name) {
			near = append(near, d.ID)
		}
	}
	if len(near) == 0 {
		near = all
	}
	return fmt.Errorf("%s: there is no metric %q; write one of %s", flag, id, strings.Join(near, ", "))
}

func benchCommand(a *app) *cobra.Command {
	var b benchFlags
	cmd := &cobra.Command{
		Use:   "bench URL",
		Short: "Benchmark a server that runs",
		Long: "Sends requests to a serving endpoint and measures what comes back. The URL's scheme\n" +
			"names the protocol: http, https, h2, h2c, or unix:///PATH.\n" +
			"Exit code 5 when a request failed, unless --min-success-rate allows it.",
		Args: oneURL,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := b.options(args[0])
			if err != nil {
				return fail(codeUsage, err, "`sotabuild bench --help` lists all flags")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			out, err := a.watched(ctx, o)
			if err != nil {
				return unlessInterrupted(ctx, codeError, err)
			}
			if err := a.printBench(out); err != nil {
				return err
			}
			return done(benchCode(out.Row))
		},
	}
	b.add(cmd)
	cmd.AddCommand(benchCompareCommand(a), benchCalibrateCommand(a), benchImportCommand(a),
		benchAnswersCommand(a), benchFrontierCommand(a), benchRateCommand(a))
	return cmd
}

// unlessInterrupted ends with a code, but where ctx has ended: what then did not
// come is nobody's failure.
func unlessInterrupted(ctx context.Context, c code, err error) error {
	if ctx.Err() != nil {
		return fail(codeInterrupted, errors.New("interrupted before there was a result"))
	}
	var asking *url.Error
	if errors.As(err, &asking) {
		return fail(c, err, "a server has to run there already: start it, or look at scheme, host and port of the URL")
	}
	return fail(c, err)
}

// oneURL wants the URL of a server as the only argument.
func oneURL(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the URL of one server that runs, and %d were given; write %s http://127.0.0.1:8000, with the server's own host and port", cmd.CommandPath(), len(args), cmd.CommandPath())
	}
	return nil
}

// benchCode is the exit code of a row: a failed request that the rule does not
// allow is one too, and so is a run without a number.
func benchCode(r result.Row) code {
	switch {
	case r.Class == executors.ClassInterrupted:
		return codeInterrupted
	case r.Status != result.OK:
		return codeNodeFailed
	}
	return codeOK
}

// watched runs a cell and shows it on the error output while it goes on.
func (a *app) watched(ctx context.Context, o solo.Options) (solo.Outcome, error) {
	host := bench.ThisHost()
	if !a.json {
		b := newBoard(a.err)
		defer b.close()
		host.Watch = b.show
	}
	return solo.Run(ctx, host, o)
}

func (a *app) printBench(out solo.Outcome) error {
	if !a.json {
		_, err := io.WriteString(a.out, out.Table())
		return err
	}
	return a.printJSON(map[string]any{"row": out.Row, "parts": out.Parts, "server": out.Server, "gpu": out.GPU})
}

// readAll reads a file, "-" from the input.
func (a *app) readAll(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(path)
}
