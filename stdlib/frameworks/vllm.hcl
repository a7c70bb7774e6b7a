# vLLM. Flags as in the help texts of 0.26.0 and 0.32.0.
definition "vllm" {
  # Plain "serve --help" lists groups and not one flag.
  help "server" {
    command = ["{program}", "serve", "--help=all"]
  }
  help "bench" {
    command = ["{program}", "bench", "serve", "--help=all"]
  }
  version {
    command = ["{program}", "--version"]
    pattern = "(?m)^v?([0-9]+\\.[0-9]+\\S*)\\s*$"
  }

  server {
    program    = "vllm"
    command    = ["{program}", "serve", "{model}", "--served-model-name", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
    booleans   = "pair"
    env = {
      VLLM_NO_USAGE_STATS = "1"
    }
    # Its workers get the signal too; abort of running requests takes a second.
    stop {
      first  = "10s"
      second = "5s"
    }
  }

  flags {
    context  = "max_model_len"
    parallel = ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"]
    memory   = "gpu_memory_utilization"
    not_searched = {
      dtype             = "Precision is the same for every framework (R055)."
      quantization      = "Quantization is the same for every framework (R055)."
      tokenizer         = "The tokenizer is the same for every framework (R055)."
      revision          = "The weights are the same for every candidate (R055)."
      load_format       = "The weights are the same for every candidate (R055)."
      hf_overrides      = "The model is the same for every candidate (R055)."
      generation_config = "Sampling is the same for every framework (R055)."
    }
    aliases = {
      tp                        = "tensor_parallel_size"
      pp                        = "pipeline_parallel_size"
      dp                        = "data_parallel_size"
      device_memory_utilization = "gpu_memory_utilization"
    }
  }

  failure "oom" {
    match = "(?i)out of memory|OutOfMemoryError|No available memory for the cache blocks|less than desired GPU memory utilization|larger than the (available KV cache memory|maximum number of tokens that can be stored in KV cache)"
  }
  failure "port_in_use" {
    match = "(?i)address already in use|\\[Errno 98\\]"
  }
  failure "start_failed" {
    match = "(?m)error: (unrecognized arguments|argument |the following arguments are required)"
  }

  native_bench {
    command = ["{program}", "bench", "serve", "--base-url", "{url}", "--model", "{served_name}"]
  }

  # The routes exist only while it is armed. stop answers when the files are
  # written. Stacks slow the host's side, so only the mapping trace has them.
  profiler {
    flags = {
      profiler_config = "{\"profiler\":\"torch\",\"torch_profiler_dir\":\"{dir}\",\"torch_profiler_with_stack\":false}"
    }
    mapping {
      flags = {
        enforce_eager   = true
        profiler_config = "{\"profiler\":\"torch\",\"torch_profiler_dir\":\"{dir}\",\"torch_profiler_with_stack\":true,\"torch_profiler_record_shapes\":true}"
      }
    }
    start {
      path = "/start_profile"
    }
    stop {
      path = "/stop_profile"
    }
  }

  metrics = {
    running           = "vllm:num_requests_running"
    waiting           = "vllm:num_requests_waiting"
    prompt_tokens     = "vllm:prompt_tokens"
    generation_tokens = "vllm:generation_tokens"
    prefix_queries    = "vllm:prefix_cache_queries"
    prefix_hits       = "vllm:prefix_cache_hits"
    kv_usage          = "vllm:kv_cache_usage_perc"
    preemptions       = "vllm:num_preemptions"
    queue_time        = "vllm:request_queue_time_seconds"
    ttft              = "vllm:time_to_first_token_seconds"
    spec_drafts       = "vllm:spec_decode_num_drafts"
    spec_accepted     = "vllm:spec_decode_num_accepted_tokens"
  }
  sources = ["vllm/**", "csrc/**", "cmake/**"]
}
