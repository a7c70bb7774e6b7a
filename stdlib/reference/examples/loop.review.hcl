loop "rlcr" {
  max_rounds = 8
  agent "codex" {
    allowed_paths = ["vllm/**"]
  }
  review {
    command = ["codex", "review", "--base", loop.base_commit]
  }
}
