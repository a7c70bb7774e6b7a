gpus {
  model          = "NVIDIA H200"
  ids            = [0, 1]
  price_per_hour = 3.5
}
framework "vllm" {
  program = "/opt/vllm/bin/vllm"
  flags   = { tensor_parallel_size = 2, max_model_len = 9000 }
}
