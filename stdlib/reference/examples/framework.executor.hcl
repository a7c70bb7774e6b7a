framework "vllm" {
  image = "vllm/vllm-openai:v0.26.0"
  flags = { max_model_len = 9000 }
  executor "docker" {
    shm_size = "16g"
  }
}
