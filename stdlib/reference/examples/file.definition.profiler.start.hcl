profiler {
  flags = { trace_dir = "{dir}" }
  start {
    path = "/start_profile"
    body = jsonencode({ stage = "{stage}" })
  }
  stop {
    path = "/stop_profile"
  }
}
