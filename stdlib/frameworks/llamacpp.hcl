# llama.cpp's llama-server. Flags as in the help texts of b10434 and b11434. It
# takes no --flag=value: flag and value are two words.
definition "llamacpp" {
  help "server" {
    command = ["{program}", "--help"]
  }
  # Printed on standard error.
  version {
    command = ["{program}", "--version"]
    pattern = "version: (.+)"
  }

  server {
    program    = "llama-server"
    command    = ["{program}", "--model", "{model}", "--alias", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
    booleans   = "pair"
    # With a stream open, one TERM can take half a minute or deadlock for good;
    # the second one ends it at once.
    stop {
      first  = "2s"
      second = "1s"
    }
  }

  flags {
    # The context is divided among the slots: 2048 with 2 slots is 1024 each.
    context     = "ctx_size"
    context_per = "parallel"
    fixed = {
      # Bounds the wait for a client that has gone (default 30 s). A ping is
      # sent only while nothing is generated, so it costs nothing that is
      # measured. The prompt cache, in contrast, is left as the program has it:
      # frozen prompts share no prefix, other frameworks have theirs on too,
      # and a switch turned here would be tuning that nobody sees.
      sse_ping_interval = 1
    }
    aliases = {
      c          = "ctx_size"
      np         = "parallel"
      t          = "threads"
      tb         = "threads_batch"
      b          = "batch_size"
      ub         = "ubatch_size"
      fa         = "flash_attn"
      ctk        = "cache_type_k"
      ctv        = "cache_type_v"
      ngl        = "n_gpu_layers"
      gpu_layers = "n_gpu_layers"
      m          = "model"
      a          = "alias"
    }
  }

  failure "oom" {
    match = "(?i)insufficient memory|out of memory|failed to allocate|unable to allocate"
  }
  failure "port_in_use" {
    match = "couldn't bind HTTP server socket"
  }
  failure "start_failed" {
    match = "error: invalid argument|error while handling|failed to open GGUF file|invalid magic characters"
  }

  # Exposed only with the flag metrics = true.
  metrics = {
    running           = "llamacpp:requests_processing"
    waiting           = "llamacpp:requests_deferred"
    prompt_tokens     = "llamacpp:prompt_tokens_total"
    generation_tokens = "llamacpp:tokens_predicted_total"
    prefix_hits       = "llamacpp:prompt_tokens_cached_total"
  }
  sources = ["src/**", "common/**", "ggml/**", "tools/server/**"]
}
