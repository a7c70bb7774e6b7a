loop "rlcr" {
  max_rounds = 8
  agent "codex" {
    allowed_paths = ["vllm/**"]
  }
  gate "no_collapse" {
    when   = round.gap["chat"] < 0.5
    reason = "The target fell far behind in chat; look at it before going on."
  }
}
