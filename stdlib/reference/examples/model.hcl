model "Qwen/Qwen3-8B" {
  revision  = "b968826d9c46dd6066d109eabc6255188de91218"
  precision = "bf16"
  vocab     = [0, 151643]
}
