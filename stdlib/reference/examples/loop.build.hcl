loop "rlcr" {
  max_rounds = 8
  agent "codex" {
    allowed_paths = ["vllm/**"]
  }
  build {
    command = ["make", "-j8"]
  }
}
