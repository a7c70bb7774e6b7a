# llama-server, given one file of the model's folder. The built-in definition
# "llamacpp" passes {model} as it is; here the folder also holds the config.json
# of the other server, so the file's name stands in the command.
definition "llamacpp_tiny" {
  help "server" {
    command = ["{program}", "--help"]
  }
  version {
    command = ["{program}", "--version"]
    pattern = "version: (.+)"
  }

  server {
    program    = "llama-server"
    command    = ["{program}", "--model", "{model}/model.gguf", "--alias", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
    booleans   = "pair"
    # With a stream open, one TERM can take half a minute or never end it; the
    # second one ends it at once.
    stop {
      first  = "2s"
      second = "1s"
    }
  }

  flags {
    context     = "ctx_size"
    context_per = "parallel" # the slots share the context
    fixed = {
      sse_ping_interval = 1
    }
    not_searched = {
      ctx_size = "It decides which requests fit, so it is the same for every candidate."
      threads  = "Threads wait for each other by spinning: more than one of them collapses on a busy machine."
    }
  }

  failure "oom" {
    match = "(?i)insufficient memory|failed to allocate|unable to allocate"
  }
  failure "port_in_use" {
    match = "couldn't bind HTTP server socket"
  }
  failure "start_failed" {
    match = "error: invalid argument|error while handling|failed to open GGUF file|invalid magic characters"
  }
}
