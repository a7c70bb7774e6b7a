profiler {
  flags = { trace_dir = "{dir}" }
  start {
    path = "/start_profile"
  }
  stop {
    path = "/stop_profile"
  }
  mapping {
    flags = { disable_graphs = true }
    body  = jsonencode({ with_stack = true, record_shapes = true })
  }
}
