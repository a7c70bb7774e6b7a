# A server of one's own, described as a user would do it.
definition "badserve" {
  help "server" {
    command = ["{program}", "--help"]
  }
  server {
    command    = ["{program}", "--model", "{model}", "--served-model-name", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
    stop {
      first  = "1s"
      second = "500ms"
    }
  }
  failure "oom" {
    match = "CUDA out of memory"
  }
  failure "port_in_use" {
    match = "address already in use"
  }
}
