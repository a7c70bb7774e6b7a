# TokenSpeed. Flags as in the help texts of 0.1.1.
definition "tokenspeed" {
  # "tokenspeed serve --help" lists one flag. It hands each flag to its engine,
  # or else to its gateway, so the engine's help is the one to check against;
  # an unknown flag would only fail when the gateway starts.
  help "server" {
    command = ["python3", "-m", "smg_grpc_servicer.tokenspeed", "--help"]
  }
  help "gateway" {
    command = ["python3", "-m", "smg", "launch", "--help"]
  }
  # Both spellings are recorded (R063, R072); 0.1.1 has no bench command, and
  # then this one is a failure that names it.
  help "serve" {
    command = ["{program}", "serve", "--help"]
  }
  help "bench" {
    command = ["{program}", "bench", "serve", "--help"]
  }
  version {
    command = ["{program}", "version"]
    pattern = "TokenSpeed v?(\\S+)"
  }

  server {
    program    = "tokenspeed"
    command    = ["{program}", "serve", "{model}", "--served-model-name", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
    booleans   = "pair"
    stop {
      first  = "10s"
      second = "5s"
    }
  }

  flags {
    context  = "max_model_len"
    parallel = ["tensor_parallel_size", "pipeline_parallel_size"]
    memory   = "gpu_memory_utilization"
    not_searched = {
      dtype        = "Precision is the same for every framework (R055)."
      quantization = "Quantization is the same for every framework (R055)."
      tokenizer    = "The tokenizer is the same for every framework (R055)."
      revision     = "The weights are the same for every candidate (R055)."
      load_format  = "The weights are the same for every candidate (R055)."
    }
    aliases = {
      tp         = "tensor_parallel_size"
      ep_size    = "expert_parallel_size"
      model_path = "model"
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

  # Traces are made apart and named by trace blocks; whether an image can
  # profile while it serves is not assumed (R140).
  profiler {
    offline = true
  }

  # Exposed only with the flag enable_metrics = true.
  metrics = {
    running           = "tokenspeed:num_requests_running"
    waiting           = "tokenspeed:num_requests_waiting"
    prompt_tokens     = "tokenspeed:prompt_tokens"
    generation_tokens = "tokenspeed:generation_tokens"
    prefix_hits       = "tokenspeed:prefix_cache_hits"
    kv_usage          = "tokenspeed:kv_cache_usage_perc"
    ttft              = "tokenspeed:time_to_first_token_seconds"
    spec_drafts       = "tokenspeed:spec_decode_num_drafts"
    spec_accepted     = "tokenspeed:spec_decode_accepted_tokens"
  }
  sources = ["python/**", "tokenspeed-kernel/**"]
}
