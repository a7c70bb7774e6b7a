campaign "qwen3-8b-h200" {
  target      = "vllm"
  compare     = ["sglang"]
  excluded    = ["tokenspeed"]
  unavailable = { tensorrt_llm = "Its image cannot be pulled here." }
}
framework "vllm" {
  program = "/opt/vllm/bin/vllm"
  flags   = { max_model_len = 9000 }
}
framework "sglang" {
  program = "/opt/sglang/bin/sglang"
  flags   = { context_length = 9000 }
}
