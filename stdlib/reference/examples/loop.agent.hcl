loop "rlcr" {
  max_rounds = 8
  agent "script" {
    command       = ["./patch.sh", loop.base_commit]
    allowed_paths = ["vllm/**"]
  }
}
