sla {
  max_p50_ttft_ms  = 2000
  max_p50_tpot_ms  = 80
  min_success_rate = 0.99
}
