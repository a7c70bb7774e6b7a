loop "rlcr" {
  max_rounds = 8
  agent "codex" {
    allowed_paths = ["vllm/**", "csrc/**"]
    timeout       = "2h"
  }
  build {
    command = ["pip", "install", "-e", "."]
  }
  correct {
    command = ["pytest", "-q", "tests/kernels"]
  }
  review {
    command = ["codex", "review", "--base", loop.base_commit]
  }
}
