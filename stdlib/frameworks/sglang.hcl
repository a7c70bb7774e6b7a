# SGLang. Flags as in the help text of 0.5.17. Images from before "sglang serve"
# need a definition of one's own with python3 -m sglang.launch_server (R061).
definition "sglang" {
  help "server" {
    command = ["{program}", "serve", "--help"]
  }
  help "bench" {
    command = ["python3", "-m", "sglang.bench_serving", "--help"]
  }
  version {
    command = ["{program}", "version"]
    pattern = "sglang version: (\\S+)"
  }

  server {
    program    = "sglang"
    command    = ["{program}", "serve", "--model-path", "{model}", "--served-model-name", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
    booleans   = "bare"
    stop {
      first  = "10s"
      second = "5s"
    }
  }

  flags {
    context = "context_length"
    # Its help: defaults to the value of the model's config.json.
    context_from_model = true
    # Data parallelism is left out: with attention data parallelism its ranks
    # are among those of tp_size.
    parallel = ["tp_size", "pp_size"]
    memory   = "mem_fraction_static"
    not_searched = {
      dtype          = "Precision is the same for every framework (R055)."
      quantization   = "Quantization is the same for every framework (R055)."
      tokenizer_path = "The tokenizer is the same for every framework (R055)."
      revision       = "The weights are the same for every candidate (R055)."
      load_format    = "The weights are the same for every candidate (R055)."
    }
    aliases = {
      tensor_parallel_size   = "tp_size"
      tp                     = "tp_size"
      pipeline_parallel_size = "pp_size"
      pp                     = "pp_size"
      data_parallel_size     = "dp_size"
      expert_parallel_size   = "ep_size"
      ep                     = "ep_size"
      model                  = "model_path"
    }
  }

  failure "oom" {
    match = "(?i)out of memory|OutOfMemoryError|Not enough memory"
  }
  failure "port_in_use" {
    match = "(?i)address already in use|\\[Errno 98\\]"
  }
  failure "start_failed" {
    match = "(?m)error: (unrecognized arguments|argument |the following arguments are required)"
  }

  native_bench {
    command = ["python3", "-m", "sglang.bench_serving", "--backend", "sglang-oai", "--base-url", "{url}", "--model", "{served_name}"]
  }

  profiler {
    start {
      path = "/start_profile"
      body = "{\"output_dir\":\"{dir}\",\"activities\":[\"CPU\",\"GPU\"],\"profile_by_stage\":false,\"profile_prefix\":\"{stage}\",\"with_stack\":false}"
    }
    stop {
      path = "/stop_profile"
    }
    mapping {
      flags = {
        cuda_graph_backend_decode  = "disabled"
        cuda_graph_backend_prefill = "disabled"
      }
      body = "{\"output_dir\":\"{dir}\",\"activities\":[\"CPU\",\"GPU\"],\"profile_by_stage\":false,\"profile_prefix\":\"{stage}\",\"with_stack\":true,\"record_shapes\":true}"
    }
  }

  # Exposed only with the flag enable_metrics = true.
  metrics = {
    running            = "sglang:num_running_reqs"
    waiting            = "sglang:num_queue_reqs"
    prompt_tokens      = "sglang:prompt_tokens_total"
    generation_tokens  = "sglang:generation_tokens_total"
    prefix_hits        = "sglang:cached_tokens_total"
    kv_usage           = "sglang:token_usage"
    preemptions        = "sglang:num_retracted_reqs"
    queue_time         = "sglang:queue_time_seconds"
    ttft               = "sglang:time_to_first_token_seconds"
    spec_accept_length = "sglang:spec_accept_length"
  }
  sources = ["python/sglang/**", "sgl-kernel/**"]
}
