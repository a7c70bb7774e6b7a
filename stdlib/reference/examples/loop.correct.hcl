loop "rlcr" {
  max_rounds = 8
  agent "codex" {
    allowed_paths = ["vllm/**"]
  }
  correct {
    command = ["pytest", "-q", "tests"]
  }
}
