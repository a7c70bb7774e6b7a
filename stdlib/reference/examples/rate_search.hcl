sla {
  max_p50_ttft_ms = 500
}
rate_search {
  start       = 2
  num_prompts = 200
}
