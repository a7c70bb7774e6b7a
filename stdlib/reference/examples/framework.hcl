framework "vllm" {
  program       = "/opt/vllm/bin/vllm"
  tree          = "/opt/vllm"
  start_timeout = "20m"
  env           = { VLLM_LOGGING_LEVEL = "WARNING" }
  flags = {
    max_model_len          = 9000
    gpu_memory_utilization = 0.90
  }
}
