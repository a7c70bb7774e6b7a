loop "rlcr" {
  max_rounds = 8
  agent "codex" {
    allowed_paths = ["vllm/**"]
  }
  stop "budget" {
    when    = loop.gpu_hours > 40 || loop.elapsed > duration("3d")
    reached = false
  }
}
