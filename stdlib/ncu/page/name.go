package page

import "strings"

// displayNames maps what the details page shows to the metric behind it. The
// same display name means different things in different sections ("Memory
// Throughput" is a percentage in one and bytes per second in another).
var displayNames = map[string]map[string]string{
	"GPU Speed Of Light Throughput": {
		"DRAM Frequency":          "dram__cycles_elapsed.avg.per_second",
		"SM Frequency":            "gpc__cycles_elapsed.avg.per_second",
		"Elapsed Cycles":          "gpc__cycles_elapsed.max",
		"Memory Throughput":       "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
		"DRAM Throughput":         "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
		"Duration":                "gpu__time_duration.sum",
		"L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
		"L2 Cache Throughput":     "lts__throughput.avg.pct_of_peak_sustained_elapsed",
		"SM Active Cycles":        "sm__cycles_active.avg",
		"Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
	},
	"Memory Workload Analysis": {
		"Memory Throughput": "dram__bytes.sum.per_second",
		"Mem Busy":          "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
		"Max Bandwidth":     "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
		"L1/TEX Hit Rate":   "l1tex__t_sector_hit_rate.pct",
		"L2 Hit Rate":       "lts__t_sector_hit_rate.pct",
		"Mem Pipes Busy":    "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed",
	},
	"Compute Workload Analysis": {
		"Executed Ipc Active":  "sm__inst_executed.avg.per_cycle_active",
		"Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
		"Issued Ipc Active":    "sm__inst_issued.avg.per_cycle_active",
	},
	"Scheduler Statistics": {
		"One or More Eligible":         "smsp__issue_active.avg.pct_of_peak_sustained_active",
		"Issued Warp Per Scheduler":    "smsp__issue_active.avg.per_cycle_active",
		"No Eligible":                  "smsp__issue_inst0.avg.pct_of_peak_sustained_active",
		"Active Warps Per Scheduler":   "smsp__warps_active.avg.per_cycle_active",
		"Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
	},
	"Warp State Statistics": {
		"Warp Cycles Per Issued Instruction":       "smsp__average_warp_latency_per_inst_issued.ratio",
		"Warp Cycles Per Executed Instruction":     "smsp__average_warps_active_per_inst_executed.ratio",
		"Avg. Active Threads Per Warp":             "smsp__thread_inst_executed_per_inst_executed.ratio",
		"Avg. Not Predicated Off Threads Per Warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
	},
	"Instruction Statistics": {
		"Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
		"Executed Instructions":                    "smsp__inst_executed.sum",
		"Avg. Issued Instructions Per Scheduler":   "smsp__inst_issued.avg",
		"Issued Instructions":                      "smsp__inst_issued.sum",
	},
	"Launch Statistics": {
		"Block Size":                       "launch__block_size",
		"Grid Size":                        "launch__grid_size",
		"Registers Per Thread":             "launch__registers_per_thread",
		"Shared Memory Configuration Size": "launch__shared_mem_config_size",
		"Driver Shared Memory Per Block":   "launch__shared_mem_per_block_driver",
		"Dynamic Shared Memory Per Block":  "launch__shared_mem_per_block_dynamic",
		"Static Shared Memory Per Block":   "launch__shared_mem_per_block_static",
		"# SMs":                            "launch__sm_count",
		"Threads":                          "launch__thread_count",
		"Waves Per SM":                     "launch__waves_per_multiprocessor",
	},
	"Occupancy": {
		"Block Limit Barriers":            "launch__occupancy_limit_barriers",
		"Block Limit SM":                  "launch__occupancy_limit_blocks",
		"Block Limit Registers":           "launch__occupancy_limit_registers",
		"Block Limit Shared Mem":          "launch__occupancy_limit_shared_mem",
		"Block Limit Warps":               "launch__occupancy_limit_warps",
		"Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
		"Theoretical Occupancy":           "sm__maximum_warps_per_active_cycle_pct",
		"Achieved Occupancy":              "sm__warps_active.avg.pct_of_peak_sustained_active",
		"Achieved Active Warps Per SM":    "sm__warps_active.avg.per_cycle_active",
	},
}

// wholeMetrics have no decimals, whatever the locale.
var wholeMetrics = map[string]bool{
	"gpc__cycles_elapsed.max": true, "smsp__inst_executed.sum": true, "smsp__inst_issued.sum": true,
	"launch__block_size": true, "launch__grid_size": true, "launch__thread_count": true,
	"launch__registers_per_thread": true, "launch__sm_count": true,
}

// metricName is the metric behind a row of the details page.
func metricName(section, display string) string {
	if n, ok := displayNames[section][display]; ok {
		return n
	}
	if strings.Contains(display, "__") { // "Command line profiler metrics" shows metrics by their own names
		return display
	}
	return section + "/" + display
}

// Canonical is a kernel's name without return type, spaces that vary between
// demanglers and anonymous namespaces' spelling: what two pages must agree in
// to speak of the same kernel. A mangled name is kept.
func Canonical(kernel string) string {
	s := strings.Join(strings.Fields(kernel), " ")
	s = strings.NewReplacer("(anonymous namespace)", "<unnamed>", "> >", ">>", "( ", "(", " )", ")", " ,", ",").Replace(s)
	s = strings.TrimPrefix(s, "void ")
	return s
}

// Family is the bare function name with a trailing version dropped:
// "rmsnorm" for "rmsnorm_v1(const float4 *)", for "ns::rmsnorm<64>" and for
// the mangled "_Z10rmsnorm_v1PK6float4". It pairs two versions of a kernel.
func Family(kernel string) string {
	s := leaf(Canonical(kernel))
	trimmed := strings.TrimRight(s, "0123456789")
	for _, suffix := range []string{"_v", "_V", "_ver", "_version"} {
		if base, ok := strings.CutSuffix(trimmed, suffix); ok && base != "" && trimmed != s {
			return base
		}
	}
	return s
}

// leaf is the last name outside template arguments and parameters.
func leaf(s string) string {
	if name, ok := mangledLeaf(s); ok {
		return name
	}
	depth, start, end := 0, 0, len(s)
scan:
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '<', '[':
			if depth == 0 && end == len(s) {
				end = i
			}
			depth++
		case '>', ']':
			depth--
		case '(':
			if depth == 0 {
				if end == len(s) {
					end = i
				}
				break scan
			}
		case ':', ' ':
			if depth == 0 {
				start, end = i+1, len(s)
			}
		}
	}
	return strings.Trim(s[start:max(start, end)], "*& ")
}

// mangledLeaf reads the length-prefixed names of an Itanium symbol; the last
// of a nested one is the function.
func mangledLeaf(s string) (string, bool) {
	rest, ok := strings.CutPrefix(s, "_Z")
	if !ok {
		return "", false
	}
	rest = strings.TrimPrefix(rest, "N")
	name := ""
	for {
		n, digits := 0, 0
		for digits < len(rest) && digits < 4 && rest[digits] >= '0' && rest[digits] <= '9' {
			n = n*10 + int(rest[digits]-'0')
			digits++
		}
		if n == 0 || digits+n > len(rest) {
			return name, name != ""
		}
		name, rest = rest[digits:digits+n], rest[digits+n:]
	}
}
