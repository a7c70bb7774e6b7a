model "Qwen/Qwen3-8B" {
  revision  = "0123456789abcdef0123456789abcdef01234567"
  precision = "bf16"
  vocab     = [0, 151643]
}
