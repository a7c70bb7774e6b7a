package result

// Unit is a metric's unit, one base unit a dimension.
type Unit string

// The units. Latencies are seconds in rows and milliseconds on paper.
const (
	Seconds         Unit = "s"
	PerSecond       Unit = "1/s"
	TokensPerSecond Unit = "token/s"
	Share           Unit = "1"
	Tokens          Unit = "token"
	JoulesPerToken  Unit = "J/token"
	DollarsPerMTok  Unit = "$/Mtoken"
)

// Direction says which way is better.
type Direction int8

// The directions.
const (
	Higher  Direction = 1
	Lower   Direction = -1
	Neither Direction = 0
)

// Definition is one row of the table of metrics: what a number means.
type Definition struct {
	ID     string // "ttft/send:p50"
	Title  string // "TTFT p50"
	Unit   Unit
	Better Direction
	// Formula says how it is computed, over which requests.
	Formula string
	// Seed is the name in the seeds' result row; "" if it has none.
	Seed string
}

// Definitions is the table, in display order. t0 is the moment before the
// request is written, t1 the read of the first event that carries a token, tN
// the read of the last one, N the server's own count of output tokens. All
// percentiles are numpy's linear ones over successful requests.
var Definitions = []Definition{
	{"request_throughput", "Req/s", PerSecond, Higher, "successful requests / (last byte − first send)", "request_throughput"},
	{"output_throughput", "Output tok/s", TokensPerSecond, Higher, "sum of N over successful requests / (last byte − first send)", "output_token_throughput"},
	{"total_throughput", "Total tok/s", TokensPerSecond, Higher, "sum of (input + N) over successful requests / (last byte − first send)", "total_token_throughput"},
	{"output_throughput_per_gpu", "Output tok/s/GPU", TokensPerSecond, Higher, "output_throughput / GPU count; absent without GPUs", ""},
	{"output_throughput/steady", "Output tok/s, steady", TokensPerSecond, Higher, "tokens / time while at least 90 % of the mean concurrency was in flight", ""},
	{"goodput", "Goodput req/s", PerSecond, Higher, "successful requests within every limit / span; absent without limits", ""},
	{"ttft/send:p50", "TTFT p50", Seconds, Lower, "median of t1 − t0", "p50_ttft_ms"},
	{"ttft/send:mean", "TTFT mean", Seconds, Lower, "mean of t1 − t0", "mean_ttft_ms"},
	{"ttft/send:p90", "TTFT p90", Seconds, Lower, "90th percentile of t1 − t0", ""},
	{"ttft/send:p99", "TTFT p99", Seconds, Lower, "99th percentile of t1 − t0", "p99_ttft_ms"},
	{"ttft/schedule:p50", "TTFT p50 (from schedule)", Seconds, Lower, "median of t1 − scheduled send", ""},
	{"ttft/schedule:p99", "TTFT p99 (from schedule)", Seconds, Lower, "99th percentile of t1 − scheduled send", ""},
	{"tpot/excl-first:p50", "TPOT p50", Seconds, Lower, "median of (tN − t1) / (N − 1), requests with N > 1", "p50_tpot_ms"},
	{"tpot/excl-first:mean", "TPOT mean", Seconds, Lower, "mean of (tN − t1) / (N − 1), requests with N > 1", "mean_tpot_ms"},
	{"tpot/excl-first:p99", "TPOT p99", Seconds, Lower, "99th percentile of (tN − t1) / (N − 1), requests with N > 1", "p99_tpot_ms"},
	{"user_speed:p50", "Tokens/s a user p50", TokensPerSecond, Higher, "median of (N − 1) / (tN − t1)", ""},
	{"itl/event:p50", "ITL p50 (by event)", Seconds, Lower, "median gap between events that carry tokens, pooled", ""},
	{"itl/event:p99", "ITL p99 (by event)", Seconds, Lower, "99th percentile of the same gaps", ""},
	{"itl/token:p50", "ITL p50 (by token)", Seconds, Lower, "median gap a token: an event's gap is spread over its tokens; absent unless the server counts at each event", ""},
	{"itl/token:p99", "ITL p99 (by token)", Seconds, Lower, "99th percentile of the same", ""},
	{"e2e:p50", "E2E p50", Seconds, Lower, "median of tN − t0", "p50_e2e_ms"},
	{"e2e:mean", "E2E mean", Seconds, Lower, "mean of tN − t0", "mean_e2e_ms"},
	{"e2e:p99", "E2E p99", Seconds, Lower, "99th percentile of tN − t0", "p99_e2e_ms"},
	{"success_rate", "Success rate", Share, Higher, "successful requests / requests sent", "success_rate"},
	{"concurrency/mean", "Mean concurrency", Share, Neither, "time-weighted number of requests in flight", ""},
	{"energy_per_token", "J/token", JoulesPerToken, Lower, "GPU energy over the span / output tokens; absent without power samples", ""},
	{"price_per_mtoken", "$/Mtoken", DollarsPerMTok, Lower, "price per hour × GPUs × span / output tokens × 1e6; absent without a price", ""},
}

// Define finds a metric's row in the table.
func Define(id string) (Definition, bool) {
	for _, d := range Definitions {
		if d.ID == id {
			return d, true
		}
	}
	return Definition{}, false
}
