# TensorRT-LLM. Flags as in the help text of 1.3.0rc3. Names have underscores on
# the command line too. It is served with the PyTorch backend and no other
# (R062, R071).
definition "tensorrt_llm" {
  help "server" {
    command = ["{program}", "serve", "--help"]
  }
  help "bench" {
    command = ["python3", "-m", "tensorrt_llm.serve.scripts.benchmark_serving", "--help"]
  }
  # The program has no flag for its version; the package prints it when it is
  # imported.
  version {
    command = ["python3", "-c", "import tensorrt_llm"]
    pattern = "TensorRT LLM version: (\\S+)"
  }

  server {
    program    = "trtllm-serve"
    command    = ["{program}", "serve", "{model}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "snake"
    metrics    = "/prometheus/metrics"
    booleans   = "bare"
    stop {
      first  = "10s"
      second = "5s"
    }
  }

  flags {
    context  = "max_seq_len"
    parallel = ["tp_size", "pp_size", "cp_size"]
    memory   = "kv_cache_free_gpu_memory_fraction"
    fixed = {
      backend = "pytorch"
    }
    not_searched = {
      backend   = "Only the PyTorch backend is accepted (R062, R071)."
      tokenizer = "The tokenizer is the same for every framework (R055)."
      revision  = "The weights are the same for every candidate (R055)."
    }
    aliases = {
      tensor_parallel_size     = "tp_size"
      pipeline_parallel_size   = "pp_size"
      context_parallel_size    = "cp_size"
      moe_expert_parallel_size = "ep_size"
      free_gpu_memory_fraction = "kv_cache_free_gpu_memory_fraction"
    }
  }

  failure "oom" {
    match = "(?i)out of memory|OutOfMemoryError|insufficient GPU memory"
  }
  failure "port_in_use" {
    match = "(?i)address already in use|\\[Errno 98\\]"
  }
  failure "start_failed" {
    match = "(?m)^Error: (No such option|Invalid value|Missing)"
  }

  native_bench {
    command = ["python3", "-m", "tensorrt_llm.serve.scripts.benchmark_serving", "--base-url", "{url}", "--model", "{served_name}"]
  }

  # It profiles the iterations named at its start and cannot be told while it
  # serves: the range is of engine steps.
  profiler {
    env = {
      TLLM_PROFILE_START_STOP  = "{range}"
      TLLM_TORCH_PROFILE_TRACE = "{dir}/{stage}.json"
    }
    offline = true
  }

  # Only with return_perf_metrics.
  metrics = {
    running    = "trtllm_num_requests_running"
    waiting    = "trtllm_num_requests_waiting"
    kv_usage   = "trtllm_kv_cache_utilization"
    queue_time = "trtllm_request_queue_time_seconds"
    ttft       = "trtllm_time_to_first_token_seconds"
  }
  sources = ["tensorrt_llm/**", "cpp/**"]
}
