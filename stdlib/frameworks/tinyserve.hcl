# tinyserve, the small server of this project's examples.
definition "tinyserve" {
  help "server" {
    command = ["{program}", "--help"]
  }
  version {
    command = ["{program}", "--version"]
    pattern = "tinyserve (\\S+)"
  }

  server {
    program    = "tinyserve"
    command    = ["{program}", "--model", "{model}", "--served-model-name", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
    booleans   = "bare"
    stop {
      first  = "2s"
      second = "1s"
    }
  }

  flags {
    context            = "max_model_len"
    context_from_model = true
  }

  failure "oom" {
    match = "out of memory"
  }
  failure "port_in_use" {
    match = "address already in use"
  }

  # The routes exist only while it is armed. stop answers when the file is
  # written.
  profiler {
    flags = {
      profiler_dir = "{dir}"
    }
    start {
      path = "/start_profile"
    }
    stop {
      path = "/stop_profile"
    }
    mapping {
      flags = {
        profiler_shapes = true
      }
    }
  }

  sources = ["examples/tinyserve/**"]
}
