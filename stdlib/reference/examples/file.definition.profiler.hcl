profiler {
  env     = { MINE_TRACE = "{dir}/{stage}.json" }
  offline = true
}
